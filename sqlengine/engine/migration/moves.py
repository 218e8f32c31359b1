"""Moves jobs that run to another graph, as people or their new texts ask for it."""

from __future__ import annotations

import logging
from dataclasses import replace

from parser.errors import SqlError
from sqlengine.engine.deploying.job_placement import JobPlacement
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.migration.migrations import Migrations
from sqlengine.engine.pending_changes import PendingChanges
from sqlengine.engine.requests import Outcome
from sqlengine.graphs.host import NotAligned
from sqlengine.jobs.isolation_settings import group_of
from sqlengine.jobs.job import Cause, Job
from sqlengine.jobs.targets import is_main, target_of
from sqlengine.registry import Registry

log = logging.getLogger("sqlengine")


class Moves:
    """Moves the jobs of one engine. All methods are called from the thread that makes changes, and
    first finish what a crash has interrupted."""

    def __init__(
        self,
        registry: Registry,
        graphs: GraphManager,
        placement: JobPlacement,
        migrations: Migrations,
        pending: PendingChanges,
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._placement = placement
        self._migrations = migrations
        self._pending = pending

    def isolate(
        self, name: str, cause: Cause = Cause.COMMAND, reason: str | None = None
    ) -> Outcome:
        """Migrates a job with its state into a graph of its own; one that is in its own stays."""
        self._pending.finish()
        job = self._registry.job(name)
        reason = reason or "isolated by a command"
        graph = self._graphs.of(name)
        shared = is_main(graph.name) or graph.distributed or group_of(graph.name) is not None
        if shared or len(graph.runner.jobs) > 1:
            self._migrations.move_to_own_graph(job, cause, reason)
        else:
            self._registry.set_cause(job, cause, reason)
        return Outcome(name, "isolated", job.version)

    def move(self, name: str, to: str) -> Outcome:
        """Migrates a job with its state to where `to` says, where it stays until it is told
        otherwise: there into the graph that it shares with others, or at first into one of its own.
        A job that does not run starts there.

        SqlError where it cannot run there: it stays where it is.
        """
        self._pending.finish()
        job, target = self._registry.job(name), target_of(to)
        targets = self._graphs.targets
        targets.check(self._registry.plan_of(job), target)
        if not self._graphs.runs(name):
            self._tell(job, target)
            return Outcome(name, "moved", job.version)
        if targets.of_graph(self._graphs.of(name)) == targets.of(job.settings, target):
            self._tell(job, target)
            return Outcome(name, "unchanged", job.version)
        # First the log: after a crash the job goes on its way.
        self._tell(job, target)
        try:
            self._move(name)
        except SqlError:
            if self._registry.log.pending is None and self._graphs.runs(name):
                self._tell(self._registry.job(name), job.target)
            raise
        return Outcome(name, "moved", job.version)

    def go_where_told(self, name: str) -> None:
        """Moves a job whose new version asks for another place. What fails now is tried again by
        itself."""
        job = self._registry.log.jobs.get(name)
        if job is None or not self._graphs.runs(name):
            return
        wanted = self._graphs.targets.of_job(job)
        if self._graphs.targets.of_graph(self._graphs.of(name)) != wanted:
            try:
                self._move(name)
            except SqlError as error:
                log.warning("job %s stays in graph %s for now: %s", name, job.graph, error)

    def _tell(self, job: Job, target: str) -> None:
        if job.target != target:
            self._registry.log.write(
                {job.name: replace(job, target=target)}, self._registry.clock()
            )

    def _move(self, name: str) -> None:
        try:
            self._migrations.move_to_shared_graph(self._registry.job(name))
        except NotAligned:
            reason = "it reads alone until it has read as far as the others"
            self._migrations.move_to_own_graph(self._registry.job(name), Cause.NONE, reason)

    def merge(self, name: str) -> Outcome:
        """Migrates a job with its state into the graph that it shares with others.

        Done at once ('merged'), or as soon as both graphs have read to the same offsets
        ('merging').
        """
        self._pending.finish()
        job = self._registry.job(name)
        if self._graphs.of(name) is self._placement.shared_graph(job):
            return Outcome(name, "unchanged", job.version)
        try:
            self._migrations.move_to_shared_graph(job)
        except NotAligned as error:
            self._registry.set_cause(job, Cause.NONE, f"it waits to be merged: {error.detail}")
            return Outcome(name, "merging", job.version)
        return Outcome(name, "merged", job.version)
