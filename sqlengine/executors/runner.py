"""Runs one graph, epoch by epoch: `GraphRunner.step` is the one loop that every row takes.

    poll sources -> epoch record -> operators -> sinks commit -> checkpoint, when it is due

All of it happens in the graph's thread. `recovery/` repeats logged epochs after a crash through
the same methods."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from parser.errors import ServiceError, TryAgain
from planner.graph.merge import Graph
from planner.graph.physical import PhysicalPlan
from sqlengine.connectors.environment import Environment, is_rehearsal
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epoch_writer import EpochWriter
from sqlengine.executors.epochs import EpochRecord, LoggedChange, Replay
from sqlengine.executors.failures import GraphBroken, SourceFailed, StepFailed
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.inputs import Inputs
from sqlengine.executors.nondeterministic_calls import NondeterministicCallLog
from sqlengine.executors.outputs import Outputs
from sqlengine.executors.pipeline import Pipeline
from sqlengine.executors.polling import Polling
from sqlengine.executors.prepared_plan import InitialState
from sqlengine.executors.recovery.checkpointing import CheckpointTrigger
from sqlengine.executors.sinks.last_epochs import ask_new, last_of
from sqlengine.executors.sinks.opener import sink_name
from sqlengine.executors.sinks.pending_commits import PendingCommit
from sqlengine.executors.sinks.row_errors import RowErrors
from sqlengine.executors.sources import DEFAULT_STARTS, Positions
from sqlengine.executors.steps.guard import StepInterrupted, StepView
from sqlengine.executors.storage import GraphStorage, RunnerOptions
from sqlengine.executors.subtask import SubtaskContext
from sqlengine.snapshots.checkpoints import CheckpointMetadata

# Seconds between two looks for an answer of a source without which a graph cannot go on.
_ANSWER_S: Final = 0.25


class GraphRunner:
    """Reads, processes, commits and checkpoints one graph. Graph thread only, but for `prepare`.

    `name`: the graph's id, in records, checkpoints and messages. `broken`: an epoch or a change
    ended half-way, so memory is worth nothing. `paused`: sources stop at bounds, see `pause`.
    `repeating`: a recovery repeats logged epochs. `writes`: False where others write the rows."""

    def __init__(
        self,
        name: str,
        executor: EmbeddedExecutor,
        environment: Environment,
        storage: GraphStorage | None = None,
        options: RunnerOptions | None = None,
        subtask: SubtaskContext | None = None,
    ) -> None:
        self.name = name
        self.storage = storage = storage or GraphStorage()
        self._options = options = options or RunnerOptions()
        self._subtask = subtask
        self.executor = executor
        self.guard = executor.guard
        self.guard.versions = lambda: self.jobs
        self.guard.graph_version = lambda: self.graph.version
        self.guard.measure = None if options.memory is None else self._measure_step
        self.inputs = Inputs(
            environment, None if subtask is None else subtask.shuffle.source, executor.opened
        )
        self.outputs = Outputs(
            environment,
            RowErrors(storage.dead_letters, options.fails_on_error),
            NondeterministicCallLog(
                environment.broker if storage.log.keeps_every_epoch else None, name
            ),
            options.result,
            None if subtask is None else subtask.shuffle.sink,
        )
        self.outputs.committer.tell, self.outputs.committer.now = self.guard.tell, self.guard.now
        self.progress = self.outputs.progress
        self.pipeline = Pipeline(executor, self.inputs, self.outputs, subtask)
        self.epochs = EpochWriter(name, storage.log, environment.clock, options.firing_cost)
        self.polling = Polling(
            executor, self.inputs, self.epochs, options, environment.clock, subtask
        )
        self._checkpoints = CheckpointTrigger(
            self.pipeline, self.epochs, storage, environment.clock, subtask
        )
        self.broken = self.paused = self.repeating = False
        self.writes = True

    @property
    def graph(self) -> Graph:
        """The plan that runs."""
        return self.pipeline.graph

    @property
    def jobs(self) -> dict[str, int]:
        """The running version of each job."""
        return self.pipeline.jobs

    @property
    def epoch(self) -> int:
        """The number of the last epoch; 0 before the first."""
        return self.epochs.last

    # ---- epochs ----------------------------------------------------------------------------------

    def step(self) -> bool:
        """Runs one epoch; returns False if there was nothing to do.

        Raises JobsFailed once the epoch is complete for all other jobs, ServiceError where a retry
        may help, GraphBroken where only a restart does."""
        with self.guard.step("begins"):
            return self._step()

    def _step(self) -> bool:
        self._require_sound()
        self.commit()  # what a sink had no space for
        self.outputs.committer.roll()
        self._ask_tables()
        if self.outputs.uncommitted.overflows and not self.paused:
            self._raise_failures()
        # Before more is read: a job over its limit gets no more rows.
        if not self.paused:  # a job over its limit must be able to leave
            self._check_memory()
        spent = self.progress.spent
        began = spent.begin()
        record, chunks = self.polling.poll(self.graph.version, paused=self.paused)
        if record is not None:
            guard = self.guard
            with (
                self._logged_epoch(record),
                spent.processing(guard.now, lambda: guard.operator_seconds),
            ):
                self.pipeline.process(record, chunks)
            self.polling.set_pace(chunks)
            if self.outputs.errors.fatal and self.outputs.shows_result:
                self._raise_failures()  # a script shows nothing of the epoch in which it fails
            self.commit()
            spent.end(began, counts=True)
            if (record.ended or record.resumed) and self.finished:
                self.outputs.committer.roll(end=True)
        self._raise_failures()
        self.checkpoint_when_due()
        return record is not None

    def _ask_tables(self) -> None:
        """Asks tables that could not tell before which epochs they have, so that new ones come
        behind these. Raises while one cannot: JobsFailed where its jobs are to leave.

        A pause is not held up: what is paused reads to its bounds alone, so that jobs can leave or
        get another text."""
        if not self.outputs.asked.unasked or self.paused:
            return
        self._go_on_behind(self.outputs.asked.ask_again(self.epoch))
        if self.outputs.asked.unasked:
            self._raise_failures()
            raise next(iter(self.outputs.asked.unasked.values()))

    def _go_on_behind(self, known: int) -> None:
        """Numbers the next epoch behind one that a table knows: it would drop its rows else."""
        if known > self.epoch:
            self.epochs.skip(self.graph.version, known, self.epoch)

    def _check_memory(self) -> None:
        if self._options.memory is not None:
            self._options.memory.check(self.executor, self.graph, self.jobs, self.progress.rows_in)

    def _measure_step(self, step: StepView) -> Exception | None:
        """Measures state and output within a step. Returns the failure that must end it."""
        assert self._options.memory is not None
        output = self.outputs.uncommitted.bytes_by_job(step.jobs)
        error = self._options.memory.exceeded(self.executor, self.graph, self.jobs, output)
        # A script ends with the error; other graphs are restored without the job.
        if error is None or self.storage.checkpoints is None:
            return error
        return StepFailed(error.jobs, str(error))

    @contextmanager
    def _logged_epoch(self, record: EpochRecord) -> Iterator[None]:
        """Writes the record, then runs the body as its epoch."""
        # The record first: a crash behind it repeats the epoch, a crash before it reads the rows
        # anew.
        self.epochs.append(record)
        with self.broken_on_failure(), self.outputs.call_log.recording(record.epoch):
            yield

    @contextmanager
    def broken_on_failure(self, step: str = "processes rows") -> Iterator[None]:
        """Marks the graph as broken if the body raises: what is in memory may be half-way. The body
        is a step, or belongs to one; `step` says what it does."""
        try:
            with self.guard.step(step):
                yield
        except StepInterrupted:
            self.broken = True
            raise self.guard.failure or GraphBroken(self.name) from None
        except BaseException:
            self.broken = True
            raise

    def _require_sound(self) -> None:
        if self.broken:
            raise GraphBroken(self.name)

    def _raise_failures(self) -> None:
        """Raises JobsFailed for jobs at fault, one failure at a time."""
        self.outputs.raise_failures(self.executor.plan)
        for name, error in self.inputs.failed.items():
            raise SourceFailed(self.executor.plan.nodes[name].jobs, error)

    def replay(self, replay: Replay) -> None:
        """Runs one epoch of records of dead letters, for their job and no other."""
        self.complete()
        self._ask_tables()
        record = self.epochs.next(self.graph.version, replay=replay)
        with self._logged_epoch(record):
            self.pipeline.process_replay(record)
        self.outputs.committer.commit(self.epoch)

    # ---- the end of input, bounds, pauses --------------------------------------------------------

    @property
    def finished(self) -> bool:
        """True if all sources are bounded and read to their end, and all windows have fired."""
        return self.inputs.finished and not self.executor.firing.unfinished

    def drain(self) -> None:
        """Ends all sources where they are read to, in one epoch: timers and windows fire, those
        that are too many for it in further ones.

        Does nothing more where that was done before, also in a former process. Leaves JobsFailed to
        the next `step` and raises ServiceError instead."""
        self.complete()
        self._ask_tables()
        ending = self.inputs.unfinished()
        # Nothing left to end: the epoch that ended the sources is in the log already.
        if ending:
            record = self.epochs.next(self.graph.version, ended=tuple(ending))
            with self._logged_epoch(record):
                self.pipeline.process(record, ())
        self._fire_all()
        self.complete()
        self.outputs.committer.roll(end=True)
        if self.outputs.errors.fatal or self.outputs.uncommitted.refused:
            raise ServiceError(
                f"jobs of graph '{self.name}' fail at their end", hint="'sql jobs' says why"
            )

    def _fire_all(self) -> None:
        """Lets operators fire all that is due, epoch by epoch."""
        while (
            resumed := self.executor.firing.resumptions()
        ) or self.executor.firing.take_unknown():
            self.complete()
            # An operator that was restored does not know its watermark: a tick tells.
            record = self.epochs.next(self.graph.version, resumed=resumed, tick=not resumed)
            with self._logged_epoch(record):
                self.pipeline.process(record, ())

    def reach(self, positions: Positions, steps: int) -> bool:
        """Reads these sources exactly to these offsets, in at most `steps` epochs; returns True if
        they were reached."""
        self.inputs.bounds = positions
        try:
            # `step` is False when a source has nothing new: waiting longer would not reach the
            # offsets now.
            while not self.inputs.reached(positions) and steps:
                if not self.step() and not self.inputs.wait_for_late(_ANSWER_S):
                    break
                steps -= 1
            return self.inputs.reached(positions)
        finally:
            self.inputs.bounds = {}

    def pause(self, bounds: Positions) -> None:
        """Stops sources at these offsets, or where they are, and all timers, until `resume`. Rows
        between subtasks are still read."""
        self.paused = True
        self.inputs.pause(bounds)

    def resume(self) -> None:
        """Ends a pause."""
        self.paused = False
        self.inputs.bounds = {}

    @property
    def quiesced(self) -> bool:
        """True if the graph is paused, has read to its bounds, and all output is out but what
        tables have no space for."""
        if not self.paused or self.inputs.unstarted or not self.inputs.reached(self.inputs.bounds):
            return False
        self._require_sound()
        self.commit()
        return True

    # ---- hot changes -----------------------------------------------------------------------------

    def prepare(
        self, graph: Graph, jobs: Mapping[str, int], renamed: Mapping[str, str] | None = None
    ) -> GraphChange:
        """Prepares a change beside the stream, in the thread that makes changes: compiles
        operators, opens connectors, asks new tables which epochs they have. SqlError leaves
        everything as it was."""
        change = self.pipeline.prepare(graph, jobs, renamed or {})
        # A recovery asks all tables at its end. A subtask cannot refuse the change any more. Before
        # a rehearsal nobody created the topics of tables.
        later = self._subtask is not None or self.outputs.opener.is_recovering
        if not self._asks_tables or later or is_rehearsal():
            return change
        try:
            return replace(change, last_epochs=ask_new(change.prepared.plan, change.sinks))
        except BaseException:
            change.abandon()
            raise

    @property
    def _asks_tables(self) -> bool:
        """False for a script, which has no life before, and where others write the rows."""
        return self.storage.checkpoints is not None and self.writes

    def apply(self, change: GraphChange) -> None:
        """Logs a prepared change as an epoch and switches to it. SqlError: nothing has changed."""
        # Sinks that go must have taken what a full disk held up, unless it goes along with their
        # job. Sinks that stay may still wait.
        self._complete_except_tables(self.executor.plan if change.moved else change.prepared.plan)
        if change.restored is not None and not self.storage.log.keeps_every_epoch:
            # The job brings its present state: no row from before may be read again.
            self.checkpoint(wait=True)
        if change.last_epochs is not None:
            # Tables may know later ones of this graph: from a time before it was restored from an
            # older copy of the data folder.
            self._go_on_behind(last_of(change.last_epochs, self.epoch, change.prepared.plan.sinks))
        # The sources begin before the record is written, which has to name the offsets for a
        # recovery.
        with self.guard.step("begins to read tables"):
            starts = {name: self._begin(change, name) for name in change.sources}
        logged = LoggedChange(
            change.graph.version,
            dict(change.jobs),
            starts,
            dict(change.renamed),
            "" if change.restored is None else change.restored.handover,
        )
        # The commit point: from here on a recovery makes this change, so a failure below breaks the
        # graph.
        self.epochs.append(self.epochs.next(self.graph.version, change=logged))
        for name, source in change.sources.items():
            source.began, source.began_epoch = starts[name], self.epoch
        with self.broken_on_failure("changes its jobs"):
            self.switch(change)
            if change.last_epochs is None and self._asks_tables:
                self.outputs.asked.ask_later(change.sinks)

    def _begin(self, change: GraphChange, name: str) -> dict[str, int]:
        """Sets a new source to where it begins, and returns its positions."""
        source, old = change.sources[name], self.inputs.running.get(change.continued.get(name, ""))
        if old is None:
            return source.begin(change.starts.get(name, DEFAULT_STARTS), change.marks.get(name, {}))
        return source.go_on(old)

    def switch(self, change: GraphChange, position: CheckpointMetadata | None = None) -> None:
        """Switches to another plan without logging it; with `position` to that of the checkpoint
        from which the graph is recovered."""
        state, checkpoints = None, self.storage.checkpoints
        if position is not None and checkpoints is not None:
            state = InitialState(checkpoints.restored, position.created_at_version)
        # A savepoint, whose epoch is 0, has no watermarks of sources.
        known = position is not None and position.epoch != 0
        self.pipeline.switch(change, state, watermarks_known=known)
        if self.paused:
            self.inputs.pause({})

    # ---- output and checkpoints ------------------------------------------------------------------

    def commit(self) -> None:
        """Commits the output of the last epoch. TryAgain where a sink has no space and the graph
        must wait for it.

        Tables without space do not hold up a subtask that is paused or repeats epochs: they take
        these epochs later, in order. A table that another process has locked, or that does not
        answer, does not hold up its graph, for a while; a script has nothing else to do."""
        serves = self.storage.checkpoints is not None
        try:
            self.outputs.committer.commit(self.epoch, wait=not serves)
        except TryAgain:
            patient = self.paused or (self.repeating and self._subtask is not None)
            if patient and self.outputs.uncommitted.only_tables_blocked(self.executor.plan):
                return
            if not serves or not self.outputs.uncommitted.may_go_on(self.executor.plan):
                raise

    def complete(self) -> None:
        """Returns when all output so far is out; raises what prevents that."""
        self._require_sound()
        self.outputs.committer.commit(self.epoch)

    def _complete_except_tables(self, plan: PhysicalPlan) -> None:
        """Returns when all output so far is out, except what tables of the plan have no space
        for."""
        try:
            self.complete()
        except TryAgain:
            if not self.outputs.uncommitted.only_tables_blocked(plan):
                raise

    def pending_commits(self, jobs: Collection[str]) -> tuple[PendingCommit, ...]:
        """Completes the last epoch. Returns the output that blocked or refused sinks have not
        taken, of the sinks to which these jobs alone write."""
        self._complete_except_tables(self.executor.plan)
        sinks = self.executor.plan.sinks
        mine = [
            n
            for n in self.outputs.uncommitted.owing
            if (sink := sinks.get(sink_name(n))) is not None and sink.jobs <= set(jobs)
        ]
        return self.outputs.uncommitted.pending_commits(mine, self.name, self.epoch)

    def checkpoint_when_due(self) -> None:
        """Starts a checkpoint if one is due."""
        if self._checkpoints.due():
            self.checkpoint()

    def checkpoint(self, wait: bool = False, *, forced: bool = False) -> None:
        """Takes a checkpoint, if the graph has any; with `wait` returns when it is stored. Only a
        `forced` one is taken while a sink refuses rows."""
        if not self.broken and (forced or not self.outputs.uncommitted.refused):
            self._checkpoints.take(wait=wait)

    def close(self) -> None:
        """Closes sources, sinks and operators."""
        self.pipeline.close()
