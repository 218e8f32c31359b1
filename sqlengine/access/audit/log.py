"""The files of the audit log, which a server appends to."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

from parser.errors import ServiceError
from sqlengine.access.access_file import AuditSettings
from sqlengine.access.audit.chain import FIRST, Link, link_of, sealed
from sqlengine.system.disk import MACHINE

if TYPE_CHECKING:
    from sqlengine.system.threads import Repeated, Threads

log = logging.getLogger("sqlengine")

FOLDER: Final = "audit"
_PREFIX, _SUFFIX = "audit-", ".jsonl"
# What is told of a text at most, such as that of a query.
_MOST_TEXT: Final = 4000
# Lines that wait for space in memory; what comes beyond is counted.
_MOST_PENDING: Final = 1000
# Different reads and appends that are counted at the same time.
_MOST_COUNTED: Final = 10_000
COUNT_S: Final = 60.0


class AuditFull(ServiceError):
    """The audit log cannot be written: nothing is changed that it would not tell."""

    title = "audit log is full"


@dataclass(frozen=True)
class Event:
    """A deed of somebody. `by`: the principal, '' where it is not known; `peer`: the address, or
    the user of this machine; `what`: the request; `subject`: its object, with the `version` that
    it has made; `outcome`: done, refused or failed; `more`: further fields."""

    by: str
    peer: str
    what: str
    subject: str = ""
    version: int = 0
    outcome: str = "done"
    detail: str = ""
    more: tuple[tuple[str, object], ...] = ()

    def fields(self, time_ms: int) -> dict[str, object]:
        """Returns the event as its line has it; fields without a value are left out."""
        optional: dict[str, object] = {
            "object": self.subject[:300],
            "version": self.version,
            "detail": self.detail[:_MOST_TEXT],
        }
        return {
            "time": time_text(time_ms),
            "by": self.by[:300],
            "peer": self.peer[:100],
            "what": self.what[:300],
            **{key: value for key, value in optional.items() if value},
            **dict(self.more),
            "outcome": self.outcome,
        }


def time_text(time_ms: int) -> str:
    """Returns a time as lines have it: such texts are in the order of their times."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


class Audit(Protocol):
    """Takes events. Any thread; no method raises."""

    def write(self, events: Sequence[Event]) -> None:
        """Writes changes. They are in the file when it returns, or wait for space."""

    def count(self, event: Event, size: int = 0) -> None:
        """Counts something that comes often, with its `size` (bytes): equal events of a minute are
        one line."""

    def ready(self) -> bool:
        """Returns True if a change would be told: else there is no space."""

    def close(self, last: Sequence[Event] = ()) -> None:
        """Writes all counts, then the `last` events, and closes the file."""


class NoAudit:
    """The audit of a server without principals: none."""

    def write(self, events: Sequence[Event]) -> None: ...

    def count(self, event: Event, size: int = 0) -> None: ...

    def ready(self) -> bool:
        return True

    def close(self, last: Sequence[Event] = ()) -> None: ...


NO_AUDIT: Final = NoAudit()


@dataclass
class _Counted:
    began: float
    since_ms: int
    times: int = 0
    size: int = 0


