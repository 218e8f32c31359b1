"""Runs one graph: reads what its sources have, writes down the epoch, processes it, commits the
output.

    poll sources -> epoch record -> operators -> sinks commit -> checkpoint, now and then

Everything here happens in one thread. `recovery.py` repeats recorded epochs after a crash through
the same methods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from parser.errors import ServiceError, TryAgain
from planner.graph.division import with_times
from planner.graph.merge import Graph
from planner.graph.physical import PhysicalPlan, lower
from sqlengine.connectors.base import Chunk, Environment, Sink
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epochs import EpochLog, EpochRecord, LoggedChange, OffsetRange, Replay
from sqlengine.executors.failures import GraphBroken, SourceFailed
from sqlengine.executors.file_versions import FileVersions
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.inputs import Inputs
from sqlengine.executors.memory_limits import MemoryGuard
from sqlengine.executors.nondeterministic_calls import NondeterministicCallLog
from sqlengine.executors.outputs import Outputs, Progress
from sqlengine.executors.pending_commits import PendingCommit
from sqlengine.executors.replays import push_replayed
from sqlengine.executors.sources import DEFAULT_STARTS, Positions, positions_of
from sqlengine.executors.subtask import SubtaskContext
from sqlengine.executors.time_events import TimeEvents, sources_needing_initial_watermark
from sqlengine.snapshots.checkpoints import Checkpoints, Position


@dataclass(frozen=True)
class ReadLimits:
    """Bounds of one step: rows read from one shard at a time."""

    rows_per_read: int = 4096


class GraphRunner:
    """`name` is the graph's id: epochs are numbered for it, and sinks know it as their writer.
    `log_offset` is behind the record of the last epoch, `answers_offset` behind what functions had
    answered at the checkpoint; `jobs` are the versions that run; `first_record`: the offset of the
    first one in the log, where a recovery may have to begin before the last checkpoint;
    `backpressured_by`: subtasks with so many unread bytes of this one that it reads no sources for
    now."""

    def __init__(
        self,
        name: str,
        executor: EmbeddedExecutor,
        environment: Environment,
        log: EpochLog,
        checkpoints: Checkpoints | None,
        letters: Sink | None,
        fails_on_error: Callable[[str], bool],
        limits: ReadLimits = ReadLimits(),
        seed: int = 0,
        result: Sink | None = None,
        guard: MemoryGuard | None = None,
        portion: SubtaskContext | None = None,
        first_record: Callable[[], int] | None = None,
    ) -> None:
        self.name = name
        self.executor = executor
        self.graph = Graph()
        self.jobs: dict[str, int] = {}
        self.epoch = 0
        self.log_offset = 0
        self.answers_offset = 0
        self.log = log
        self.checkpoints = checkpoints
        self.progress = Progress()
        sent = None if portion is None else portion.shuffle.source
        self.inputs = Inputs(environment, sent)
        self.outputs = Outputs(
            environment,
            letters,
            fails_on_error,
            self.progress,
            result,
            NondeterministicCallLog(environment.broker if log.keeps_every_epoch else None, name),
            None if portion is None else portion.shuffle.sink,
        )
        self.broken = self.paused = self.repeating = False
        self.backpressured_by: Mapping[int, int] = {}
        self._clock = environment.clock
        self._limits = limits
        self._seed = seed
        self._guard = guard
        self._portion = portion
        self._versions = FileVersions(first_record)
        self._times = TimeEvents(executor, self.inputs, self.outputs.write)

    # ---- hot changes -----------------------------------------------------------------------------

    def prepare(
        self, graph: Graph, jobs: Mapping[str, int], renamed: Mapping[str, str] | None = None
    ) -> GraphChange:
        """Makes a change ready: compiles operators, opens connectors. Runs beside the stream, in
        the one thread that makes changes. SqlError leaves everything as it was."""
        plan = lower(graph, self.executor.plan)
        prepared = self.executor.prepare(plan if self._portion is None else self._portion.of(plan))
        sources = self.inputs.open(prepared.plan, prepared.operators)
        sinks = self.outputs.open(prepared.plan)
        return GraphChange(graph, prepared, jobs, sources, sinks, renamed or {})

    def apply(self, change: GraphChange) -> None:
        """Switches to a prepared change between two epochs (in the graph's thread). SqlError:
        nothing has changed."""
        # What a full disk held up leaves before its sinks go, if it does not go along; that of
        # sinks which stay may wait.
        self._complete_but_tables(self.executor.plan if change.moved else change.prepared.plan)
        if change.restored is not None and not self.log.keeps_every_epoch:
            self.checkpoint(
                wait=True
            )  # what is restored is the state of now: no row before may come again
        starts = {
            name: source.begin(change.starts.get(name, DEFAULT_STARTS))
            for name, source in change.sources.items()
        }
        handover = change.restored.handover if change.restored is not None else ""
        recorded = LoggedChange(
            change.graph.version, dict(change.jobs), starts, dict(change.renamed), handover
        )
        self._write(self._record(change=recorded))
        for name, source in change.sources.items():
            source.began, source.began_epoch = starts[name], self.epoch
        with self.broken_on_failure():
            self.switch(change)

    def _complete_but_tables(self, plan: PhysicalPlan) -> None:
        """Returns when all output of the epochs so far is out, but what tables of the plan have no
        space for."""
        try:
            self.complete()
        except TryAgain:
            if not self.outputs.only_tables_blocked(plan):
                raise

    def pending_commits(self, jobs: Collection[str]) -> tuple[PendingCommit, ...]:
        """Completes the last epoch; what sinks without space keep of it, to which these jobs alone
        write."""
        self._complete_but_tables(self.executor.plan)
        sinks = self.executor.plan.sinks
        mine = [n for n in self.outputs.blocked if n in sinks and sinks[n].jobs <= set(jobs)]
        return self.outputs.pending_commits(mine, self.name, self.epoch)

    def switch(self, change: GraphChange, position: Position | None = None) -> None:
        """To another graph; with `position` to that of a checkpoint, whose shards are known."""
        restored = change.restored
        if restored is not None:
            self.executor.switch(change.prepared, restored.tables, restored.created_at_version)
        elif position is None or self.checkpoints is None:
            self.executor.switch(change.prepared, inherited=self._inherited(change))
        else:
            self.executor.switch(
                change.prepared, self.checkpoints.restored, position.created_at_version
            )
        self.graph = change.graph
        if self._portion is not None:
            self._portion.shuffle.version = change.graph.version
        gone = [n for n, v in change.jobs.items() if not v]
        self.jobs = {**self.jobs, **change.jobs}
        for name in gone:
            del self.jobs[name]
        plan = change.prepared.plan
        self.inputs.switch(plan, change.sources, change.prepared.operators)
        self.outputs.switch(plan, change.sinks)
        if restored is not None:
            self.outputs.add_pending(restored.pending_commits)
            self.inputs.unstarted -= restored.emitted_values
            for name in restored.ended & change.sources.keys():
                self.inputs.running[name].ended = True
        if self.paused:
            self.inputs.pause({})
        begins = (
            position is None or not position.epoch
        )  # from a savepoint: watermarks may begin anew
        known = (
            restored is not None and self._portion is None
        )  # in parts others must hear how far the time is
        for name in (
            sources_needing_initial_watermark(self.graph, change, self.inputs.running)
            if begins and not known
            else ()
        ):
            self._times.emit_initial_watermarks(name)
        self.executor.flush(self.outputs.write)

    def _inherited(self, change: GraphChange) -> Mapping[str, str]:
        return (
            change.inherited
            if self._portion is None
            else with_times(change.inherited, change.prepared.plan)
        )

    # ---- epochs ----------------------------------------------------------------------------------

    def step(self) -> bool:
        """One epoch, if there is anything to do. False when all sources have nothing new. Raises
        JobsFailed once all is done for the other jobs, ServiceError where it may be tried again,
        GraphBroken where nothing can go on."""
        self._require_sound()
        self.commit()
        self.outputs.roll()
        if self._guard is not None:
            self._guard.check(self.executor, self.graph, self.jobs, self.progress.rows_in)
        self.backpressured_by = (
            {} if self._portion is None else self._portion.shuffle.unread.behind()
        )
        chunks, opened = self.inputs.poll(
            self._limits.rows_per_read, shuffle_only=bool(self.backpressured_by)
        )
        ended = self.inputs.ended(chunks)
        tick = (
            not self.backpressured_by and self._timer_is_due()
        )  # sources that are not read are not silent
        if not chunks and not opened and not ended and not tick:
            self._raise_failures()
            self.checkpoint_when_due()
            return False
        ranges = tuple(OffsetRange(name, c.shard, c.start, c.end) for name, c in chunks)
        with self._logged_epoch(
            self._record(ranges=ranges, opened=tuple(opened), ended=tuple(ended), tick=tick)
        ) as record:
            self.process(record, chunks)
        if self.outputs.fatal and self.outputs.shows_result:
            # A script ends with the row that fails: nothing of its epoch is shown.
            self._raise_failures()
        self.commit()
        if ended and self.finished:
            self.outputs.roll(end=True)
        self._raise_failures()
        self.checkpoint_when_due()
        return True

    def drain(self) -> None:
        """One epoch in which all sources end where they are read to: what waits for its time comes.
        Nothing more where that was done before, in this life or a former one. JobsFailed stays to
        be told by the next step."""
        self.complete()
        ending = self.inputs.unfinished()
        if ending:
            with self._logged_epoch(self._record(ended=tuple(ending))) as record:
                self.process(record, ())
        self.complete()
        self.outputs.roll(end=True)
        if self.outputs.fatal or self.outputs.refused:
            raise ServiceError(
                f"jobs of graph '{self.name}' fail at their end", hint="'sql jobs' says why"
            )

    @contextmanager
    def _logged_epoch(self, record: EpochRecord) -> Iterator[EpochRecord]:
        """What is done here is an epoch, which is written down first."""
        self._write(record)
        with self.broken_on_failure(), self.outputs.call_log.recording(record.epoch):
            yield record

    def reach(self, positions: Positions, steps: int) -> bool:
        """Reads these sources up to these offsets and no further, in at most so many epochs;
        whether it came there."""
        self.inputs.bounds = positions
        try:
            while not self.inputs.reached(positions) and steps and self.step():
                steps -= 1
            return self.inputs.reached(positions)
        finally:
            self.inputs.bounds = {}

    def pause(self, bounds: Positions) -> None:
        """Until `go_on` sources are read to these offsets and no further, or not at all, and
        nothing happens by the clock: what is on its way between parts comes to its end."""
        self.paused = True
        self.inputs.pause(bounds)

    def resume(self) -> None:
        """What was held goes on."""
        self.paused = False
        self.inputs.bounds = {}

    @property
    def quiesced(self) -> bool:
        """Whether it is held, has done all that it can do of itself, and all output is out but what
        tables have no space for."""
        if not self.paused or self.inputs.unstarted or not self.inputs.reached(self.inputs.bounds):
            return False
        self._require_sound()
        self.commit()
        return True

    def replay(self, replay: Replay) -> None:
        """One epoch of records that dead letters hold, for the job of these and no other (in the
        graph's thread)."""
        self.complete()
        with self._logged_epoch(self._record(replay=replay)) as record:
            self.process_replay(record)
        self.outputs.commit(self.epoch)

    def process_replay(self, record: EpochRecord) -> None:
        """The rows of a replay through operators of their own: those of the job's statements that
        did not see them."""
        replay = record.replay
        assert replay is not None
        for places in dict.fromkeys(again.places for again in replay.rows):
            rows = [again for again in replay.rows if again.places == places]
            errors = push_replayed(
                self.executor.factory, self.graph, self.inputs, rows, record, self.outputs.write
            )
            self.outputs.handle_errors(errors)
        self.outputs.mark_replayed(replay, record.proctime)

    @property
    def finished(self) -> bool:
        """Whether all sources are bounded and read to their end."""
        return self.inputs.finished

    def complete(self) -> None:
        """Returns when all output of the epochs so far is out; raises what keeps it from that."""
        self._require_sound()
        self.outputs.commit(self.epoch)

    def commit(self) -> None:
        """The output of the last epoch leaves. While a part is held, or repeats epochs, tables
        without space do not keep it from others that come: they take these later, one after the
        other. So it is in any graph of a server with tables of databases that another holds; a
        script has nothing to go on with."""
        try:
            self.outputs.commit(self.epoch, wait=not self.log.keeps_every_epoch)
        except TryAgain:
            patient = self.paused or (self.repeating and self._portion is not None)
            if patient and self.outputs.only_tables_blocked(self.executor.plan):
                return
            if not self.log.keeps_every_epoch or not self.outputs.may_go_on(self.executor.plan):
                raise

    def _require_sound(self) -> None:
        if self.broken:
            raise GraphBroken(self.name)

    @contextmanager
    def broken_on_failure(self) -> Iterator[None]:
        """What is done here is done whole, or the graph stands still: nothing in memory may be
        half-way."""
        try:
            yield
        except BaseException:
            self.broken = True
            raise

    def _record(
        self,
        ranges: tuple[OffsetRange, ...] = (),
        opened: tuple[tuple[str, str], ...] = (),
        ended: tuple[str, ...] = (),
        change: LoggedChange | None = None,
        replay: Replay | None = None,
        tick: bool = False,
    ) -> EpochRecord:
        epoch = self.epoch + 1
        seed = (self._seed + epoch * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF
        version, now = self.graph.version, self._clock()
        return EpochRecord(
            self.name, epoch, version, now, seed, ranges, opened, ended, change, replay, tick
        )

    def skip_epochs(self, epochs: int, after: int) -> None:
        """Writes down that so many epochs are left out: there are none of these numbers. `after`:
        the last one that the log tells of, or UNTOLD."""
        record = self._record()
        self._write(replace(record, epoch=record.epoch + epochs, after=after))

    def _write(self, record: EpochRecord) -> None:
        self.log_offset = self.log.append(record)
        self.epoch = record.epoch

    def process(self, record: EpochRecord, chunks: Iterable[tuple[str, Chunk]]) -> None:
        """The rows of an epoch through the operators; what comes out waits for `outputs.commit`."""
        for name, shard in record.opened:
            self._times.emit_initial_watermark_of(name, shard)
        chunks = tuple(chunks)
        read = {name for name, _ in chunks}
        if record.tick:
            self._times.tick(record, self.inputs.running.keys() - read)
            self._times.tick_values(record)
        for name, chunk in chunks:
            source = self.inputs.running[name]
            batch = source.batch(chunk, record.proctime, record.seed)
            self.executor.push(name, batch, self.outputs.write)
            source.positions[chunk.shard] = chunk.end
            self.progress.rows_in += chunk.num_rows
        if record.tick:
            self._times.tick(record, read)  # no shard is silent whose rows have just come
        for name in record.ended:
            self._times.end(name, record)
        self.executor.flush(self.outputs.write)
        self.progress.epochs += 1
        self.outputs.handle_errors(self.executor.take_errors())

    def _timer_is_due(self) -> bool:
        """Whether an operator waits for a processing time that has come."""
        timer = None if self.paused else self.executor.next_timer()
        return timer is not None and timer <= self._clock()

    def _raise_failures(self) -> None:
        """Tells of jobs at fault, one at a time, once the epoch is complete for all others."""
        self.outputs.raise_failures(self.executor.plan)
        for name, error in self.inputs.failed.items():
            raise SourceFailed(self.executor.plan.nodes[name].jobs, error)

    # ---- checkpoints -----------------------------------------------------------------------------

    def position(self) -> Position:
        """All that a checkpoint must say besides the tables."""
        return Position(
            graph=self.name,
            epoch=self.epoch,
            version=self.graph.version,
            log_offset=self.log_offset,
            positions=positions_of(self.inputs.running),
            ended=[n for n, s in self.inputs.running.items() if s.ended],
            unstarted=sorted(self.inputs.unstarted),
            jobs=dict(self.jobs),
            stateful={job: list(held) for job, held in self.graph.stateful.items()},
            created_at_version=self.executor.created_at_version(),
            began={n: (s.began_epoch, s.began) for n, s in self.inputs.running.items()},
            logged=self.log.keeps_every_epoch,
            answers_offset=self.outputs.call_log.end(),
        )

    def checkpoint_when_due(self) -> None:
        """Begins one where enough has changed, or enough time has gone by since the last."""
        held, now = self.checkpoints, self._clock()
        if self.outputs.blocked:  # what is not out must come again after a crash
            return
        if held is not None and held.due(self.epoch, self.executor.tables, now):
            self.checkpoint()

    def checkpoint(self, wait: bool = False) -> None:
        """Copies what changed and writes it beside the stream; with `wait`, until it is on disk."""
        if self.checkpoints is not None and not self.broken:
            self.outputs.commit(
                self.epoch
            )  # what a full disk held up: no epoch before a checkpoint is repeated
            write = self.checkpoints.finish if wait else self.checkpoints.begin
            write(self.position(), self.executor.tables, self._clock())
            for source in self.inputs.running.values():
                source.source.notify_checkpoint(source.positions)
            if self.checkpoints.stored is not None:
                self._versions.let_go(self.checkpoints.stored, self.inputs.running)
                if self._portion is not None:
                    self._portion.forget(self.checkpoints.stored)

    def close(self) -> None:
        self.inputs.close()
        self.outputs.close()
        self.executor.close()
