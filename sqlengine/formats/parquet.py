"""The format 'parquet': columns by name, with the types that Flink gives them in such files.

TINYINT and SMALLINT are INT32 with their width, TIME is TIME_MILLIS, TIMESTAMP and TIMESTAMP_LTZ
are INT96 unless 'parquet.write.int64.timestamp' = 'true'. A column that a file has not is NULL;
what a file has besides is not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import ExecutionError, UnsupportedColumn
from parser.types import Column, DataType, Root, Schema
from planner.scalar import Scalar
from sqlengine.formats.base import (
    FilePart,
    FileReader,
    FileWriter,
    Format,
    FormatCapabilities,
    Option,
)
from sqlengine.formats.bounds import Bounds, may_hold
from sqlengine.formats.options import boolean, choice, parse_options
from sqlengine.formats.parquet_bounds import parquet_bounds
from sqlengine.formats.parquet_writer import ParquetWriter, library
from sqlengine.system.sizes import size

_NEVER_HELD: Final = (
    Root.INTERVAL_DAY_TIME,
    Root.INTERVAL_YEAR_MONTH,
    Root.NULL,
    Root.VARIANT,
    Root.BITMAP,
    Root.RAW,
)
_LEFT_OUT: Final = "take the file away, or leave such files out: 'source.unreadable-files' = 'skip'"
_READ: Final = 8192


class ParquetFormat(Format):
    name: ClassVar[str] = "parquet"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        bulk=True, line_separated=False, statistics=True
    )
    options: ClassVar[Mapping[str, Option]] = {
        "compression": Option(
            choice("SNAPPY", "GZIP", "ZSTD", "LZ4", "BROTLI", "UNCOMPRESSED"), default="SNAPPY"
        ),
        "block.size": Option(
            size, default="16 mb", doc="bytes of rows in one group of rows, before compression"
        ),
        "page.size": Option(size, default="1 mb"),
        "enable.dictionary": Option(boolean, default="true"),
        "utc-timezone": Option(
            choice("true"), default="true", doc="timestamps are always written in UTC"
        ),
        "write.int64.timestamp": Option(
            boolean, default="false", doc="timestamps as INT64 instead of INT96"
        ),
        "timestamp.time.unit": Option(
            choice("millis", "micros", "nanos"), default="micros", doc="of INT64 timestamps"
        ),
    }

    def check(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See `Format`."""
        parse_options(options, self.options, "format 'parquet'")
        for column in schema:
            for kind in _within(column.type):
                if kind.root in _NEVER_HELD:
                    raise UnsupportedColumn(
                        f"format 'parquet' cannot hold {kind}, in column '{column.name}'",
                        subject=column.name,
                    )

    def reader(
        self, path: Path, file: int, schema: Schema, options: Mapping[str, str]
    ) -> FileReader:
        return _Reader(path, file, schema)

    def writer(self, schema: Schema, options: Mapping[str, str]) -> FileWriter:
        return ParquetWriter(schema, parse_options(options, self.options, "format 'parquet'"))


def _within(kind: DataType) -> Iterator[DataType]:
    yield kind
    for child in kind.children:
        yield from _within(child)


