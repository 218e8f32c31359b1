"""Reading files of formats that are no sequence of records, such as Parquet: by rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from parser.errors import ExecutionError
from planner.catalog import Table
from planner.scalar import Scalar
from sqlengine.connectors.chunks import Chunk, Part
from sqlengine.connectors.filesystem.files import Files, FileShards, changed
from sqlengine.formats.base import FilePart, FileReader, Format, PartedReader

# So many files are read side by side, and are open.
_OPEN: Final = 8


class WholeFileSource(FileShards):
    """A shard is a file by its path, an offset a row. A file must not change once it is there;
    those beyond the first eight that are not read to their end wait for their turn."""

    def __init__(
        self,
        table: Table,
        files: Files,
        format_: tuple[Format, Mapping[str, str]],
        *,
        bounded: bool,
    ) -> None:
        super().__init__(table, files)
        self.bounded = bounded
        self._table = table
        self._format, self._options = format_
        self._readers: dict[str, FileReader] = {}
        self._rows: dict[str, int] = {}
        self._reached: dict[str, int] = {}
        self.filters = format_[0].capabilities.statistics
        self._where: Scalar | None = None
        # Of files that are, or were, open: those that are not known may have to be read as a whole.
        self._parts: dict[str, Sequence[FilePart]] = {}

    def apply_filter(self, where: Scalar | None) -> None:
        """See `Source`."""
        self._where = where
        self._parts.clear()
        for shard, reader in self._readers.items():
            self._note_parts(shard, reader)

    def parts(self, shard: str) -> list[Part] | None:
        """See `Source`: the groups of rows."""
        if shard in self._files.skipped:
            return None
        self._reader(shard)
        parts = self._parts.get(shard, ())
        ends = accumulate(p.rows for p in parts)
        return [Part(end, p.bytes * p.kept) for end, p in zip(ends, parts, strict=True)] or None

    def _note_parts(self, shard: str, reader: FileReader) -> None:
        if isinstance(reader, PartedReader):
            self._parts[shard] = reader.parts(self._where)

    def end(self, shard: str) -> int | None:
        if shard in self._files.skipped:
            return self._files.skipped[shard]
        try:
            return self._end(shard)
        except ExecutionError as error:
            self._files.skip(shard, self._reached.get(shard, 0), error)
            return self._files.skipped[shard]

    def _end(self, shard: str) -> int:
        if shard not in self._rows:
            self._rows[shard] = self._reader(shard).num_rows
        return self._rows[shard]

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`."""
        if until is not None:
            return self._chunk(shard, offset, max_rows, until)
        if shard in self._files.skipped or not self._is_in_turn(shard, offset):
            return None
        try:
            return self._chunk(shard, offset, max_rows, None)
        except ExecutionError as error:
            self._close(shard)
            self._files.skip(shard, offset, error)
            return None

    def _chunk(self, shard: str, offset: int, max_rows: int, until: int | None) -> Chunk | None:
        end = self._end(shard)
        stop = end if until is None else until
        if stop <= offset:
            self._close(shard)
            return None
        if stop > end:
            raise changed(shard, f"it has {end} rows, {stop} were there before")
        reader = self._reader(shard)
        runs = self._runs(shard, offset, stop)
        if until is None and runs:
            start, behind = runs[0]
            found = [reader.read(start, min(behind - start, max_rows))]
            stop = start + found[0].num_rows
            runs = [(start, stop)]
        else:
            found = [batch for a, b in runs for batch in _all(reader, a, b)]
        columns = self._columns(shard, runs, found)
        rows = sum(b - a for a, b in runs)
        pruned = self._pruned(shard, offset, stop)
        return Chunk(shard, offset, stop, rows, columns=columns, pruned=pruned)

    def _runs(self, shard: str, start: int, stop: int) -> list[tuple[int, int]]:
        """Returns the ranges of rows between two offsets that have to be read."""
        if shard not in self._parts:
            return [(start, stop)]
        runs: list[tuple[int, int]] = []
        at = 0
        for part in self._parts[shard]:
            first, behind = max(at, start), min(at + part.rows, stop)
            at += part.rows
            if part.kept and first < behind:
                begun = runs.pop()[0] if runs and runs[-1][1] == first else first
                runs.append((begun, behind))
        return runs

    def _pruned(self, shard: str, start: int, stop: int) -> int:
        """Returns how many parts that begin between two offsets are left out."""
        parts = self._parts.get(shard, ())
        begins = accumulate((p.rows for p in parts), initial=0)
        # The beginnings of all parts, and the end of the last one.
        return sum(not p.kept and start <= at < stop for p, at in zip(parts, begins, strict=False))

    def _is_in_turn(self, shard: str, offset: int) -> bool:
        """True if the file is among those that are read now. `offset` is where the graph stands in
        it."""
        self._reached[shard] = offset
        waiting = 0
        for other in self._files.shards():
            if other == shard:
                return waiting < _OPEN
            waiting += other not in self._files.skipped and (
                self._reached.get(other, 0) < self._rows.get(other, 1)
            )
        return True  # one that is not there any more is told when it is opened

    def _reader(self, shard: str) -> FileReader:
        if shard not in self._readers:
            size = self._files.status(shard).st_size
            if size != self._files.ends.setdefault(shard, size):
                raise changed(
                    shard, f"it has {size} bytes, {self._files.ends[shard]} were there before"
                )
            while len(self._readers) >= _OPEN:
                self._close(next(iter(self._readers)))
            file = self._files.open(shard)
            try:
                self._readers[shard] = self._format.reader(
                    Path(shard), file, self._table.physical, self._options
                )
            finally:
                os.close(file)
            self._note_parts(shard, self._readers[shard])
        return self._readers[shard]

    def _columns(
        self, shard: str, runs: Sequence[tuple[int, int]], read: Sequence[pa.RecordBatch]
    ) -> dict[str, pa.Array]:
        """Returns the columns of these ranges of rows, with those that are in no file."""
        schema = self._table.physical.arrow
        rows = read[0] if len(read) == 1 else _joined(read, schema)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        offsets = np.concatenate([np.arange(0), *(np.arange(a, b) for a, b in runs)])
        return columns | {m.column.name: values for m, values in self.metadata_of(shard, offsets)}

    def _close(self, shard: str) -> None:
        if shard in self._readers:
            self._readers.pop(shard).close()

    def close(self) -> None:
        for shard in list(self._readers):
            self._close(shard)


def _all(reader: FileReader, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows between two numbers, as many at a time as the reader gives."""
    while start < stop:
        yield (found := reader.read(start, stop - start))
        start += found.num_rows


def _joined(rows: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows of several batches, or none, as one."""
    return pa.concat_batches(rows) if rows else pa.RecordBatch.from_pylist([], schema)
