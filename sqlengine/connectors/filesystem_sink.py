"""Writing lines into a folder, exactly once.

Each writer has one file, `part-WRITER.FORMAT`, and beside it a hidden journal with a line per epoch: the epoch and the
length that the file has with it. The rows of an epoch are written first, its journal line after them; what opens the
folder again cuts the file to the length of the last line. So the rows of an epoch are there whole or not at all, and an
epoch that is repeated adds nothing. Another process that reads the file at the same moment may see a part of an epoch."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import ClassVar
from zlib import crc32

from xxhash import xxh64_hexdigest

from parser.errors import ExecutionError, PlanError, ServiceError
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.broker.errors import cannot_write
from sqlengine.disk import MACHINE, Disk, make_lasting_folder
from sqlengine.formats.registry import encoder_for, framing_of

_HEADER = b"sqlengine file sink journal 1\n"
_MAX_JOURNAL = 1 << 16


class FileSink:
    """One writer's file in `folder`."""

    guarantee: ClassVar[str] = "exactly-once"

    def __init__(self, table: Table, folder: Path, writer: str, *, fsync: bool, disk: Disk = MACHINE) -> None:
        check_folder(table, folder, disk)
        if fsync:
            make_lasting_folder(disk, folder)
        else:
            disk.make_folder(folder, parents=True)
        self._disk = disk
        self._names = table.physical.names
        self._framing = framing_of(table)
        self._encoder = encoder_for(table)
        self._fsync = fsync
        self._pending: list[bytes] = []
        self._rows = 0
        name = file_name(table, writer)
        self._path = folder / f"{name}.{table.options['format']}"
        self._journal = _Journal(folder / f".{name}.journal", fsync=fsync, disk=disk)
        try:
            self._file = disk.open(self._path, make=True, mode=0o644)
            self._length = self._recover()
            if fsync:
                self._settle(folder)
        except BaseException:
            self._journal.close()
            raise

    def _recover(self) -> int:
        """Cuts off what was written for an epoch that was not committed."""
        size = self._disk.size(self._file)
        if size < self._journal.length:
            raise ExecutionError(
                f"file '{self._path}' lost rows that were committed",
                detail=f"it has {size} bytes, its journal says {self._journal.length}",
                hint="restore it, or remove it together with its journal to begin again",
            )
        self._disk.truncate(self._file, self._journal.length)
        return self._journal.length

    def _settle(self, folder: Path) -> None:
        """The process before may have died between a write and its sync: what is found now, others build on."""
        self._disk.sync(self._file)
        self._journal.settle()
        self._disk.sync_folder(folder)

    def last_epoch(self) -> int | None:
        return self._journal.epoch

    def write(self, batch: Batch) -> None:
        if not batch.num_rows:
            return
        rows = batch.with_columns(batch.schema.select(self._names), [batch.column(n) for n in self._names])
        data = b"\n".join(self._encoder.encode(rows).to_pylist()) + b"\n"
        if data.count(b"\n") != batch.num_rows and not self._told_apart(data, batch.num_rows):
            raise ExecutionError(
                f"a row for '{self._path}' holds a line break, and records of files are lines",
                hint="use format 'json', which writes it as \\n",
            )
        self._pending.append(data)
        self._rows += batch.num_rows

    def _told_apart(self, data: bytes, count: int) -> bool:
        """Whether a reader finds the records again, line breaks between quotes and all."""
        return len(self._framing.split(data, complete=True).records) == count

    def commit(self, epoch: int) -> int:
        if self._journal.epoch is not None and epoch <= self._journal.epoch:
            self._pending, self._rows = [], 0
        if not self._rows:
            return 0
        data = b"".join(self._pending)
        if not self._disk.is_named(self._file):
            raise ExecutionError(
                f"the output file '{self._path}' was deleted while it was written to",
                hint="start the job again: it begins a new file",
            )
        try:
            _write_all(self._disk, self._file, data, self._length)
            if self._fsync:
                self._disk.sync(self._file)
            self._journal.add(epoch, self._length + len(data))
        except OSError as error:
            self._disk.truncate(self._file, self._length)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise cannot_write(f"file '{self._path}'", error) from None
            raise ExecutionError(f"cannot write to '{self._path}'", detail=error.strerror) from None
        self._length += len(data)
        written, self._pending, self._rows = self._rows, [], 0
        return written

    def close(self) -> None:
        self._disk.close(self._file)
        self._journal.close()