class AuditLog:
    """Appends to the files below a folder, from `open` on: one at a time, a line an event. `sync`:
    lines of changes are on disk, and not only with the system, when `write` returns. `first`
    returns the events with which each file begins."""

    def __init__(
        self, folder: Path, settings: AuditSettings, clock: Callable[[], int], *, sync: bool
    ) -> None:
        """Touches nothing: another process may have the folder. Events wait until `open`."""
        self.first: Callable[[], Iterable[Event]] = tuple
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self._sync = sync
        self._lock = threading.Lock()
        self._counted: dict[Event, _Counted] = {}
        self._pending: list[dict[str, object]] = []
        self._lost = 0
        self._full = False
        self._ticking: Repeated | None = None
        self._opened = False
        self._last = FIRST
        self._path: Path | None = None
        self._file: int | None = None

    def open(self) -> Self:
        """Goes on behind the last line, with what has waited; for the one process that has the
        folder. What a crash has left of a line is cut off, and that is told. OSError where it
        cannot be opened."""
        with self._lock:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._last, self._path, cut = _repaired(self._folder)
            self._file = None if self._path is None else self._open(self._path)
            self._opened = True
            if cut:
                repaired = f"{cut} bytes of a line were cut"
                told = Event("", "", "repair audit log", detail=repaired)
                self._pending.insert(0, told.fields(self._clock()))
            self._flush(sync=self._sync)
        return self

    # ---- events ----------------------------------------------------------------------------------

    def write(self, events: Sequence[Event]) -> None:
        """See `Audit`."""
        now = self._clock()
        with self._lock:
            self._add([event.fields(now) for event in events])
            self._flush(sync=self._sync)

    def count(self, event: Event, size: int = 0) -> None:
        """See `Audit`. A crash loses the counts of a minute at most."""
        now = time.monotonic()
        with self._lock:
            found = self._counted.get(event)
            if found is None:
                if len(self._counted) >= _MOST_COUNTED:
                    self._tell_counts(older_than=now)
                found = self._counted[event] = _Counted(now, self._clock())
            found.times += 1
            found.size += size
            due = now - found.began >= COUNT_S
        if due:
            self.tick()

    def start(self, threads: Threads) -> None:
        """Looks for counts that are a minute old now and then, until it is closed."""
        self._ticking = threads.every("audit", COUNT_S / 6, self.tick)

    def tick(self) -> None:
        """Writes the counts that are a minute old."""
        with self._lock:
            self._tell_counts(older_than=time.monotonic() - COUNT_S)

    def ready(self) -> bool:
        """See `Audit`. Tries again what waits."""
        if not self._full:
            return True
        with self._lock:
            self._flush(sync=self._sync)
            return not self._full

    def close(self, last: Sequence[Event] = ()) -> None:
        """See `Audit`. One that was never opened leaves the folder as it is."""
        if self._ticking is not None:
            self._ticking.stop()
        with self._lock:
            if not self._opened:
                return
            self._tell_counts(older_than=time.monotonic())
            if last:
                self._add([event.fields(self._clock()) for event in last])
                self._flush(sync=self._sync)
            if self._file is not None:
                os.close(self._file)
                self._file = None

    # ---- lines, under the lock -------------------------------------------------------------------

    def _tell_counts(self, *, older_than: float) -> None:
        due = [event for event, counted in self._counted.items() if counted.began <= older_than]
        for event in due:
            counted = self._counted.pop(event)
            numbers = {"times": counted.times, "bytes": counted.size}
            self._add([event.fields(counted.since_ms) | {k: v for k, v in numbers.items() if v}])
        if due:
            self._flush(sync=False)

    def _add(self, entries: Sequence[dict[str, object]]) -> None:
        waits = self._full or not self._opened
        room = max(0, _MOST_PENDING - len(self._pending)) if waits else len(entries)
        self._pending += entries[:room]
        self._lost += max(0, len(entries) - room)

    def _flush(self, *, sync: bool) -> None:
        """Writes what waits; what cannot be written goes on waiting."""
        if not self._opened:
            return
        try:
            while self._pending:
                batch = self._pending[:_MOST_PENDING]
                self._append(batch, sync=sync)
                del self._pending[: len(batch)]
            if self._full or self._lost:
                self._tell_gap()
        except OSError as error:
            if not self._full:
                log.error(
                    "the audit log cannot be written, its lines wait for space: %s",
                    error,
                )
            self._full = True

    def _tell_gap(self) -> None:
        lost = f"{self._lost} events are not told" if self._lost else "no event was lost"
        gap = Event("", "", "write audit log again", detail=f"there was no space; {lost}")
        self._append([gap.fields(self._clock())], sync=self._sync)
        self._full, self._lost = False, 0
        log.warning("the audit log is written again: %s", lost)

    def _append(self, entries: Sequence[dict[str, object]], *, sync: bool) -> None:
        """Appends lines to the file together, or none of them. OSError if that cannot be."""
        data, link = _sealed(entries, self._last)
        if self._needs_file(len(data)):
            begin = [event.fields(self._clock()) for event in self.first()]
            data, link = _sealed([*begin, *entries], self._last)
            self._begin_file()
        file = self._file
        assert file is not None
        size = os.fstat(file).st_size
        try:
            if os.write(file, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if sync:
                os.fsync(file)
        except OSError:
            os.ftruncate(file, size)
            raise
        self._last = link

    def _needs_file(self, size: int) -> bool:
        """True if so many bytes more need another file: there is none, or it is full."""
        if self._file is None:
            return True
        used = os.fstat(self._file).st_size
        return used > 0 and used + size > self._settings.file_bytes

    def _begin_file(self) -> None:
        path = self._folder / f"{_PREFIX}{self._last.number + 1:012d}{_SUFFIX}"
        file = self._open(path)
        if self._sync:
            MACHINE.sync_folder(self._folder)
        if self._file is not None:
            os.close(self._file)
        self._file, self._path = file, path
        self._drop_old()

    def _open(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _drop_old(self) -> None:
        """Removes the oldest files beyond the number that is kept, and tells it in the next
        line."""
        files = files_in(self._folder)
        for path in files[: -self._settings.files]:
            last = _last_link(path.read_bytes())
            path.unlink()
            gone = Event("", "", "remove audit file", path.name, detail=f"its last line was {last}")
            self._pending.append(gone.fields(self._clock()))


def _sealed(entries: Iterable[dict[str, object]], last: Link) -> tuple[bytes, Link]:
    """Returns the lines of entries behind the last one, and the place of the last of them."""
    lines = []
    for entry in entries:
        line, last = sealed(entry, last)
        lines.append(line)
    return b"".join(lines), last


def files_in(folder: Path) -> list[Path]:
    """Returns the files of an audit log, the oldest first."""
    return sorted(folder.glob(f"{_PREFIX}*{_SUFFIX}"))


def _repaired(folder: Path) -> tuple[Link, Path | None, int]:
    """Returns the last line, its file, and the bytes that were cut off behind it: a crash has
    written a line in part."""
    cut = 0
    files = files_in(folder)
    for path in reversed(files):
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            cut += len(content) - whole
            os.truncate(path, whole)
            log.warning("audit log: %d bytes behind the last line were cut off %s", cut, path)
        if whole:
            return _last_link(content[:whole]), files[-1], cut
    return FIRST, files[-1] if files else None, cut


def _last_link(content: bytes) -> Link:
    """Returns the place of the last line of a file. A line that was changed is told, and gone on
    from: the chain has a fault there."""
    line = content.rstrip(b"\n").rsplit(b"\n", 1)[-1]
    link = link_of(line) if line else FIRST
    if isinstance(link, Link):
        return link
    log.error("the last line of the audit log does not fit: %s ('sql audit verify')", link)
    return Link(content.count(b"\n"), FIRST.hash)
