"""The watched folder: every `*.sql` file below it is a job, so are Sigma's rules in `*.yml` files,
and a change of the files is a change of the jobs.

The system's notifications only wake the watcher. What changed is found by comparing the folder with
what was taken before, so a missed, doubled or reordered notification loses nothing.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from watchdog.events import (
    EVENT_TYPE_CLOSED_NO_WRITE,
    EVENT_TYPE_OPENED,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from parser.errors import ServiceError, SqlError
from sqlengine.control.folder_sigma import SigmaFiles
from sqlengine.control.scripts import (
    Listing,
    Moving,
    SourceFile,
    ambiguous,
    closed_folder,
    job_name,
    list_scripts,
    load,
)
from sqlengine.sigma.files import base_name, is_rule_file

RESCAN_S = 3.0
POLL_S = 0.5
PATIENCE = 10  # after so many quiet times, files that keep changing no longer hold up the others

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FolderChange:
    """The changes of a folder since the last one, by job name.

    A renamed job is in `renamed` (old name -> new name) and, under its new name, in `upserts`; not
    in `removed`. `problems` are files that cannot be jobs, each reported once; for jobs with such a
    file see `keeps`.
    """

    upserts: dict[str, SourceFile] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    problems: list[tuple[Path, SqlError]] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    unread: tuple[str, ...] = ()

    def keeps(self, name: str) -> bool:
        """True if the job must stay although no upsert names it: its file is bad, or cannot be
        reached."""
        return name in self.kept or any(name.startswith(prefix) for prefix in self.unread)

    def __bool__(self) -> bool:
        return bool(self.upserts or self.removed or self.renamed or self.problems)


class FolderWatcher:
    """Calls `apply` with every change of the scripts below `folder`, from a thread of its own, one
    call at a time.

    A change is taken when nothing has moved for `quiet_ms`; all that happened until then is one
    FolderChange. When `apply` raises, the change counts as not taken and comes again after
    `rescan_s`.
    """

    def __init__(
        self,
        folder: Path,
        apply: Callable[[FolderChange], None],
        *,
        quiet_ms: int = 200,
        rescan_s: float = RESCAN_S,
    ) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ServiceError(
                f"folder {str(folder)!r} cannot be watched", detail=error.strerror
            ) from error
        self.folder = folder.resolve()
        self._apply = apply
        self._quiet_s = quiet_ms / 1000
        self._rescan_s = rescan_s
        self._sigma = SigmaFiles(self.folder)
        self._state = _State(self.folder, self._sigma)
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._waker = _Waker(self._woken)
        self._heard = 0
        self._observer: BaseObserver | None = None
        self._thread: threading.Thread | None = None

    def scan(self) -> FolderChange:
        """Returns all present scripts as upserts. Call it before `start`, which then reports what
        differs from it."""
        with self._lock:
            change, self._state = _State(self.folder, self._sigma).advance(
                list_scripts(self.folder), frozenset()
            )
            return change

    def problems(self) -> dict[Path, SqlError]:
        """Returns the files that cannot be jobs at the moment."""
        return dict(self._state.problems)

    def start(self) -> None:
        """Starts watching. Without a `scan` before it, the first change has everything."""
        self._heard = -1  # the first look may find what came before the notifications
        self._woken.set()
        self._observer = _observe(self.folder, self._waker)
        if self._observer is None:
            self._rescan_s = min(self._rescan_s, POLL_S)
        self._thread = threading.Thread(target=self._run, name="folder-watcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops watching; waits for a running `apply`. A change that is not yet quiet is left for
        the next start."""
        self._stopped.set()
        self._woken.set()
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._woken.wait(self._rescan_s)
            try:
                self._take_change()
            except Exception:
                log.exception(
                    "a change of the folder %s was not taken, it will be tried again", self.folder
                )

    def _take_change(self) -> None:
        with self._lock:
            self._woken.clear()
            listing = list_scripts(self.folder)
            if listing == self._state.listing:
                self._heard = max(self._heard, 0)
                return
            listing, moving = self._wait_until_quiet(listing)
            change, state = self._state.advance(listing, moving)
            if self._stopped.is_set():
                return
            self._check_notifications()
            if change:
                self._apply(change)
            self._state = state
            if state.listing != listing:  # a file moved while it was read
                self._woken.set()

    def _check_notifications(self) -> None:
        """Polls the folder when it changed without a notification: the observer's thread may have
        died."""
        if self._waker.events == self._heard and self._rescan_s > POLL_S:
            log.warning(
                "changes in %s come without notifications: it is read every %s s now",
                self.folder,
                POLL_S,
            )
            self._rescan_s = POLL_S
        self._heard = self._waker.events

    def _wait_until_quiet(self, listing: Listing) -> tuple[Listing, frozenset[Path]]:
        """Waits until no file changes. Returns the listing of that moment, and the files that still
        change after the deadline."""
        deadline = time.monotonic() + PATIENCE * self._quiet_s
        while not self._stopped.wait(self._quiet_s):
            notified = self._woken.is_set()
            self._woken.clear()
            before, listing = listing, list_scripts(self.folder)
            moving = frozenset(
                p for p, stamp in listing.every.items() if before.every.get(p) != stamp
            )
            if (listing == before and not notified) or time.monotonic() > deadline:
                return listing, moving
        return listing, frozenset()


