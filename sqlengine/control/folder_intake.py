"""Turns changes of the watched folder into changes of jobs, and keeps the refused files."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from parser.errors import SqlError
from sqlengine.control.folder import FolderChange, FolderWatcher, renames
from sqlengine.engine import Engine
from sqlengine.engine.requests import Outcome, Request
from sqlengine.jobs.job import JobState, Origin
from sqlengine.jobs.planning import JobText

# A change of at most so many jobs is logged job by job.
MAX_LOGGED = 20
log = logging.getLogger("sqlengine")


class FolderIntake:
    """Keeps the jobs of a folder as its files are. Creates the folder if it is missing."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._watcher = FolderWatcher(folder, self._changed)
        self._refused: dict[str, tuple[Path, SqlError]] = {}

    def start(self) -> None:
        """Brings the jobs in line with the folder (added, replaced, renamed, removed), and watches
        it."""
        files = self._watcher.scan()
        gone = {
            n: self._current_text(n)
            for n in self._own_jobs() - set(files.upserts)
            if not files.keeps(n)
        }
        known = {j.name for j in self._engine.jobs()}
        renamed = renames(gone, {n: f.text for n, f in files.upserts.items() if n not in known})
        self._apply(replace(files, renamed=renamed), frozenset(gone.keys() - renamed.keys()))
        self._watcher.start()

    def stop(self) -> None:
        self._watcher.stop()

    def problems(self) -> dict[Path, SqlError]:
        """Returns the files that are not running as they are, with the reason."""
        return self._watcher.problems() | dict(self._refused.copy().values())

    def _path(self, change: FolderChange, name: str) -> Path:
        """Returns the job's file, even if it is gone."""
        if name in change.upserts:
            return change.upserts[name].path
        return Path(self._engine.history(name)[-1].file or name)

    def _current_text(self, name: str) -> str:
        """Returns the text of the job's current version."""
        return self._engine.log.version(name, self._engine.job(name).version).sql

    def _own_jobs(self) -> set[str]:
        return {j.name for j in self._engine.jobs() if j.origin is Origin.FOLDER}

    def _changed(self, change: FolderChange) -> None:
        self._apply(change, frozenset(change.removed))

    def _apply(self, change: FolderChange, removed: frozenset[str]) -> None:
        """Makes one change of the engine from a change of files, and a second one for files that
        were renamed and edited at once."""
        for path, error in change.problems:
            log.error("%s: %s", path, error)
        own, known = self._own_jobs(), {j.name for j in self._engine.jobs()}
        renamed = {
            old: new for old, new in change.renamed.items() if old in own and new not in known
        }
        removed |= change.renamed.keys() - renamed.keys()
        texts = {n: JobText(n, f.text, str(f.path)) for n, f in change.upserts.items()}
        outcomes = self._engine.change(Request(Origin.FOLDER, texts, removed & own, renamed))
        edited = {
            n: texts[n]
            for n in renamed.values()
            if outcomes[n].error is None and self._current_text(n) != texts[n].sql
        }
        if edited:  # an edit that was refused under the old name
            outcomes |= self._engine.change(Request(Origin.FOLDER, edited))
        for name in [*removed, *change.renamed, *texts]:
            self._refused.pop(name, None)
        for outcome in outcomes.values():
            self._report(outcome, change)
        running = sum(j.state is JobState.RUNNING for j in self._engine.jobs())
        log.info("%d jobs run", running)

    def _report(self, outcome: Outcome, change: FolderChange) -> None:
        """Logs an outcome, and keeps a refusal for `problems`."""
        if outcome.error is not None:
            log.error("%s: %s", outcome.name, outcome.error)
            if outcome.status == "refused":
                self._refused[outcome.name] = self._path(change, outcome.name), outcome.error
        elif outcome.status != "unchanged" and len(change.upserts) <= MAX_LOGGED:
            log.info("%s: %s", outcome.name, outcome.status)
