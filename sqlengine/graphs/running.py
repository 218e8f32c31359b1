"""A graph that runs in this process: its executor, runner, checkpoints and thread."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import ClassVar, TypeVar

from parser.errors import ExecutionError, ServiceError, SqlError
from planner.graph.merge import Graph, merge, stateful_nodes
from planner.graph.takeover import Policy, policy_of
from planner.logical import Scan, Sink
from sqlengine.access.shadow_names import is_shadow
from sqlengine.connectors.base import Busy, Source
from sqlengine.connectors.registry import declared_capabilities
from sqlengine.executors.epochs import LoggedChange
from sqlengine.executors.failures import (
    ExecutorUnavailable,
    JobsFailed,
    OperatorFailed,
    SourceAway,
    StepEnded,
)
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.job_counts import JobCounts
from sqlengine.executors.measures.job_costs import JobCost, JobCosts
from sqlengine.executors.memory_limits import state_by_job
from sqlengine.executors.recovery.repeating import (
    recovering,
    repeat_epochs,
    restore,
    skip_unlogged_epochs,
)
from sqlengine.executors.spark.executor import SparkExecutor
from sqlengine.executors.subtask import SubtaskContext
from sqlengine.graphs.apart import LeftOut
from sqlengine.graphs.arrivals import Arrivals
from sqlengine.graphs.departures import Departure
from sqlengine.graphs.event_times import EventTimes, event_times
from sqlengine.graphs.host import Faults, GraphHost, PlanOf
from sqlengine.graphs.loop import GraphLoop
from sqlengine.graphs.observed import Observed
from sqlengine.graphs.rebuild import Rebuilder
from sqlengine.graphs.recovered_jobs import RecoveredJobs
from sqlengine.graphs.runners import open_checkpoints, open_runner
from sqlengine.graphs.takeover import Takeover, take_over
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.checkpoints import CheckpointMetadata

T = TypeVar("T")
log = logging.getLogger("sqlengine")


class RunningGraph:
    """A graph that runs in this process, or one subtask of a distributed graph (`subtask`).

    It is recovered when it is created, and runs after `loop.start()`. `recovered`: which of its
    jobs were. `arrivals`: takes jobs that come from other graphs."""

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
        self.name = name
        self._host = host
        config, threads = host.config, host.machine.threads
        self.store = host.stores.open(name) if subtask is None else subtask.store
        self.executor = host.executor(name)
        self._cost = JobCosts(lambda: self.runner)
        if isinstance(self.executor, SparkExecutor):
            self.executor.progress.cost = lambda: {
                job: cost.seconds for job, cost in self.costs_by_job().items()
            }
        self._writer = threads.serial_executor("checkpoint")
        self.checkpoints = open_checkpoints(host, self.store, self._writer)
        position = self.checkpoints.position
        self._apart = None if position is None else position.apart
        asked = {} if subtask is None else subtask.left_out
        self.recovered = RecoveredJobs(
            plan_of, without, departures, left_out or LeftOut(), asked, self._apart
        )
        self.runner = open_runner(name, host, self.executor, self.checkpoints, subtask, self._apart)
        self.arrivals = Arrivals(name, host, self.runner, self.checkpoints)
        # Of jobs whose state is with tasks nothing can be kept apart.
        self._with_tasks = self.executor.in_tasks or (
            position is not None and position.tasks is not None
        )
        # What parts send each other would wait at each of them.
        gather_s = config.latency_target_s if subtask is None else 0.0
        self.loop = GraphLoop(self.runner, host.broker, host.on_failure, threads, gather_s)
        self._times = Observed(
            self.loop, lambda: event_times(self.executor), threads.now, EventTimes()
        )
        self._state = Observed(self.loop, self._measure_state, threads.now, Counter[str]())
        self._recover()
        self._rebuilder = Rebuilder(self.executor, host.later, threads)

    @property
    def lost_jobs(self) -> Mapping[str, SqlError]:
        """See `ManagedGraph`."""
        return self.recovered.lost

    # ---- recovery --------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Restores the checkpoint and repeats the epochs since. An internal error, or an executor
        that is not there, leaves the graph broken, but open: it is shown, and other graphs run."""
        try:
            self._repeat()
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

    def _repeat(self) -> None:
        runner, host, position = self.runner, self._host, self.checkpoints.position
        if position is not None:
            self._restore(position)
        if not self._with_tasks:
            host.forget_tasks(self.name)  # those of a time when they had the state
        repeat_epochs(
            runner,
            self.prepare_logged_change,
            lambda epoch: self.recovered.leave_before(epoch, runner, host),
            tolerates_lost=self._host.syncs_late,
        )
        self.recovered.leave_at_end(runner, host)
        if self._apart is not None:
            return
        self.recovered.store_left_out(host, self.name, self.store, runner.epoch)
        logged = position is None or position.logged
        logged = logged and runner.storage.log.keeps_every_epoch
        known = runner.outputs.asked.ask_all(runner.epoch)
        if self._host.syncs_late or not logged or known > runner.epoch:
            skip_unlogged_epochs(runner, logged=logged, known=known)

    def forget_lost_jobs(self) -> None:
        """Writes a checkpoint without the jobs that were not recovered: later recoveries would try
        them again otherwise, also when they have been removed."""
        try:
            self.runner.checkpoint(wait=True)
        except ServiceError as error:  # a full disk: the next checkpoint does it
            log.warning("graph %s writes its checkpoint later: %s", self.name, error)

    def _restore(self, position: CheckpointMetadata) -> None:
        plans = self.recovered.plans(position.jobs, position.version)
        graph = merge(
            Graph(position.version - 1), {n: p.sinks for n, p in plans.items()}, position.stateful
        )
        with recovering(self.runner):
            change = self.runner.prepare(graph, {n: position.jobs[n] for n in plans})
        restore(self.runner, position, change)

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
        plans = self.recovered.plans_of_change(change)
        jobs = {n: v if n in plans else 0 for n, v in change.jobs.items()}
        if change.handover and plans:
            key = change.handover
            snapshot = self._host.stored_snapshot(key)
            if snapshot is not None:
                return self.arrivals.prepare_logged(graph, plans, jobs, snapshot, key)
            error = ServiceError(f"what it brought to graph '{self.name}' is gone: '{key}'")
            self.recovered.lost |= dict.fromkeys(plans, error)
            jobs, plans = dict.fromkeys(plans, 0), {}
        renamed = {new: old for new, old in change.renamed.items() if new in plans}
        return self.change(graph, plans, jobs, renamed)

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

    def needed_migrations(self) -> set[str]:
        """See `ManagedGraph`."""
        return self.arrivals.needed()

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
