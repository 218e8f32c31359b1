"""Instances in long-running tasks of Spark: a job of one task for each, which ends with it.

Spark gives each a core of some worker; that the instance lives, and when it is to end, goes over a
line that it opens to the server (`placed_task`). So a lost task, worker or executor is a process
that died, and its supervisor places another one. What Spark repeats by itself finds its place
given away."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import msgspec

from parser.errors import ServiceError, SqlError
from parser.limits import present
from sqlengine.broker.remote.door_tls import DoorTls
from sqlengine.broker.remote.network import Line, NetworkServer
from sqlengine.broker.remote.wire import Served
from sqlengine.cluster.placed_task import KILL, TERMINATE, Began, Ended, hold_instance
from sqlengine.cluster.placement import instance_config
from sqlengine.config import LOOPBACK, Config
from sqlengine.executors.spark.session import Spark
from sqlengine.machine import Machine
from sqlengine.system.spawning import Place, Process, Work
from sqlengine.system.threads import Threads

log = logging.getLogger("sqlengine")

# Seconds in which a task has to say that its instance was killed: then it counts as dead.
_KILL_S: Final = 2.0
# Seconds after which a job without a task is told: Spark has no core for it.
_WAITS_S: Final = 10.0
# Seconds that the jobs have to end when the server does.
_END_S: Final = 5.0
_LOCAL: Final = re.compile(r"local(?:\[(\*|\d+)(?:,\d+)?\])?")

# Addresses that a socket may listen at, and that lead nowhere.
_ANY: Final = frozenset({"", "0.0.0.0", "::"})

_MESSAGE: msgspec.msgpack.Decoder[Began | Ended] = msgspec.msgpack.Decoder(Began | Ended)


class SparkTasks:
    """Instances in tasks of Spark, over a door in the network. Spark starts with the first one."""

    def __init__(self, broker: Served, config: Config, machine: Machine, spark: Spark) -> None:
        """ServiceError where the configuration cannot work, or the address cannot be had."""
        check_placement(config)
        spark.require()
        self._config = instance_config(config)
        self._spark = spark
        self._threads = machine.threads
        self._lock = threading.Lock()
        self._placed: list[PlacedProcess] = []
        tls = door_tls(config)
        try:
            self.door = NetworkServer(broker, config.instances_host, config.instances_port, tls)
        except OSError as error:
            raise ServiceError(
                f"instances cannot reach the server at '{config.instances_host}'",
                detail=error.strerror or str(error),
                hint="--instances-host is an address of this machine, --instances-port is free",
            ) from None

    def start(self, place: Place) -> Process:
        placed = PlacedProcess(place, self.door, self._config, self._spark, self._threads)
        with self._lock:  # several graphs have instances
            self._placed = [p for p in self._placed if p.has_job] + [placed]
        placed.start()
        return placed

    def host(self, process: Process) -> str | None:
        """See `Placement`."""
        return process.host if isinstance(process, PlacedProcess) else None

    def problem(self, process: Process) -> str | None:
        """See `Placement`."""
        return process.problem if isinstance(process, PlacedProcess) else None

    def close(self) -> None:
        """See `Placement`. The session of Spark, which is the server's, stays open."""
        for placed in self._placed:
            placed.await_job(_END_S)
        self.door.close()


