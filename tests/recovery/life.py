"""One life of a server alone under load, made to be killed: jobs run, change, stop and go on,
members of a group come and go, topics are compacted, shortened and moved, and all of that at
once."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module

from planner.catalog import Catalog
from planner.codec import classes
from sqlengine.engine import Engine
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.jobs.planning import JobText, PlannedJob, plan_jobs
from sqlengine.machine import THIS
from tests.recovery import workload
from tests.recovery.cluster_workload import IN_PARTS
from tests.recovery.copier import Copier
from tests.recovery.crash_injection import (
    CrashingDisk,
    CrashInjector,
    LastChange,
    PlannedCrash,
    inject_crashes_into_databases,
    stores,
)
from tests.recovery.outcome import lake, records
from tests.recovery.server_users import Batches, ServerUsers, Setting, prepare
from tests.recovery.workload import ALONE


def warm() -> None:
    """Does what every life would do first, once for all that are forked from this process."""
    for what in (ALONE, IN_PARTS):
        planned = plan_jobs(
            [JobText(*t) for t in {"tables": what.tables, **what.jobs}.items()], Catalog(), {}
        )
        assert all(isinstance(p, PlannedJob) for p in planned), planned
    classes()
    import_module("rocksdict")
    gc.collect()
    gc.freeze()


def live(
    setting: Setting,
    say: int,
    *,
    batches: Batches | None,
    crash: PlannedCrash | None,
    last: LastChange,
) -> None:
    """One life: see `ServerUsers.live`."""
    injector = CrashInjector(crash, last)
    inject_crashes_into_databases(injector)
    setting.folder.mkdir(parents=True, exist_ok=True)
    machine = replace(
        THIS, disk=CrashingDisk(injector), stores=lambda folder: stores(injector, folder)
    )
    engine = Engine(setting.config(), machine)
    prepare(engine, setting.folder, ALONE)
    engine.start()
    _ServerUsersAlone(engine, setting, say, ALONE).live(batches)
    engine.close()


class _ServerUsersAlone(ServerUsers):
    fed, pause_s = "events", 0.02
    lines_per_batch, batches_per_file = workload.LINES_PER_BATCH, workload.BATCHES_PER_FILE

    def works(self) -> Iterable[tuple[Callable[[], None], float]]:
        yield self.operator.change, 0.02
        yield self.operator.care, 0.02
        yield from ((copier.turn, 0.003) for copier in self._copiers)

    @cached_property
    def _copiers(self) -> list[Copier]:
        return [Copier(self.engine.broker, name) for name in "ab"]

    def rows(self, number: int) -> Iterator[tuple[str, int, list[bytes]]]:
        size = workload.EVENTS_PER_BATCH
        yield "events", 0, [workload.encoded(n) for n in range(number * size, (number + 1) * size)]
        size = workload.ORDERS_PER_BATCH
        for shard in range(2):
            yield (
                "orders",
                shard,
                [workload.order(shard, n) for n in range(number * size, (number + 1) * size)],
            )

    def missing(self, batches: int) -> str | None:
        broker = self.engine.broker
        for copier in self._copiers:
            copier.turn()
        copied = broker.committed(Copier.GROUP, "orders")
        if any(copied.get(shard) != broker.end_offset("orders", shard) for shard in range(2)):
            return f"copies, {copied} of orders are committed"
        if broker.end_offset("tailed", 0) != batches * workload.LINES_PER_BATCH:
            return f"lines of files: {broker.end_offset('tailed', 0)}"
        if not self._has_read_all():
            read = sum(g.runner.progress.rows_in for g in self.engine.graphs.by_name.values())
            return f"a graph has not read all: {read} rows"
        ticks = sum(int(json.loads(t)["n"]) for t in records(broker, "ticks", 0))
        if ticks < batches * workload.EVENTS_PER_BATCH:
            return f"a window of processing time: {ticks} events"
        rows = len(lake(self.folder))
        return (
            None
            if rows == workload.in_the_lake(batches * workload.EVENTS_PER_BATCH)
            else f"Parquet files: {rows} rows"
        )

    def _has_read_all(self) -> bool:
        """Twice, since what comes out of one job is read by another."""
        graphs = list(self.engine.graphs.by_name.values())

        def at_end(graph: ManagedGraph) -> bool:
            sources = graph.runner.inputs.running.values()
            return all(
                at >= (s.source.end(shard) or 0)
                for s in sources
                for shard, at in s.positions.items()
            )

        return all(g.loop.call(partial(at_end, g)) for g in graphs * 2)
