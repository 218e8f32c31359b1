"""A running graph with all that belongs to it: executor, runner, checkpoints, thread."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias, TypeVar

from parser.errors import ExecutionError, ServiceError, SqlError
from planner.graph.division import WHOLE
from planner.graph.merge import Graph, merge, stateful_nodes
from planner.graph.takeover import Policy, policy_of
from planner.logical import Scan, Sink
from sqlengine.broker.base import Broker
from sqlengine.config import Config
from sqlengine.connectors.base import NO_CALLABLES, Callables, Environment, Source
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.dead_letters import DeadLetterSink
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epochs import EPOCHS, ChangeLog, EpochLog, LoggedChange, TopicEpochLog
from sqlengine.executors.failures import OperatorFailed
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.memory_limits import MemoryGuard, MemoryLimits
from sqlengine.executors.recovery import recovering, repeat_epochs, restore, skip_unlogged_epochs
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.storage import GraphStorage, RunnerOptions
from sqlengine.executors.subtask import SubtaskContext
from sqlengine.graphs.loop import GraphLoop
from sqlengine.graphs.rebuild import Rebuilder
from sqlengine.graphs.takeover import Takeover, take_over
from sqlengine.jobs.planning import PlannedJob
from sqlengine.machine import Machine
from sqlengine.snapshots.checkpoints import Checkpoints, Position
from sqlengine.snapshots.job_snapshot import JobSnapshot, bind, obstacles, restore_job
from sqlengine.snapshots.rescaling import times_at_ends
from sqlengine.state.stores import CheckpointStores

# job -> version; gives the plans, or why there is none any more
PlanOf = Callable[[Mapping[str, int]], Mapping[str, PlannedJob | SqlError]]
# What is wrong with (job, version)
Faults: TypeAlias = Mapping[tuple[str, int], SqlError]

T = TypeVar("T")
log = logging.getLogger("sqlengine")


@dataclass(frozen=True)
class GraphHost:
    """What all graphs of an engine share. `later` hands work to the thread that makes changes;
    `belongings` gives what a job brought from another graph, by the handover's name."""

    config: Config
    machine: Machine
    broker: Broker
    factory: OperatorFactory
    stores: CheckpointStores
    fails_on_error: Callable[[str, int], bool]  # of a job and its version
    on_failure: Callable[[frozenset[str], str], None]
    later: Callable[..., object]
    memory: MemoryLimits
    belongings: Callable[[str], JobSnapshot | None] = lambda _: None
    callables: Callables = field(default_factory=lambda: NO_CALLABLES)


class NotTogether(ServiceError):
    """Jobs cannot go on in a graph that stands elsewhere than they do."""

    def __init__(self, jobs: Collection[str], graph: str, reason: str) -> None:
        others = f" and {len(jobs) - 1} others" if len(jobs) > 1 else ""
        super().__init__(
            f"job '{next(iter(jobs))}'{others} cannot go on in graph '{graph}' now",
            detail=reason,
            hint="it is tried again by itself, once both stand at the same place",
        )


def open_graph(
    name: str,
    host: GraphHost,
    plan_of: PlanOf,
    without: Faults | None = None,
    portion: SubtaskContext | None = None,
) -> RunningGraph:
    """The graph, recovered: without the jobs whose operators raise when recorded epochs are
    repeated."""
    faults = dict(without or {})
    while True:
        try:
            return RunningGraph(name, host, plan_of, faults, portion)
        except OperatorFailed as error:
            log.exception("graph %s is recovered without the jobs %s", name, sorted(error.jobs))
            faults |= dict.fromkeys(error.versions, ExecutionError(str(error)))


