"""A graph that runs in this process: its executor, runner, checkpoints and thread."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import ClassVar, TypeVar

from parser.errors import ExecutionError, ServiceError, SqlError
from planner.graph.distribution import WHOLE
from planner.graph.merge import Graph, merge, stateful_nodes
from planner.graph.takeover import Policy, policy_of
from planner.logical import Scan, Sink
from sqlengine.access.shadow_names import is_shadow
from sqlengine.connectors.base import Busy, Source
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import declared_capabilities
from sqlengine.executors.dead_letters import DeadLetterSink
from sqlengine.executors.epochs import (
    EPOCHS,
    ChangeLog,
    EndedEpochLog,
    EpochLog,
    LoggedChange,
    TopicEpochLog,
)
from sqlengine.executors.failures import (
    ExecutorUnavailable,
    JobsFailed,
    LastingFailure,
    OperatorFailed,
    SourceAway,
    StepEnded,
)
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.job_counts import JobCounts
from sqlengine.executors.measures.job_costs import JobCost, JobCosts
from sqlengine.executors.memory_limits import MemoryGuard, state_by_job
from sqlengine.executors.recovery import recovering, repeat_epochs, restore, skip_unlogged_epochs
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.spark.executor import SparkExecutor
from sqlengine.executors.storage import GraphStorage, RunnerOptions
from sqlengine.executors.subtask import SubtaskContext
from sqlengine.graphs.apart import Absence, LeftOut, is_apart, last_letters, writer_of_graph
from sqlengine.graphs.departures import Departure
from sqlengine.graphs.event_times import EventTimes, event_times
from sqlengine.graphs.host import Faults, GraphHost, NotAligned, PlanOf
from sqlengine.graphs.loop import GraphLoop
from sqlengine.graphs.observed import Observed
from sqlengine.graphs.rebuild import Rebuilder
from sqlengine.graphs.takeover import Takeover, take_over
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.checkpoints import CheckpointMetadata, Checkpoints
from sqlengine.snapshots.job_snapshot import JobSnapshot, bind, obstacles, restore_file_versions
from sqlengine.snapshots.rescaling import exchange_times

T = TypeVar("T")
log = logging.getLogger("sqlengine")


def open_graph(
    name: str,
    host: GraphHost,
    plan_of: PlanOf,
    without: Faults | None = None,
    subtask: Callable[[], SubtaskContext] | None = None,
    failed_epoch: int = 0,
) -> RunningGraph:
    """Opens and recovers a graph, without the jobs whose operators raise or take too long while
    recorded epochs are repeated, and without those that are removed meanwhile. `subtask` opens the
    context of each attempt, which closes it.

    Jobs that fail in an epoch (those of `without` in `failed_epoch`) are taken out just before it,
    with what they have, but not out of a subtask. Those whose sources are away while epochs are
    repeated are left out, and kept as they were at the checkpoint; SourceAway for a graph of such
    jobs, and for a subtask: others rely on its epochs, so that it waits as a whole."""
    faults = dict(without or {})
    departures: list[Departure] = []
    left_out = LeftOut()
    if failed_epoch and subtask is None:
        departures, faults = [Departure(failed_epoch, faults)], {}
    while True:
        try:
            context = None if subtask is None else subtask()
            graph = RunningGraph(name, host, plan_of, faults, context, departures, left_out)
            break
        except SourceAway as error:
            if is_apart(name) or subtask is not None:
                raise
            log.warning("graph %s is recovered without jobs that wait: %s", name, error)
            left_out.add(error, last_letters(host.broker, name))
        except (OperatorFailed, JobsFailed, StepEnded) as error:
            if not error.versions:
                raise
            log.error(
                "graph %s is recovered without the jobs %s: %s", name, sorted(error.jobs), error,
                exc_info=isinstance(error, OperatorFailed) and error.is_fault,
            )  # fmt: skip
            # Each round takes or leaves out at least one more job version, so that this ends.
            failed = not isinstance(error, StepEnded)
            kind = LastingFailure if failed and error.lasting else ExecutionError
            new = dict.fromkeys(error.versions, kind(str(error)))
            tried = {version for departure in departures for version in departure.faults}
            if failed and subtask is None and not new.keys() & tried:
                departures.append(Departure(error.epoch, new))
            else:
                departures = [d for d in departures if not d.faults.keys() & new.keys()]
                faults |= new
    if (faults or departures or graph.leaves_out or left_out.errors) and not is_apart(name):
        # Of jobs that wait apart nothing is to be repeated here.
        graph.forget_lost_jobs()
    return graph


class RunningGraph:
    """A graph that runs in this process, or one subtask of a distributed graph (`subtask`).

    It is recovered when it is created, and runs after `loop.start()`. `lost_jobs` could not be
    recovered: they cannot be planned any more, or are in `without`; the other jobs are recovered
    without them. `kept`: the keys under which lost jobs have left their snapshots. `leaves_out`:
    the recovery has left out jobs that it was asked to."""

    distributed: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        host: GraphHost,
        plan_of: PlanOf,
        without: Faults,
        subtask: SubtaskContext | None = None,
        departures: Sequence[Departure] = (),
        left_out: LeftOut | None = None,
    ) -> None:
        self.name, self._writes_as = name, writer_of_graph(name)
        self._host = host
        self._plan_of = plan_of
        self._without = dict(without)
        self._departures = list(departures)
        self.kept: dict[str, str] = {}
        config, threads = host.config, host.machine.threads
        self.store = host.stores.open(name) if subtask is None else subtask.store
        self.executor = host.executor(name)
        self._cost = JobCosts(lambda: self.runner)
        if isinstance(self.executor, SparkExecutor):
            self.executor.progress.cost = lambda: {
                job: cost.seconds for job, cost in self.costs_by_job().items()
            }
        self._absence = Absence(left_out or LeftOut())
        self._left_out = {} if subtask is None else dict(subtask.left_out)
        self.leaves_out = False
        self._writer = threads.serial_executor("checkpoint")
        self._syncs_late = config.fsync == "interval"
        self.checkpoints = Checkpoints(
            self.store,
            config.checkpoint_rows,
            config.checkpoint_ms,
            self._writer,
            host.broker.sync if self._syncs_late else None,
        )
        position = self.checkpoints.position
        self._apart = None if position is None else position.apart
        self.runner = self._open_runner(subtask)
        # Of jobs whose state is with tasks nothing can be kept apart.
        self._with_tasks = self.executor.in_tasks or (
            position is not None and position.tasks is not None
        )
        self.lost_jobs: dict[str, SqlError] = {}
        # By migration: the epoch that restored it, and the offset in the log after that epoch.
        self._migrations: dict[str, tuple[int, int]] = {}
        # What parts send each other would wait at each of them.
        gather_s = config.latency_target_s if subtask is None else 0.0
        self.loop = GraphLoop(self.runner, host.broker, host.on_failure, threads, gather_s)
        self._times = Observed(
            self.loop, lambda: event_times(self.executor), threads.now, EventTimes()
        )
        self._state = Observed(self.loop, self._measure_state, threads.now, Counter[str]())
        self._recover()
        self._rebuilder = Rebuilder(self.executor, host.later, threads)

    def _open_runner(self, subtask: SubtaskContext | None) -> GraphRunner:
        host, config = self._host, self._host.config
        # Subtasks rely on each other's epochs, so these are logged whatever is configured.
        exactly_once = subtask is not None or config.delivery == "exactly-once"
        environment = Environment(
            host.broker,
            host.machine.clock,
            self._writes_as,
            disk=host.machine.disk,
            memory=host.memory_tables,
            callables=host.callables,
            assignment=WHOLE if subtask is None else subtask.assignment,
            once=exactly_once,
            auto_create=config.auto_create,
            openings=host.openings,
            files=config.file_access,
            network=config.network_access,
            secrets=config.secret_values,
            dimensions=config.dimensions,
            any_times=True,
            receivers=host.receivers,
        )
        recovers_from_power_loss = config.fsync != "none"
        storage = GraphStorage(
            self._epoch_log(exactly_once) if subtask is None else subtask.log,
            self.checkpoints,
            DeadLetterSink(
                host.broker,
                self.name,
                lambda: self.runner.jobs,
                0 if self._apart is None else self._apart.letters,
            ),
            self._first_record if recovers_from_power_loss else None,
            host.tasks_folder(self.name).as_uri(),
        )
        options = RunnerOptions(
            lambda owner: host.fails_on_error(owner, self.runner.jobs.get(owner, 0)),
            host.rows_per_epoch(self.name),
            MemoryGuard(self.name, host.memory),
            paced=True,
        )
        writer = self._writes_as
        return GraphRunner(writer, self.executor, environment, storage, options, subtask)

    def _epoch_log(self, exactly_once: bool) -> EpochLog:
        if self._apart is not None:
            return EndedEpochLog(self._host.broker, self._writes_as, self._apart.until)
        return (TopicEpochLog if exactly_once else ChangeLog)(self._host.broker, self.name)

    def _first_record(self) -> int:
        return self._host.broker.begin_offset(EPOCHS, 0)

    # ---- recovery --------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Restores the checkpoint and repeats the epochs since. An internal error, or an executor
        that is not there, leaves the graph broken, but open: it is shown, and other graphs run."""
        try:
            position = self.checkpoints.position
            if position is not None:
                self._restore(position)
            if not self.executor.in_tasks and (position is None or position.tasks is None):
                self._host.forget_tasks(self.name)  # those of a time when they had the state
            # With late syncs a power loss may have taken records whose epoch was logged.
            self.runner.inputs.tolerates_lost_records = self._syncs_late
            repeat_epochs(self.runner, self.prepare_logged_change, self._before)
            # Where epochs are not logged, the one that failed did not come.
            self._take_out(list(self._departures))
            self._absence.require_apart(self.executor.plan)
            if self._apart is not None:
                return
            self._keep_left_out()
            logged = position is None or position.logged
            logged = logged and self.runner.storage.log.keeps_every_epoch
            known = self.runner.outputs.last_known_epoch(self.runner.epoch)
            if self._syncs_late or not logged or known > self.runner.epoch:
                skip_unlogged_epochs(self.runner, logged=logged, known=known)
        except (OperatorFailed, JobsFailed, StepEnded) as error:
            if isinstance(error, SourceAway) and self._with_tasks:
                self.loop.stands(error)
                return
            self._shut()
            if not isinstance(error, StepEnded):
                error.epoch = self.runner.epoch
            error.versions = frozenset(
                (n, v) for n, v in self.runner.jobs.items() if n in error.jobs
            )
            raise
        except ExecutorUnavailable as error:
            self.loop.stands(error)
        except BaseException as error:
            if isinstance(error, SqlError) or not isinstance(error, Exception):
                self._shut()
                raise
            log.exception("graph %s cannot be recovered", self.name)
            self.runner.broken = self.loop.broken = True
            self.loop.problem = f"internal error in the recovery: {error!r}"

    def _before(self, epoch: int) -> None:
        """Takes out the jobs that fail in the epoch that is repeated next."""
        self._absence.require_apart(self.executor.plan)
        self._take_out([d for d in self._departures if d.epoch == epoch])

    def _take_out(self, departures: Iterable[Departure]) -> None:
        for departure in departures:
            self._departures.remove(departure)
            kept = departure.take_out(self.runner, self._host)
            self.kept |= {name: key for name, key in kept.items() if key}
            self._without |= departure.faults
            self.lost_jobs |= {n: e for (n, _), e in departure.faults.items() if n in kept}

    def _keep_left_out(self) -> None:
        """Stores what the jobs had that wait for a source."""
        if self._absence.errors:
            stores, until = self._host.stores, self.runner.epoch
            self.kept |= self._absence.store(stores, self.name, self.store.load(), until)

    def forget_lost_jobs(self) -> None:
        """Writes a checkpoint without the jobs that were not recovered: later recoveries would try
        them again otherwise, also when they have been removed."""
        try:
            self.runner.checkpoint(wait=True)
        except ServiceError as error:  # a full disk: the next checkpoint does it
            log.warning("graph %s writes its checkpoint later: %s", self.name, error)

    def _restore(self, position: CheckpointMetadata) -> None:
        plans = self._plans(position.jobs, position.version)
        graph = merge(
            Graph(position.version - 1), {n: p.sinks for n, p in plans.items()}, position.stateful
        )
        with recovering(self.runner):
            change = self.runner.prepare(graph, {n: position.jobs[n] for n in plans})
        restore(self.runner, position, change)

    def _plans(self, jobs: Mapping[str, int], version: int) -> dict[str, PlannedJob]:
        """Returns the plans of jobs in a version of the graph; those without one are added to
        `lost_jobs`."""
        plans = {}
        faulty = {n: self._without[n, v] for n, v in jobs.items() if (n, v) in self._without}
        asked = {n: self._left_out[n, v] for n, v in jobs.items() if (n, v) in self._left_out}
        left_out = {n: error for n, (until, error) in asked.items() if version <= until}
        self.leaves_out |= bool(left_out)
        faulty |= left_out
        known = jobs if self._apart is None else [n for n in jobs if n in self._apart.names]
        found = self._plan_of({n: jobs[n] for n in known})
        for name in [n for n in known if n in self._absence.errors]:
            plan = found[name]
            self._absence.note(name, jobs[name], plan.sinks if isinstance(plan, PlannedJob) else ())
            faulty[name] = self._absence.errors[name]
        for name, plan in {**found, **faulty}.items():
            self.lost_jobs.pop(name, None)
            if isinstance(plan, PlannedJob):
                plans[name] = plan
            else:
                self.lost_jobs[name] = plan
        return plans

    # ---- changes ---------------------------------------------------------------------------------

    def change(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        renamed: Mapping[str, str],
    ) -> GraphChange:
        """Prepares a change of jobs: those of version 0 are removed, the others are added or
        replaced with their plans."""
        return self.plan_change(graph, plans, jobs, renamed)[0]

    def plan_change(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        renamed: Mapping[str, str],
    ) -> tuple[GraphChange, Takeover]:
        """Prepares a change as `change` does, and also returns what it does to the jobs' state."""
        changes = {n: plans[n].sinks if v else None for n, v in jobs.items()}
        stateful = {new: stateful_nodes(graph, old) for new, old in renamed.items()}
        policies = {
            n: policy_of(plans[n].settings)
            for n, v in jobs.items()
            # What a shadow has is what the live version has, so that they can be compared.
            if v and n not in renamed and not is_shadow(n)
        }
        reset = {n for n, policy in policies.items() if policy is Policy.RESET}
        change = self.runner.prepare(merge(graph, changes, stateful, reset), jobs, renamed)
        try:
            takeover = take_over(graph, change, self.executor, policies)
        except BaseException:
            change.abandon()
            raise
        return (
            replace(change, inherited=takeover.inherited, continued=takeover.continued),
            takeover,
        )

    def prepare_logged_change(self, graph: Graph, change: LoggedChange) -> GraphChange:
        """Prepares a change that a log records, without jobs that cannot be planned any more."""
        self._absence.follow(change)
        plans = self._plans({n: v for n, v in change.jobs.items() if v}, change.version)
        for name in [n for n, v in change.jobs.items() if not v]:
            self.lost_jobs.pop(name, None)
        jobs = {n: v if n in plans else 0 for n, v in change.jobs.items()}
        if change.handover and plans:
            snapshot = self._host.stored_snapshot(change.handover)
            if snapshot is not None:
                return self._prepare_logged_attach(graph, plans, jobs, snapshot, change.handover)
            error = ServiceError(
                f"what it brought to graph '{self.name}' is gone: '{change.handover}'"
            )
            self.lost_jobs |= dict.fromkeys(plans, error)
            jobs, plans = dict.fromkeys(plans, 0), {}
        renamed = {new: old for new, old in change.renamed.items() if new in plans}
        return self.change(graph, plans, jobs, renamed)

    def _prepare_logged_attach(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        snapshot: JobSnapshot,
        migration: str,
    ) -> GraphChange:
        self._remember(migration)
        change = self.runner.prepare(merge(graph, {n: p.sinks for n, p in plans.items()}), jobs)
        times = exchange_times(snapshot, change.graph, change.prepared.operators)
        restored = bind(snapshot, change.graph, self.runner, migration, times)
        return replace(change, restored=restored)

    def switch(self, change: GraphChange, first: Callable[[], None] | None = None) -> None:
        """Applies a prepared change between two epochs, after calling `first` there.

        Abandons the change and raises the error if it cannot be applied."""

        def work() -> None:
            if first is not None:
                first()
            self.runner.apply(change)

        try:
            self.call(work)
        except BaseException:
            if not self.runner.broken:
                change.abandon()
            raise
        # After the switch: a change leaves deltas in the sets of rules.
        self._rebuilder.look()

    # ---- migrations ------------------------------------------------------------------------------

    def check_attachable(self, change: GraphChange, migration: str) -> None:
        """NotAligned if the jobs of a migration cannot be attached between two epochs now."""
        snapshot = self._host.stored_snapshot(migration)
        obstacle = (
            next(obstacles(snapshot, change.graph, self.runner), None)
            if snapshot is not None
            else "it is gone"
        )
        if obstacle is not None:
            raise NotAligned(change.jobs, self.name, obstacle)

    def prepare_attach(
        self, plans: Mapping[str, PlannedJob], jobs: Mapping[str, int]
    ) -> GraphChange:
        """Prepares a change that attaches jobs from another graph, before their snapshot exists."""
        with self.runner.outputs.opener.deferring_opens():
            return self.runner.prepare(
                merge(self.runner.graph, {n: p.sinks for n, p in plans.items()}), jobs
            )

    def attach(self, change: GraphChange, snapshot: JobSnapshot, migration: str) -> None:
        """Applies a change that attaches jobs with their snapshot (graph thread).

        NotAligned if their positions or watermarks differ; the caller must abandon the change."""
        obstacle = next(obstacles(snapshot, change.graph, self.runner), None)
        if obstacle is not None:
            raise NotAligned(snapshot.jobs, self.name, obstacle)
        lookups = restore_file_versions(snapshot, change.sources, self.runner)
        if lookups is None:
            raise NotAligned(
                snapshot.jobs, self.name, "rows are looked up in another version of a file"
            )
        # After all that may refuse: it opens sinks for pending commits.
        restored = bind(snapshot, change.graph, self.runner, migration)
        starts = {**restored.positions, **lookups}
        self.runner.apply(replace(change, restored=restored, starts=starts))
        self._remember(migration)

    def _remember(self, migration: str) -> None:
        self._migrations[migration] = (self.runner.epoch, self.runner.epochs.log_offset)

    def needed_migrations(self) -> set[str]:
        """Returns the names of the stored migrations that a recovery would read again.

        These are later than the last checkpoint. If power may be lost, and the last checkpoints
        with it, all migrations in the epoch log are needed."""
        stored, begin = self.checkpoints.stored_epoch, self._first_record()
        recovers_from_power_loss = self._host.config.fsync != "none"
        return {
            name
            for name, (epoch, offset) in list(self._migrations.items())
            if epoch > stored or (recovers_from_power_loss and offset > begin)
        }

    # ---- what the engine asks --------------------------------------------------------------------

    def counts(self) -> dict[str, JobCounts]:
        """Returns what each job has done in this graph, since the graph was created."""
        return self.runner.pipeline.counter.counts()

    def costs_by_job(self) -> dict[str, JobCost]:
        """Returns what each job has cost since the graph was opened."""
        return self._cost.read()

    def event_times(self) -> EventTimes:
        """Returns watermarks and what waits for them, at most about a second old; older while the
        graph works on one step."""
        return self._times.get()

    def state_by_job(self) -> Mapping[str, int]:
        """See `ManagedGraph`."""
        return self._state.get()

    def _measure_state(self) -> Counter[str]:
        return state_by_job(self.executor, self.runner.graph)

    def why_unsupported(self, plans: Iterable[Sink]) -> str | None:
        """Returns None: every statement can run in this process."""
        return None

    def read_positions(self, scan: str) -> Mapping[str, int] | None:
        """Returns the next offset of a source by shard; None if the graph does not read it."""
        running = self.runner.inputs.running.get(scan)
        return None if running is None else dict(running.positions)

    def has_passed_start(self, scan: Scan, source: Source) -> bool:
        """True if the graph has read past the offsets at which a new job would start; else it does
        not until `release`."""
        if self._has_passed(scan, source):
            return True
        running = self.runner.inputs.running[scan.digest]
        # Versions of a file are every graph's own, and a job that begins at the end of a topic
        # loses nothing to a graph that reads on.
        if running.full_cache is None and _would_miss(scan, source, list(running.positions)):
            self.call(lambda: self.runner.inputs.hold(scan.digest))
        return self._has_passed(scan, source)

    def _has_passed(self, scan: Scan, source: Source) -> bool:
        positions = dict(self.runner.inputs.running[scan.digest].positions)
        return any(positions.values()) and any(
            source.start(shard) < offset for shard, offset in positions.items()
        )

    def release(self) -> None:
        """See `ManagedGraph`."""
        self.runner.inputs.release()

    def call(self, work: Callable[[], T], timeout: float | None = 60) -> T:
        """Runs `work` in the graph's thread between two epochs, as `GraphLoop.call` does.

        If an operator raises in it, its jobs fail, with ExecutionError."""
        try:
            return self.loop.call(work, timeout)
        except OperatorFailed as error:
            self._host.on_failure(error.jobs, str(error))
            raise ExecutionError(str(error)) from error

    # ---- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the running epoch and writes a checkpoint."""
        self._rebuilder.close()
        self.loop.stop()
        try:
            self.runner.checkpoint(wait=True)
        except Busy as error:
            log.warning(
                "graph %s closes without a checkpoint, its last epochs come again: %s",
                self.name,
                error,
            )
        finally:
            self._shut()

    def abandon(self) -> None:
        """Closes the graph without a checkpoint."""
        self._rebuilder.close()
        self.loop.stop()
        # The checkpoint that is being written is refused if the subtask has another owner by now.
        with suppress(ServiceError):
            self._shut()

    def _shut(self) -> None:
        self._host.memory.used.pop(self.name, None)
        self._host.memory.owned.pop(self.name, None)
        self._host.steps.close(self.executor.guard)
        with ExitStack() as stack:
            for close in (self._writer.shutdown, self.checkpoints.close, self.runner.close):
                # Called in reverse: the runner, then the checkpoints, which wait for a write, then
                # its thread.
                stack.callback(close)


def _would_miss(scan: Scan, source: Source, shards: Collection[str]) -> bool:
    """True if a job that starts now would miss records that are read by others from here on: those
    that are there, or where there was none, the first."""
    if not shards or not declared_capabilities(scan.table).reads_topics:
        return True
    starts = {shard: source.start(shard) for shard in shards}
    return any(
        start < (source.end(shard) or 0) or start == (source.first(shard) or 0)
        for shard, start in starts.items()
    )
