"""From the watched folder to the engine: changes of files become changes of jobs, and what was refused is remembered."""

from __future__ import annotations

import logging
from pathlib import Path

from parser.errors import SqlError
from sqlengine.changes import Request
from sqlengine.control.folder import FolderChange, FolderWatcher
from sqlengine.engine import Engine
from sqlengine.jobs import JobState, Origin
from sqlengine.planning import JobText

# Of so many jobs in one change each gets a line in the log.
SPOKEN_OF = 20
log = logging.getLogger("sqlengine")


class FolderIntake:
    """Makes `folder` if it is missing. Jobs that came from it follow it."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._watcher = FolderWatcher(folder, self._changed)
        self._refused: dict[str, tuple[Path, SqlError]] = {}

    def start(self) -> None:
        """At start the folder is the truth: what is no longer in it goes, what is there comes."""
        files = self._watcher.scan()
        gone = frozenset(n for n in self._mine() - set(files.upserts) if not files.keeps(n))
        self._take(files, gone)
        self._watcher.start()

    def stop(self) -> None:
        self._watcher.stop()

    def problems(self) -> dict[Path, SqlError]:
        """Files that are not what runs, with the reason."""
        return self._watcher.problems() | dict(self._refused.copy().values())

    def _path(self, change: FolderChange, name: str) -> Path:
        """The job's file, also when it is gone."""
        if name in change.upserts:
            return change.upserts[name].path
        return Path(self._engine.history(name)[-1].file or name)

    def _mine(self) -> set[str]:
        return {j.name for j in self._engine.jobs() if j.origin is Origin.FOLDER}

    def _changed(self, change: FolderChange) -> None:
        self._take(change, frozenset(change.removed))

    def _take(self, change: FolderChange, removed: frozenset[str]) -> None:
        for path, error in change.problems:
            log.error("%s: %s", path, error)
        mine, known = self._mine(), {j.name for j in self._engine.jobs()}
        renamed = {old: new for old, new in change.renamed.items() if old in mine and new not in known}
        taken = set(renamed.values())
        texts = {n: JobText(n, f.text, str(f.path)) for n, f in change.upserts.items() if n not in taken}
        outcomes = self._engine.change(Request(Origin.FOLDER, texts, removed & mine, renamed))
        for name in [*removed, *change.renamed, *texts]:
            self._refused.pop(name, None)
        for outcome in outcomes.values():
            if outcome.error is not None:
                log.error("%s: %s", outcome.name, outcome.error)
                if outcome.status == "refused":
                    self._refused[outcome.name] = self._path(change, outcome.name), outcome.error
            elif outcome.status != "unchanged" and len(texts) <= SPOKEN_OF:
                log.info("%s: %s", outcome.name, outcome.status)
        running = sum(j.state is JobState.RUNNING for j in self._engine.jobs())
        log.info("%d jobs run", running)
