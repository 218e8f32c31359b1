"""Writing lines into a folder, exactly once.

Each writer has one file, `part-WRITER.FORMAT`, and beside it a hidden journal with a line per
epoch: the epoch and the length that the file has with it. The rows of an epoch are written first,
its journal line after them; what opens the folder again cuts the file to the length of the last
line. So the rows of an epoch are there whole or not at all, and an epoch that is repeated adds
nothing. Another process that reads the file at the same moment may see a part of an epoch."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh64_hexdigest

from parser.errors import ExecutionError, OptionError, SqlError
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.broker.errors import cannot_write
from sqlengine.connectors.base import Sink
from sqlengine.connectors.encoded import RowEncoder
from sqlengine.connectors.filesystem.journal import Journal, write_all
from sqlengine.formats.registry import encoder_for, framing_of
from sqlengine.system.disk import MACHINE, Disk, make_folders

_BREAK: Final = ord("\n")


class FileSink(Sink):
    """Writes the file of one writer in `folder`. It is open from the first commit on: rows that
    were owed under the same name, when their job comes back, are committed before."""

    def __init__(
        self, table: Table, folder: Path, writer: str, *, fsync: bool, disk: Disk = MACHINE
    ) -> None:
        check_folder(table, folder, disk)
        make_folders(disk, folder, lasting=fsync)
        self._disk = disk
        self._folder = folder
        self._fsync = fsync
        self._pending: list[memoryview] = []
        self._rows = 0
        name = file_name(table, writer)
        self._path = folder / f"{name}.{table.options['format']}"
        self._lines = Lines(table, f"'{self._path}'")
        self._journal_path = folder / f".{name}.journal"
        self._file: int | None = None
        self._opened()
        self.release()

    def _opened(self) -> int:
        """The open file, which is opened again after `release`."""
        if self._file is not None:
            return self._file
        self._journal = Journal(self._journal_path, 1, fsync=self._fsync, disk=self._disk)
        try:
            file = self._disk.open(self._path, make=True, mode=0o666)
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

    def _recover(self, file: int) -> None:
        """Cuts off what was written for an epoch that was not committed. Syncs file and journal:
        the process before may have died between a write and its sync, and readers rely on what they
        find now."""
        (self._length,) = self._journal.numbers
        cut_back(self._disk, file, self._path, self._length)
        if self._fsync:
            self._disk.sync(file)
            self._journal.sync()
            self._disk.sync_folder(self._folder)

    def release(self) -> None:
        """Closes its files until they are needed; rows that were written and not committed stay."""
        if self._file is not None:
            self._disk.close(self._file)
            self._journal.close()
            self._file = None

    def last_epoch(self) -> int | None:
        return self._journal.epoch

    def write(self, batch: Batch) -> None:
        if not batch.num_rows:
            return
        self._pending.append(self._lines.of(batch))
        self._rows += batch.num_rows

    def commit(self, epoch: int) -> int:
        if self._journal.epoch is not None and epoch <= self._journal.epoch:
            self._pending, self._rows = [], 0
        if not self._rows:
            return 0
        data = b"".join(self._pending)
        try:
            file = self._opened()
        except OSError as error:
            raise not_written(f"'{self._path}'", error) from None
        self._append(file, epoch, data)
        written, self._pending, self._rows = self._rows, [], 0
        return written

    def _append(self, file: int, epoch: int, data: bytes) -> None:
        if not self._disk.is_named(file):
            raise ExecutionError(
                f"the output file '{self._path}' was deleted while it was written to",
                hint="start the job again: it begins a new file",
            )
        try:
            write_all(self._disk, file, data, self._length)
            if self._fsync:
                self._disk.sync(file)
            self._journal.add(epoch, self._length + len(data))
        except OSError as error:
            self._disk.truncate(file, self._length)
            raise not_written(f"'{self._path}'", error) from None
        self._length += len(data)

    def close(self) -> None:
        self.release()


def check_folder(table: Table, folder: Path, disk: Disk = MACHINE) -> None:
    """Raises PlanError where the path is a file."""
    if disk.exists(folder) and not disk.is_folder(folder):
        raise OptionError(
            f"'{folder}' is a file; table '{table.display}' writes into a folder",
            hint="name another path",
            subject="path",
        )


def not_written(what: str, error: OSError) -> SqlError:
    """BrokerFull where the disk is full: then what was not done is tried again."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return cannot_write(what, error)
    return ExecutionError(f"cannot write to {what}", detail=error.strerror)


class Lines(RowEncoder):
    """Makes lines of rows; `target` names in errors where these go."""

    def __init__(self, table: Table, target: str) -> None:
        super().__init__(table)
        self._names = table.physical.names
        self._encoder = encoder_for(table)
        self._framing = framing_of(table)
        self._target = target

    def of(self, rows: Batch) -> memoryview:
        """Returns the lines of rows, one after the other. See `encode` for what it raises."""
        (lines,) = self.encoded(rows)
        return _content(lines)

    def encode(self, rows: Batch) -> tuple[pa.Array, ...]:
        """Returns the line of each row, with its line break. ExecutionError where a reader would
        not find them again: line breaks between quotes are told apart."""
        columns = [rows.column(n) for n in self._names]
        records = self._encoder.encode(rows.with_columns(rows.schema.select(self._names), columns))
        if records.null_count:
            raise ExecutionError(f"a row for {self._target} has no record, and lines need one")
        lines = pc.binary_join_element_wise(records.cast(pa.binary()), b"", b"\n")
        data = _content(lines)
        breaks = np.count_nonzero(np.frombuffer(data, np.uint8) == _BREAK)
        if breaks != rows.num_rows and not self._are_found(bytes(data), rows.num_rows):
            raise ExecutionError(
                f"a row for {self._target} holds a line break, and records of files are lines",
                hint="use format 'json', which writes it as \\n",
            )
        return (lines,)

    def _are_found(self, data: bytes, rows: int) -> bool:
        return len(self._framing.split(data, complete=True).records) == rows


def _content(lines: pa.BinaryArray) -> memoryview:
    """Returns the bytes of an array without NULLs, which it has one after the other."""
    if not len(lines):
        return memoryview(b"")
    _, ends, data = lines.buffers()
    first, last = np.frombuffer(ends, np.int32)[[lines.offset, lines.offset + len(lines)]]
    return memoryview(data)[first:last]


def cut_back(disk: Disk, file: int, path: Path, length: int) -> None:
    """Leaves what was committed. ExecutionError where that is not there any more."""
    size = disk.size(file)
    if size < length:
        raise ExecutionError(
            f"file '{path}' lost rows that were committed",
            detail=f"it has {size} bytes, its journal says {length}",
            hint="restore it, or remove it together with its journal to begin again",
        )
    disk.truncate(file, length)


def file_name(table: Table, writer: str) -> str:
    """Returns the name, without an ending, of a writer's file of a table: two tables of a graph may
    write into one folder."""
    options = "\0".join(f"{k}={v}" for k, v in sorted(table.options.items()))
    own = xxh64_hexdigest("\0".join([writer, *table.name, str(table.physical), options]).encode())
    return f"{part_of(writer)}{own[:8]}"


def part_of(writer: str) -> str:
    """Returns how the names of all files of a writer begin."""
    return f"part-{re.sub(r'[^A-Za-z0-9_.-]', '-', writer)[:100]}-"
