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
_TRANSIENT: Final = (Cause.SINK, Cause.ERRORS, Cause.COST)
_CATCHING_UP: Final = "it reads alone until it has read as far as the others"
# A move into parts or out of them, for which all of these stand still, is tried again after so
# long, and twice as long each time, up to that.
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 60.0
# So many jobs go into parts at once, at most.
_MAX_BATCH: Final = 1_000
# A job that was taken out so often must be well for twice as long each time, up to that.
_MAX_CALM_S: Final = 86_400.0

log = logging.getLogger("sqlengine")


class Isolation:
    """Of one engine. After `start` it looks now and then, in the thread that makes changes.
    `clock`: seconds that only grow, as commits are measured by."""

    def __init__(
        self,
        registry: Registry,
        graphs: GraphManager,
        migrations: Migrations,
        changes: JobChanges,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._migrations = migrations
        self._changes = changes
        self._clock = clock
        self._monitors: dict[str, LoadMonitor] = {}
        self._limits: dict[str, tuple[int, IsolationLimits]] = {}  # with the version of the job
        self._triggered_at: dict[str, float] = {}
        self._isolations: dict[str, int] = {}  # how often each job was taken out
        self._retries: dict[
            str, tuple[float, float]
        ] = {}  # when a job is tried again, and what comes after that
        self._batch_size = _MAX_BATCH
        self._scheduler = CatchUpScheduler()
        self._repeated: Repeated | None = None
        self._looking: Future[None] | None = None

    def start(self, threads: Threads, later: Callable[[Callable[[], None]], Future[None]]) -> None:
        """`later` hands work to the thread that makes changes, which looks once at a time."""

        def look() -> None:
            if self._looking is None or self._looking.done():
                with suppress(RuntimeError):  # closed in this moment
                    self._looking = later(self._check_safely)

        self._repeated = threads.every("isolation", EVERY_S, look)

    def stop(self) -> None:
        if self._repeated is not None:
            self._repeated.stop()

    def _check_safely(self) -> None:
        try:
            self.check()
        except Exception:
            log.exception("what jobs cost could not be looked at, it is tried again")

    def check(self) -> None:
        """All there is to do at the moment. What cannot be done now is tried again."""
        now = self._clock()
        self._migrations.remove_obsolete()
        graphs = [g for g in self._graphs.by_name.values() if not g.runner.broken]
        self._monitors = {g.name: self._monitor_of(g) for g in graphs}
        for graph in graphs:
            graph.loop.turns = self._scheduler if self._catches_up(graph) else None
            triggers = list(self._monitors[graph.name].look(now, self._limits_of))
            if isinstance(graph, DistributedGraph):
                triggers += graph.isolation_triggers()
            self._triggered_at |= dict.fromkeys((t.job for t in triggers), now)
            self._isolate_first(graph, triggers, now)
        into_parts: dict[str, list[Job]] = {}
        for job in self._candidates():
            home = self._merge_target(job, now)
            if home is not None and home.distributed and not self._graphs.of(job.name).distributed:
                into_parts.setdefault(home.name, []).append(job)
            elif home is not None and not self._out_of_time(now):
                self._merge_back(job, now)
        for name, jobs in into_parts.items():
            self._merge_in_batches(jobs, self._graphs.get_or_create(name), now)

    def _out_of_time(self, began: float) -> bool:
        """Others want to change jobs, too."""
        return self._clock() - began > EVERY_S

    def _candidates(self) -> list[Job]:
        """Jobs that run outside the shared graph, or ask for another, and those that can run in
        parts where there are any; of thousands that do not, nothing more is asked."""
        shared = self._graphs.distributed
        found = [job for job in self._registry.log.jobs.values() if job.state is JobState.RUNNING]
        if shared is None:
            found = [job for job in found if job.graph != MAIN or ISOLATION in job.settings]
        else:
            found = [job for job in found if job.graph != shared.name and self._may_divide(job)]
        return [job for job in found if self._graphs.runs(job.name)]

    def _may_divide(self, job: Job) -> bool:
        return job.graph != MAIN or ISOLATION in job.settings or self._graphs.can_divide(job)

    def _monitor_of(self, graph: ManagedGraph) -> LoadMonitor:
        held = self._monitors.get(graph.name)
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

    def _isolate_first(
        self, graph: ManagedGraph, triggers: list[IsolationTrigger], now: float
    ) -> None:
        """One job at a time: with it gone the others may be well."""
        shared = graph.distributed or graph.name == MAIN or group_of(graph.name) is not None
        if not shared or len(graph.runner.jobs) < 2:
            return
        for trigger in (t for t in triggers if self._limits_of(t.job).moves):
            if graph.distributed and not self._retry_is_due(trigger.job, now):
                continue
            try:
                self._changes.isolate(trigger.job, trigger.cause, trigger.reason)
            except SqlError as error:
                log.warning(
                    "job %s stays where it is for now (%s): %s", trigger.job, trigger.reason, error
                )
                if graph.distributed:
                    self._back_off(trigger.job, now)
            else:
                log.warning("job %s is in a graph of its own: %s", trigger.job, trigger.reason)
                self._isolations[trigger.job] = self._isolations.get(trigger.job, 0) + 1
                self._retries.pop(trigger.job, None)
                return

    def _retry_is_due(self, job: str, now: float) -> bool:
        """Whether parts may stand still for the job now."""
        return now >= self._retries.get(job, (now, 0.0))[0]

    def _back_off(self, job: str, now: float) -> None:
        """They stood still, and it has not moved: the next time they do so later."""
        _, pause = self._retries.get(job, (now, _FIRST_PAUSE_S))
        self._retries[job] = now + pause, min(2 * pause, _MAX_PAUSE_S)

    def _merge_target(self, job: Job, now: float) -> ManagedGraph | None:
        """The graph to which a job is to go that it shares with others, if it can go now."""
        if job.cause in _TRANSIENT and self._has_recovered(job, now):
            log.info("job %s is well again", job.name)
            self._registry.set_cause(job, Cause.NONE, _CATCHING_UP)
            job = self._registry.job(job.name)
        home = self._graphs.shared_graph(job)
        if home.distributed and not self._graphs.can_divide(
            job
        ):  # what it is asked to share is in a process that cannot run it
            if job.cause is Cause.NONE:
                reason = f"isolation group '{group_of(home.name)}', in the server's process"
                self._registry.set_cause(job, Cause.GROUP, reason)
            return None
        if job.cause not in (Cause.NONE, Cause.GROUP) or home.name == job.graph:
            return None
        if job.graph == MAIN and home.distributed and not self._limits_of(job.name).moves:
            return None
        if job.reason is None and job.graph != MAIN:
            self._registry.set_cause(job, Cause.NONE, _CATCHING_UP)
        if not self._migrations.is_aligned(job):
            return None
        if (home.distributed or self._graphs.of(job.name).distributed) and not self._retry_is_due(
            job.name, now
        ):
            return None
        return home

    def _merge_in_batches(self, jobs: list[Job], home: ManagedGraph, now: float) -> None:
        """As many at once as can be: each time all parts stand still. Where one cannot come, half
        as many are tried."""
        assert isinstance(home, DistributedGraph)
        late = False
        while jobs and not late:
            going = self._migrations.movable_together(jobs, self._batch_size)
            jobs = [job for job in jobs if job not in going]
            try:
                self._migrations.move_to_distributed_graph(going, home)
            except SqlError as error:
                level = logging.DEBUG if isinstance(error, NotTogether) else logging.WARNING
                log.log(
                    level,
                    "%d jobs do not go into graph %s for now: %s",
                    len(going),
                    home.name,
                    error,
                )
                self._batch_size = max(1, len(going) // 2)
                if len(going) == 1:
                    self._back_off(going[0].name, now)
                return
            self._batch_size = min(2 * self._batch_size, _MAX_BATCH)
            for job in going:
                self._retries.pop(job.name, None)
            late = self._out_of_time(now)

    def _merge_back(self, job: Job, now: float) -> None:
        parts = self._graphs.of(job.name).distributed
        try:
            self._migrations.move_to_shared_graph(job)
        except SqlError as error:
            level = logging.DEBUG if isinstance(error, NotTogether) else logging.WARNING
            log.log(level, "job %s stays in graph %s for now: %s", job.name, job.graph, error)
            if parts:
                self._back_off(job.name, now)
        else:
            self._retries.pop(job.name, None)

    def _has_recovered(self, job: Job, now: float) -> bool:
        since = self._triggered_at.setdefault(job.name, now)
        calm_s = self._limits_of(job.name).calm_s * (
            1 << min(self._isolations.get(job.name, 1) - 1, 16)
        )
        return now - since >= min(calm_s, _MAX_CALM_S)