class RunningGraph:
    """One graph. It is recovered when it is made, and runs after `loop.start()`. `lost`: jobs that
    ran and cannot be planned any more, or `without` which it is to be recovered; the others are
    recovered without them. `portion`: it is a part of a divided graph. `divided`: its rows and its
    state are in parts, which are elsewhere."""

    distributed: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        host: GraphHost,
        plan_of: PlanOf,
        without: Faults,
        portion: SubtaskContext | None = None,
    ) -> None:
        self.name = name
        config, threads = host.config, host.machine.threads
        self.executor = EmbeddedExecutor(host.factory)
        self.store = host.stores.open(name) if portion is None else portion.store
        self._writer = threads.line("checkpoint")
        self._syncs_late = config.fsync == "interval"
        once = (
            portion is not None or config.delivery == "exactly-once"
        )  # parts know each other's epochs
        self.checkpoints = Checkpoints(
            self.store,
            config.checkpoint_rows,
            config.checkpoint_ms,
            self._writer,
            host.broker.sync if self._syncs_late else None,
        )
        self.runner = GraphRunner(
            name,
            self.executor,
            Environment(
                host.broker,
                host.machine.clock,
                name,
                disk=host.machine.disk,
                callables=host.callables,
                share=WHOLE if portion is None else portion.share,
                once=once,
            ),
            GraphStorage(
                _log(name, host, once) if portion is None else portion.log,
                self.checkpoints,
                DeadLetterSink(host.broker, name, lambda: self.runner.jobs),
                None if config.fsync == "none" else lambda: host.broker.begin_offset(EPOCHS, 0),
            ),
            RunnerOptions(
                lambda owner: host.fails_on_error(owner, self.runner.jobs.get(owner, 0)),
                config.rows_per_read,
                MemoryGuard(name, host.memory),
            ),
            portion,
        )
        self._host = host
        self._plan_of = plan_of
        self._without = without
        self.lost_jobs: dict[str, SqlError] = {}
        self._handovers: dict[
            str, tuple[int, int]
        ] = {}  # epoch and offset behind it of what took each
        self.loop = GraphLoop(self.runner, host.broker, host.on_failure, threads)
        self._recover()
        self._rebuilder = Rebuilder(self.executor, host.later, threads)

    def _recover(self) -> None:
        try:
            position = self.checkpoints.position
            if position is not None:
                self._restore(position)
            self.runner.inputs.tolerates_lost_records = self._syncs_late
            repeat_epochs(self.runner, self.prepare_logged_change)
            logged = position is None or position.logged
            logged = logged and self.runner.storage.log.keeps_every_epoch
            if self._syncs_late or not logged:
                skip_unlogged_epochs(self.runner, logged=logged)
        except OperatorFailed as error:
            self._shut()
            error.versions = frozenset(
                (n, v) for n, v in self.runner.jobs.items() if n in error.jobs
            )
            raise
        except BaseException as error:
            if isinstance(error, SqlError) or not isinstance(error, Exception):
                self._shut()
                raise
            log.exception("graph %s cannot be recovered", self.name)
            self.runner.broken = self.loop.broken = True
            self.loop.problem = f"internal error in the recovery: {error!r}"

    def _restore(self, position: Position) -> None:
        plans = self._plans(position.jobs)
        graph = merge(
            Graph(position.version - 1), {n: p.sinks for n, p in plans.items()}, position.stateful
        )
        with recovering(self.runner):
            change = self.runner.prepare(graph, {n: position.jobs[n] for n in plans})
        restore(self.runner, position, change)

    def _plans(self, jobs: Mapping[str, int]) -> dict[str, PlannedJob]:
        """Plans of those jobs that can still be planned."""
        plans = {}
        faulty = {n: self._without[n, v] for n, v in jobs.items() if (n, v) in self._without}
        for name, plan in {**self._plan_of(jobs), **faulty}.items():
            self.lost_jobs.pop(name, None)
            if isinstance(plan, PlannedJob):
                plans[name] = plan
            else:
                self.lost_jobs[name] = plan
        return plans

    def change(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        renamed: Mapping[str, str],
    ) -> GraphChange:
        """Makes a change of jobs ready: those of version 0 go, the others come with their plans."""
        return self.plan_change(graph, plans, jobs, renamed)[0]

    def plan_change(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        renamed: Mapping[str, str],
    ) -> tuple[GraphChange, Takeover]:
        """The same, with what it does to the state of the jobs."""
        changes = {n: plans[n].sinks if v else None for n, v in jobs.items()}
        held = {new: stateful_nodes(graph, old) for new, old in renamed.items()}
        policies = {
            n: policy_of(plans[n].settings) for n, v in jobs.items() if v and n not in renamed
        }
        anew = {n for n, policy in policies.items() if policy is Policy.RESET}
        change = self.runner.prepare(merge(graph, changes, held, anew), jobs, renamed)
        try:
            takeover = take_over(graph, change, self.executor, policies)
        except BaseException:
            change.abandon()
            raise
        return replace(change, inherited=takeover.inherited), takeover

    def prepare_logged_change(self, graph: Graph, change: LoggedChange) -> GraphChange:
        """The change that an entry of the log tells of, made ready; without jobs that cannot be
        planned any more."""
        plans = self._plans({n: v for n, v in change.jobs.items() if v})
        for name in [n for n, v in change.jobs.items() if not v]:
            self.lost_jobs.pop(name, None)
        jobs = {n: v if n in plans else 0 for n, v in change.jobs.items()}
        if change.handover and plans:
            belongings = self._host.belongings(change.handover)
            if belongings is not None:
                return self._repeat_taking(graph, plans, jobs, belongings, change.handover)
            gone = ServiceError(
                f"what it brought to graph '{self.name}' is gone: '{change.handover}'"
            )
            self.lost_jobs |= dict.fromkeys(plans, gone)
            jobs, plans = dict.fromkeys(plans, 0), {}
        return self.change(
            graph, plans, jobs, {new: old for new, old in change.renamed.items() if new in plans}
        )

    def _repeat_taking(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        belongings: JobSnapshot,
        handover: str,
    ) -> GraphChange:
        self._remember(handover)
        change = self.runner.prepare(merge(graph, {n: p.sinks for n, p in plans.items()}), jobs)
        ends = times_at_ends(belongings, change.graph, change.prepared.operators)
        return replace(change, restored=bind(belongings, change.graph, self.runner, handover, ends))

    def check_attachable(self, change: GraphChange, handover: str) -> None:
        """NotTogether where the job that brings this does not fit in between two epochs now."""
        belongings = self._host.belongings(handover)
        why_not = (
            next(obstacles(belongings, change.graph, self.runner), None)
            if belongings is not None
            else "it is gone"
        )
        if why_not is not None:
            raise NotTogether(change.jobs, self.name, why_not)

    def prepare_attach(
        self, plans: Mapping[str, PlannedJob], jobs: Mapping[str, int]
    ) -> GraphChange:
        """Makes a change ready that brings jobs from another graph; what they bring is still to
        come."""
        with self.runner.outputs.opener.deferring_opens():
            return self.runner.prepare(
                merge(self.runner.graph, {n: p.sinks for n, p in plans.items()}), jobs
            )

    def attach(self, change: GraphChange, belongings: JobSnapshot, handover: str) -> None:
        """Puts jobs in place that come from another graph (in the graph's thread). NotTogether
        where they do not fit between two epochs; the change is the caller's to abandon."""
        why_not = next(obstacles(belongings, change.graph, self.runner), None)
        if why_not is not None:
            raise NotTogether(belongings.jobs, self.name, why_not)
        restored = bind(belongings, change.graph, self.runner, handover)
        versions = restore_job(belongings, change.sources, self.runner)
        if versions is None:
            raise NotTogether(
                belongings.jobs, self.name, "rows are looked up in another version of a file"
            )
        self.runner.apply(
            replace(change, restored=restored, starts={**restored.positions, **versions})
        )
        self._remember(handover)

    def _remember(self, handover: str) -> None:
        self._handovers[handover] = (self.runner.epoch, self.runner.epochs.log_offset)

    def needed_migrations(self) -> set[str]:
        """The handovers that a recovery would need: those which no checkpoint has passed, and where
        power may be lost, and the last checkpoints with it, those that the log of epochs still
        tells of."""
        stored, begin = self.checkpoints.stored_epoch, self._host.broker.begin_offset(EPOCHS, 0)
        lasting = self._host.config.fsync == "none"
        return {
            name
            for name, (epoch, offset) in list(self._handovers.items())
            if epoch > stored or not (lasting or offset <= begin)
        }

    def switch(self, change: GraphChange, first: Callable[[], None] | None = None) -> None:
        """Puts a prepared change in place between two epochs, and does something `first` there.
        Raises what kept it from that; the change is abandoned then."""

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
        self._rebuilder.look()

    def rows_by_job(self) -> Counter[str]:
        """Rows that each job has given to sinks since the graph was opened."""
        return self.executor.rows_by_job()

    def why_unsupported(self, plans: Iterable[Sink]) -> str | None:
        """Why such statements cannot run in this graph; None where they can."""
        return None

    def read_positions(self, scan: str) -> Mapping[str, int] | None:
        """How far a source is read, by shard; None where the graph does not read it."""
        running = self.runner.inputs.running.get(scan)
        return None if running is None else dict(running.positions)

    def has_passed_start(self, scan: Scan, source: Source) -> bool:
        """Whether it is behind the place where a new job would begin in a source that it reads."""
        positions = dict(self.runner.inputs.running[scan.digest].positions)
        return any(positions.values()) and any(
            source.start(shard) < at for shard, at in positions.items()
        )

    def call(self, work: Callable[[], T], timeout: float | None = 60) -> T:
        """Does it in the graph's thread between two epochs, as `loop.call`. An operator that fails
        costs its jobs."""
        try:
            return self.loop.call(work, timeout)
        except OperatorFailed as error:
            self._host.on_failure(error.jobs, str(error))
            raise ExecutionError(str(error)) from error

    def close(self) -> None:
        """Ends the epoch that runs, writes a checkpoint."""
        self._rebuilder.close()
        self.loop.stop()
        try:
            self.runner.checkpoint(wait=True)
        finally:
            self._shut()

    def abandon(self) -> None:
        """The same without a checkpoint."""
        self._rebuilder.close()
        self.loop.stop()
        with suppress(
            ServiceError
        ):  # of a checkpoint on its way, refused where the part is somebody else's by now
            self._shut()

    def _shut(self) -> None:
        self._host.memory.used.pop(self.name, None)
        with ExitStack() as stack:
            for close in (self._writer.shutdown, self.checkpoints.close, self.runner.close):
                stack.callback(close)


def _log(name: str, host: GraphHost, once: bool) -> EpochLog:
    return TopicEpochLog(host.broker, name) if once else ChangeLog(host.broker, name)
