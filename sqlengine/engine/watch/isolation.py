"""Isolation of jobs: once a second, jobs that slow others down are moved into graphs of their own,
and jobs whose graphs have read to the same offsets are merged into the graph that they share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from parser.errors import SqlError
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.engine.deploying.job_placement import JobPlacement
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.migration.migrations import Migrations
from sqlengine.engine.migration.moves import Moves
from sqlengine.engine.watch.watch import Watch
from sqlengine.graphs.host import NotAligned
from sqlengine.graphs.load_monitor import IsolationTrigger, LoadMonitor
from sqlengine.graphs.loop import CatchUpScheduler
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.jobs.isolation_settings import ISOLATION, IsolationLimits, group_of, limits_in
from sqlengine.jobs.job import MAIN, Cause, Job, JobState
from sqlengine.jobs.targets import TARGET, is_main
from sqlengine.registry import Registry

EVERY_S: Final = 1.0
# Causes that pass: a job isolated by one is merged again once it has stayed below its limits for
# long enough (`calm_s`).
_TRANSIENT: Final = (Cause.SINK, Cause.LOOKUP, Cause.ERRORS, Cause.COST)
_CATCHING_UP: Final = "it reads alone until it has read as far as the others"
# A migration into parts or out of them, which pauses all of them, is tried again after the first
# pause, and after twice as long each time, up to the last.
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 60.0
# Jobs that migrate into parts in one step, at most.
_MAX_BATCH: Final = 1_000
# Seconds: `calm_s` doubles with each isolation of a job, up to this.
_MAX_CALM_S: Final = 86_400.0

log = logging.getLogger("sqlengine")


class Isolation(Watch):
    """Isolates and merges the jobs of one engine.

    After `start` it checks every EVERY_S, in the thread that makes changes. `clock`: monotonic
    seconds, by which commits are measured too.
    """

    name = "isolation"
    every_s = EVERY_S
    fault = "isolation of jobs could not be checked"

    def __init__(
        self,
        registry: Registry,
        graphs: GraphManager,
        placement: JobPlacement,
        migrations: Migrations,
        moves: Moves,
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._placement = placement
        self._migrations = migrations
        self._moves = moves
        self._clock = clock
        self._monitors: dict[str, LoadMonitor] = {}
        self._limits: dict[str, tuple[int, IsolationLimits]] = {}  # with the version of the job
        self._triggered_at: dict[str, float] = {}  # job -> when it was last above a limit
        self._isolations: dict[str, int] = {}  # job -> how often it was isolated
        # Job -> when a migration in or out of parts is tried again, and the pause after that (s).
        self._retries: dict[str, tuple[float, float]] = {}
        self._batch_size = _MAX_BATCH
        self._scheduler = CatchUpScheduler(clock)

    def check(self) -> None:
        """Isolates and merges what is due. What cannot be done now is tried with the next check."""
        now = self._clock()
        self._migrations.remove_obsolete()
        graphs = [g for g in self._graphs.by_name.values() if not g.runner.broken]
        self._monitors = {g.name: self._monitor_of(g) for g in graphs}
        for graph in graphs:
            graph.loop.scheduler = self._scheduler if self._catches_up(graph) else None
            triggers = list(self._monitors[graph.name].triggers(now, self._limits_of))
            if isinstance(graph, DistributedGraph):
                triggers += graph.isolation_triggers()
            # Also of triggers that move nothing: a job must stay calm for a while before it is
            # merged.
            self._triggered_at |= dict.fromkeys((t.job for t in triggers), now)
            self._isolate_first(graph, triggers, now)
            self._keep_apart(graph, triggers)
        self._merge(now)

    def _merge(self, now: float) -> None:
        """Merges jobs into the graphs that they share: those into parts in batches."""
        batches: dict[str, list[Job]] = {}
        for job in self._candidates():
            target = self._merge_target(job, now)
            if target is None:
                continue
            if target.distributed and not self._graphs.of(job.name).distributed:
                batches.setdefault(target.name, []).append(job)
            elif not self._out_of_time(now):
                self._merge_one(job, now)
        for name, jobs in batches.items():
            self._merge_in_batches(jobs, self._graphs.get_or_create(name), now)

    def _out_of_time(self, began: float) -> bool:
        """True if the check has taken so long that other changes of jobs come first."""
        return self._clock() - began > EVERY_S

    def _candidates(self) -> list[Job]:
        """Returns running jobs outside the shared graph, or that ask for another one, and where
        there are instances those that can run in parts. Most of thousands of jobs are none."""
        shared = self._graphs.distributed
        jobs = [job for job in self._registry.log.jobs.values() if job.state is JobState.RUNNING]
        if shared is None:
            jobs = [job for job in jobs if job.graph != MAIN or self._is_told(job)]
        else:
            jobs = [job for job in jobs if job.graph != shared.name and self._may_distribute(job)]
        return [job for job in jobs if self._graphs.runs(job.name)]

    def _may_distribute(self, job: Job) -> bool:
        return job.graph != MAIN or self._is_told(job) or self._placement.can_distribute(job)

    def _is_told(self, job: Job) -> bool:
        """True if the job may ask for a graph that is not the main one."""
        return bool(job.target) or ISOLATION in job.settings or TARGET in job.settings

    def _monitor_of(self, graph: ManagedGraph) -> LoadMonitor:
        monitor = self._monitors.get(graph.name)
        return monitor if monitor is not None and monitor.graph is graph else LoadMonitor(graph)

    def _catches_up(self, graph: ManagedGraph) -> bool:
        if graph.distributed or is_main(graph.name) or group_of(graph.name) is not None:
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
        """Isolates the first job that can be: without it the others may be below their limits."""
        shared = graph.distributed or is_main(graph.name) or group_of(graph.name) is not None
        if not shared or len(graph.runner.jobs) < 2:
            return
        for trigger in (t for t in triggers if self._limits_of(t.job).moves):
            if graph.distributed and not self._retry_is_due(trigger.job, now):
                continue
            try:
                self._moves.isolate(trigger.job, trigger.cause, trigger.reason)
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

    def _keep_apart(self, graph: ManagedGraph, triggers: list[IsolationTrigger]) -> None:
        """Lets a job that reads alone stay where it is, as its table is slow: it would hold the
        others up again."""
        if self._catches_up(graph):
            for trigger in (t for t in triggers if t.cause is Cause.LOOKUP):
                self._set_cause(self._registry.job(trigger.job), trigger.cause, trigger.reason)

    def _retry_is_due(self, job: str, now: float) -> bool:
        """True if the parts may be paused again for the job."""
        return now >= self._retries.get(job, (now, 0.0))[0]

    def _back_off(self, job: str, now: float) -> None:
        """Backs off after a failed migration, which paused all parts for nothing."""
        _, pause = self._retries.get(job, (now, _FIRST_PAUSE_S))
        self._retries[job] = now + pause, min(2 * pause, _MAX_PAUSE_S)

    def _merge_target(self, job: Job, now: float) -> ManagedGraph | None:
        """Returns the shared graph into which the job can be merged now; None if it stays."""
        if job.cause in _TRANSIENT and self._has_recovered(job, now):
            log.info("job %s is below its limits again", job.name)
            job = self._set_cause(job, Cause.NONE, _CATCHING_UP)
        shared = self._placement.shared_graph(job)
        if shared.distributed and not self._placement.can_distribute(job):
            if job.cause is Cause.NONE:
                reason = f"isolation group '{group_of(shared.name)}', in the server's process"
                self._set_cause(job, Cause.GROUP, reason)
            return None
        if not self._is_wanted_in(job, shared):
            return None
        if job.reason is None and not is_main(job.graph):
            self._set_cause(job, Cause.NONE, _CATCHING_UP)
        if not self._migrations.is_aligned(job):
            return None
        pauses_parts = shared.distributed or self._graphs.of(job.name).distributed
        return None if pauses_parts and not self._retry_is_due(job.name, now) else shared

    def _is_wanted_in(self, job: Job, shared: ManagedGraph) -> bool:
        """True if the job should run in `shared`, and does not yet."""
        if job.cause not in (Cause.NONE, Cause.GROUP) or shared.name == job.graph:
            return False
        into_parts = job.graph == MAIN and shared.distributed
        return not into_parts or self._limits_of(job.name).moves

    def _set_cause(self, job: Job, cause: Cause, reason: str) -> Job:
        self._registry.set_cause(job, cause, reason)
        return self._registry.job(job.name)

    def _merge_in_batches(self, jobs: list[Job], target: ManagedGraph, now: float) -> None:
        """Merges jobs into a distributed graph, as many in one step as can be, since each step
        pauses all parts. After a failure half as many are tried."""
        assert isinstance(target, DistributedGraph)
        late = False
        while jobs and not late:
            batch = self._migrations.movable_together(jobs, self._batch_size)
            jobs = [job for job in jobs if job not in batch]
            try:
                self._migrations.move_to_distributed_graph(batch, target)
            except SqlError as error:
                level = logging.DEBUG if isinstance(error, NotAligned) else logging.WARNING
                log.log(
                    level,
                    "%d jobs do not go into graph %s for now: %s",
                    len(batch),
                    target.name,
                    error,
                )
                self._batch_size = max(1, len(batch) // 2)
                if len(batch) == 1:
                    self._back_off(batch[0].name, now)
                return
            # Halved by a failure, doubled by a success: one bad job holds up few others.
            self._batch_size = min(2 * self._batch_size, _MAX_BATCH)
            for job in batch:
                self._retries.pop(job.name, None)
            late = self._out_of_time(now)

    def _merge_one(self, job: Job, now: float) -> None:
        pauses_parts = self._graphs.of(job.name).distributed
        try:
            self._migrations.move_to_shared_graph(job)
        except SqlError as error:
            level = logging.DEBUG if isinstance(error, NotAligned) else logging.WARNING
            log.log(level, "job %s stays in graph %s for now: %s", job.name, job.graph, error)
            if pauses_parts:
                self._back_off(job.name, now)
        else:
            self._retries.pop(job.name, None)

    def _has_recovered(self, job: Job, now: float) -> bool:
        since = self._triggered_at.setdefault(job.name, now)
        calm_s = self._limits_of(job.name).calm_s * (
            1 << min(self._isolations.get(job.name, 1) - 1, 16)
        )
        return now - since >= min(calm_s, _MAX_CALM_S)
