"""The progress of running jobs: rows behind, watermarks, and what waits for later ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parser.errors import SqlError
from parser.types import Root
from planner.analysis.time_zones import zone_of
from planner.graph.merge import Graph
from planner.logical import AssignWatermark
from planner.scalar import UTC
from planner.settings import IDLE_OPTION, TIME_ZONE, duration_text
from planner.wording import named
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, log_of
from sqlengine.connectors.full_cache import FullCache
from sqlengine.connectors.registry import declared_capabilities
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.views.job_progress import (
    EventTime,
    JobProgress,
    LookupTable,
    ShardProgress,
    TableProgress,
    Wait,
)
from sqlengine.executors.sources import RunningSource
from sqlengine.graphs.event_times import EventTimes, ShardTime, TableTimes
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.jobs.job import Job, JobState
from sqlengine.operators.zones import to_local
from sqlengine.registry import Registry


@dataclass(frozen=True)
class _Source:
    """A table that a graph reads. `node`: the one that makes its watermark, else its scan."""

    scan: str
    running: RunningSource
    node: str
    plan: AssignWatermark | None = None
    times: TableTimes | None = None

    @property
    def table(self) -> str:
        return self.running.scan.table.display

    @property
    def idle_ms(self) -> int:
        return 0 if self.plan is None else self.plan.idle_ms

    @property
    def zoned(self) -> bool:
        """True if the time of events is an instant."""
        plan = self.plan
        return plan is not None and (
            plan.schema.type(plan.watermark.column).root is Root.TIMESTAMP_LTZ
        )

    @property
    def watermark(self) -> int:
        return MIN_WATERMARK if self.times is None else self.times.watermark

    @property
    def ended(self) -> bool:
        return self.running.ended or self.watermark == MAX_WATERMARK

    @property
    def active(self) -> dict[str, ShardTime]:
        """The shards that hold the watermark back."""
        shards = {} if self.times is None else self.times.shards
        return {name: time for name, time in shards.items() if not time.idle}

    @property
    def all_idle(self) -> bool:
        return self.times is not None and bool(self.times.shards) and not self.active

    @property
    def slowest_shard(self) -> str | None:
        active = self.active
        return min(active, key=lambda name: active[name].watermark, default=None)

    def time(self, ms: int) -> EventTime | None:
        """Returns a watermark; None before the first."""
        return None if ms == MIN_WATERMARK else EventTime(ms, self.zoned)

    def shard_time(self, shard: str) -> EventTime | None:
        times = None if self.times is None else self.times.shards.get(log_of(shard))
        return None if times is None or self.ended else self.time(times.watermark)

    def idle(self, shard: str) -> bool:
        times = None if self.times is None else self.times.shards.get(log_of(shard))
        return times is not None and times.idle


class ProgressViews:
    """Shows how far running jobs are. Any thread; waits for no graph that is busy."""

    def __init__(
        self,
        registry: Registry,
        graphs: GraphManager,
        settings: Mapping[str, str],
        failing: Callable[[str], bool],
    ) -> None:
        self._registry = registry
        self._failing = failing
        self._graphs = graphs
        self._settings = settings

    def of(self, job: Job, *, settled: bool = False) -> JobProgress:
        """Returns how far a job is; nothing if it does not run. With `settled` the epoch that read
        so far has ended, where it ends within a minute: what came of it is written. One whose
        epoch has failed does not run."""
        found = self.all([job]).get(job.name, JobProgress())
        if settled and job.graph in self._graphs.by_name:
            self._graphs.by_name[job.graph].loop.call(lambda: None)
            if self._failing(job.name):
                return JobProgress()
        return found

    def all(self, jobs: Iterable[Job]) -> dict[str, JobProgress]:
        """Returns how far each of these jobs is that runs, by name."""
        views = {g.name: _GraphView(g) for g in list(self._graphs.by_name.values())}
        homes = {j: v for v in views.values() for j in v.graph.jobs}
        now = self._registry.clock()
        return {
            job.name: homes[job.name].progress(job.name, now, self._zone(job))
            for job in jobs
            if job.state is JobState.RUNNING and job.name in homes
        }

    def reload_lookups(self, job: Job) -> list[str]:
        """Has the tables read again in which a running job looks rows up and that are held as a
        whole; returns their names."""
        views = (_GraphView(g) for g in list(self._graphs.by_name.values()))
        found = (v.caches(v.graph.jobs[job.name]) for v in views if job.name in v.graph.jobs)
        return sorted({table for caches in found for table, c in caches if c.request()})

    def _zone(self, job: Job) -> str:
        try:
            return zone_of(job.settings.get(TIME_ZONE, self._settings.get(TIME_ZONE, UTC)))
        except SqlError:
            return UTC


class _GraphView:
    """One graph as it is now, for any number of its jobs."""

    def __init__(self, graph: ManagedGraph) -> None:
        self.graph: Graph = graph.runner.graph
        self._managed = graph
        self._running = dict(graph.runner.inputs.running)
        self._above: dict[str, frozenset[str]] = {}
        self._assigners: dict[str, AssignWatermark | None] = {}
        self._tables: dict[tuple[str, int, int], TableProgress] = {}
        self._offsets: dict[str, dict[str, tuple[int, int | None]]] = {}

    @cached_property
    def _times(self) -> EventTimes:
        return self._managed.event_times()

    def progress(self, job: str, now_ms: int, zone: str) -> JobProgress:
        """Returns how far a job of the graph is. The clock in `zone` counts for a TIMESTAMP."""
        nodes = self.graph.jobs[job]
        local = int(to_local(np.array([now_ms]), zone)[0])
        sources = {s.node: s for s in self._sources(nodes)}
        tables = (self._table(s, nodes, now_ms if s.zoned else local) for s in sources.values())
        waits = sorted(self._waits(nodes, sources), key=lambda w: w.until.ms)
        return JobProgress(tuple(tables), tuple(waits), tuple(self._lookups(nodes)))

    def _sources(self, nodes: Iterable[str]) -> Iterator[_Source]:
        """Yields the tables that these nodes read, but for those that are looked up."""
        timed = set()
        for name in nodes:
            plan = self._assigner(name)
            if plan is not None:
                scan = self._scan_below(name)
                timed.add(scan)
                if scan in self._running:
                    times = self._times.tables.get(name)
                    yield _Source(scan, self._running[scan], name, plan, times)
        for scan in nodes:
            running = self._running.get(scan)
            if running is not None and scan not in timed and running.full_cache is None:
                yield _Source(scan, running, scan)

    def _lookups(self, nodes: Iterable[str]) -> Iterator[LookupTable]:
        for table, cache in self.caches(nodes):
            status = cache.status
            yield LookupTable(table, status.rows, status.failures, status.error)

    def caches(self, nodes: Iterable[str]) -> Iterator[tuple[str, FullCache]]:
        """Yields the tables that these nodes read and that are held as a whole."""
        for name in nodes:
            running = self._running.get(name)
            if running is not None and running.full_cache is not None:
                yield running.scan.table.display, running.full_cache

    def _assigner(self, name: str) -> AssignWatermark | None:
        """Returns the plan of a node if it makes watermarks; looked up once for all jobs."""
        if name not in self._assigners:
            plan = self.graph.nodes[name].plan
            assigner = plan if isinstance(plan, AssignWatermark) else None
            self._assigners[name] = None if assigner is None or assigner.at_end else assigner
        return self._assigners[name]

    def _scan_below(self, name: str) -> str:
        while inputs := self.graph.nodes[name].inputs:
            name = inputs[0]
        return name

    # ---- tables ----------------------------------------------------------------------------------

    def _table(self, source: _Source, nodes: Iterable[str], now_ms: int) -> TableProgress:
        """Returns a table of a job; jobs of the same graph mostly show the same."""
        known = self._times.late
        late = sum(known[n] for n in nodes if n in known and source.node in self._watermarks(n))
        key = (source.node, late, now_ms)
        if key not in self._tables:
            self._tables[key] = self._table_of(source, late, now_ms)
        return self._tables[key]

    def _table_of(self, source: _Source, late: int, now_ms: int) -> TableProgress:
        watermark, ended = source.time(source.watermark), source.ended
        counted = declared_capabilities(source.running.scan.table).counts_records
        return TableProgress(
            source.table,
            "records" if counted else "bytes",
            None if ended else watermark,
            None if ended or watermark is None else now_ms - watermark.ms,
            late,
            ended,
            tuple(
                ShardProgress(shard, offset, end, source.shard_time(shard), source.idle(shard))
                for shard, (offset, end) in self._read(source).items()
            ),
            source.running.source.lost(),
        )

    def _read(self, source: _Source) -> dict[str, tuple[int, int | None]]:
        """Returns by shard the next offset and the end; asked once for all jobs."""
        if source.scan not in self._offsets:
            positions = self._managed.read_positions(source.scan) or {}
            self._offsets[source.scan] = {
                shard: (offset, _end(source.running, shard)) for shard, offset in positions.items()
            }
        return self._offsets[source.scan]

    # ---- what waits ------------------------------------------------------------------------------

    def _watermarks(self, name: str) -> frozenset[str]:
        """Returns the nodes that make the watermarks of a node's input."""
        if name not in self._above:
            inputs = self.graph.nodes[name].inputs
            self._above[name] = frozenset(
                n
                for i in inputs
                for n in (
                    (i,)
                    if isinstance(self.graph.nodes[i].plan, AssignWatermark)
                    else self._watermarks(i)
                )
            )
        return self._above[name]

    def _waits(self, nodes: Iterable[str], sources: Mapping[str, _Source]) -> Iterator[Wait]:
        known = self._times.waiting
        for name in (n for n in nodes if n in known):
            waiting = known[name]
            below = [sources[n] for n in sorted(self._watermarks(name)) if n in sources]
            if not below:
                continue
            slowest = _slowest(below)
            yield Wait(
                named(self.graph.nodes[name].plan),
                waiting.number,
                "window" if waiting.windows else "row",
                EventTime(waiting.first, slowest.zoned),
                slowest.time(slowest.watermark),
                slowest.table,
                slowest.slowest_shard,
                _hint(slowest, below, waiting.first),
            )