def check_folder(table: Table, folder: Path, disk: Disk = MACHINE) -> None:
    """PlanError where the path is a file."""
    if disk.exists(folder) and not disk.is_folder(folder):
        raise PlanError(f"'{folder}' is a file; table '{table.display}' writes into a folder")


class _Journal:
    """The last epoch of a file and the length that it has with it. Held open and locked: a writer is one process."""

    def __init__(self, path: Path, *, fsync: bool, disk: Disk) -> None:
        self._path = path
        self._fsync = fsync
        self._disk = disk
        self._file = disk.open(path, make=True, mode=0o644)
        if not disk.lock(self._file):
            disk.close(self._file)
            raise ServiceError(f"another process writes to '{path.parent}' as the same writer")
        self.epoch: int | None = None
        self.length = 0
        self._size = self._load()

    def _load(self) -> int:
        """Reads the entries; the journal's size up to the last whole one."""
        data = self._disk.pread(self._file, self._disk.size(self._file), 0)
        if not data.startswith(_HEADER):
            if data and not _HEADER.startswith(data):
                raise ExecutionError(f"'{self._path}' is no journal that this version reads")
            _write_all(self._disk, self._file, _HEADER, 0)
            return len(_HEADER)
        size = len(_HEADER)
        for line in data[size:].splitlines(keepends=True):
            entry = _parse(line)
            if entry is None:
                break  # torn by a crash
            self.epoch, self.length = entry
            size += len(line)
        self._disk.truncate(self._file, size)
        return size

    def add(self, epoch: int, length: int) -> None:
        """Writes down that the file has `length` bytes with `epoch`."""
        if self._size > _MAX_JOURNAL:
            self._shorten()
        line = _entry(epoch, length)
        try:
            _write_all(self._disk, self._file, line, self._size)
        except OSError:
            self._disk.truncate(self._file, self._size)
            raise
        if self._fsync:
            self._disk.sync(self._file)
        self._size += len(line)
        self.epoch, self.length = epoch, length

    def settle(self) -> None:
        self._disk.sync(self._file)

    def _shorten(self) -> None:
        """Only the last entry counts. The new file takes the old one's place at once, and its lock before that."""
        fresh = self._path.with_suffix(".new")
        file = self._disk.open(fresh, make=True, empty=True, mode=0o644)
        self._disk.lock(file)
        data = _HEADER + (_entry(self.epoch, self.length) if self.epoch is not None else b"")
        _write_all(self._disk, file, data, 0)
        if self._fsync:
            self._disk.sync(file)
        self._disk.rename(fresh, self._path)
        if self._fsync:
            self._disk.sync_folder(self._path.parent)
        self._disk.close(self._file)
        self._file, self._size = file, len(data)

    def close(self) -> None:
        self._disk.close(self._file)


def _entry(epoch: int, length: int) -> bytes:
    text = f"{epoch} {length}"
    return f"{text} {crc32(text.encode()):08x}\n".encode()


def _parse(line: bytes) -> tuple[int, int] | None:
    parts = line.decode("ascii", "replace").split(" ")
    if not line.endswith(b"\n") or len(parts) != 3 or not parts[0].isdigit() or not parts[1].isdigit():
        return None
    entry = int(parts[0]), int(parts[1])
    return entry if _entry(*entry) == line else None


def _write_all(disk: Disk, file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        done = disk.pwrite(file, view, offset)
        view, offset = view[done:], offset + done


def file_name(table: Table, writer: str) -> str:
    """Without an ending. Of its own for each writer and table, since two tables of a graph may write into one folder."""
    options = "\0".join(f"{k}={v}" for k, v in sorted(table.options.items()))
    own = xxh64_hexdigest("\0".join([writer, *table.name, str(table.physical), options]).encode())
    return f"{part_of(writer)}{own[:8]}"


def part_of(writer: str) -> str:
    """How the names of all files of a writer begin."""
    return f"part-{re.sub(r'[^A-Za-z0-9_.-]', '-', writer)[:100]}-"
