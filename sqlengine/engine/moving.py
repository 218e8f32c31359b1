"""Takes a job from one graph to another, with its state, between an epoch of the one and an epoch of the other.

    hold both -> read to the same place -> write down what the job has -> it leaves the one -> it comes to the other

What the job has is on disk before it leaves, and the move stands in the job log until it has come: after a crash it is
either still where it was, or goes on with what was written down. Into a graph of its own it can always go."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from parser.errors import JobError, ServiceError, SqlError, TryAgain
from sqlengine.engine.fleet import Fleet
from sqlengine.engine.moving_parts import EPOCHS, NEAR, Leaving, into_parts, out_of_parts
from sqlengine.executors.belongings import Belongings, capture, common_positions, obstacles
from sqlengine.executors.changes import GraphChange
from sqlengine.executors.recovery import recovering
from sqlengine.executors.sources import Positions, RunningSource
from sqlengine.graphs.handovers import Handovers
from sqlengine.graphs.running import NotTogether, RunningGraph
from sqlengine.instances.leader import DividedGraph
from sqlengine.jobs.isolation_settings import group_of
from sqlengine.jobs.log import Cause, Job, PendingChange
from sqlengine.jobs.planning import PlannedJob
from sqlengine.registry import Registry

log = logging.getLogger("sqlengine")

# So many bytes of a file may be between the two.
_NEAR_BYTES = 1 << 20
# How long the graph that the job comes to waits for the other one's epoch to end.
_PATIENCE_S = 1.0


@dataclass(frozen=True)
class _Move:
    """One move on its way: both graphs, and the change of each."""

    job: str
    source: RunningGraph
    target: RunningGraph
    leaving: GraphChange
    coming: GraphChange
    handover: str


class Moves:
    """Moves the jobs of one engine. All methods are called from the thread that makes changes."""

    def __init__(self, registry: Registry, fleet: Fleet, handovers: Handovers) -> None:
        self._registry = registry
        self._fleet = fleet
        self._handovers = handovers

    def to_own(self, job: Job, cause: Cause, reason: str | None) -> None:
        """Into a graph of its own. SqlError where it stays where it is."""
        self._move(job, self._fleet.graph(self._own(job)), cause, reason, None)

    def to_home(self, job: Job) -> None:
        """Into the graph that the job shares with others. NotTogether where the two do not stand near enough to each other:
        nothing has changed."""
        if self._fleet.of(job.name).divided:  # it goes on from there once it has left the parts
            self.to_own(job, Cause.NONE, "it leaves its parts for others")
            return
        home = self._fleet.home(job)
        group = group_of(home.name)
        cause = Cause.NONE if group is None else Cause.GROUP
        self._move(job, home, cause, None if group is None else f"isolation group '{group}'", _PATIENCE_S)

    def is_near(self, job: Job) -> bool:
        """Whether the job reads about where the graph reads that it would share with others, or where what only the job
        reads ends."""
        held, home = self._fleet.of(job.name), self._fleet.home(job)
        if any(g.divided and g.loop.problem for g in (held, home)):  # parts that nobody runs do not answer
            return False
        if held.divided:
            return True
        mine = held.runner.graph.jobs[job.name]
        for name, source in [(n, s) for n, s in list(held.runner.inputs.running.items()) if n in mine]:
            at, near = dict(source.positions), _near(source)
            theirs = home.read_to(name)
            if theirs is not None:
                there = theirs
            elif source.scan.table.connector == "topic":
                there = {shard: source.source.end(shard) or 0 for shard in at}
            else:
                there = at
            if any(abs(there.get(shard, 0) - offset) > near for shard, offset in at.items()):
                return False
        return True

    def finish(self) -> None:
        """Makes what is missing of a move that a crash or an error interrupted."""
        change = self._registry.log.pending
        assert change is not None
        (name,) = change.jobs
        if any(name in g.runner.jobs for g in self._fleet.graphs.values() if g.name != change.graphs[name]):
            self._undo(change)
            return
        if not self._fleet.runs(name):
            change = self._arrive(change, name)
        self._settle(change)

    def tidy(self) -> None:
        """Removes what no recovery needs any more."""
        pending = self._registry.log.pending
        needed = {n for g in self._fleet.graphs.values() for n in g.needs()} | (
            {pending.handover} if pending else set()
        )
        for name in self._handovers.names - needed:
            self._handovers.remove(name)

    def _own(self, job: Job) -> str:
        """A name that no graph has had: that of one that was is followed by its records in the log of epochs."""
        return f"{job.name}@{job.version}-{self._registry.clock()}-{self._fleet.log_end}"

    def _move(self, job: Job, target: RunningGraph, cause: Cause, reason: str | None, patience_s: float | None) -> None:
        source = self._fleet.of(job.name)
        if not self._fleet.runs(job.name) or source is target:
            raise JobError(f"job '{job.name}' cannot go to graph '{target.name}'", detail="it does not run elsewhere")
        handover = self._own(job)
        change = PendingChange(
            {job.name: job.version}, {job.name: target.name}, handover=handover, cause=cause, reason=reason
        )
        plan = self._plan(job.name, job.version)
        parts = Leaving(plan, job.version, handover, self._handovers, lambda: self._begin(change))
        try:
            if isinstance(target, DividedGraph):
                into_parts(parts, source, target)
            elif isinstance(source, DividedGraph):
                with _prepared(target, plan, job.version) as coming:
                    has = out_of_parts(parts, source)
                    target.call(lambda: target.take(coming, has, handover))
            else:
                with _prepared(target, plan, job.version) as coming:
                    leaving = source.change(source.runner.graph, {}, {job.name: 0}, {})
                    move = _Move(job.name, source, target, leaving, coming, handover)
                    self._begin(change)
                    target.call(lambda: _join(move, self._handovers, patience_s))
        except SqlError:
            if self._registry.log.pending is change:
                self.finish()
            raise
        finally:
            self._fleet.retire_idle()
        self._settle(change)

    def _begin(self, change: PendingChange) -> None:
        self._registry.log.begin(change, (), self._registry.clock())

    def _plan(self, name: str, version: int) -> PlannedJob:
        plan = self._registry.plans_of({name: version})[name]
        if isinstance(plan, SqlError):
            raise plan
        return plan

    def _undo(self, change: PendingChange) -> None:
        """The job has not left its graph."""
        self._registry.log.drop_pending(self._registry.clock())
        self._handovers.remove(change.handover)
        self._fleet.retire_idle()

    def _settle(self, change: PendingChange) -> None:
        self._registry.placed(change)
        self._fleet.retire_idle()

    def _arrive(self, change: PendingChange, name: str) -> PendingChange:
        """The job has left its graph: it goes on in the one where it was to go, or else in one of its own."""
        belongings = self._handovers.get(change.handover)
        if belongings is None:
            raise ServiceError(f"what job '{name}' had is gone: handover '{change.handover}'")
        plan = self._plan(name, change.jobs[name])
        try:
            target = self._fleet.graph(change.graphs[name])
            if target.divided:
                raise NotTogether(name, target.name, "the move was interrupted")
            self._take(target, plan, belongings, change.handover)
        except SqlError as error:
            log.warning("job %s goes on in a graph of its own: %s", name, error)
            job = self._registry.job(name)
            change = replace(change, graphs={name: self._own(job)})
            self._registry.log.begin(change, (), self._registry.clock())
            target = self._fleet.graph(change.graphs[name])
            with recovering(target.runner):  # what it cannot open any more it fails with, as after a restart
                self._take(target, plan, belongings, change.handover)
        return change

    def _take(self, target: RunningGraph, plan: PlannedJob, belongings: Belongings, handover: str) -> None:
        with _prepared(target, plan, belongings.version) as coming:
            target.call(lambda: target.take(coming, belongings, handover))


@contextmanager
def _prepared(target: RunningGraph, plan: PlannedJob, version: int) -> Iterator[GraphChange]:
    """The change that brings a job to a graph; abandoned where it did not come."""
    coming = target.prepare_taking(plan, version)
    try:
        yield coming
    except BaseException:
        if plan.name not in target.runner.jobs and not target.runner.broken:
            coming.abandon()
        raise


def _join(move: _Move, handovers: Handovers, patience_s: float | None) -> None:
    """What is done in the thread of the graph to which the job comes; that of the other one does its part meanwhile."""
    move.target.runner.complete()
    try:
        meeting = move.source.loop.call(lambda: _meet(move), patience_s)
        if not move.target.runner.reach(meeting, EPOCHS):
            raise NotTogether(move.job, move.target.name, "its sources are not read as far")
        belongings = move.source.call(lambda: _leave(move, meeting, handovers), patience_s)
    finally:
        move.source.runner.inputs.bounds = {}
    move.target.take(move.coming, belongings, move.handover)


def _meet(move: _Move) -> Positions:
    """Where both have read to when the job goes over; the graph that it leaves reads no further from now on."""
    theirs = common_positions(move.coming.graph, move.target.runner, move.job)
    inputs = move.source.runner.inputs
    meeting = {}
    for name, shards in theirs.items():
        mine = inputs.running[name].positions
        near = _near(inputs.running[name])
        if mine.keys() != shards.keys() or any(abs(mine[s] - at) > near for s, at in shards.items()):
            raise NotTogether(move.job, move.target.name, "its sources are not read as far")
        meeting[name] = {s: max(mine[s], at) for s, at in shards.items()}
    inputs.bounds = meeting
    return meeting


def _near(source: RunningSource) -> int:
    return NEAR if source.scan.table.connector == "topic" else _NEAR_BYTES


def _leave(move: _Move, meeting: Mapping[str, Mapping[str, int]], handovers: Handovers) -> Belongings:
    runner = move.source.runner
    if not runner.reach(meeting, EPOCHS):
        raise NotTogether(move.job, move.target.name, "its sources are not read as far")
    belongings = capture(runner, move.job)
    why_not = next(obstacles(belongings, move.coming.graph, move.target.runner), None)
    if why_not is not None:
        raise NotTogether(move.job, move.target.name, why_not)
    handovers.put(move.handover, belongings)
    runner.outputs.give_away(belongings.unsent)
    runner.apply(move.leaving)
    if belongings.unsent:  # or a recovery would write them again, and wait for space
        with suppress(TryAgain):
            runner.checkpoint()
    return belongings
