"""The rows of a version: a file of the Arrow IPC format for each column, in one piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import Column, Schema
from sqlengine.state.columns import IntArray

# Texts of one column may have 2 GiB with offsets of 32 bits; more have offsets of 64.
_MOST_SMALL: Final = (1 << 31) - 1
_LARGE: Final = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
_PIECES: Final = "pieces"


def _file(folder: Path, number: int) -> Path:
    return folder / f"column-{number}.arrow"


class ColumnWriter:
    """Writes the columns of a version.

    Rows come in pieces, which go to one file; at the end each column is put together from them. So
    the memory that it takes is that of the largest column, whatever the number of rows."""

    def __init__(self, folder: Path, schema: Schema) -> None:
        self._folder, self._schema = folder, schema
        self._pieces = folder / _PIECES
        arrow = pa.schema([(str(i), c.type.arrow) for i, c in enumerate(schema)])
        # A table without columns still has rows.
        self._arrow = arrow.append(pa.field("rows", pa.null()))
        self._file = pa.OSFile(str(self._pieces), "wb")
        self._writer = pa.ipc.new_file(self._file, self._arrow)
        self.num_rows = 0

    def add(self, columns: Sequence[pa.Array], num_rows: int) -> None:
        """Appends rows."""
        arrays = [*columns, pa.nulls(num_rows)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._arrow))
        self.num_rows += num_rows

    def finish(self, proceed: Callable[[], None]) -> None:
        """Makes the files of the columns; calls `proceed`, which may raise, before each."""
        self._close()
        with pa.memory_map(str(self._pieces)) as file:
            pieces = pa.ipc.open_file(file)
            for number, column in enumerate(self._schema):
                proceed()
                self._write(number, column, pieces)
        self._pieces.unlink()

    def _write(self, number: int, column: Column, pieces: pa.ipc.RecordBatchFileReader) -> None:
        kind = column.type.arrow
        chunks = [pieces.get_batch(i).column(number) for i in range(pieces.num_record_batches)] or [
            pa.array([], kind)
        ]
        if kind in _LARGE and sum(map(_bytes_of, chunks)) > _MOST_SMALL:
            chunks = [chunk.cast(_LARGE[kind]) for chunk in chunks]
        whole = pa.concat_arrays(chunks)
        schema = pa.schema([(column.name, whole.type)])
        path = str(_file(self._folder, number))
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays([whole], schema=schema))

    def _close(self) -> None:
        self._writer.close()
        self._file.close()

    def discard(self) -> None:
        """Closes the file; the folder is of no use then."""
        self._close()


def _bytes_of(texts: pa.Array) -> int:
    return int(pc.sum(pc.binary_length(texts)).as_py() or 0)


class MappedColumns:
    """The columns of a version, mapped into memory."""

    def __init__(self, folder: Path, schema: Schema, num_rows: int) -> None:
        self.num_rows = num_rows
        self._folder, self._schema = folder, schema
        self._arrays: dict[str, pa.Array] = {}

    def whole(self, name: str) -> pa.Array:
        """Returns a column: of its type, or that with 64-bit offsets."""
        if name not in self._arrays:
            path = _file(self._folder, self._schema.index(name))
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            self._arrays[name] = reader.get_batch(0).column(0)
        return self._arrays[name]

    def take(self, name: str, rows: IntArray) -> pa.Array:
        """Returns the values of a column in these rows."""
        values = self.whole(name).take(pa.array(rows))
        kind = self._schema.type(name).arrow
        return values if values.type.equals(kind) else values.cast(kind)

    def pieces(self, names: Sequence[str], size: int) -> Iterator[tuple[IntArray, list[pa.Array]]]:
        """Yields the numbers of at most `size` rows each, with their columns."""
        for start in range(0, self.num_rows, size):
            numbers = np.arange(start, min(start + size, self.num_rows))
            yield numbers, [self.whole(name).slice(start, len(numbers)) for name in names]
