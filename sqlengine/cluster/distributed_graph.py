"""The leader of a distributed graph: its subtasks process the rows in other processes.

The leader plans, merges and compiles each change as any graph does, so that a change that cannot
run is refused here. It then has all instances prepare the change, and appends the switch to the
control log, which is the commit point. The leader never reads a row: its tables stay empty.

People know a subtask as a part of the graph (`--parts`); options, topics, metrics and messages
keep that word."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar, TypeVar

from parser.errors import ServiceError, SqlError
from planner.graph.distribution import why_not_distributed
from planner.graph.merge import Graph
from planner.logical import Scan, Sink
from sqlengine.broker.errors import BrokerError, TopicNotFound
from sqlengine.cluster.control_log import (
    Abandon,
    Answer,
    ControlLog,
    Done,
    Failed,
    InstanceReport,
    LongSteps,
    Prepare,
    ReportTopic,
    Switch,
)
from sqlengine.cluster.left_out import LeftOut
from sqlengine.cluster.made_switches import MadeSwitches
from sqlengine.cluster.pause_coordinator import PauseCoordinator
from sqlengine.cluster.prepare_barrier import PrepareBarrier
from sqlengine.cluster.subtask import to_logical_names, with_local_aggregates
from sqlengine.cluster.subtask_log import create_subtasks
from sqlengine.cluster.subtask_stores import check_stores, remove_stores
from sqlengine.cluster.worker_reports import WorkerReports
from sqlengine.connectors.base import Source
from sqlengine.connectors.registry import declared_capabilities
from sqlengine.connectors.shuffle import shuffle_topic
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epochs import LoggedChange
from sqlengine.executors.failures import GraphBroken
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.job_counts import JobCounts
from sqlengine.executors.measures.job_costs import JobCost
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.sources import Positions
from sqlengine.executors.steps.guard import StepView
from sqlengine.graphs.event_times import EventTimes, merge_event_times
from sqlengine.graphs.host import Faults, GraphHost, PlanOf
from sqlengine.graphs.load_monitor import IsolationTrigger
from sqlengine.graphs.loop import GraphLoop
from sqlengine.graphs.running import RunningGraph
from sqlengine.graphs.takeover import Takeover
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.checkpoints import Checkpoints
from sqlengine.snapshots.job_snapshot import JobSnapshot
from sqlengine.snapshots.migrations import MigrationStore
from sqlengine.snapshots.rescaling import merge_snapshots

T = TypeVar("T")
log = logging.getLogger("sqlengine")

# How often the leader checks that all subtasks are owned by an instance.
_HEALTH_INTERVAL_S = 1.0


class DistributedGraph:
    """A graph of `parallelism` subtasks, which is fixed for the life of the graph.

    Its instances are the members of `group`. `_replica` has the same jobs as the subtasks and
    takes no rows: it compiles changes and keeps the leader's log and checkpoint.
    """

    distributed: ClassVar[bool] = True

    def __init__(
        self, name: str, host: GraphHost, plan_of: PlanOf, without: Faults, parallelism: int
    ) -> None:
        # The operators of parts are those of the embedded executor, whatever the server's target.
        host = replace(host, config=replace(host.config, target="embedded"))
        self.name = name
        check_stores(host, name, parallelism)
        self.group = create_subtasks(host.broker, name, parallelism)
        self.parallelism = parallelism
        self.control = ControlLog(host.broker, name)
        self._host, self._broker, self._threads = host, host.broker, host.machine.threads
        self.worker_reports = WorkerReports(self._threads.future)
        self._barrier = PrepareBarrier(name, self.worker_reports, self.members, self._threads.now)
        self._reports = ReportTopic(host.broker, name)
        self._lags_control_log = False
        self._logical_plan_of = plan_of
        self.pauses = PauseCoordinator(
            self,
            host.broker,
            lambda: MigrationStore(host.broker, host.machine.clock),
            self._threads.now,
        )
        entries = [entry for _, entry in self.control.read()]
        self._left_out = LeftOut(self.control)
        self._left_out.recover(entries)
        self._switches = MadeSwitches(self.control, entries)
        for member in self.members():  # they died with the previous server process
            host.broker.leave(self.group, member)
        self._replica = RunningGraph(name, host, self._distributed_plans, without)
        self._replica.runner.writes = False
        self.pauses.resume_after_restart()
        self.loop: GraphLoop = _LeaderLoop(self, self._replica.loop, host)
        self._replica.loop = self.loop
        if not self.loop.broken:
            self._catch_up()

    def _distributed_plans(
        self, versions: Mapping[str, int]
    ) -> Mapping[str, PlannedJob | SqlError]:
        return {
            name: with_local_aggregates(plan, self.parallelism)
            if isinstance(plan, PlannedJob)
            else plan
            for name, plan in self._logical_plan_of(versions).items()
        }

    @property
    def executor(self) -> EmbeddedExecutor:
        """The compiled operators, which process no rows here."""
        return self._replica.executor

    @property
    def runner(self) -> GraphRunner:
        """The jobs and the plan of the leader's version of the graph."""
        return self._replica.runner

    @property
    def checkpoints(self) -> Checkpoints:
        """The leader's checkpoints: the jobs and the version, without rows."""
        return self._replica.checkpoints

    @property
    def lost_jobs(self) -> Mapping[str, SqlError]:
        """The jobs that could not be recovered, with the reason."""
        return self._replica.lost_jobs

    def call(self, work: Callable[[], T], timeout: float | None = 60) -> T:
        """Runs `work` in the leader's thread (`timeout` in s)."""
        return self._replica.call(work, timeout)

    def close(self) -> None:
        """Stops the leader's loop and writes its checkpoint. Instances are stopped elsewhere."""
        self._replica.close()

    # ---- changes ---------------------------------------------------------------------------------

    def change(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        renamed: Mapping[str, str],
    ) -> GraphChange:
        """Prepares a change of jobs in the leader."""
        return self.plan_change(graph, plans, jobs, renamed)[0]

    def plan_change(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        renamed: Mapping[str, str],
    ) -> tuple[GraphChange, Takeover]:
        """Prepares a change with the operations that the subtasks run, and reports on its state."""
        # A change must be planned on the version that the instances run.
        if self._lags_control_log:
            self._catch_up()
            graph = self.runner.graph
        distributed = {n: with_local_aggregates(p, self.parallelism) for n, p in plans.items()}
        return self._replica.plan_change(graph, distributed, jobs, renamed)

    def switch(self, change: GraphChange, first: Callable[[], None] | None = None) -> None:
        """Prepares the change in all instances, calls `first`, and then commits it.

        Raises the error of an instance that cannot prepare it; nothing has changed then."""
        self.switch_with_migration(change, "", {}, first)

    def switch_with_migration(
        self,
        change: GraphChange,
        migration: str,
        positions: Positions,
        first: Callable[[], None] | None = None,
    ) -> None:
        """Switches as `switch` does, with a job that comes from another graph.

        The job's snapshot is stored under the name `migration`, and its sources are read up to
        `positions`."""
        version, jobs, renamed = change.graph.version, dict(change.jobs), dict(change.renamed)
        number = self.control.append(Prepare(version, jobs, renamed, migration), self.now())
        try:
            # Nothing is committed yet: an error of any instance, or of `first`, abandons the change
            # everywhere.
            self._barrier.wait(number, jobs)
            self._check_whole(jobs)
            if first is not None:
                first()
            starts = {
                name: source.begin(positions.get(name, {}))
                for name, source in change.sources.items()
            }
            switch = Switch(version, jobs, renamed, starts, migration, change.moved)
            self.control.append(switch, self.now())  # the commit point
            self._switches.add(version, migration)
            self._left_out.switched(version, jobs)
        except BaseException:
            change.abandon()
            with suppress(BrokerError):  # a full disk: the next change replaces this one
                self.control.append(Abandon(version), self.now())
            raise
        try:
            self._replica.switch(replace(change, starts=starts))
        except SqlError as error:  # the instances have switched all the same
            log.warning("graph %s writes version %d down later: %s", self.name, version, error)
            self._lags_control_log = True

    def _check_whole(self, jobs: Mapping[str, int]) -> None:
        """GraphBroken if a job gets another version that parts have lost what it had: it has to
        leave the graph first, which the handler of failures sees to."""
        lost = {n for n, v in jobs.items() if v and n in self.runner.jobs and self.left_out(n)}
        for name in sorted(lost):
            self._host.on_failure(frozenset({name}), self.left_out(name) or "")
        if lost:
            raise GraphBroken(self.name)

    def left_out(self, job: str) -> str | None:
        """Returns why parts have lost what a job of the graph had: its step was ended. None if they
        have it."""
        return self._left_out.why(job)

    def _catch_up(self) -> None:
        """Applies the switches of the control log that the leader has not applied: the server died
        between the two, or its disk was full."""
        self._lags_control_log = False
        for entry in self.control.switches(self.runner.graph.version, sys.maxsize):
            logged = LoggedChange(entry.version, entry.jobs, entry.starts, entry.renamed)
            change = self._replica.prepare_logged_change(self.runner.graph, logged)
            try:
                self._replica.switch(replace(change, starts=entry.starts))
            except BaseException:
                self._lags_control_log = True
                raise

    # ---- snapshots and migrations ----------------------------------------------------------------

    def plan_of(self, job: str) -> PlannedJob:
        """Returns the plan of a running job as written, before it is distributed."""
        plan = self._logical_plan_of({job: self.runner.jobs[job]})[job]
        if isinstance(plan, SqlError):
            raise plan
        return plan

    def snapshot(self, job: str) -> JobSnapshot:
        """Returns the job's snapshot, merged over all subtasks, which must be quiesced."""
        merged = merge_snapshots(self.pauses.collect_snapshots(job), self.runner.graph)
        return to_logical_names(merged, self.plan_of(job), self.parallelism)

    def needed_migrations(self) -> set[str]:
        """Returns the migrations that are not in the checkpoints of all subtasks, as far as these
        have reported."""
        return self._switches.needed_migrations()

    def forget_switches(self) -> None:
        """Deletes switches that no subtask will replay: the checkpoints of all subtasks and of the
        leader are past them."""
        subtasks = self.worker_reports.subtasks()
        # A subtask that has not reported may still need every switch.
        if len(subtasks) < self.parallelism:
            return
        stored = min(
            self.checkpoints.stored_version,
            *(report.stored_version for report in subtasks.values()),
        )
        self._left_out.forget(stored, dict(self.runner.jobs), self.now())
        self._switches.forget(stored, self.now())

    # ---- instances -------------------------------------------------------------------------------

    def owned(self) -> dict[str, tuple[int, ...]]:
        """Returns the living instances, each with the numbers of its subtasks."""
        members = [m for g in self._broker.groups() if g.name == self.group for m in g.members]
        return {m.name: m.shards.get(self.group, ()) for m in members}

    def members(self) -> set[str]:
        """Returns the living instances."""
        return set(self.owned())

    def problem(self) -> str | None:
        """Returns why rows of the graph are not processed; None if they are."""
        owned, latest = self.owned(), self.worker_reports.latest()
        if not owned:
            return f"no instance runs the parts of graph '{self.name}' at the moment"
        return next(
            (p for name in sorted(owned) if name in latest and (p := latest[name].problem)), None
        )

    def expel(self, instance: str) -> None:
        """Removes a dead instance from the group: its subtasks go to the others."""
        self._broker.leave(self.group, instance)

    def process_reports(self) -> bool:
        """Processes new reports of instances (graph thread). True if there were any."""
        reports = self._reports.read()
        for report in reports:
            match report:
                case InstanceReport():
                    self.worker_reports.record_report(report)
                case LongSteps():
                    self.worker_reports.record_long_steps(report)
                case Failed(jobs=jobs, reason=reason, lasting=lasting):
                    present = frozenset(jobs) & self.runner.jobs.keys()
                    if report.ended:
                        self._end_steps(present, reason)
                    self._host.on_failure(present, reason, lasting=lasting)
                case Done():
                    self.worker_reports.record_done(report)
                case Answer():
                    self.worker_reports.record_ack(report)
        if reports:
            self._update_progress()
        return bool(reports)

    def _update_progress(self) -> None:
        totals, progress = self.worker_reports.totals(), self.runner.progress
        progress.rows_in, progress.epochs = totals.rows_in, totals.epochs
        progress.dead_letters, progress.rows_out = totals.dead_letters, totals.sinks
        progress.letters = totals.letters

    def long_steps(self) -> list[StepView]:
        """Returns the long steps that parts of the graph are in, the longest first, as reported at
        most about a second ago."""
        return [
            StepView(
                self.name, s.number, s.seconds, s.activity, frozenset(s.jobs), s.rows, part=s.part
            )
            for s in self.worker_reports.long_steps(self.members())
        ]

    def end_steps(self) -> None:
        """Has the instances end the long steps of jobs that leave (graph thread)."""
        steps = self._host.steps
        for step in self.long_steps() if steps.any_leaving else ():
            ended = steps.ended(step)
            if ended is not None:
                self._end_steps(ended.jobs, str(ended))

    def _end_steps(self, jobs: Iterable[str], reason: str) -> None:
        present = {n: v for n, v in self.runner.jobs.items() if n in jobs}
        for name, version in present.items():
            self._left_out.end(name, version, self.runner.graph.version, reason, self.now())

    def poll_reports(self) -> None:
        """Processes reports if the graph's loop, which does so otherwise, is not running."""
        if not self.loop.running:
            self.process_reports()

    def isolation_triggers(self) -> list[IsolationTrigger]:
        """Returns the triggers in the last reports of the living instances."""
        owned = self.owned()
        triggers = (
            trigger
            for name, report in self.worker_reports.latest().items()
            if name in owned
            for trigger in report.triggers
        )
        return [trigger for trigger in triggers if trigger.job in self.runner.jobs]

    def fail_jobs(self, reason: str) -> None:
        """Fails all jobs of the graph, which no instance can run."""
        self._host.on_failure(frozenset(self.runner.jobs), reason)

    def remove(self) -> None:
        """Deletes topics and checkpoints of the graph, once it and its instances are closed."""
        for topic in (
            self.group,
            self.control.topic,
            self._reports.topic,
            shuffle_topic(self.name),
        ):
            with suppress(TopicNotFound):  # no subtask was ever opened
                self._broker.delete_topic(topic)
        remove_stores(self._host, self.name, self.parallelism)

    # ---- what the engine asks --------------------------------------------------------------------

    def event_times(self) -> EventTimes:
        """Returns watermarks and what waits for them, by the last reports of all subtasks."""
        return merge_event_times(r.times for r in self.worker_reports.subtasks().values())

    def why_unsupported(self, plans: Iterable[Sink]) -> str | None:
        """Returns why the statements cannot run in subtasks; None if they can."""
        reasons = (why_not_distributed(plan, declared_capabilities) for plan in plans)
        return next(filter(None, reasons), None)

    def read_positions(self, scan: str) -> Mapping[str, int] | None:
        """Returns the offsets in the last reports, at most about a second old."""
        running = self.runner.inputs.running.get(scan)
        if running is None:
            return None
        topic = running.scan.table.options["topic"]
        return {
            shard: at
            for report in self.worker_reports.subtasks().values()
            for shard, at in report.positions.get(topic, {}).items()
        }

    def has_passed_start(self, scan: Scan, source: Source) -> bool:
        """True if the source has records at all: subtasks read on while a change is prepared, so a
        job that asks for records which are there already cannot join them."""
        return any(source.start(shard) < (source.end(shard) or 0) for shard in source.shards())

    def release(self) -> None:
        """See `ManagedGraph`: nothing is held."""

    def counts(self) -> dict[str, JobCounts]:
        """Returns what each job has done in all subtasks, by their last reports."""
        return self.worker_reports.counts()

    def costs_by_job(self) -> dict[str, JobCost]:
        """See `ManagedGraph`: parts do not tell."""
        return {}

    def state_by_job(self) -> dict[str, int]:
        """See `ManagedGraph`: parts do not tell."""
        return {}

    def now(self) -> int:
        """Returns the machine's time in ms."""
        return self._host.machine.clock()


class _LeaderLoop(GraphLoop):
    """The loop of a graph that reads no rows: each step processes the reports of instances."""

    def __init__(self, graph: DistributedGraph, recovered: GraphLoop, host: GraphHost) -> None:
        super().__init__(graph.runner, host.broker, host.on_failure, host.machine.threads)
        self.broken, self.problem = recovered.broken, recovered.problem
        self._graph = graph
        self._now = host.machine.threads.now
        self._checked_at = 0.0

    def _step(self) -> bool:
        try:
            self.runner.checkpoint_when_due()
            self._graph.pauses.retry_resume()
            self._graph.end_steps()
            busy = self._graph.process_reports()
            if self._now() - self._checked_at > _HEALTH_INTERVAL_S:
                self._checked_at = self._now()
                self.problem = self._graph.problem()
                self._graph.forget_switches()
            return busy
        except ServiceError as error:
            self._pause(str(error), 1.0)
            return False
