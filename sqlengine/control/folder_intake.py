"""From the watched folder to the engine: changes of files become changes of jobs, and what was
refused is remembered."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from parser.errors import SqlError
from sqlengine.control.folder import FolderChange, FolderWatcher, renames
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import JobState, Origin
from sqlengine.jobs.planning import JobText

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
        gone = {n: self._held(n) for n in self._mine() - set(files.upserts) if not files.keeps(n)}
        known = {j.name for j in self._engine.jobs()}
        renamed = renames(gone, {n: f.text for n, f in files.upserts.items() if n not in known})
        self._take(replace(files, renamed=renamed), frozenset(gone.keys() - renamed.keys()))
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

    def _held(self, name: str) -> str:
        """The text of a job as it is now."""
        return self._engine.log.version(name, self._engine.job(name).version).sql

    def _mine(self) -> set[str]:
        return {j.name for j in self._engine.jobs() if j.origin is Origin.FOLDER}

    def _changed(self, change: FolderChange) -> None:
        self._take(change, frozenset(change.removed))

    def _take(self, change: FolderChange, removed: frozenset[str]) -> None:
        for path, error in change.problems:
            log.error("%s: %s", path, error)
        mine, known = self._mine(), {j.name for j in self._engine.jobs()}
        renamed = {
            old: new for old, new in change.renamed.items() if old in mine and new not in known
        }
        removed |= change.renamed.keys() - renamed.keys()
        texts = {n: JobText(n, f.text, str(f.path)) for n, f in change.upserts.items()}
        outcomes = self._engine.change(Request(Origin.FOLDER, texts, removed & mine, renamed))
        edited = {
            n: texts[n]
            for n in renamed.values()
            if outcomes[n].error is None and self._held(n) != texts[n].sql
        }
        if edited:  # an edit that was refused under the old name
            outcomes |= self._engine.change(Request(Origin.FOLDER, edited))
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