class _Waker(FileSystemEventHandler):
    def __init__(self, woken: threading.Event) -> None:
        self._woken = woken
        self.events = 0

    def on_any_event(self, event: FileSystemEvent) -> None:
        # Opening and reading are our own: they would wake us for ever.
        if event.event_type not in (
            EVENT_TYPE_OPENED,
            EVENT_TYPE_CLOSED_NO_WRITE,
        ):
            self.events += 1
            self._woken.set()


def _observe(folder: Path, waker: _Waker) -> BaseObserver | None:
    """Starts the system's notifications; None if there are none (limits of inotify, some network
    file systems)."""
    # A new folder may get its watch twice; where warnings are errors, this one would end the
    # observer's thread.
    warnings.filterwarnings("ignore", "Callback with id .* already exists", RuntimeWarning)
    observer = Observer()
    try:
        observer.schedule(waker, str(folder), recursive=True)
        observer.start()
    except OSError as error:
        log.warning(
            "no notifications for %s (%s): it is read every %s s instead", folder, error, POLL_S
        )
        return None
    return observer


@dataclass(frozen=True, slots=True)
class _State:
    """The state of a folder that was applied last: its listing, the jobs, and the files with
    errors. `sigma` reads rules, and keeps nothing but what it has read."""

    folder: Path
    sigma: SigmaFiles
    listing: Listing = field(default_factory=lambda: Listing({}, {}))
    jobs: dict[str, SourceFile] = field(default_factory=dict)
    problems: dict[Path, SqlError] = field(default_factory=dict)

    def advance(self, listing: Listing, moving: frozenset[Path]) -> tuple[FolderChange, _State]:
        """Returns the change from this state to `listing`, and the new state. Files in `moving`
        stay as they were."""
        reader = _Reader(self, listing, moving)
        present, problems = reader.jobs(), reader.problems
        kept = {
            name
            for name, job in self.jobs.items()
            if name not in present and reader.keeps(name, job)
        }
        jobs = {**{name: self.jobs[name] for name in kept}, **present}
        removed = self.jobs.keys() - jobs.keys()
        upserts = {
            n: job for n, job in jobs.items() if n not in self.jobs or self.jobs[n].sha != job.sha
        }
        renamed = renames(
            {n: self.jobs[n].sha for n in removed},
            {n: upserts[n].sha for n in upserts.keys() - self.jobs},
        )
        fresh = [
            (path, error)
            for path, error in problems.items()
            if str(self.problems.get(path)) != str(error)
        ]
        unread = tuple(_prefix(folder, self.folder) for folder in listing.closed)
        unread += tuple(f"{name}." for name in reader.unread)
        change = FolderChange(
            upserts, removed - renamed.keys(), renamed, fresh, kept | reader.troubled, unread
        )
        taken = Listing(reader.taken, listing.closed, reader.taken_rules)
        return change, _State(self.folder, self.sigma, taken, jobs, problems)


