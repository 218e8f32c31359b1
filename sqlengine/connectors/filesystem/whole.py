"""Reading files of formats that are no sequence of records, such as Parquet: by rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from parser.errors import ExecutionError
from planner.catalog import Table
from sqlengine.connectors.base import Chunk
from sqlengine.connectors.filesystem.files import Files, FileShards, changed
from sqlengine.formats.base import FileReader, Format

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
        count = (until if until is not None else min(offset + max_rows, end)) - offset
        if count <= 0:
            self._close(shard)
            return None
        if offset + count > end:
            raise changed(shard, f"it has {end} rows, {offset + count} were there before")
        rows = self._reader(shard).read(offset, count)
        return Chunk(
            shard, offset, offset + count, count, columns=self._columns(shard, offset, rows)
        )

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
        return self._readers[shard]

    def _columns(self, shard: str, offset: int, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        offsets = np.arange(offset, offset + rows.num_rows)
        return columns | {m.column.name: values for m, values in self.metadata_of(shard, offsets)}

    def _close(self, shard: str) -> None:
        if shard in self._readers:
            self._readers.pop(shard).close()

    def close(self) -> None:
        for shard in list(self._readers):
            self._close(shard)
