"""Runs one graph: reads what its sources have, writes down the epoch, processes it, commits the output.

    poll sources -> epoch record -> operators -> sinks commit -> checkpoint, now and then

Everything here happens in one thread. After a crash `recover` begins at the last checkpoint and repeats the recorded
epochs with the same ranges, times and seeds; sinks drop what they have already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from parser.errors import ExecutionError, SqlError
from planner.logical import Scan, Values
from planner.merge import Graph, stateful_nodes
from planner.physical import PhysicalPlan, PhysicalSink, lower
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch, empty
from sqlengine.broker.errors import BrokerFull
from sqlengine.connectors.base import Chunk, Environment, Sink
from sqlengine.connectors.registry import open_sink, open_source
from sqlengine.executors.checkpoints import Checkpoints, Position
from sqlengine.executors.embedded import EmbeddedExecutor, Prepared
from sqlengine.executors.epochs import Change, EpochLog, EpochRecord, Range
from sqlengine.executors.sources import RunningSource, positions_of


@dataclass(frozen=True)
class Limits:
    """Bounds of one step: rows read from one shard at a time."""

    rows_per_read: int = 4096


@dataclass(frozen=True)
class GraphChange:
    """A change made ready beside the stream: the new graph, its operators, the sources and sinks that come with it
    (open already), the job versions (0: removed), and jobs that take up the state of another name (new to old)."""

    graph: Graph
    prepared: Prepared
    jobs: Mapping[str, int]
    sources: Mapping[str, RunningSource]
    sinks: Mapping[str, Sink]
    renamed: Mapping[str, str]

    def abandon(self) -> None:
        """Closes what was opened for a change that does not come."""
        for source in self.sources.values():
            source.source.close()
        for sink in self.sinks.values():
            sink.close()


class SinkFailed(ExecutionError):
    """A sink could not take rows: the jobs that write to it are at fault, no others."""

    def __init__(self, sink: PhysicalSink, cause: SqlError) -> None:
        super().__init__(cause.message, detail=cause.detail, hint=cause.hint, position=cause.position)
        self.jobs = sink.jobs


class RowsFailed(ExecutionError):
    """Rows in error that belong to jobs which asked to fail on them ('' stands for a table's records)."""

    def __init__(self, letters: Batch) -> None:
        owner, place, subject, reason, payload = (c[0].as_py() for c in letters.columns)
        super().__init__(
            f"{reason} in {subject}",
            detail=f"at {place}: {payload[:200]}" if place else payload[:200],
            hint="SET 'job.on-error' = 'dead-letter' sets such rows aside and goes on",
        )
        self.jobs = frozenset({owner})


# The sink of dead letters, beside those of the plan.
LETTERS = "_dead_letters"


@dataclass
class Progress:
    """What a runner has done, for metrics."""

    rows_in: int = 0
    rows_out: Counter[str] = field(default_factory=Counter)
    dead_letters: int = 0
    epochs: int = 0


class GraphRunner:
    """`name` is the graph's id: epochs are numbered for it, and sinks know it as their writer."""

    def __init__(
        self,
        name: str,
        executor: EmbeddedExecutor,
        environment: Environment,
        log: EpochLog,
        checkpoints: Checkpoints | None,
        letters: Sink | None,
        fails_on_error: Callable[[str], bool],
        limits: Limits = Limits(),
        seed: int = 0,
        result: Sink | None = None,
    ) -> None:
        self.name = name
        self.executor = executor
        self.graph = Graph()
        self.jobs: dict[str, int] = {}
        self.epoch = 0
        self.sources: dict[str, RunningSource] = {}
        self.progress = Progress()
        self._environment = environment
        self._log = log
        self._log_offset = 0
        self._checkpoints = checkpoints
        self._letters = letters
        self._fails_on_error = fails_on_error
        self._limits = limits
        self._seed = seed
        self._result = result
        self._sinks: dict[str, Sink] = {}
        self._uncommitted: dict[str, Sink] = {}
        self._refused: dict[str, SqlError] = {}
        self._fatal: list[Batch] = []
        self._unstarted: set[str] = set()

    # ---- hot changes -------------------------------------------------------------------------------------------

    def prepare(self, graph: Graph, jobs: Mapping[str, int], renamed: Mapping[str, str] | None = None) -> GraphChange:
        """Makes a change ready: compiles operators, opens connectors. Runs beside the stream, in the one thread that
        makes changes. SqlError leaves everything as it was."""
        prepared = self.executor.prepare(lower(graph))
        sources, sinks = self._open(prepared.plan)
        return GraphChange(graph, prepared, jobs, sources, sinks, renamed or {})

    def apply(self, change: GraphChange) -> None:
        """Switches to a prepared change between two epochs (in the graph's thread)."""
        starts = {name: source.begin() for name, source in change.sources.items()}
        recorded = Change(change.graph.version, dict(change.jobs), starts, dict(change.renamed))
        self._write(self._record(change=recorded))
        self._switch(change)

    def _open(self, plan: PhysicalPlan) -> tuple[dict[str, RunningSource], dict[str, Sink]]:
        sources: dict[str, RunningSource] = {}
        for node in plan.nodes.values():
            if isinstance(node.plan, Scan) and node.id not in self.sources:
                sources[node.id] = RunningSource(node.plan, open_source(node.plan.table, self._environment))
        sinks: dict[str, Sink] = {}
        for name, sink in plan.sinks.items():
            if name in self._sinks:
                continue
            if sink.sink.table is not None:
                sinks[name] = open_sink(sink.sink.table, self._environment)
            elif self._result is not None:
                sinks[name] = self._result
        return sources, sinks

    def _switch(self, change: GraphChange, introduce: bool = True) -> None:
        restored = self._checkpoints.restored if self._checkpoints else {}
        self.executor.switch(change.prepared, restored)
        self.graph = change.graph
        for job, version in change.jobs.items():
            if version:
                self.jobs[job] = version
            else:
                self.jobs.pop(job, None)
        self.sources.update(change.sources)
        self._sinks.update(change.sinks)
        self._close_unused(change.prepared.plan)
        values = (n.id for n in change.prepared.plan.nodes.values() if isinstance(n.plan, Values))
        self._unstarted |= {v for v in values if v in change.prepared.operators}
        for name in change.sources if introduce else ():
            for shard in self.sources[name].positions:
                self._introduce(name, shard)

    def _close_unused(self, plan: PhysicalPlan) -> None:
        for name in [s for s in self.sources if s not in plan.nodes]:
            self.sources.pop(name).source.close()
        for name in [s for s in self._sinks if s not in plan.sinks]:
            self._sinks.pop(name).close()
            self._refused.pop(name, None)
            self._uncommitted.pop(name, None)

    # ---- epochs ------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """One epoch, if there is anything to do. False when all sources have nothing new."""
        self._commit()
        chunks: list[tuple[str, Chunk]] = []
        opened: list[tuple[str, str]] = []
        for name, source in self.sources.items():
            for shard in source.new_shards():
                source.positions[shard] = 0
                opened.append((name, shard))
            chunks += [(name, chunk) for chunk in source.poll(self._limits.rows_per_read)]
        ended = self._ended(chunks)
        if not chunks and not opened and not ended:
            return False
        ranges = tuple(Range(name, c.shard, c.start, c.end) for name, c in chunks)
        record = self._record(ranges=ranges, opened=tuple(opened), ended=tuple(ended))
        self._write(record)
        self._process(record, chunks)
        if self._fatal and self._result is not None:
            self._raise()  # a script ends with the row that fails: nothing of its epoch is shown
        self._commit()
        self._raise()
        self._checkpoint()
        return True

    def _ended(self, chunks: Iterable[tuple[str, Chunk]]) -> list[str]:
        busy = {name for name, _ in chunks}
        ended = [name for name, s in self.sources.items() if name not in busy and s.exhausted()]
        return ended + sorted(self._unstarted)

    @property
    def finished(self) -> bool:
        """Whether all sources are bounded and read to their end."""
        return not self._unstarted and all(s.ended for s in self.sources.values())

    def _record(
        self,
        ranges: tuple[Range, ...] = (),
        opened: tuple[tuple[str, str], ...] = (),
        ended: tuple[str, ...] = (),
        change: Change | None = None,
    ) -> EpochRecord:
        epoch = self.epoch + 1
        seed = (self._seed + epoch * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF
        now = self._environment.clock()
        return EpochRecord(self.name, epoch, self.graph.version, now, seed, ranges, opened, ended, change)

    def _write(self, record: EpochRecord) -> None:
        self._log_offset = self._log.append(record)
        self.epoch = record.epoch

    def _process(self, record: EpochRecord, chunks: Iterable[tuple[str, Chunk]]) -> None:
        for name, shard in record.opened:
            self._introduce(name, shard)
        for name, chunk in chunks:
            source = self.sources[name]
            batch = source.batch(chunk, record.proctime, record.seed)
            self.executor.push(name, batch, self._take)
            source.positions[chunk.shard] = chunk.end
            self.progress.rows_in += chunk.num_rows
        for name in record.ended:
            self._end(name, record)
        self.progress.epochs += 1
        self._set_aside()

    def _introduce(self, name: str, shard: str) -> None:
        """A shard holds the watermark of its table back until it has one of its own."""
        self.executor.push(name, self.sources[name].tick(shard, 0, MIN_WATERMARK), self._take)

    def _end(self, name: str, record: EpochRecord) -> None:
        if name in self._unstarted:
            self._unstarted.discard(name)
            schema = self.executor.running[name].node.plan.schema  # type: ignore[union-attr]
            tick = replace(empty(schema, proctime=record.proctime), seed=record.seed)
            self.executor.push(name, tick, self._take)
            return
        source = self.sources[name]
        source.ended = True
        self.executor.push(name, source.tick("", record.proctime, MAX_WATERMARK), self._take)

    def _take(self, sink: str, batch: Batch) -> None:
        """Rows for a sink. One that refuses them gets no more; its jobs fail once the epoch is complete."""
        target = self._sinks.get(sink)
        if target is None or sink in self._refused:
            return
        try:
            target.write(batch)
        except SqlError as error:
            self._refused[sink] = error
            return
        self._uncommitted[sink] = target

    def _set_aside(self) -> None:
        """Rows in error become dead letters; those of jobs that asked to fail are kept for `_raise`."""
        for letters in self.executor.take_errors():
            owners = letters.columns[0].to_pylist()
            fatal = np.array([self._fails_on_error(owner) for owner in owners])
            if fatal.any():
                self._fatal.append(letters.take(np.flatnonzero(fatal)))
                letters = letters.take(np.flatnonzero(~fatal))
            self.progress.dead_letters += letters.num_rows
            if self._letters is not None and letters.num_rows:
                self._letters.write(letters)
                self._uncommitted[LETTERS] = self._letters

    def _commit(self) -> None:
        """Makes the epoch's output visible. A full disk stops here, and the next step tries again."""
        for name in [n for n in self._uncommitted if n not in self._refused]:
            try:
                self.progress.rows_out[name] += self._uncommitted[name].commit(self.epoch)
            except BrokerFull:
                raise
            except SqlError as error:
                self._refused[name] = error
            else:
                del self._uncommitted[name]

    def _raise(self) -> None:
        """Tells of jobs at fault, one at a time, once the epoch is complete for all others."""
        if self._fatal:
            raise RowsFailed(self._fatal.pop(0))
        for name, error in self._refused.items():
            if name in self.executor.plan.sinks:
                raise SinkFailed(self.executor.plan.sinks[name], error)

    # ---- checkpoints and recovery ------------------------------------------------------------------------------

    def position(self) -> Position:
        """All that a checkpoint must say besides the tables."""
        stateful = {job: stateful_nodes(self.graph, job) for job in self.graph.jobs}
        return Position(
            graph=self.name,
            epoch=self.epoch,
            version=self.graph.version,
            log_offset=self._log_offset,
            positions=positions_of(self.sources),
            ended=[n for n, s in self.sources.items() if s.ended],
            unstarted=sorted(self._unstarted),
            jobs=dict(self.jobs),
            stateful={job: held for job, held in stateful.items() if held},
        )

    def _checkpoint(self) -> None:
        if self._checkpoints is not None and self._checkpoints.due(self.executor.tables, self._environment.clock()):
            self.checkpoint()

    def checkpoint(self, wait: bool = False) -> None:
        """Copies what changed and writes it beside the stream; with `wait`, until it is on disk."""
        if self._checkpoints is not None:
            write = self._checkpoints.finish if wait else self._checkpoints.begin
            write(self.position(), self.executor.tables, self._environment.clock())
            for source in self.sources.values():
                source.source.passed(source.positions)

    def restore(self, position: Position, change: GraphChange) -> None:
        """Takes up where a checkpoint was made: `change` brings all jobs of that time into an empty graph."""
        for name, offsets in position.positions.items():
            change.sources[name].positions = dict(offsets)
            change.sources[name].ended = name in position.ended
        self._switch(change, introduce=False)
        if self._checkpoints is not None:
            self._checkpoints.adopt(self.executor.tables)
        self._unstarted = set(position.unstarted)
        self.epoch, self._log_offset = position.epoch, position.log_offset

    def recover(self, change_for: Callable[[Graph, Change], GraphChange]) -> int:
        """Repeats the epochs recorded since the checkpoint; gives their number. `change_for` plans job versions."""
        repeated = 0
        for offset, record in self._log.read(self._log_offset):
            if record.epoch <= self.epoch:
                continue
            self._log_offset, self.epoch = offset, record.epoch
            if record.change is not None:
                self._repeat_change(record.change, change_for(self.graph, record.change))
            else:
                self._repeat(record)
            repeated += 1
        return repeated

    def _repeat_change(self, recorded: Change, change: GraphChange) -> None:
        for name, offsets in recorded.starts.items():
            change.sources[name].positions = dict(offsets)
        self._switch(change)

    def _repeat(self, record: EpochRecord) -> None:
        for name, shard in record.opened:
            self.sources[name].positions[shard] = 0
        chunks = []
        for r in record.ranges:
            chunk = self.sources[r.source].source.read(r.shard, r.start, max_rows=r.end - r.start, until=r.end)
            if chunk is not None:
                chunks.append((r.source, chunk))
        self._process(record, chunks)
        self._commit()

    def close(self) -> None:
        for source in self.sources.values():
            source.source.close()
        for sink in self._sinks.values():
            sink.close()
        self.executor.close()