def _slowest(sources: Sequence[_Source]) -> _Source:
    """Returns the table whose watermark is that of an operation over these."""
    going = [s for s in sources if not s.ended] or sources
    awake = [s for s in going if not s.all_idle]
    # Idle tables do not hold the others back; where all are idle, the furthest counts.
    return min(awake, key=_watermark) if awake else max(going, key=_watermark)


def _watermark(source: _Source) -> int:
    return source.watermark


def _end(running: RunningSource, shard: str) -> int | None:
    try:
        return running.source.end(shard)
    except SqlError:  # the topic or file is gone
        return None


def _hint(slowest: _Source, below: Iterable[_Source], until: int) -> str:
    """Returns what may help: an idle timeout where a silent shard alone holds others back, else a
    later row."""
    shard = slowest.slowest_shard
    others = [s.watermark for s in below if s is not slowest]
    others += [t.watermark for name, t in slowest.active.items() if name != shard]
    if shard is None:
        return f"all of table '{slowest.table}' is idle: a later row moves its watermark on"
    where = f"shard {shard} of table '{slowest.table}'"
    if not others or max(others) <= slowest.watermark:
        return f"a later row in {where} moves the watermark on"
    silent = "has given no row" if slowest.active[shard].watermark == MIN_WATERMARK else "is behind"
    if slowest.idle_ms:
        return f"{where} {silent}: it is idle once silent for {duration_text(slowest.idle_ms)}"
    return (
        f"{where} {silent}, and others wait for it: '{IDLE_OPTION}' = '1 min' in the WITH of the"
        " table goes on without a silent one"
    )