def _prefix(folder: Path, root: Path) -> str:
    """Returns the prefix of the names of all jobs below `folder`."""
    return "".join(f"{part}." for part in folder.relative_to(root).parts)


def renames(gone: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Pairs names in `gone` with names in `new` of the same content, each at most once."""
    same: dict[str, list[str]] = {}
    for name in sorted(new, reverse=True):
        same.setdefault(new[name], []).append(name)
    return {name: same[gone[name]].pop() for name in sorted(gone) if same.get(gone[name])}


class _Reader:
    """Reads what changed in a listing; collects problems on the way."""

    def __init__(self, state: _State, listing: Listing, moving: frozenset[Path]) -> None:
        self.state = state
        self.listing = listing
        self.moving = moving
        self.before = {job.path: job for job in state.jobs.values()}
        self.taken = dict(listing.files)
        self.taken_rules = dict(listing.sigma)
        self.problems: dict[Path, SqlError] = {
            path: closed_folder(path, why) for path, why in listing.closed.items()
        }
        self.troubled: set[str] = set()
        self.unread: tuple[str, ...] = ()

    def jobs(self) -> dict[str, SourceFile]:
        """Returns the jobs by name; names whose files are bad or still being written are in
        `troubled`."""
        jobs = {}
        for name, paths in sorted(self._named().items()):
            owner = self._owner(name, paths)
            job = self._read(owner) if owner else None
            if job is not None:
                jobs[name] = job
            else:
                self.troubled.add(name)
        return jobs | self._rules(jobs)

    def _rules(self, scripts: Mapping[str, SourceFile]) -> dict[str, SourceFile]:
        """Returns the jobs that are Sigma's rules. What cannot be a job now stays as it was."""
        had = {n: job.path for n, job in self.state.jobs.items() if is_rule_file(job.path.name)}
        if not self.listing.sigma and not had:
            return {}
        found = self.state.sigma.read(self.listing, self.moving)
        self.taken_rules = found.taken
        self.problems |= found.problems
        self.troubled |= found.refused
        self.troubled |= {n for n, path in had.items() if path in found.unread}
        self.unread = tuple(self._base(path) for path in found.unread)
        self.troubled |= set(self.unread)
        jobs = {}
        for name, job in found.jobs.items():
            if name in scripts:
                self.problems[job.path] = ambiguous(name, job.path, [scripts[name].path])
            else:
                jobs[name] = job
        return jobs

    def _base(self, path: Path) -> str:
        return base_name(path.relative_to(self.state.folder).as_posix())

    def keeps(self, name: str, job: SourceFile) -> bool:
        """True if a job stays without a good file: the file is bad, still being written, or cannot
        be reached."""
        return name in self.troubled or any(
            job.path.is_relative_to(folder) for folder in self.listing.closed
        )

    def _named(self) -> dict[str, list[Path]]:
        named: dict[str, list[Path]] = {}
        for path in sorted(self.listing.files):
            try:
                named.setdefault(job_name(path, self.state.folder), []).append(path)
            except SqlError as error:
                self.problems[path] = error
        return named

    def _owner(self, name: str, paths: list[Path]) -> Path | None:
        """Returns the file of a job: of several, the one that it was read from before."""
        if len(paths) == 1:
            return paths[0]
        owner = next((path for path in paths if path in self.before), None)
        for path in paths:
            if path != owner:
                self.problems[path] = ambiguous(name, path, [p for p in paths if p != path])
        return owner

    def _read(self, path: Path) -> SourceFile | None:
        stamp = self.listing.files[path]
        known = self.before.get(path)
        if path in self.moving:
            return self._later(path)
        if (
            known
            and self.state.listing.files.get(path) == stamp
            and path not in self.state.problems
        ):
            return known
        try:
            return load(path, stamp)
        except Moving:
            return self._later(path)
        except SqlError as error:
            self.problems[path] = error
            return None

    def _later(self, path: Path) -> SourceFile | None:
        """Keeps the old stamp of the file, so that the next scan finds it changed."""
        self.taken.pop(path)
        if path in self.state.listing.files:
            self.taken[path] = self.state.listing.files[path]
        return self.before.get(path)
