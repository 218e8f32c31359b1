"""Runs one graph: reads what its sources have, writes down the epoch, processes it, commits the output.

    poll sources -> epoch record -> operators -> sinks commit -> checkpoint, now and then

Everything here happens in one thread. After a crash `recover` begins at the last checkpoint and repeats the recorded
epochs with the same ranges, times and seeds; sinks drop what they have already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from parser.errors import ServiceError, SqlError
from planner.catalog import Table
from planner.logical import AssignWatermark, Scan, Values
from planner.merge import Graph, stateful_nodes
from planner.physical import PhysicalPlan, lower
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch, empty
from sqlengine.broker.errors import BrokerFull
from sqlengine.connectors.base import Chunk, Environment, Sink, Source
from sqlengine.connectors.registry import open_sink, open_source
from sqlengine.executors.checkpoints import Checkpoints, Position
from sqlengine.executors.embedded import EmbeddedExecutor, Prepared
from sqlengine.executors.epochs import Change, EpochLog, EpochRecord, Range
from sqlengine.executors.failures import GraphBroken, LostSink, LostSource, SourceFailed
from sqlengine.executors.failures import RowsFailed as RowsFailed
from sqlengine.executors.failures import SinkFailed as SinkFailed
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
        self.broken = False
        self._recovering = False
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
        self._lost: dict[str, SqlError] = {}
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
        """Switches to a prepared change between two epochs (in the graph's thread). SqlError: nothing has changed."""
        self._require_sound()
        self._commit()  # what a full disk held up, before its sinks may go
        starts = {name: source.begin() for name, source in change.sources.items()}
        recorded = Change(change.graph.version, dict(change.jobs), starts, dict(change.renamed))
        self._write(self._record(change=recorded))
        with self._whole():
            self._switch(change)

    def _open(self, plan: PhysicalPlan) -> tuple[dict[str, RunningSource], dict[str, Sink]]:
        sources: dict[str, RunningSource] = {}
        for node in plan.nodes.values():
            if isinstance(node.plan, Scan) and node.id not in self.sources:
                sources[node.id] = RunningSource(node.plan, self._open_source(node.plan))
        sinks: dict[str, Sink] = {}
        for name, sink in plan.sinks.items():
            if name in self._sinks:
                continue
            if sink.sink.table is not None:
                sinks[name] = self._open_sink(sink.sink.table)
            elif self._result is not None:
                sinks[name] = self._result
        return sources, sinks

    def _open_source(self, scan: Scan) -> Source:
        try:
            return open_source(scan.table, self._environment)
        except SqlError as error:
            if not self._recovering:
                raise
            return LostSource(error)

    def _open_sink(self, table: Table) -> Sink:
        try:
            return open_sink(table, self._environment)
        except SqlError as error:
            if not self._recovering:
                raise
            return LostSink(error)

    def _switch(self, change: GraphChange, position: Position | None = None) -> None:
        """To another graph; with `position` to that of a checkpoint, whose shards are known."""
        if position is None or self._checkpoints is None:
            self.executor.switch(change.prepared)
        else:
            self.executor.switch(change.prepared, self._checkpoints.restored, position.born)
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
        for name in self._unacquainted(change) if position is None else ():
            for shard in self.sources[name].positions:
                self._introduce(name, shard)

    def _unacquainted(self, change: GraphChange) -> Iterable[str]:
        """Sources that are new, or over which there is a new watermark: it must know of the shards that are silent."""
        found = dict.fromkeys(change.sources)
        for name in change.prepared.operators:
            node = self.graph.nodes.get(name)
            if node is not None and isinstance(node.plan, AssignWatermark):
                while node.inputs:
                    node = self.graph.nodes[node.inputs[0]]
                found[node.id] = None
        return found

    def _close_unused(self, plan: PhysicalPlan) -> None:
        for name in [s for s in self.sources if s not in plan.nodes]:
            self.sources.pop(name).source.close()
            self._lost.pop(name, None)
        for name in [s for s in self._sinks if s not in plan.sinks]:
            self._sinks.pop(name).close()
            self._refused.pop(name, None)
            self._uncommitted.pop(name, None)

    # ---- epochs ------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """One epoch, if there is anything to do. False when all sources have nothing new. Raises JobsFailed once all is
        done for the other jobs, ServiceError where it may be tried again, GraphBroken where nothing can go on."""
        self._require_sound()
        self._commit()
        chunks, opened = self._poll()
        ended = self._ended(chunks)
        if not chunks and not opened and not ended:
            self._raise()
            self._checkpoint()
            return False
        ranges = tuple(Range(name, c.shard, c.start, c.end) for name, c in chunks)
        record = self._record(ranges=ranges, opened=tuple(opened), ended=tuple(ended))
        self._write(record)
        with self._whole():
            self._process(record, chunks)
        if self._fatal and self._result is not None:
            self._raise()  # a script ends with the row that fails: nothing of its epoch is shown
        self._commit()
        self._raise()
        self._checkpoint()
        return True

    def _poll(self) -> tuple[list[tuple[str, Chunk]], list[tuple[str, str]]]:
        """What there is to read, and the shards that have appeared. Sources that fail are read no more."""
        chunks: list[tuple[str, Chunk]] = []
        opened: list[tuple[str, str]] = []
        for name, source in self.sources.items():
            if name in self._lost:
                continue
            try:
                shards = source.new_shards()
                source.positions |= dict.fromkeys(shards, 0)
                found = [(name, chunk) for chunk in source.poll(self._limits.rows_per_read)]
            except SqlError as error:
                self._lost[name] = error
                continue
            opened += [(name, shard) for shard in shards]
            chunks += found
        return chunks, opened

    def _require_sound(self) -> None:
        if self.broken:
            raise GraphBroken(self.name)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """What is done here is done whole, or the graph stands still: nothing in memory may be half-way."""
        try:
            yield
        except BaseException:
            self.broken = True
            raise

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
        for name, error in self._lost.items():
            raise SourceFailed(self.executor.plan.nodes[name].jobs, error)
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
            born=self.executor.births(),
        )

    def _checkpoint(self) -> None:
        held, now = self._checkpoints, self._environment.clock()
        if held is not None and held.due(self.epoch, self.executor.tables, now):
            self.checkpoint()

    def checkpoint(self, wait: bool = False) -> None:
        """Copies what changed and writes it beside the stream; with `wait`, until it is on disk."""
        if self._checkpoints is not None and not self.broken:
            write = self._checkpoints.finish if wait else self._checkpoints.begin
            write(self.position(), self.executor.tables, self._environment.clock())
            for source in self.sources.values():
                source.source.passed(source.positions)

    def restore(self, position: Position, change: GraphChange) -> None:
        """Takes up where a checkpoint was made: `change` brings the jobs of that time into an empty graph."""
        self._begin(change, position.positions)
        for name, source in change.sources.items():
            source.ended = name in position.ended
        self._switch(change, position)
        if self._checkpoints is not None:
            self._checkpoints.adopt(self.executor.tables)
        self._unstarted = set(position.unstarted)
        self.epoch, self._log_offset = position.epoch, position.log_offset

    def recover(self, change_for: Callable[[Graph, Change], GraphChange]) -> int:
        """Repeats the epochs recorded since the checkpoint; gives their number. `change_for` plans job versions."""
        with self._whole(), self.recovering():
            return self._repeat_all(change_for)

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """Sources and sinks that cannot be opened any more do not stop a recovery: their jobs fail when it is over."""
        self._recovering = True
        yield
        self._recovering = False

    def _repeat_all(self, change_for: Callable[[Graph, Change], GraphChange]) -> int:
        repeated = 0
        for offset, record in self._log.read(self._log_offset):
            if record.epoch <= self.epoch:
                continue
            if record.epoch > self.epoch + 1:
                raise ServiceError(
                    f"the epoch log of graph '{self.name}' has a gap between {self.epoch} and {record.epoch}",
                    hint="it was shortened by hand, or the graph's checkpoint was removed",
                )
            self._log_offset, self.epoch = offset, record.epoch
            if record.change is not None:
                self._repeat_change(record.change, change_for(self.graph, record.change))
            else:
                self._repeat(record)
            repeated += 1
        return repeated

    def _repeat_change(self, recorded: Change, change: GraphChange) -> None:
        self._begin(change, recorded.starts)
        self._switch(change)

    def _begin(self, change: GraphChange, starts: Mapping[str, Mapping[str, int]]) -> None:
        """Puts sources where they began; one that the log does not know (its job is planned otherwise now) begins as
        that of a new job does."""
        for name, source in change.sources.items():
            if name in starts:
                source.positions = dict(starts[name])
                continue
            try:
                source.begin()
            except SqlError as error:
                self._lost[name] = error

    def _repeat(self, recorded: EpochRecord) -> None:
        """Without the sources of jobs that cannot be planned any more."""
        opened = tuple(o for o in recorded.opened if o[0] in self.sources)
        ended = tuple(n for n in recorded.ended if n in self.sources or n in self._unstarted)
        for name, shard in opened:
            self.sources[name].positions[shard] = 0
        chunks = [(r.source, c) for r in recorded.ranges if r.source in self.sources for c in self._read_again(r)]
        self._process(replace(recorded, opened=opened, ended=ended), chunks)
        self._commit()

    def _read_again(self, part: Range) -> Iterator[Chunk]:
        """The rows of a range; none when they are gone, and then the jobs that read the source fail."""
        try:
            source = self.sources[part.source].source
            chunk = source.read(part.shard, part.start, max_rows=part.end - part.start, until=part.end)
        except SqlError as error:
            self._lost[part.source] = error
            return
        if chunk is not None:
            yield chunk

    def close(self) -> None:
        for source in self.sources.values():
            source.source.close()
        for sink in self._sinks.values():
            sink.close()
        self.executor.close()
