"""An instance of a distributed graph: runs its subtasks, follows the control log, and reports."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from parser.errors import SqlError
from sqlengine.broker.errors import BrokerError, BrokerUnreachable, Fenced
from sqlengine.broker.ownership import Fence
from sqlengine.broker.remote.client import RemoteBroker, Transport
from sqlengine.broker.remote.read_ahead import ReadAheadBroker
from sqlengine.cluster.control_follower import ControlLogFollower
from sqlengine.cluster.control_log import (
    Answer,
    ControlLog,
    Done,
    Failed,
    Report,
    ReportTopic,
    SubtaskReport,
)
from sqlengine.cluster.counters import Counters, subtask_report
from sqlengine.cluster.load_reports import LoadReports
from sqlengine.cluster.membership import GroupMembership
from sqlengine.cluster.owned_subtasks import OwnedSubtasks
from sqlengine.cluster.pause_handler import PauseHandler
from sqlengine.cluster.step_watch import EndedJobs, StepWatch
from sqlengine.cluster.subtask import Subtask, open_subtask
from sqlengine.cluster.subtask_log import subtask_log_topic
from sqlengine.config import Config
from sqlengine.connectors.boundary.openings import Openings
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.failures import SourceAway, StepFailed
from sqlengine.executors.steps.guard import StepGuard
from sqlengine.functions.pool import POOL
from sqlengine.graphs.host import GraphHost
from sqlengine.graphs.load_monitor import IsolationTrigger
from sqlengine.jobs.planning import PlannedJob
from sqlengine.machine import Machine
from sqlengine.registry import Registry
from sqlengine.snapshots.migrations import MigrationStore
from sqlengine.state.stores import CheckpointStores
from sqlengine.system.spawning import Place

log = logging.getLogger("sqlengine")

# How long an idle instance waits before it checks for changes and subtasks; data wakes it at once.
IDLE_S = 0.1
# After a turn with fewer rows than FEW_ROWS the next turn begins no sooner than this: most of its
# cost is per epoch, not per row.
MIN_TURN_S, FEW_ROWS = 0.04, 4096
# Interval of reports while there is something new to report, and while there is not.
REPORT_S, IDLE_REPORT_S = 1.0, 10.0
# Seconds that a running step has to end when the instance must stop.
STOP_GRACE_S = 2.0

# The part of a periodic report that tells whether there is anything new in it.
_Reported = tuple[Counters, Mapping[int, SubtaskReport], str | None, list[IsolationTrigger]]


class Instance:
    """One process of a distributed graph; joins its group when it is created.

    The stream and the subtasks belong to the thread that calls `run`. Changes are prepared in a
    second thread, and a third one sends heartbeats."""

    def __init__(
        self,
        place: Place,
        server: Transport,
        config: Config,
        machine: Machine,
        factory: OperatorFactory,
        stores: CheckpointStores,
        on_stuck: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_stuck` is called when an operator does not come back from a call: the process has to
        end, and others repeat its steps without the job."""
        self.place = place
        self._ends = EndedJobs()
        broker, self._broker = RemoteBroker(server), ReadAheadBroker(server)
        self._clock, self._now, self._usage = machine.clock, machine.threads.now, machine.usage
        self._registry = Registry(broker, config, machine)
        self._report_topic = ReportTopic(broker, place.graph)
        self._executor = machine.threads.serial_executor("changes")
        snapshots = MigrationStore(broker, machine.clock, sync=config.fsync == "interval")
        self._openings = Openings(machine.threads.lanes(), config.connector_timeout_s)
        self._host = GraphHost(
            config,
            machine,
            self._broker,
            factory,
            stores,
            self._registry.policies.fails_on_error,
            self._on_failure,
            self._executor.submit,
            self._registry.memory,
            self._registry.steps,
            snapshots.get,
            openings=self._openings,
        )
        self._plan_cache: dict[str, tuple[int, PlannedJob]] = {}
        self._failures: dict[frozenset[str], float] = {}  # when each was reported last
        self._unsent: deque[tuple[Answer | Done, Fence | None]] = deque()
        self._began, self._checked_at = machine.clock(), self._now()
        self._last_report: _Reported | None = None
        self._reported_at = 0.0
        self._load = LoadReports(
            lambda name: (self._plan_cache[name][0], self._plan_cache[name][1].settings),
            machine.threads.now,
        )
        self._pauses = PauseHandler(place.name, snapshots, self._publish)
        self._follower = ControlLogFollower(
            place.name,
            ControlLog(self._broker, place.graph),
            self._executor,
            self._registry.log.refresh,
            self._publish,
            self._pauses,
            self._ends,
        )
        self._watch = StepWatch(
            place,
            os.getpid(),
            ControlLog(broker, place.graph),
            self._registry.steps,
            self._ends,
            self._publish,
        )
        group = subtask_log_topic(place.graph)
        self._parallelism = broker.topic(group).shards
        self._member = GroupMembership(
            broker, group, place.name, group, place.session_ms, machine.threads
        )
        self._owned = OwnedSubtasks(
            place.name, place.graph, self._member, self._open, machine.threads.now
        )
        self._threads, self._on_stuck = machine.threads, on_stuck
        self._registry.steps.start(machine.threads, self._give_up)
        self._watch.start(machine.threads)
        # Last: an instance that fails above has not joined.
        POOL.join(self, self._on_broken_function)

    def run(self, stopping: Callable[[], bool]) -> None:
        """Runs until `stopping` returns True, then closes. BrokerUnreachable if the server is
        gone."""
        busy = True
        while not stopping():
            has_data = self._broker.prefetch(0.0 if busy else IDLE_S)
            began, rows = time.monotonic(), self._rows_in()
            busy = self.turn()
            # Waiting collects more rows for the next epoch; an idle instance has waited in
            # `prefetch`.
            if (has_data or busy) and self._rows_in() - rows < FEW_ROWS:
                time.sleep(max(0.0, began + MIN_TURN_S - time.monotonic()))
        self.close()

    def stop_soon(self) -> None:
        """Ends a step that runs on although the instance must stop: the next owner of the subtask
        repeats it. Any thread."""
        self._threads.later(STOP_GRACE_S, self._registry.steps.stop)

    def turn(self) -> bool:
        """Rebalances, handles control entries, and runs an epoch of each subtask. False if there
        was nothing to do."""
        # In this order: subtasks that were lost must not act on control entries any more.
        self._owned.rebalance()
        self._follower.poll(self._owned.subtasks)
        self._owned.reopen_outdated(self._follower.version)
        busy = self._owned.step()
        self._pauses.report(self._owned.subtasks)
        if self._now() - self._checked_at >= REPORT_S:
            self._retry_unsent()
            self._report()
        return busy

    @property
    def subtasks(self) -> Mapping[int, Subtask]:
        """The subtasks that run here, by number."""
        return self._owned.subtasks

    @property
    def version(self) -> int:
        """The version of the graph, as far as the control log was read here."""
        return self._follower.version

    def close(self) -> None:
        """Closes all subtasks with checkpoints, and leaves the group."""
        # Its sources and sinks are open; nobody will apply it here.
        self._follower.abandon_pending()
        for index in list(self._owned.owned):
            self._owned.close(index, "the instance stops")
        self._openings.stop()
        self._executor.shutdown(wait=True)
        self._watch.stop()
        self._registry.steps.close_watch()
        self._report()
        self._member.leave()
        POOL.leave(self)

    def _open(self, index: int, fence: Callable[[], Fence]) -> Subtask:
        """Opens a subtask, with all switches that the others have made."""
        self._broker.discard()  # others may have written to its log since
        try:
            subtask = self._recovered(index, fence, self._ends.left_out())
        except SourceAway as away:
            # Nobody wants the rows of a job that was removed meanwhile.
            removed = self._follower.removed(away)
            if not removed:
                raise
            subtask = self._recovered(index, fence, {**self._ends.left_out(), **removed})
        try:
            self._follower.catch_up(subtask)
        except BaseException:
            subtask.abandon()
            raise
        # Other parts still run jobs that were lost here: they fail as a whole.
        for job, error in subtask.graph.lost_jobs.items():
            self._on_failure(frozenset({job}), str(error), lasting=True)
        return subtask

    def _recovered(
        self,
        index: int,
        fence: Callable[[], Fence],
        left_out: Mapping[tuple[str, int], tuple[int, SqlError]],
    ) -> Subtask:
        return open_subtask(
            self.place.graph,
            index,
            self._parallelism,
            self._host,
            self._plans,
            fence,
            left_out=left_out,
        )

    def _plans(self, jobs: Mapping[str, int]) -> dict[str, PlannedJob | SqlError]:
        """Returns the plans of job versions, cached: each subtask asks for the same ones."""
        cache = self._plan_cache
        # By version: a replaced job is planned again.
        cached = {n: cache[n][1] for n, v in jobs.items() if n in cache and cache[n][0] == v}
        planned = self._registry.plans_of({n: v for n, v in jobs.items() if n not in cached})
        cache |= {n: (jobs[n], plan) for n, plan in planned.items() if isinstance(plan, PlannedJob)}
        return planned | cached

    def _rows_in(self) -> int:
        return sum(s.runner.progress.rows_in for s in self._owned.subtasks.values())

    # ---- reports ---------------------------------------------------------------------------------

    def _publish(self, report: Report, fence: Fence | None = None) -> None:
        """Publishes a report. On a full disk it is dropped, but what the leader waits for is kept
        and sent later."""
        try:
            self._report_topic.publish(report, self._clock(), fence)
        except BrokerUnreachable:
            raise
        except Fenced as error:
            log.info("instance %s does not report on a part: %s", self.place.name, error)
        except BrokerError as error:
            log.warning("instance %s cannot report to the server: %s", self.place.name, error)
            if isinstance(report, Answer | Done):
                self._unsent.append((report, fence))

    def _retry_unsent(self) -> None:
        # As many as there are now: what fails again is appended behind them.
        for _ in range(len(self._unsent)):
            self._publish(*self._unsent.popleft())

    def _report(self) -> None:
        """Publishes the periodic report, if it says anything new or the last one is old."""
        now = self._checked_at = self._now()
        subtasks = {index: subtask_report(s) for index, s in self._owned.subtasks.items()}
        counters = self._owned.closed_counters.plus(self._owned.subtasks.values())
        problem, triggers = self._owned.problem, self._load.triggers(self._owned.subtasks)
        report = (counters, subtasks, problem, triggers)
        if report != self._last_report or now - self._reported_at >= IDLE_REPORT_S:
            self._last_report, self._reported_at = report, now
            self._publish(
                counters.report(
                    self.place.name,
                    self._began,
                    self._clock(),
                    subtasks,
                    self._usage(),
                    problem,
                    triggers,
                )
            )

    def _on_failure(self, jobs: frozenset[str], reason: str, *, lasting: bool = False) -> None:
        """Reports jobs that fail, at most once per REPORT_S, until they are gone."""
        now = self._now()
        jobs -= self._ends.known(reason)  # the leader knows
        if jobs - {""} and now - self._failures.get(jobs, -REPORT_S) >= REPORT_S:
            self._failures[jobs] = now
            failures = [guard.failure for guard in self._registry.steps.guards()]
            ended = any(isinstance(f, StepFailed) and f.jobs == jobs for f in failures)
            self._publish(Failed(self.place.name, sorted(jobs), reason, lasting, ended))

    def _give_up(self, guard: StepGuard, failure: Exception) -> None:
        """Reports the jobs of a step that cannot be ended. Called by the thread that watches."""
        if isinstance(failure, StepFailed):
            with suppress(BrokerUnreachable):
                jobs = sorted(failure.jobs)
                self._publish(Failed(self.place.name, jobs, str(failure), lasting=True, ended=True))
        self._on_stuck()

    def _on_broken_function(self, identity: str, reason: str) -> None:
        """Reports the jobs that call a user's function which was disabled. Called by any thread
        that evaluates it."""
        graphs = [subtask.runner.graph for subtask in self._owned.subtasks.values()]
        nodes = (node for graph in graphs for node in graph.nodes.values())
        callers = frozenset(
            job for node in nodes if identity in node.plan.functions for job in node.jobs
        )
        self._on_failure(callers, reason)
