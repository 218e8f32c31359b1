"""Writing files that show when they are complete: of formats that are no lines, and of all formats
with a rolling policy.

Rows of an epoch go to the end of a hidden log `.NAME-N.log`, then a line to the journal: the epoch,
N, and the length of the log with it. When file N is complete, the journal says so (N + 1, with an
empty log) before `.NAME-N.ready` becomes NAME-N: so the file is there once and whole, wherever a
crash comes, and also where its readers take it away at once. What opens the folder again cuts the
log to the journal's length, and goes on. Of lines the log itself becomes the file; of other formats
it holds the rows as Arrow has them, from which the file is made again after a crash."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from parser.errors import SqlError
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.base import Sink
from sqlengine.connectors.filesystem.contents import LinesOfLog, Rows
from sqlengine.connectors.filesystem.journal import Journal, write_all
from sqlengine.connectors.filesystem.sink import check_folder, cut_back, file_name, not_written
from sqlengine.formats.registry import bulk_format_of
from sqlengine.system.disk import MACHINE, Disk, make_folders


@dataclass(frozen=True)
class Policy:
    """Decides when a file is complete: at a size in bytes, or so many ms after its first or its
    last row."""

    size: int
    rollover_ms: int
    inactivity_ms: int


@dataclass(frozen=True)
class Times:
    """The times (ms) of the first and the last row of a file."""

    first: int
    last: int


class RollingFileSink(Sink):
    """Writes the files of one writer in `folder`: a sequence, whose last file is hidden until it is
    complete."""

    def __init__(
        self,
        table: Table,
        folder: Path,
        writer: str,
        policy: Policy,
        clock: Callable[[], int],
        *,
        fsync: bool,
        disk: Disk = MACHINE,
    ) -> None:
        check_folder(table, folder, disk)
        make_folders(disk, folder, lasting=fsync)
        self._table, self._folder, self._policy, self._clock = table, folder, policy, clock
        self._fsync, self._disk = fsync, disk
        self._name = file_name(table, writer)
        self._content: LinesOfLog | Rows = (
            LinesOfLog(table) if bulk_format_of(table) is None else Rows(table, disk)
        )
        self._pending: list[memoryview] = []
        self._count = 0
        self._times: Times | None = None
        self._file: int | None = None
        self._opened()
        self.release()

    def _opened(self) -> int:
        """The open log, which is opened again after `release`."""
        if self._file is not None:
            return self._file
        path = self._folder / f".{self._name}.journal"
        self._journal = Journal(path, 2, fsync=self._fsync, disk=self._disk)
        try:
            self._number, self._length = self._journal.numbers
            for number in self._hidden():
                self._show(number)
            file = self._disk.open(self._log(self._number), make=True, mode=0o666)
        except BaseException:
            self._journal.close()
            raise
        try:
            self._recover(file)
        except BaseException:
            self._disk.close(file)
            self._journal.close()
            raise
        self._file = file
        return file

    def release(self) -> None:
        """Closes its files until they are needed; rows that were written and not committed stay."""
        self._content.close()
        if self._file is not None:
            self._disk.close(self._file)
            if not self._length:  # while it is locked
                self._disk.remove(self._log(self._number))
            self._journal.close()
            self._file = None

    def _recover(self, file: int) -> None:
        """Takes up the log where the journal says."""
        cut_back(self._disk, file, self._log(self._number), self._length)
        self._begin(self._disk.read(self._log(self._number), self._length))
        if self._length and self._times is None:
            self._times = Times(self._clock(), self._clock())
        if self._fsync:
            self._disk.sync(file)
            self._journal.sync()
            self._disk.sync_folder(self._folder)

    def _hidden(self) -> list[int]:
        """The numbers of files that are complete and have not got their names."""
        start = f".{self._name}-"
        names = (
            n.removeprefix(start) for n in self._disk.names(self._folder) if n.startswith(start)
        )
        parts = (n.partition(".") for n in names)
        numbers = {
            int(number)
            for number, _, ending in parts
            if ending in ("log", "ready") and number.isdecimal()
        }
        return sorted(n for n in numbers if n < self._number)

    def _begin(self, log: bytes) -> None:
        ready = self._ready(self._number)
        self._disk.remove(ready)
        self._content.begin(ready, log)

    def last_epoch(self) -> int | None:
        return self._journal.epoch

    @property
    def holds_rows(self) -> bool:
        """True if rows were committed that are not visible yet."""
        return self._length > 0

    def write(self, batch: Batch) -> None:
        if not batch.num_rows:
            return
        self._pending.append(self._content.encoded(batch))
        self._count += batch.num_rows

    def commit(self, epoch: int) -> int:
        if self._journal.epoch is not None and epoch <= self._journal.epoch:
            self._pending, self._count = [], 0
        if not self._count:
            return 0
        with self._space():
            self._append(epoch, b"".join(self._pending))
        now = self._clock()
        self._times = Times(self._times.first if self._times else now, now)
        written, self._pending, self._count = self._count, [], 0
        self.roll()
        return written

    def _append(self, epoch: int, data: bytes) -> None:
        file = self._opened()
        try:
            write_all(self._disk, file, data, self._length)
            if self._fsync:
                self._disk.sync(file)
            self._journal.add(epoch, self._number, self._length + len(data))
        except OSError:
            self._disk.truncate(file, self._length)
            raise
        self._length += len(data)
        self._content.add(data)

    def roll(self, *, end: bool = False) -> None:
        """See `Sink`."""
        if self.is_due(end=end):
            with self._space():
                self._complete(self._opened())

    def is_due(self, *, end: bool) -> bool:
        """True if a file is complete now; with `end` if there is one."""
        now, policy, times = self._clock(), self._policy, self._times
        if times is None or end:
            return times is not None
        return (
            self._content.size(self._length) >= policy.size
            or now - times.first >= policy.rollover_ms
            or now - times.last >= policy.inactivity_ms
        )

    def roll_is_due(self) -> bool:
        """See `Sink`."""
        return self.is_due(end=False)

    def _complete(self, file: int) -> None:
        """The file shows, and another one begins."""
        if not self._content.finish(sync=self._fsync):
            self._begin(self._disk.read(self._log(self._number), self._length))
            if not self._content.finish(sync=self._fsync):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fresh = self._disk.open(self._log(self._number + 1), make=True, empty=True, mode=0o666)
        try:
            if self._fsync:
                # The names of what is complete, and of the next log.
                self._disk.sync_folder(self._folder)
            assert self._journal.epoch is not None
            self._journal.add(self._journal.epoch, self._number + 1, 0)
        except OSError:
            self._disk.close(fresh)
            raise
        self._disk.close(file)
        self._file, self._number, self._length, self._times = fresh, self._number + 1, 0, None
        self._show(self._number - 1)
        self._begin(b"")

    def _show(self, number: int) -> None:
        """Gives a complete file its name, if it has it not yet."""
        complete = self._ready(number) if self._content.makes_files else self._log(number)
        if self._disk.exists(complete):
            self._disk.rename(
                complete, self._folder / f"{self._name}-{number}.{self._table.options['format']}"
            )
        self._disk.remove(self._log(number))
        if self._fsync:
            self._disk.sync_folder(self._folder)

    @contextmanager
    def _space(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise not_written(f"'{self._folder}'", error) from None

    def _log(self, number: int) -> Path:
        return self._folder / f".{self._name}-{number}.log"

    def _ready(self, number: int) -> Path:
        return self._folder / f".{self._name}-{number}.ready"

    def close(self) -> None:
        """Makes committed rows visible: no one else would complete the file."""
        try:
            with suppress(SqlError):  # without space it waits for whoever opens the folder next
                self.roll(end=True)
        finally:
            self.release()
