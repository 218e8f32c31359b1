"""Resources of an engine: clock, disk, threads, stores. A simulation passes its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from rules.options import Options
from sqlengine.broker.embedded import system_clock
from sqlengine.broker.remote.unix_socket import UnixSocketServer
from sqlengine.broker.remote.wire import Served
from sqlengine.config import Cluster, Config
from sqlengine.executors.spark.session import OwnSpark, Spark
from sqlengine.jobs.workers import Planner
from sqlengine.state.stores import CheckpointStores, RocksStores
from sqlengine.system.disk import MACHINE, Disk
from sqlengine.system.memory import Usage, usage
from sqlengine.system.spawning import Door, Process, Work, spawn
from sqlengine.system.threads import THREADS, Threads

Clock: TypeAlias = Callable[[], int]
# Spark runs a task so often whose worker dies.
_ATTEMPTS: Final = 4


def own_spark(config: Config) -> Spark:
    """Returns Spark as the configuration wants it; it starts with its first session."""
    cluster = config.cluster
    if config.places_on_spark and cluster.master is None:
        cluster = _with_room(cluster, config.instances)
    return OwnSpark(config.data / "spark.log", cluster, config.data / "tasks")


def _with_room(cluster: Cluster, instances: int) -> Cluster:
    """Returns the cores of this machine as a cluster, with tasks for instances besides: these last
    and would leave none to others. Nothing else gets more partitions."""
    cores = len(os.sched_getaffinity(0))
    conf = {"spark.default.parallelism": str(cores), **cluster.conf}
    return Cluster(f"local[{cores + instances},{_ATTEMPTS}]", conf)


@dataclass(frozen=True)
class Machine:
    """Everything outside the engine that it depends on.

    `clock` in ms. `stores` opens the checkpoint stores of a folder. `planner` plans texts of jobs.
    `caches`: the data folder keeps what can be computed again (compiled patterns), not through
    `disk`. `door` opens the socket on which instances reach the broker; `spawn` starts their
    processes. `usage` measures this process. `spark` returns Spark."""

    clock: Clock = system_clock
    disk: Disk = MACHINE
    threads: Threads = THREADS
    stores: Callable[[Path], CheckpointStores] = RocksStores
    planner: type[Planner] = Planner
    caches: bool = True
    door: Callable[[Served], Door] = UnixSocketServer
    spawn: Callable[[Work], Process] = spawn
    usage: Callable[[], Usage] = usage
    spark: Callable[[Config], Spark] = own_spark

    def rules(self, config: Config) -> Options:
        """Returns the options of rule databases."""
        if not self.caches:
            return config.rules
        return replace(config.rules, folder=config.data / "patterns", clock=time.thread_time)


THIS = Machine()
