"""The log of a rolling file, and how the complete file is made of it (see `rolling`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.filesystem.journal import write_all
from sqlengine.connectors.filesystem.sink import Lines
from sqlengine.formats.base import FileWriter
from sqlengine.formats.registry import bulk_format_of
from sqlengine.system.disk import Disk


class LinesOfLog:
    """The log is the file."""

    makes_files: ClassVar[bool] = False

    def __init__(self, table: Table) -> None:
        self._lines = Lines(table, f"table '{table.display}'")

    def encoded(self, rows: Batch) -> memoryview:
        return self._lines.of(rows)

    def begin(self, ready: Path, log: bytes) -> None: ...

    def add(self, data: bytes) -> None: ...

    def size(self, length: int) -> int:
        return length

    def finish(self, *, sync: bool) -> bool:
        return True

    def close(self) -> None: ...


class Rows:
    """The file grows beside the log; a crash takes it, and the log gives it back."""

    makes_files: ClassVar[bool] = True

    def __init__(self, table: Table, disk: Disk) -> None:
        bulk = bulk_format_of(table)
        assert bulk is not None
        self._format, self._options = bulk
        self._schema = table.physical
        self._disk = disk
        self._ready: Path | None = None
        self._file: int | None = None
        self._at = 0
        self._writer: FileWriter | None = None

    def encoded(self, rows: Batch) -> memoryview:
        columns = [rows.column(c.name) for c in self._schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema.arrow)
        return memoryview(batch.serialize())

    def begin(self, ready: Path, log: bytes) -> None:
        """Another file; the rows of `log` are in it."""
        self.close()
        self._ready = ready
        if log:
            self.add(log)

    def add(self, data: bytes) -> None:
        """Rows as `encoded` gave them. Where the disk is full the file waits to be made from the
        log."""
        if self._ready is None:
            return
        try:
            writer = self._opened(self._ready)
            for rows in self._read(data):
                self._put(writer.write(rows))
        except OSError:
            self.close()

    def _read(self, data: bytes) -> Iterator[pa.RecordBatch]:
        source = pa.BufferReader(data)
        while source.tell() < len(data):
            yield pa.ipc.read_record_batch(pa.ipc.read_message(source), self._schema.arrow)

    def _opened(self, ready: Path) -> FileWriter:
        if self._writer is None:
            self._file = self._disk.open(ready, make=True, empty=True, mode=0o666)
            self._writer, self._at = self._format.writer(self._schema, self._options), 0
        return self._writer

    def _put(self, data: bytes) -> None:
        assert self._file is not None
        write_all(self._disk, self._file, data, self._at)
        self._at += len(data)

    def size(self, length: int) -> int:
        return self._at + self._writer.buffered if self._writer is not None else length

    def finish(self, *, sync: bool) -> bool:
        """Completes the file; False where it has to be made anew."""
        if self._writer is None or self._file is None:
            return False
        try:
            self._put(self._writer.finish())
            if sync:
                self._disk.sync(self._file)
        finally:
            self.close()
        return True

    def close(self) -> None:
        file, self._file, self._writer, self._ready = self._file, None, None, None
        if file is not None:
            self._disk.close(file)
