"""Turns changes of the watched folder into changes of jobs, and keeps the refused files.

The latest change of a job wins, whichever way it came. So a file counts when it changes: a job that
another way has replaced or removed since stays as it is until then, also over restarts.

A file that was refused for what is not in it (a topic, a folder, a database, a module that is
missing) is tried again: at once when a topic comes, else after pauses that grow."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parser.errors import ParseError, PlanError, SqlError
from sqlengine.access.actor import Actor, acting
from sqlengine.access.audit.log import NO_AUDIT, Audit, AuditFull
from sqlengine.access.shadow_names import is_shadow, rule_of, shadow_of
from sqlengine.control.folder import FolderChange, FolderWatcher, renames
from sqlengine.control.folder_owners import PEER, FolderOwners
from sqlengine.control.folder_records import (
    FolderRecords,
    OverriddenFile,
    TakenFile,
    digest_of_text,
    has_text_of,
    overridden,
    taken_file,
)
from sqlengine.control.scripts import SourceFile
from sqlengine.engine import Engine
from sqlengine.engine.requests import Outcome, Request
from sqlengine.jobs.job import JobState, Origin
from sqlengine.jobs.planning import JobText
from sqlengine.system.threads import THREADS, Repeated
from sqlengine.system.words import count, counted, grouped

# A change of at most so many jobs is logged job by job.
MAX_LOGGED = 20
log = logging.getLogger("sqlengine")


# Seconds between two looks at whether refused files can be tried again, and the longest pause
# between two tries; a try takes at most the _SHARE-th part of the time.
RETRY_S, MAX_PAUSE_S, _SHARE = 0.5, 10.0, 20


@dataclass(frozen=True)
class _Refusal:
    """A file that was refused, and the text that is tried again."""

    path: Path
    error: SqlError
    text: JobText | None


class FolderIntake:
    """Keeps the jobs of a folder as its files are. Creates the folder if it is missing."""

    def __init__(self, engine: Engine, folder: Path, audit: Audit = NO_AUDIT) -> None:
        self._engine = engine
        self._audit = audit
        self._watcher = FolderWatcher(folder, self._changed)
        self._records = FolderRecords(engine.broker, engine.now_ms)
        self._owners = FolderOwners(engine.access)
        self._refused: dict[str, _Refusal] = {}
        self._lock = threading.Lock()  # one change or try at a time
        self._topics: frozenset[str] = frozenset()
        self._pause_s = self._retry_at = 0.0
        self._repeated: Repeated | None = None

    def start(self) -> None:
        """Brings the jobs in line with the folder (added, replaced, renamed, removed), and watches
        it."""
        files = self._watcher.scan()
        if self._records.new:
            self._records.write(self._taken_before(files.upserts))
        gone = {
            n: self._current_text(n)
            for n in self._own_jobs() - set(files.upserts)
            if not files.keeps(n)
        }
        known = self._known() | self._overridden_in(files.upserts).keys()
        sealed = self._engine.sealed_form
        texts = {n: sealed(f.text) for n, f in files.upserts.items() if n not in known}
        renamed = renames(gone, texts)
        missing = {n for n, _ in self._records.items() if n not in files.upserts}
        removed = gone.keys() | {n for n in missing if not files.keeps(n)}
        self._apply(replace(files, renamed=renamed), frozenset(removed - renamed.keys()))
        self._watcher.start()
        self._repeated = THREADS.every("folder-retry", RETRY_S, self._retry_when_due)

    def stop(self) -> None:
        self._watcher.stop()
        if self._repeated is not None:
            self._repeated.stop()

    def problems(self) -> dict[Path, SqlError]:
        """Returns the files that are not running as they are, with the reason."""
        refused = self._refused.copy().values()
        return self._watcher.problems() | {r.path: r.error for r in refused}

    def tried_again(self) -> set[Path]:
        """Returns the refused files that lack something, which may come, outside of their text."""
        refused = self._waiting().values()
        return {r.path for r in refused if not isinstance(r.error, PlanError)}

    def overridden(self) -> list[OverriddenFile]:
        """Returns the files that do not count until they change."""
        log_ = self._engine.log
        found = (overridden(log_, name, taken) for name, taken in self._records.items())
        return [file for file in found if file is not None]

    def _overridden_in(self, files: Mapping[str, SourceFile]) -> dict[str, OverriddenFile]:
        """Returns the files that hold the text that was last taken from them, and do not count."""
        found: dict[str, OverriddenFile] = {}
        for name, file in files.items():
            taken = self._records.get(name)
            if taken is not None and taken.text == self._digest(file.text):
                late = overridden(self._engine.log, name, taken)
                found |= {} if late is None else {name: late}
        return found

    def _taken_before(self, files: Mapping[str, SourceFile]) -> dict[str, TakenFile]:
        """Returns what the folder last submitted by the history of the jobs, for a data folder
        without records."""
        taken = {}
        for name in files.keys() & self._engine.log.versions.keys():
            own = [v for v in self._engine.history(name) if v.origin is Origin.FOLDER]
            for v in own[-1:]:
                digest = digest_of_text(v.sql)
                taken[name] = TakenFile(str(files[name].path), digest, v.version, v.version + 1)
        return taken

    def _digest(self, text: str) -> str:
        """Returns the digest of a file's text as the job log has it: without passwords, which could
        be guessed by it."""
        return digest_of_text(self._engine.sealed_form(text))

    def _path(self, change: FolderChange, name: str) -> Path:
        """Returns the job's file, even if it is gone."""
        if name in change.upserts:
            return change.upserts[name].path
        return Path(self._engine.history(name)[-1].file or name)

    def _current_text(self, name: str) -> str:
        """Returns the text of the job's current version: of its shadow, if it has nothing else."""
        jobs = self._engine.log.jobs
        job = jobs.get(name) or jobs.get(shadow_of(name)) or self._engine.job(name)
        return self._engine.log.version(name, job.version).sql

    def _own_jobs(self) -> set[str]:
        """Returns the jobs that are as their files are, or were: the present version came from the
        folder, or has the text that the folder submitted."""
        taken, log_ = dict(self._records.items()), self._engine.log
        return {
            rule_of(j.name)
            for j in self._engine.jobs()
            if not (is_shadow(j.name) and rule_of(j.name) in log_.jobs)
            if j.origin is Origin.FOLDER
            or (j.name in taken and has_text_of(log_, j.name, taken[j.name]))
        }

    def _known(self) -> set[str]:
        """Returns the names of all jobs: of their rules, for shadows."""
        return {rule_of(j.name) for j in self._engine.jobs()}

    def _changed(self, change: FolderChange) -> None:
        self._apply(change, frozenset(change.removed))

    def _apply(self, change: FolderChange, removed: frozenset[str]) -> None:
        if not self._audit.ready():
            raise AuditFull("the audit log cannot be written", detail="its disk is full")
        with self._lock:
            self._make(change, removed)
            self._begin_retries()

    def _make(self, change: FolderChange, removed: frozenset[str]) -> None:
        """Makes one change of the engine from a change of files, and a second one for files that
        were renamed and edited at once."""
        for path, error in change.problems:
            log.error("%s: %s", path, error)
        late = self._overridden_in(change.upserts)
        refused = self._owners.take({n: f for n, f in change.upserts.items() if n not in late})
        own, known = self._own_jobs(), self._known()
        renamed = {
            old: new
            for old, new in change.renamed.items()
            if old in own and new not in known and new not in refused
        }
        removed |= change.renamed.keys() - renamed.keys()
        self._log_overridden(late, (removed - own) & known)
        texts = {
            n: JobText(n, f.text, str(f.path))
            for n, f in change.upserts.items()
            if n not in late and n not in refused
        }
        outcomes = self._submit(texts, removed & own, renamed) | refused
        self._audit.write(self._owners.events(outcomes.values()))
        self._record(texts, {*removed, *change.renamed})
        for name in [*removed, *change.renamed, *texts]:
            self._refused.pop(name, None)
        self._keep_refusals(outcomes.values(), change, texts)
        _log_outcomes(outcomes.values(), each=len(change.upserts) <= MAX_LOGGED)
        running = sum(j.state is JobState.RUNNING for j in self._engine.jobs())
        log.info("%s running", count(running, "job"))

    def _submit(
        self, texts: Mapping[str, JobText], removed: frozenset[str], renamed: Mapping[str, str]
    ) -> dict[str, Outcome]:
        owners = self._owners.of(texts)
        outcomes = self._change(Request(Origin.FOLDER, texts, removed, renamed, owners=owners))
        edited = {
            n: texts[n]
            for n in renamed.values()
            if outcomes[n].error is None
            and self._current_text(n) != self._engine.sealed_form(texts[n].sql)
        }
        if edited:  # an edit that was refused under the old name
            outcomes |= self._change(Request(Origin.FOLDER, edited, owners=owners))
        return outcomes

    def _change(self, request: Request) -> dict[str, Outcome]:
        with acting(Actor(Origin.FOLDER.value, PEER, "files")):
            return self._engine.change(request)

    def _record(self, texts: Mapping[str, JobText], gone: Collection[str] = ()) -> None:
        """Keeps what was taken from files, after it was submitted."""
        log_ = self._engine.log
        digests = {n: self._digest(t.sql) for n, t in texts.items()}
        taken = {n: taken_file(log_, n, str(t.file), digests[n]) for n, t in texts.items()}
        self._records.write(dict.fromkeys(gone) | taken)

    def _log_overridden(
        self, files: Mapping[str, OverriddenFile], stay: frozenset[str] | set[str]
    ) -> None:
        """Logs files that do not count, and jobs that stay although their files are gone."""
        for message, paths in grouped((str(f), f.file) for f in files.values()).items():
            log.info("%s: %s; counts again when it changes", counted(paths, "file"), message)
        known = self._engine.log.jobs
        jobs = [known[name] for name in sorted(stay) if name in known]
        for origin, names in grouped((job.origin, job.name) for job in jobs).items():
            told = "%s: stays without the file, as changed by %s ('sql remove' removes it)"
            log.warning(told, counted(names), origin.value)

    def _keep_refusals(
        self, outcomes: Iterable[Outcome], change: FolderChange, texts: Mapping[str, JobText]
    ) -> None:
        """Keeps refusals for `problems`."""
        for outcome in outcomes:
            if outcome.error is not None and outcome.status == "refused":
                refusal = _Refusal(
                    self._path(change, outcome.name), outcome.error, texts.get(outcome.name)
                )
                self._refused[outcome.name] = refusal

    # ---- refused files that may be good by now ---------------------------------------------------

    def _begin_retries(self) -> None:
        self._topics = self._engine.broker.topic_names()
        self._pause_s = RETRY_S
        self._retry_at = time.monotonic() + self._pause_s

    def _retry_when_due(self) -> None:
        """Tries refused files again if there is another topic, or the pause is over."""
        if not self._refused:
            return
        with self._lock:
            topics, now = self._engine.broker.topic_names(), time.monotonic()
            if topics == self._topics and now < self._retry_at:
                return
            self._pause_s = RETRY_S if topics != self._topics else self._pause_s
            self._topics = topics
            try:
                self._retry()
            except Exception:
                log.exception("refused files could not be tried again now")
            took = time.monotonic() - now
            self._pause_s = min(max(2 * self._pause_s, _SHARE * took), MAX_PAUSE_S)
            self._retry_at = time.monotonic() + self._pause_s

    def _waiting(self) -> dict[str, _Refusal]:
        """Returns the refused files to submit again: not those whose text is wrong in itself, and
        those whose jobs another way has changed since."""
        late = {file.job for file in self.overridden()}
        return {
            name: refusal
            for name, refusal in self._refused.copy().items()
            if refusal.text is not None
            and not isinstance(refusal.error, ParseError)
            and name not in late
        }

    def _retry(self) -> None:
        """Submits refused files again that may be good by now."""
        again = {n: r.text for n, r in self._waiting().items() if r.text is not None}
        if not again:
            return
        outcomes = self._change(Request(Origin.FOLDER, again, owners=self._owners.of(again)))
        news: list[Outcome] = []
        for name, outcome in outcomes.items():
            before = self._refused.pop(name)
            if outcome.status == "refused" and outcome.error is not None:
                self._refused[name] = replace(before, error=outcome.error)
                news += [outcome] * (str(outcome.error) != str(before.error))
        _log_errors(news)
        taken = [(o.status, n) for n, o in outcomes.items() if n not in self._refused]
        for status, names in grouped(taken).items():
            log.info("%s: %s, refused before", _called(names), status)
        self._record(again)


def _log_outcomes(outcomes: Collection[Outcome], *, each: bool) -> None:
    """Logs what came of jobs: errors, with `each` all that changed, and the jobs that use what
    changed."""
    _log_errors(outcomes)
    for outcome in outcomes:
        if each and outcome.error is None and outcome.status != "unchanged":
            log.info("%s: %s", outcome.name, outcome.status)
        if outcome.dependents:
            found = Counter(d.status for d in outcome.dependents)
            told = ", ".join(f"{n} {status}" for status, n in found.items())
            log.info("%s: of the jobs that use what it defines: %s", outcome.name, told)


def _log_errors(outcomes: Iterable[Outcome]) -> None:
    """Logs errors: one that several jobs have once, with the place where it came first."""
    errors = {o.name: (o.status, o.error) for o in outcomes if o.error is not None}
    said = (((status, error.reason), name) for name, (status, error) in errors.items())
    for (status, reason), names in grouped(said).items():
        _, first = errors[names[0]]
        if len(names) == 1:
            log.error("%s: %s", names[0], first)
        else:
            place = f"; the first is at {first.position}" if first.position else ""
            log.error("%s %s: %s%s", counted(names), status, reason, place)


def _called(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else counted(names)
