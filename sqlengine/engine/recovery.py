"""Brings the job log to what the graphs of an engine have recovered: at its start, and when graphs
that stood still can run again."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from parser.errors import SqlError
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.job_changes import JobChanges
from sqlengine.engine.migration.migrations import Migrations
from sqlengine.engine.savepoints import Savepoints
from sqlengine.executors.failures import LastingFailure
from sqlengine.executors.spark.session import Spark
from sqlengine.jobs.job import JobState
from sqlengine.registry import Registry

log = logging.getLogger("sqlengine")


class Recovery:
    """Recovers what one engine ran: `recover` once, before anything is changed, and `reopen` in the
    thread that makes changes."""

    def __init__(
        self,
        registry: Registry,
        graphs: GraphManager,
        changes: JobChanges,
        migrations: Migrations,
        savepoints: Savepoints,
        spark: Spark,
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._changes = changes
        self._migrations = migrations
        self._savepoints = savepoints
        self._spark = spark
        self._settled = False

    def recover(self) -> None:
        """Opens the graphs that ran, and completes what was interrupted."""
        self._registry.recover()
        # Nobody waits here for Spark: graphs that need it stand still until it has started.
        with self._spark.unstarted():
            running = (j for j in self._registry.jobs() if j.state is JobState.RUNNING)
            self._graphs.recover(j.graph for j in running)
        if not self._graphs.broken:
            self._settle()
        self._registry.recovered()

    def await_spark(self) -> None:
        """Raises SqlError while graphs stand still for which Spark is not there. Any thread."""
        standing = map(self._graphs.by_name.get, self._graphs.unavailable())
        if any(g is not None and g.executor.in_tasks for g in standing):
            self._spark.session()

    def reopen(self) -> None:
        """Recovers the graphs that stood still for want of Spark, or to take a family apart."""
        self._graphs.reopen_unavailable()
        if self._settled:
            self._reconcile({})
        elif not self._graphs.unavailable():
            self._settle()

    def _settle(self) -> None:
        """Brings the job log to what the graphs have recovered; once more when all have."""
        standing = self._graphs.unavailable()
        if not standing:
            try:
                self._changes.pending.finish()
            except SqlError as error:
                log.error("a change that was interrupted cannot be made any more: %s", error)
                self._registry.log.drop_pending(self._registry.clock())
        self._reconcile(self._migrations.departed())
        self._graphs.retire_idle()
        self._settled = not standing
        if self._settled:
            self._migrations.remove_obsolete()
            self._savepoints.remove_unfinished()

    def _reconcile(self, departed: Mapping[str, str]) -> None:
        """Writes down which jobs run, and which of them recoveries have lost; `departed`: the keys
        of what migrations keep of jobs."""
        graphs, lost = self._graphs, self._graphs.lost()
        self._registry.reconcile(graphs.running(), lost, graphs.unavailable())
        lasting = {name for name, error in lost.items() if isinstance(error, LastingFailure)}
        self._changes.lifecycle.keep_departed({**departed, **graphs.taken_out()}, lasting)
