"""Savepoints of jobs: taken between two epochs, listed, shown, deleted, and started from."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from parser.errors import JobError
from planner.graph.takeover import policy_of
from planner.logical import Scan
from planner.settings import flag
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.config import Config
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.jobs.job import Job, JobState
from sqlengine.jobs.planning import PlannedJob
from sqlengine.registry import Registry
from sqlengine.snapshots import savepoint_files as files
from sqlengine.snapshots.savepoint_files import FOLDERS, PATHS, Savepoint
from sqlengine.snapshots.savepoints import (
    Restoration,
    SavepointInfo,
    capture_savepoint,
    restoration,
    savepoint_of_plan,
)
from sqlengine.system.disk import Disk

# Flink's names, the newer one first.
UNCLAIMED: Final = (
    "execution.state-recovery.ignore-unclaimed-state",
    "execution.savepoint.ignore-unclaimed-state",
)


class Savepoints:
    """Takes, lists, shows and deletes savepoints of one engine, and reads them for jobs that start.

    `take` and `restoration` are called from the thread that makes changes.
    """

    def __init__(
        self, registry: Registry, graphs: GraphManager, config: Config, disk: Disk
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._config = config
        self._disk = disk

    def remove_unfinished(self) -> None:
        """Removes incomplete savepoints that a crash has left."""
        for below in dict.fromkeys((self._own, *self._roots)):
            files.tidy(self._disk, below)

    def take(
        self, job: Job, folder: str | None = None, *, stop: bool = False, drain: bool = False
    ) -> Savepoint:
        """Writes the savepoint of a running job below `folder`.

        With `stop` the job leaves its graph in the same step, so that no row comes in between; with
        `drain` its sources end just before: the job must be alone in its graph. Raises JobError if
        the job does not run, or the savepoint cannot be written: the job runs on then.
        """
        self._check_runs(job)
        now = self._registry.clock()
        about = SavepointInfo(
            self._registry.version(job).sql, job.version, job.settings, now, drain
        )
        graph = self._graphs.of(job.name)
        if isinstance(graph, DistributedGraph):
            return self._take_of_parts(graph, job, about, folder, stop=stop)
        if stop:
            taken: list[Savepoint] = []

            def first() -> None:
                if drain:
                    graph.runner.drain()
                savepoint, rows = capture_savepoint(graph.runner, job.name, about)
                taken.append(
                    files.write(self._disk, self._new(job, folder, savepoint), savepoint, rows)
                )

            graph.switch(graph.change(graph.runner.graph, {}, {job.name: 0}, {}), first)
            return taken[0]
        savepoint, rows = graph.loop.call(lambda: capture_savepoint(graph.runner, job.name, about))
        return files.write(self._disk, self._new(job, folder, savepoint), savepoint, rows)

    def check(self, job: Job, folder: str | None) -> None:
        """Raises JobError if a savepoint of the job may not be in this folder."""
        self._folder(job.settings, folder)

    def check_take(self, job: Job, folder: str | None) -> None:
        """Raises the JobError for which `take` would write nothing."""
        self._check_runs(job)
        self.check(job, folder)

    def _check_runs(self, job: Job) -> None:
        if job.state is not JobState.RUNNING or not self._graphs.runs(job.name):
            raise JobError(
                f"job '{job.name}' does not run",
                detail=f"it is {job.state.value}",
                hint="start it first",
            )

    def _take_of_parts(
        self,
        graph: DistributedGraph,
        job: Job,
        about: SavepointInfo,
        folder: str | None,
        *,
        stop: bool,
    ) -> Savepoint:
        """Writes a savepoint from the snapshots of all parts, which are paused meanwhile. It does
        not depend on their number."""
        plan = graph.plan_of(job.name)
        with graph.pauses.quiesce():
            has = graph.snapshot(job.name)
            if has.pending_commits:
                raise JobError(
                    f"job '{job.name}' has rows for which there is no space: a savepoint would not"
                    " have them",
                    hint="'sql instances' says where; free some space, then try again",
                )
            savepoint, rows = savepoint_of_plan(has, plan.sinks, graph.executor.factory, about)
            written = files.write(self._disk, self._new(job, folder, savepoint), savepoint, rows)
            if stop:
                graph.switch(graph.change(graph.runner.graph, {}, {job.name: 0}, {}))
        return written

    def restoration(self, name: str, plan: PlannedJob, path: str) -> Restoration:
        """Returns what a job restores from a savepoint. Raises JobError if it cannot start from
        it."""
        if not plan.sinks:
            raise JobError(f"job '{name}' only defines: it has nothing to start from a savepoint")
        savepoint = files.read(self._disk, self.locate(path))
        unclaimed = any(flag(plan.settings, k, default=False) for k in UNCLAIMED)
        factory = self._graphs.main.executor.factory
        restored = restoration(
            self._disk, savepoint, name, plan.sinks, factory, policy_of(plan.settings), unclaimed
        )
        self._check_readable(restored)
        return restored

    def _check_readable(self, restored: Restoration) -> None:
        """Raises JobError if records behind the savepoint are gone."""
        for node in restored.graph.in_order:
            if (
                not isinstance(node.plan, Scan)
                or node.id not in restored.positions
                or node.id in restored.ended
            ):
                continue
            reason = self._graphs.tables.why_unreadable(node.plan, restored.positions[node.id])
            if reason is not None:
                raise JobError(
                    f"table '{node.plan.table.display}' cannot be read on from savepoint"
                    f" '{restored.savepoint.path}'",
                    detail=reason,
                    hint="start the job without it, or from a newer one ('sql savepoint list')",
                )

    def all(self, folder: str | None = None) -> list[Savepoint | JobError]:
        """Returns the savepoints in a folder (default: the server's), oldest first; an error for
        each that cannot be read."""
        savepoints: list[Savepoint | JobError] = []
        below = self._folder({}, folder)
        for path in (below / name for name in self._disk.names(below) if not name.startswith(".")):
            if not self._disk.exists(path / files.METADATA):
                continue
            try:
                savepoints.append(files.read(self._disk, path))
            except JobError as error:
                savepoints.append(error)
        return sorted(savepoints, key=lambda s: s.created_ms if isinstance(s, Savepoint) else 0)

    def show(self, path: str) -> Savepoint:
        """Returns a savepoint by its path, or by its name in the default folder."""
        return files.read(self._disk, self.locate(path))

    def delete(self, path: str) -> Savepoint:
        """Deletes a savepoint, and returns what it was."""
        savepoint = files.read(self._disk, self.locate(path))
        files.delete(self._disk, savepoint)
        return savepoint

    def locate(self, path: str) -> Path:
        """Returns the folder of a savepoint: a path, a file: URL, or a name in the default
        folder."""
        if not path.strip():
            raise JobError(
                "the name of the savepoint is empty",
                hint="'sql savepoint list' shows those there are",
            )
        given = _local(path)
        return self._allowed(
            given if given.is_absolute() or len(given.parts) > 1 else self._folder({}, None) / given
        )

    def _new(self, job: Job, folder: str | None, savepoint: Savepoint) -> Path:
        """Returns the path of a new folder for a savepoint."""
        moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(savepoint.created_ms / 1000))
        name = f"savepoint-{job.name}-{moment}-{savepoint.epoch}"
        below = self._folder(job.settings, folder)
        free = (name if n == 0 else f"{name}-{n}" for n in range(1 << 16))
        return below / next(n for n in free if not self._disk.exists(below / n))

    def _folder(self, settings: Mapping[str, str], given: str | None) -> Path:
        """Returns the folder for savepoints: the given one, else by the job's settings, the
        server's, or below the data folder."""
        for candidate in (
            given,
            *(s.get(k) for s in (settings, self._config.settings) for k in FOLDERS),
        ):
            if candidate:
                return self._allowed(_local(candidate).absolute())
        return self._own

    @property
    def _own(self) -> Path:
        return (self._config.data / "savepoints").absolute()

    @property
    def _roots(self) -> list[Path]:
        """Folders besides the default one in which savepoints may be."""
        return [
            *self._config.savepoints,
            *(_local(f) for k in FOLDERS if (f := self._config.settings.get(k))),
        ]

    def _allowed(self, path: Path) -> Path:
        """Returns `path`, which a request or the text of a job names. Raises JobError unless it is
        below a folder for savepoints, with links resolved."""
        roots = [r.resolve() for r in (self._own, *self._roots)]
        if not any(path.resolve().is_relative_to(root) for root in roots):
            raise JobError(
                f"'{path}' is not in a folder for savepoints",
                detail="these are " + ", ".join(f"'{r}'" for r in roots),
                hint="start the server with --savepoints DIR to allow another one",
            )
        return path


def path_in(settings: Mapping[str, str]) -> str | None:
    """Returns the savepoint from which a job starts by its settings; None if there is none."""
    return next((settings[k] for k in PATHS if settings.get(k)), None)


def _local(path: str) -> Path:
    url = urlsplit(path)
    if len(url.scheme) < 2 or ("://" not in path and url.scheme != "file"):
        return Path(path)
    if url.scheme != "file" or url.netloc not in ("", "localhost"):
        raise JobError(
            f"a savepoint cannot be at '{path}'",
            detail="only files of this machine are supported",
            hint="name a folder",
        )
    return Path(unquote(url.path))