class _Reader:
    """Reads on where the last read ended without going back; anywhere else from the beginning of a
    group of rows. Groups that need not be read are not read ahead."""

    def __init__(self, path: Path, file: int, schema: Schema) -> None:
        self._path = path
        nanos = any(k.is_timestamp and k.precision > 6 for c in schema for k in _within(c.type))
        try:
            again = pa.OSFile(f"/proc/self/fd/{file}")
            self._file = library().ParquetFile(
                again, coerce_int96_timestamp_unit="ns" if nanos else "us"
            )
        except (pa.ArrowException, OSError) as error:
            raise ExecutionError(
                f"'{path}' cannot be read as Parquet",
                detail=" ".join(str(error).split()),
                hint=(
                    f"{_LEFT_OUT}; one that is still written to needs a hidden name (. or _ in"
                    " front)"
                ),
            ) from None
        there = self._file.schema_arrow
        self._schema = schema
        self._columns = [c.name for c in schema if c.name in there.names]
        for column in schema:
            if column.name in there.names and not _fits(
                there.field(column.name).type, column.type.arrow
            ):
                raise self._other_type(column, there.field(column.name).type)
        groups = map(self._file.metadata.row_group, range(self._file.metadata.num_row_groups))
        self._groups = [(g.num_rows, g.total_byte_size) for g in groups]
        self._kept = [True] * len(self._groups)
        self._at = 0
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._rest: pa.RecordBatch | None = None
        self._sought = False

    @property
    def num_rows(self) -> int:
        return int(self._file.metadata.num_rows)

    def parts(self, where: Scalar | None) -> list[FilePart]:
        """See `PartedReader`: the groups of rows."""
        kept = [True] * len(self._groups)
        if where is not None:
            by_name = {c.name: c for c in self._schema}

            def bounds(name: str) -> Bounds | None:
                return parquet_bounds(self._file, by_name[name]) if name in by_name else None

            kept = may_hold(where, len(kept), bounds).tolist()
        if kept != self._kept:
            self._kept, self._sought = kept, False
        return [FilePart(*g, keep) for g, keep in zip(self._groups, kept, strict=True)]

    def read(self, start: int, count: int) -> pa.RecordBatch:
        """See `FileReader`."""
        if start != self._at or not self._sought:
            self._seek(start)
        parts: list[pa.RecordBatch] = []
        while count > 0 and (part := self._next()) is not None:
            taken = part.slice(0, count)
            self._rest = part.slice(len(taken)) if len(taken) < len(part) else None
            self._at += len(taken)
            count -= len(taken)
            parts.append(taken)
        rows = sum(map(len, parts))
        columns = [self._column(c, parts, rows, start) for c in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema.arrow)

    def _seek(self, row: int) -> None:
        self._open_groups(row)
        while self._at < row and (part := self._next()) is not None:
            passed = min(row - self._at, len(part))
            self._rest = part.slice(passed) if passed < len(part) else None
            self._at += passed

    def _open_groups(self, row: int) -> None:
        """Begins with the group that has the row, and goes on to the next one of another kind: that
        need not be read, or has to be."""
        group = first = 0
        while group < len(self._groups) and first + self._groups[group][0] <= row:
            first += self._groups[group][0]
            group += 1
        behind = group
        while behind < len(self._groups) and self._kept[behind] == self._kept[group]:
            behind += 1
        self._batches = self._file.iter_batches(
            batch_size=_READ,
            row_groups=range(group, behind),
            columns=self._columns,
            use_threads=False,
        )
        self._rest, self._at, self._sought = None, first, True

    def _next(self) -> pa.RecordBatch | None:
        """Rows from where it stands."""
        if self._rest is not None:
            rest, self._rest = self._rest, None
            return rest
        try:
            found = next(self._batches, None)
            if found is None and self._at < self.num_rows:
                self._open_groups(self._at)
                found = next(self._batches, None)
            return found
        except (pa.ArrowException, OSError) as error:
            raise ExecutionError(
                f"'{self._path}' is damaged", detail=" ".join(str(error).split()), hint=_LEFT_OUT
            ) from None

    def _column(
        self, column: Column, parts: Sequence[pa.RecordBatch], rows: int, start: int
    ) -> pa.Array:
        if column.name in self._columns:
            chunks = (
                pa.chunked_array([p.column(column.name) for p in parts])
                if parts
                else pa.chunked_array([[]])
            )
            array = self._cast(column, chunks, start)
        else:
            array = pa.nulls(rows, column.type.arrow)
        if not column.type.nullable and array.null_count:
            row = start + array.is_valid().index(False).as_py()
            raise ExecutionError(
                f"row {row} of '{self._path}' has NULL for column '{column.name}', which is NOT"
                " NULL"
            )
        return array

    def _cast(self, column: Column, chunks: pa.ChunkedArray, start: int) -> pa.Array:
        options = pc.CastOptions(column.type.arrow, allow_time_truncate=True)
        try:
            same = chunks.type.equals(column.type.arrow)
            cast = chunks if same else pc.cast(chunks, options=options)
        except pa.ArrowException as error:
            raise ExecutionError(
                f"column '{column.name}' of '{self._path}' holds what is no {column.type.plain}",
                detail=f"behind row {start}: {error}",
            ) from None
        whole = cast.combine_chunks()
        return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)

    def _other_type(self, column: Column, actual: pa.DataType) -> ExecutionError:
        return ExecutionError(
            f"column '{column.name}' of '{self._path}' is no {column.type.plain}",
            detail=f"in the file it is {actual}",
            hint="declare it as it is in the file, and CAST it in the query",
        )

    def close(self) -> None:
        self._batches = iter(())
        self._file.close()


def _fits(actual: pa.DataType, wanted: pa.DataType) -> bool:
    """True if values of a type in a file mean the same in ours, as far as they are in its range."""
    if pa.types.is_dictionary(actual):
        return _fits(actual.value_type, wanted)
    mine, theirs = _parts(wanted), _parts(actual)
    if mine is not None and theirs is not None and mine.kind == theirs.kind:
        return mine.names == theirs.names and all(map(_fits, theirs.types, mine.types))
    if pa.types.is_floating(wanted) and pa.types.is_floating(actual):
        return bool(actual.bit_width <= wanted.bit_width)
    if pa.types.is_null(actual):
        return True
    return any(is_one(actual) and is_one(wanted) for is_one in _FAMILIES)


@dataclass(frozen=True)
class _Parts:
    """The types inside a nested type; `names` are those of a struct's fields."""

    kind: str
    types: tuple[pa.DataType, ...]
    names: tuple[str, ...] = ()


def _parts(kind: pa.DataType) -> _Parts | None:
    """Returns the types inside a list, map or struct; None for any other type."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _Parts("list", (kind.value_type,))
    if pa.types.is_map(kind):
        return _Parts("map", (kind.key_type, kind.item_type))
    if pa.types.is_struct(kind):
        fields = list(kind)
        return _Parts("struct", tuple(f.type for f in fields), tuple(f.name for f in fields))
    return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


_FAMILIES: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    _is_text,
    _is_bytes,
)
