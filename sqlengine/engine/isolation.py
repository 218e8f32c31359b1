"""Which job runs in which graph: looks now and then, takes jobs that hold others up into graphs of
their own, and brings jobs together that have come to the same place."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from time import perf_counter
from typing import Final

from parser.errors import SqlError
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.job_changes import JobChanges
from sqlengine.engine.migration import Migrations
from sqlengine.graphs.load_monitor import IsolationTrigger, LoadMonitor
from sqlengine.graphs.loop import CatchUpScheduler
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.running import NotTogether
from sqlengine.jobs.isolation_settings import ISOLATION, IsolationLimits, group_of, limits_in
from sqlengine.jobs.job import MAIN, Cause, Job, JobState
from sqlengine.registry import Registry
from sqlengine.system.threads import Repeated, Threads

EVERY_S: Final = 1.0
# Causes that pass: with them a job comes back once it has been well for long enough.
_PASSING: Final = (Cause.SINK, Cause.ERRORS, Cause.COST)
_CATCHING_UP: Final = "it reads alone until it has read as far as the others"
# A move into parts or out of them, for which all of these stand still, is tried again after so
# long, and twice as long each time, up to that.
_AGAIN_S, _LONGEST_AGAIN_S = 1.0, 60.0
# So many jobs go into parts at once, at most.
_MOST: Final = 1_000
# A job that was taken out so often must be well for twice as long each time, up to that.
_LONGEST_S: Final = 86_400.0

log = logging.getLogger("sqlengine")


class Isolation:
    """Of one engine. After `start` it looks now and then, in the thread that makes changes.
    `clock`: seconds that only grow, as commits are measured by."""

    def __init__(
        self,
        registry: Registry,
        fleet: GraphManager,
        moves: Migrations,
        changes: JobChanges,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._registry = registry
        self._fleet = fleet
        self._moves = moves
        self._changes = changes
        self._clock = clock
        self._gauges: dict[str, LoadMonitor] = {}
        self._limits: dict[str, tuple[int, IsolationLimits]] = {}  # with the version of the job
        self._trouble_at: dict[str, float] = {}
        self._times: dict[str, int] = {}  # how often each job was taken out
        self._again: dict[
            str, tuple[float, float]
        ] = {}  # when a job is tried again, and what comes after that
        self._most = _MOST
        self._turns = CatchUpScheduler()
        self._repeated: Repeated | None = None
        self._looking: Future[None] | None = None

    def start(self, threads: Threads, later: Callable[[Callable[[], None]], Future[None]]) -> None:
        """`later` hands work to the thread that makes changes, which looks once at a time."""

        def look() -> None:
            if self._looking is None or self._looking.done():
                with suppress(RuntimeError):  # closed in this moment
                    self._looking = later(self._try)

        self._repeated = threads.every("isolation", EVERY_S, look)

    def stop(self) -> None:
        if self._repeated is not None:
            self._repeated.stop()

    def _try(self) -> None:
        try:
            self.look()
        except Exception:
            log.exception("what jobs cost could not be looked at, it is tried again")

    def look(self) -> None:
        """All there is to do at the moment. What cannot be done now is tried again."""
        now = self._clock()
        self._moves.tidy()
        graphs = [g for g in self._fleet.graphs.values() if not g.runner.broken]
        self._gauges = {g.name: self._gauge(g) for g in graphs}
        for graph in graphs:
            graph.loop.turns = self._turns if self._catches_up(graph) else None
            troubles = list(self._gauges[graph.name].look(now, self._limits_of))
            if isinstance(graph, DistributedGraph):
                troubles += graph.isolation_triggers()
            self._trouble_at |= dict.fromkeys((t.job for t in troubles), now)
            self._take_out(graph, troubles, now)
        into_parts: dict[str, list[Job]] = {}
        for job in self._elsewhere():
            home = self._home(job, now)
            if home is not None and home.distributed and not self._fleet.of(job.name).distributed:
                into_parts.setdefault(home.name, []).append(job)
            elif home is not None and not self._is_late(now):
                self._bring_home(job, now)
        for name, jobs in into_parts.items():
            self._into_parts(jobs, self._fleet.graph(name), now)

    def _is_late(self, began: float) -> bool:
        """Others want to change jobs, too."""
        return self._clock() - began > EVERY_S

    def _elsewhere(self) -> list[Job]:
        """Jobs that run outside the shared graph, or ask for another, and those that can run in
        parts where there are any; of thousands that do not, nothing more is asked."""
        shared = self._fleet.shared
        found = [job for job in self._registry.log.jobs.values() if job.state is JobState.RUNNING]
        if shared is None:
            found = [job for job in found if job.graph != MAIN or ISOLATION in job.settings]
        else:
            found = [job for job in found if job.graph != shared.name and self._may_divide(job)]
        return [job for job in found if self._fleet.runs(job.name)]

    def _may_divide(self, job: Job) -> bool:
        return job.graph != MAIN or ISOLATION in job.settings or self._fleet.divides(job)

    def _gauge(self, graph: ManagedGraph) -> LoadMonitor:
        held = self._gauges.get(graph.name)
        return held if held is not None and held.graph is graph else LoadMonitor(graph)

    def _catches_up(self, graph: ManagedGraph) -> bool:
        if graph.distributed or graph.name == MAIN or group_of(graph.name) is not None:
            return False
        jobs = self._registry.log.jobs
        return all(jobs[n].cause is Cause.NONE for n in list(graph.runner.jobs) if n in jobs)

    def _limits_of(self, name: str) -> IsolationLimits:
        job = self._registry.job(name)
        version, limits = self._limits.get(name, (0, None))
        if limits is None or version != job.version:
            limits = limits_in(job.settings)
            self._limits[name] = job.version, limits
        return limits

    def _take_out(self, graph: ManagedGraph, troubles: list[IsolationTrigger], now: float) -> None:
        """One job at a time: with it gone the others may be well."""
        shared = graph.distributed or graph.name == MAIN or group_of(graph.name) is not None
        if not shared or len(graph.runner.jobs) < 2:
            return
        for trouble in (t for t in troubles if self._limits_of(t.job).moves):
            if graph.distributed and not self._may_try(trouble.job, now):
                continue
            try:
                self._changes.isolate(trouble.job, trouble.cause, trouble.reason)
            except SqlError as error:
                log.warning(
                    "job %s stays where it is for now (%s): %s", trouble.job, trouble.reason, error
                )
                if graph.distributed:
                    self._try_later(trouble.job, now)
            else:
                log.warning("job %s is in a graph of its own: %s", trouble.job, trouble.reason)
                self._times[trouble.job] = self._times.get(trouble.job, 0) + 1
                self._again.pop(trouble.job, None)
                return

    def _may_try(self, job: str, now: float) -> bool:
        """Whether parts may stand still for the job now."""
        return now >= self._again.get(job, (now, 0.0))[0]

    def _try_later(self, job: str, now: float) -> None:
        """They stood still, and it has not moved: the next time they do so later."""
        _, pause = self._again.get(job, (now, _AGAIN_S))
        self._again[job] = now + pause, min(2 * pause, _LONGEST_AGAIN_S)

    def _home(self, job: Job, now: float) -> ManagedGraph | None:
        """The graph to which a job is to go that it shares with others, if it can go now."""
        if job.cause in _PASSING and self._is_well(job, now):
            log.info("job %s is well again", job.name)
            self._registry.stay(job, Cause.NONE, _CATCHING_UP)
            job = self._registry.job(job.name)
        home = self._fleet.home(job)
        if home.distributed and not self._fleet.divides(
            job
        ):  # what it is asked to share is in a process that cannot run it
            if job.cause is Cause.NONE:
                reason = f"isolation group '{group_of(home.name)}', in the server's process"
                self._registry.stay(job, Cause.GROUP, reason)
            return None
        if job.cause not in (Cause.NONE, Cause.GROUP) or home.name == job.graph:
            return None
        if job.graph == MAIN and home.distributed and not self._limits_of(job.name).moves:
            return None
        if job.reason is None and job.graph != MAIN:
            self._registry.stay(job, Cause.NONE, _CATCHING_UP)
        if not self._moves.is_near(job):
            return None
        if (home.distributed or self._fleet.of(job.name).distributed) and not self._may_try(
            job.name, now
        ):
            return None
        return home

    def _into_parts(self, jobs: list[Job], home: ManagedGraph, now: float) -> None:
        """As many at once as can be: each time all parts stand still. Where one cannot come, half
        as many are tried."""
        assert isinstance(home, DistributedGraph)
        late = False
        while jobs and not late:
            going = self._moves.together(jobs, self._most)
            jobs = [job for job in jobs if job not in going]
            try:
                self._moves.to_parts(going, home)
            except SqlError as error:
                level = logging.DEBUG if isinstance(error, NotTogether) else logging.WARNING
                log.log(
                    level,
                    "%d jobs do not go into graph %s for now: %s",
                    len(going),
                    home.name,
                    error,
                )
                self._most = max(1, len(going) // 2)
                if len(going) == 1:
                    self._try_later(going[0].name, now)
                return
            self._most = min(2 * self._most, _MOST)
            for job in going:
                self._again.pop(job.name, None)
            late = self._is_late(now)

    def _bring_home(self, job: Job, now: float) -> None:
        parts = self._fleet.of(job.name).distributed
        try:
            self._moves.to_home(job)
        except SqlError as error:
            level = logging.DEBUG if isinstance(error, NotTogether) else logging.WARNING
            log.log(level, "job %s stays in graph %s for now: %s", job.name, job.graph, error)
            if parts:
                self._try_later(job.name, now)
        else:
            self._again.pop(job.name, None)

    def _is_well(self, job: Job, now: float) -> bool:
        since = self._trouble_at.setdefault(job.name, now)
        calm_s = self._limits_of(job.name).calm_s * (1 << min(self._times.get(job.name, 1) - 1, 16))
        return now - since >= min(calm_s, _LONGEST_S)
