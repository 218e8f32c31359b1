"""Drains a job (FLIP-34): its sources end, all its windows fire, then it stops with a savepoint.

The end of the sources is an epoch of the job's own graph; a job that shares a graph is isolated
first. The drain stands in the job log until the job has stopped: a restart rolls it forward, and an
end that is in the epoch log is not written again.
"""

from __future__ import annotations

from contextlib import suppress

from parser.errors import JobError, SqlError
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.migration.migrations import Migrations
from sqlengine.engine.requests import Outcome
from sqlengine.engine.savepoints import Savepoints
from sqlengine.jobs.job import MAIN, Cause, Job, JobState, with_state
from sqlengine.jobs.log import PendingChange
from sqlengine.registry import Registry
from sqlengine.snapshots.savepoint_files import Savepoint

_LEAVES = "it is about to end"
_ENDED = "it has ended, and was not stopped: stop it again, with drain"


class Draining:
    """Drains jobs of one engine. All methods are called from the thread that makes changes, with no
    other change pending."""

    def __init__(
        self,
        registry: Registry,
        graphs: GraphManager,
        savepoints: Savepoints,
        migrations: Migrations,
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._savepoints = savepoints
        self._migrations = migrations

    def drain(self, name: str, folder: str | None) -> Outcome:
        """Drains a job and stops it with a savepoint below `folder`.

        Raises SqlError if the job runs on, or if it has ended and could not be stopped: then the
        same can be asked again.
        """
        job = self._registry.job(name)
        if job.state is not JobState.RUNNING or not self._graphs.runs(name):
            raise JobError(
                f"job '{name}' does not run",
                detail=f"it is {job.state.value}",
                hint="start it first",
            )
        self._savepoints.check(job, folder)
        graph = self._graphs.of(name)
        if graph.distributed or len(graph.runner.jobs) > 1:
            self._migrations.move_to_own_graph(job, Cause.NONE, _LEAVES)
        change = PendingChange(
            {name: job.version}, {name: self._graphs.of(name).name}, drains=True, folder=folder
        )
        # From here on a restart ends the job, too: its sources must not deliver rows after their
        # end.
        self._registry.log.begin(change, (), self._registry.clock())
        return self.finish(change)

    def finish(self, change: PendingChange) -> Outcome:
        """Does what is left of a drain that is in the job log."""
        (name,) = change.jobs
        job = self._registry.job(name)
        savepoint = None
        if self._graphs.runs(name):
            savepoint = self._stop(job, change)
        self._graphs.retire_idle()
        path = None if savepoint is None else savepoint.path
        reason = "drained" if path is None else f"drained, stopped with savepoint {path}"
        stopped = with_state(job, JobState.STOPPED, self._registry.clock(), reason)
        self._registry.complete_pending(stopped, MAIN)
        return Outcome(name, JobState.STOPPED.value, job.version, savepoint=path)

    def _stop(self, job: Job, change: PendingChange) -> Savepoint:
        try:
            return self._savepoints.take(job, change.folder, stop=True, drain=True)
        except SqlError:
            self._registry.log.drop_pending(self._registry.clock())
            with suppress(SqlError):  # without space: it is only what people read
                if not self._graphs.of(job.name).runner.inputs.unfinished():
                    self._registry.set_cause(self._registry.job(job.name), Cause.COMMAND, _ENDED)
            raise
