"""Which job runs in which graph: looks now and then, takes jobs that hold others up into graphs of their own, and brings jobs
together that have come to the same place."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from time import perf_counter
from typing import Final

from parser.errors import SqlError
from sqlengine.engine.changing import Changes
from sqlengine.engine.fleet import Fleet
from sqlengine.engine.moving import Moves
from sqlengine.engine.troubles import Gauge, Trouble
from sqlengine.graphs.loop import Turns
from sqlengine.graphs.running import NotTogether, RunningGraph
from sqlengine.jobs.isolation_settings import ISOLATION, Limits, group_of, limits_in
from sqlengine.jobs.log import MAIN, Cause, Job, JobState
from sqlengine.registry import Registry
from sqlengine.threads import Repeated, Threads

EVERY_S: Final = 1.0
# Causes that pass: with them a job comes back once it has been well for long enough.
_PASSING: Final = (Cause.SINK, Cause.ERRORS, Cause.COST)
_CATCHING_UP: Final = "it reads alone until it has read as far as the others"
# A move into parts or out of them, for which all of these stand still, is tried again after so long, and twice as long each
# time, up to that.
_AGAIN_S, _LONGEST_AGAIN_S = 1.0, 60.0
# A job that was taken out so often must be well for twice as long each time, up to that.
_LONGEST_S: Final = 86_400.0

log = logging.getLogger("sqlengine")


class Isolation:
    """Of one engine. After `start` it looks now and then, in the thread that makes changes. `clock`: seconds that only
    grow, as commits are measured by."""

    def __init__(
        self,
        registry: Registry,
        fleet: Fleet,
        moves: Moves,
        changes: Changes,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._registry = registry
        self._fleet = fleet
        self._moves = moves
        self._changes = changes
        self._clock = clock
        self._gauges: dict[str, Gauge] = {}
        self._limits: dict[str, tuple[int, Limits]] = {}  # with the version of the job
        self._trouble_at: dict[str, float] = {}
        self._times: dict[str, int] = {}  # how often each job was taken out
        self._again: dict[str, tuple[float, float]] = {}  # when a job is tried again, and what comes after that
        self._turns = Turns()
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
        graphs = [g for g in self._fleet.graphs.values() if not g.divided and not g.runner.broken]
        self._gauges = {g.name: self._gauge(g) for g in graphs}
        for graph in graphs:
            graph.loop.turns = self._turns if self._catches_up(graph) else None
            troubles = list(self._gauges[graph.name].look(now, self._limits_of))
            self._trouble_at |= dict.fromkeys((t.job for t in troubles), now)
            self._take_out(graph, troubles)
        for job in self._elsewhere():
            if self._clock() - now > EVERY_S:  # others want to change jobs, too
                break
            self._bring_home(job, now)

    def _elsewhere(self) -> list[Job]:
        """Jobs that run outside the shared graph, or ask for another, and those that can run in parts where there are any;
        of thousands that do not, nothing more is asked."""
        shared = self._fleet.shared
        found = [job for job in self._registry.log.jobs.values() if job.state is JobState.RUNNING]
        if shared is None:
            found = [job for job in found if job.graph != MAIN or ISOLATION in job.settings]
        else:
            found = [job for job in found if job.graph != shared.name and self._may_divide(job)]
        return [job for job in found if self._fleet.runs(job.name)]

    def _may_divide(self, job: Job) -> bool:
        return job.graph != MAIN or ISOLATION in job.settings or self._fleet.divides(job)

    def _gauge(self, graph: RunningGraph) -> Gauge:
        held = self._gauges.get(graph.name)
        return held if held is not None and held.graph is graph else Gauge(graph)

    def _catches_up(self, graph: RunningGraph) -> bool:
        if graph.name == MAIN or group_of(graph.name) is not None:
            return False
        jobs = self._registry.log.jobs
        return all(jobs[n].cause is Cause.NONE for n in list(graph.runner.jobs) if n in jobs)

    def _limits_of(self, name: str) -> Limits:
        job = self._registry.job(name)
        version, limits = self._limits.get(name, (0, None))
        if limits is None or version != job.version:
            limits = limits_in(job.settings)
            self._limits[name] = job.version, limits
        return limits

    def _take_out(self, graph: RunningGraph, troubles: list[Trouble]) -> None:
        """One job at a time: with it gone the others may be well."""
        if (graph.name != MAIN and group_of(graph.name) is None) or len(graph.runner.jobs) < 2:
            return
        for trouble in (t for t in troubles if self._limits_of(t.job).moves):
            try:
                self._changes.isolate(trouble.job, trouble.cause, trouble.reason)
            except SqlError as error:
                log.warning("job %s stays where it is for now (%s): %s", trouble.job, trouble.reason, error)
            else:
                log.warning("job %s is in a graph of its own: %s", trouble.job, trouble.reason)
                self._times[trouble.job] = self._times.get(trouble.job, 0) + 1
                return

    def _bring_home(self, job: Job, now: float) -> None:
        if job.cause in _PASSING and self._is_well(job, now):
            log.info("job %s is well again", job.name)
            self._registry.stay(job, Cause.NONE, _CATCHING_UP)
            job = self._registry.job(job.name)
        home = self._fleet.home(job)
        if home.divided and not self._fleet.divides(
            job
        ):  # what it is asked to share is in a process that cannot run it
            if job.cause is Cause.NONE:
                reason = f"isolation group '{group_of(home.name)}', in the server's process"
                self._registry.stay(job, Cause.GROUP, reason)
            return
        if job.cause not in (Cause.NONE, Cause.GROUP) or home.name == job.graph:
            return
        if job.graph == MAIN and home.divided and not self._limits_of(job.name).moves:
            return
        if job.reason is None and job.graph != MAIN:
            self._registry.stay(job, Cause.NONE, _CATCHING_UP)
        at, pause = self._again.get(job.name, (now, _AGAIN_S))
        if now < at or not self._moves.is_near(job):
            return
        if home.divided or self._fleet.of(job.name).divided:
            self._again[job.name] = now + pause, min(2 * pause, _LONGEST_AGAIN_S)
        try:
            self._moves.to_home(job)
        except NotTogether as error:
            log.debug("%s", error)
        except SqlError as error:
            log.warning("job %s stays in graph %s for now: %s", job.name, job.graph, error)
        else:
            self._again.pop(job.name, None)

    def _is_well(self, job: Job, now: float) -> bool:
        since = self._trouble_at.setdefault(job.name, now)
        calm_s = self._limits_of(job.name).calm_s * (1 << min(self._times.get(job.name, 1) - 1, 16))
        return now - since >= min(calm_s, _LONGEST_S)
