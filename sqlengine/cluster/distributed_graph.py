"""A divided graph as the server sees it: a graph like others, whose rows are somewhere else.

The leader plans, merges and compiles each change as any graph does, so that what cannot run is
refused here; it then has the instances prepare it, and writes the switch into the control topic,
which is what counts. It never reads a row: its tables stay empty."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from parser.errors import JobError, ServiceError, SqlError
from planner.graph.division import why_not_divided
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
    Prepare,
    Problem,
    Reports,
    Switch,
)
from sqlengine.cluster.pause_coordinator import PauseCoordinator
from sqlengine.cluster.subtask import in_parts, named_as_written
from sqlengine.cluster.subtask_log import create_subtasks
from sqlengine.cluster.subtask_stores import check_stores, remove_stores
from sqlengine.cluster.worker_reports import WorkerReports
from sqlengine.connectors.base import Source
from sqlengine.connectors.shuffle import shuffle_topic
from sqlengine.executors.epochs import LoggedChange
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.sources import Positions
from sqlengine.graphs.load_monitor import IsolationTrigger
from sqlengine.graphs.loop import GraphLoop
from sqlengine.graphs.running import Faults, GraphHost, NotTogether, PlanOf, RunningGraph
from sqlengine.graphs.takeover import Takeover
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.job_snapshot import JobSnapshot
from sqlengine.snapshots.migrations import MigrationStore
from sqlengine.snapshots.rescaling import merge_snapshots

log = logging.getLogger("sqlengine")

# An instance that lives and does not answer for so long has a change given up.
PATIENCE_S = 300.0
_LOOK_S = 0.05
# So often the leader looks whether all parts are run.
_LOOK_AFTER_S = 1.0


class DistributedGraph(RunningGraph):
    """`parts` is fixed for the life of the graph; its instances are the members of `group`."""

    divided: ClassVar[bool] = True

    def __init__(
        self, name: str, host: GraphHost, plan_of: PlanOf, without: Faults, parts: int
    ) -> None:
        check_stores(host, name, parts)
        self.group = create_subtasks(host.broker, name, parts)
        self.parts = parts
        self.control = ControlLog(host.broker, name)
        self._threads = host.machine.threads
        self.heard = WorkerReports(self._threads.promise)
        self._reports = Reports(host.broker, name)
        self._broker = host.broker
        self._behind = False
        self._written = plan_of
        self.gathering = PauseCoordinator(
            self,
            host.broker,
            lambda: MigrationStore(host.broker, host.machine.clock),
            self._threads.now,
        )
        switches = [entry for _, entry in self.control.read() if isinstance(entry, Switch)]
        self._handovers_of = {e.version: e.handover for e in switches}  # "" for most
        for member in self.members():  # of the server's former life, with which they died
            host.broker.leave(self.group, member)

        def plans(versions: Mapping[str, int]) -> Mapping[str, PlannedJob | SqlError]:
            return {
                n: in_parts(p, parts) if isinstance(p, PlannedJob) else p
                for n, p in plan_of(versions).items()
            }

        super().__init__(name, host, plans, without)
        self.gathering.settle()
        broken, problem = self.loop.broken, self.loop.problem
        self.loop = _Listening(self, host)
        self.loop.broken, self.loop.problem = broken, problem
        if not broken:
            self._catch_up()

    # ---- changes ---------------------------------------------------------------------------------

    def plan_change(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        renamed: Mapping[str, str],
    ) -> tuple[GraphChange, Takeover]:
        """The operations are those of the parts."""
        if self._behind:
            self._catch_up()
            graph = self.runner.graph
        return super().plan_change(
            graph, {n: in_parts(p, self.parts) for n, p in plans.items()}, jobs, renamed
        )

    def switch(self, change: GraphChange, first: Callable[[], None] | None = None) -> None:
        """Has all instances prepare the change, does something `first`, and then makes it. Raises
        what keeps one of them from it; nothing has changed then."""
        self.hand_over(change, "", {}, first)

    def hand_over(
        self,
        change: GraphChange,
        handover: str,
        positions: Positions,
        first: Callable[[], None] | None = None,
    ) -> None:
        """The same; what a job has that comes from another graph is written down under that name,
        and its sources are read up to these positions."""
        version, jobs, renamed = change.graph.version, dict(change.jobs), dict(change.renamed)
        number = self.control.append(Prepare(version, jobs, renamed, handover), self.now())
        try:
            self._agree(number, jobs)
            if first is not None:
                first()
            starts = {
                name: source.begin(positions.get(name, {}))
                for name, source in change.sources.items()
            }
            self.control.append(
                Switch(version, jobs, renamed, starts, handover, change.moved), self.now()
            )
            self._handovers_of[version] = handover
        except BaseException:
            change.abandon()
            with suppress(BrokerError):  # a full disk: the next change takes its place
                self.control.append(Abandon(version), self.now())
            raise
        try:
            super().switch(replace(change, starts=starts))
        except SqlError as error:  # it is made all the same
            log.warning("graph %s writes version %d down later: %s", self.name, version, error)
            self._behind = True

    def _agree(self, number: int, jobs: Collection[str]) -> None:
        """Returns once all members of the group have prepared. One that dies is none any more."""
        deadline = self._threads.now() + PATIENCE_S
        wait = 0.0
        while True:
            answers = self.heard.answers(number, wait)
            for instance, problem in answers.items():
                if problem is not None and problem.passes:
                    raise NotTogether(jobs, self.name, problem.detail or problem.message)
                if problem is not None:
                    raise _refused(instance, problem)
            silent = self.members() - answers.keys()
            if not silent:
                return
            if self._threads.now() > deadline:
                raise ServiceError(
                    f"instance {min(silent)} has not prepared the change for {PATIENCE_S:.0f} s",
                    hint="nothing was changed; 'sql instances' shows what it does",
                )
            wait = _LOOK_S

    def _catch_up(self) -> None:
        """Makes the switches that the control topic tells of and this graph has not made: the
        server died between, or its disk was full."""
        self._behind = False
        for entry in self.control.switches(self.runner.graph.version, sys.maxsize):
            change = self.change_again(
                self.runner.graph,
                LoggedChange(entry.version, entry.jobs, entry.starts, entry.renamed),
            )
            try:
                super().switch(replace(change, starts=entry.starts))
            except BaseException:
                self._behind = True
                raise

    # ---- what jobs have --------------------------------------------------------------------------

    def plan_of(self, job: str) -> PlannedJob:
        """A job that runs, as it is written: without what parts need."""
        plan = self._written({job: self.runner.jobs[job]})[job]
        if isinstance(plan, SqlError):
            raise plan
        return plan

    def has(self, job: str) -> JobSnapshot:
        """What a job has in all parts, at a standstill, as a graph has it that is not divided."""
        return named_as_written(
            merge_snapshots(self.gathering.pieces(job), self.runner.graph),
            self.plan_of(job),
            self.parts,
        )

    def needs(self) -> set[str]:
        """The handovers of changes that are not in the checkpoints of all parts, as far as they
        have told."""
        return {name for name in list(self._handovers_of.values()) if name}

    def forget(self) -> None:
        """Lets go of changes that no part will ask for: they are in the checkpoints of all, and of
        this graph."""
        parts = self.heard.parts()
        if len(parts) < self.parts:
            return
        stored = min(self.checkpoints.stored_version, *(part.stored for part in parts.values()))
        passed = sorted(version for version in list(self._handovers_of) if version <= stored)
        self._handovers_of |= dict.fromkeys(passed, "")
        if len(passed) > 1:
            self.control.forget(
                passed[:-1], self.now()
            )  # with the last one gone nobody would miss any
            for version in passed[:-1]:
                del self._handovers_of[version]

    # ---- what instances tell ---------------------------------------------------------------------

    def owned(self) -> dict[str, tuple[int, ...]]:
        """The instances that live, each with its parts."""
        members = [m for g in self._broker.groups() if g.name == self.group for m in g.members]
        return {m.name: m.shards.get(self.group, ()) for m in members}

    def members(self) -> set[str]:
        """The instances that live."""
        return set(self.owned())

    def trouble(self) -> str | None:
        """Why rows of the graph are not processed, if they are not."""
        owned, latest = self.owned(), self.heard.latest()
        if not owned:
            return f"no instance runs the parts of graph '{self.name}' at the moment"
        return next(
            (p for name in sorted(owned) if name in latest and (p := latest[name].problem)), None
        )

    def expel(self, instance: str) -> None:
        """The instance has died: its parts go to the others."""
        self._broker.leave(self.group, instance)

    def listen(self) -> bool:
        """Takes up what instances have told (in the graph's thread)."""
        told = self._reports.read()
        for entry in told:
            match entry:
                case InstanceReport():
                    self.heard.take(entry)
                case Failed(jobs=jobs, reason=reason):
                    self._host.on_failure(frozenset(jobs) & self.runner.jobs.keys(), reason)
                case Done():
                    self.heard.did(entry)
                case Answer():
                    self.heard.answered(entry)
        if told:
            self._count()
        return bool(told)

    def _count(self) -> None:
        """The graph's progress is that of all instances."""
        totals, progress = self.heard.totals(), self.runner.progress
        progress.rows_in, progress.epochs = totals.rows_in, totals.epochs
        progress.dead_letters, progress.rows_out = totals.dead_letters, totals.sinks
        progress.letters = totals.letters

    def troubles(self) -> list[IsolationTrigger]:
        """Of jobs in the instances that live, as these have told last."""
        owned = self.owned()
        told = (
            t
            for name, report in self.heard.latest().items()
            if name in owned
            for t in report.troubles
        )
        return [t for t in told if t.job in self.runner.jobs]

    def obstacle(self, plans: Iterable[Sink]) -> str | None:
        return next(filter(None, map(why_not_divided, plans)), None)

    def fail(self, reason: str) -> None:
        """Nobody can run the graph: its jobs fail."""
        self._host.on_failure(frozenset(self.runner.jobs), reason)

    def remove(self) -> None:
        """Nothing is left of it, once it is closed and its instances have ended."""
        for topic in (
            self.group,
            self.control.topic,
            self._reports.topic,
            shuffle_topic(self.name),
        ):
            with suppress(TopicNotFound):  # no part was ever opened
                self._broker.delete_topic(topic)
        remove_stores(self._host, self.name, self.parts)

    def read_to(self, scan: str) -> Mapping[str, int] | None:
        """What parts have reported last, which is a second old."""
        running = self.runner.inputs.running.get(scan)
        if running is None:
            return None
        topic = running.scan.table.options["topic"]
        return {
            shard: at
            for part in self.heard.parts().values()
            for shard, at in part.positions.get(topic, {}).items()
        }

    def passed(self, scan: Scan, source: Source) -> bool:
        """Instances read on while a change is made: whoever wants what is there already does not
        join them."""
        return any(source.start(shard) < (source.end(shard) or 0) for shard in source.shards())

    def rows_by_job(self) -> Counter[str]:
        return self.heard.totals().jobs

    def now(self) -> int:
        return self._host.machine.clock()

    def attend(self) -> None:
        """Hears what instances tell where the graph's loop does not run."""
        if not self.loop.running:
            self.listen()


class _Listening(GraphLoop):
    """The loop of a graph that reads no rows: what there is to do is to listen."""

    def __init__(self, graph: DistributedGraph, host: GraphHost) -> None:
        super().__init__(graph.runner, host.broker, host.on_failure, host.machine.threads)
        self._graph = graph
        self._now = host.machine.threads.now
        self._looked = 0.0

    def _step(self) -> bool:
        try:
            self.runner.checkpoint_when_due()
            self._graph.gathering.go_again()
            heard = self._graph.listen()
            if self._now() - self._looked > _LOOK_AFTER_S:
                self._looked = self._now()
                self.problem = self._graph.trouble()
                self._graph.forget()
            return heard
        except ServiceError as error:
            self._pause(str(error), 1.0)
            return False


def _refused(instance: str, problem: Problem) -> JobError:
    return JobError(
        problem.message,
        detail=problem.detail or f"instance {instance} cannot run it",
        hint=problem.hint,
    )