class PlacedProcess:
    """An instance in a task of Spark, as its supervisor sees it (`Process`).

    It has ended once its line has: the door answers it no more from then on, whatever becomes of
    the task. `pid` is 0 and `host` None until it runs."""

    def __init__(
        self, place: Place, door: NetworkServer, config: Config, spark: Spark, threads: Threads
    ) -> None:
        self.pid = 0
        self.host: str | None = None
        self._place = place
        self._door = door
        self._spark = spark
        self._threads = threads
        self._address = door.admit(self._watch)
        self._work = Work(place, config, self._address, os.getpid())
        self._group = f"instance-{place.graph}-{place.name}-{self._address.identity.hex()}"
        self._lock = threading.Lock()
        self._line: Line | None = None
        self._submitted = False
        self._code: int | None = None
        self._reason: str | None = None
        self._ended = threading.Event()
        self._began = threads.now()
        self._job = threading.Thread(target=self._run, name=f"placed-{place.name}", daemon=True)

    @property
    def problem(self) -> str | None:
        """Why the instance does not run; None if it does, or may soon."""
        if self._reason is not None:
            return self._reason
        waits = self.host is None and self._threads.now() - self._began > _WAITS_S
        return "it waits for a core of Spark: give Spark more of them" if waits else None

    def start(self) -> None:
        """Asks Spark for a task, in a thread of its own: Spark may take long to start, and the job
        lasts as long as the instance."""
        self._job.start()

    def poll(self) -> int | None:
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """See `Process`."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(self._group, timeout or 0.0)
        assert self._code is not None
        return self._code

    def terminate(self) -> None:
        if not self._tell(TERMINATE):
            self._end(-signal.SIGTERM)

    def kill(self) -> None:
        """Kills it. Where nobody hears that, it is cut off, and counts as dead all the same."""
        if self._tell(KILL):
            self._threads.later(_KILL_S, partial(self._end, -signal.SIGKILL))
        else:
            self._end(-signal.SIGKILL)

    @property
    def has_job(self) -> bool:
        """True until Spark knows that the task has ended."""
        return self._job.ident is None or self._job.is_alive()

    def await_job(self, seconds: float) -> None:
        """Waits until Spark knows that the task has ended, for so long at most."""
        self._job.join(seconds)

    def _tell(self, what: bytes) -> bool:
        """Says something over the line. False if there is none (yet)."""
        with self._lock:
            line = self._line
        if line is None:
            return False
        try:
            line.say(what)
        except OSError:
            return False
        return True

    # ---- the thread of the job

    def _run(self) -> None:
        reason = "its task has ended"
        try:
            with self._spark.errors():
                self._hold()
        except SqlError as error:
            reason = ": ".join(filter(None, (error.message, error.detail)))
        finally:
            with self._lock:
                self._submitted = False
            if self._code is None:
                log.warning("instance %s of %s: %s", self._place.name, self._place.graph, reason)
            self._end(1, reason)

    def _hold(self) -> None:
        """Runs the job, which lasts as long as the instance."""
        context = self._spark.session().sparkContext
        with self._lock:
            self._submitted = self._code is None
        if not self._submitted:  # it was told to end before Spark had started
            return
        what = f"instance {self._place.name} of graph {self._place.graph}"
        with self._spark.group(self._group, what):
            task = partial(hold_instance, self._work, present())
            context.parallelize([0], 1).foreachPartition(task)

    # ---- the thread of the line

    def _watch(self, connection: socket.socket) -> None:
        """Listens to the task until it is gone."""
        line = Line(connection)
        code = -signal.SIGKILL  # it did not come to say anything else
        with suppress(OSError):
            while (said := line.hear()) is not None:
                match _MESSAGE.decode(said):
                    case Began(host=host, pid=pid):
                        self.pid, self.host = pid, host
                        with self._lock:
                            self._line = line
                    case Ended(code=ended):
                        code = ended
                        with self._lock:
                            self._submitted = False  # the task ends by itself
        self._end(code)

    def _end(self, code: int, reason: str | None = None) -> None:
        """Takes the place away from it: from here on another instance may have it. Any thread."""
        with self._lock:
            if self._code is not None:
                return
            self._code, self._reason, self._line = code, reason, None
            cancels, self._submitted = self._submitted, False
        self._door.expel(self._address)
        self._ended.set()
        if cancels:  # beside this thread, as Spark may not answer
            self._threads.later(0.0, self._cancel)

    def _cancel(self) -> None:
        with suppress(SqlError), self._spark.errors():
            self._spark.cancel(self._group)


# ---- what can work -------------------------------------------------------------------------------


def check_placement(config: Config) -> None:
    """Raises ServiceError where instances cannot run on the Spark of the configuration."""
    master = config.cluster.master
    slots = None if master is None else local_slots(master)
    if slots is not None and slots < config.instances:
        raise ServiceError(
            f"{config.instances} instances need as many tasks at once, '{master}' has {slots}",
            hint="name more, or leave out --master: then there are tasks for other jobs, too",
        )
    if config.instances_host in _ANY:
        raise ServiceError(
            f"'{config.instances_host}' is the address of no machine",
            hint="--instances-host names one that the workers of Spark reach",
        )
    if master is None or master.startswith("local"):
        return
    if config.checkpoints != "topic":
        raise ServiceError(
            f"instances on '{master}' keep nothing on disk",
            hint="start with --checkpoints topic",
        )
    if config.instances_host in LOOPBACK and urlsplit(master).hostname not in LOOPBACK:
        raise ServiceError(
            f"the workers of '{master}' cannot reach '{config.instances_host}'",
            hint="--instances-host names an address of this machine that they reach",
        )


def door_tls(config: Config) -> DoorTls | None:
    """Returns what the door speaks: TLS where the server's port does. ServiceError where its files
    cannot be used."""
    if config.tls_certificate is not None and config.tls_key is not None:
        return DoorTls.of(config.tls_certificate, config.tls_key)
    if config.instances_host not in LOOPBACK:
        log.warning(
            "instances reach the server at '%s' without TLS: the network between them must be yours"
            " ('sql serve --tls-cert … --tls-key …')",
            config.instances_host,
        )
    return None


def local_slots(master: str) -> int | None:
    """Returns the number of tasks that a master in the server's own process runs at once; None for
    a cluster.

    >>> local_slots("local"), local_slots("local[4,2]"), local_slots("spark://host:7077")
    (1, 4, None)
    """
    found = _LOCAL.fullmatch(master.strip())
    if found is None:
        return None
    count = found[1] or "1"
    return len(os.sched_getaffinity(0)) if count == "*" else int(count)
