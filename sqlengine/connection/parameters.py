"""Rows of parameters as Arrow columns, for an INSERT of many at once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from parser.writer.names import backticked
from parser.writer.parameters import Parameters
from parser.writer.row_inserts import RowInsert
from sqlengine.queries.ingest import ROWS

# Rows that are written at once.
AT_ONCE: Final = 32_768
# Types of Python whose values become a column of one type; those of all others are literals.
_PLAIN: Final[Mapping[type, pa.DataType | None]] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    dt.date: pa.date32(),
    dt.datetime: pa.timestamp("us"),
    Decimal: None,  # as many digits as they have
}


def in_parts(
    insert: RowInsert, rows: Iterable[Parameters]
) -> Iterator[tuple[str, pa.RecordBatch] | Sequence[Parameters]]:
    """Yields rows part by part: each as a statement and the table that it reads, or as it was given
    where some value is best a literal."""
    remaining = iter(rows)
    while part := list(islice(remaining, AT_ONCE)):
        columns = _columns(part, insert.keys)
        yield part if columns is None else _statement(insert, columns)


def of_batch(insert: RowInsert, rows: pa.RecordBatch) -> tuple[str, pa.RecordBatch] | None:
    """Returns rows of parameters that are Arrow as `in_parts` does those of Python; None where
    literals are best."""
    columns = _whole([_plain(column) for column in rows.columns])
    if columns is None or len(columns) != len(insert.keys):
        return None
    return _statement(insert, columns)


def _plain(column: pa.Array) -> pa.Array | None:
    kind = column.type
    if column.null_count == len(column):
        return pa.nulls(len(column))
    if pa.types.is_signed_integer(kind):
        return _narrow(column.cast(pa.int64()))
    plain = kind in _PLAIN.values() or pa.types.is_timestamp(kind) or pa.types.is_decimal128(kind)
    return column if plain else None


def _statement(insert: RowInsert, columns: Sequence[pa.Array]) -> tuple[str, pa.RecordBatch]:
    names = [f"p{n}" for n in range(len(columns))]
    given = [n for n, column in zip(names, columns, strict=True) if column.type != pa.null()]
    values = ", ".join(backticked(n) if n in given else "NULL" for n in names)
    rows = pa.RecordBatch.from_arrays(list(columns), names).select(given)
    return f"{insert.head} SELECT {values} FROM {backticked(ROWS)}", rows


def _columns(rows: Sequence[Parameters], keys: Sequence[int | str]) -> list[pa.Array] | None:
    """Returns the columns of rows; None for values that are no plain ones, and for rows that are
    not those of the marks."""
    given: Iterable[Sequence[object]]
    if keys and isinstance(keys[0], str):
        named = [row for row in rows if isinstance(row, Mapping)]
        if len(named) < len(rows) or not all(row.keys() >= set(keys) for row in named):
            return None
        given = [[row[str(key)] for row in named] for key in keys]
    else:
        wanted = list(range(len(keys)))
        if list(keys) != wanted or {type(row) for row in rows} - {tuple, list}:
            return None
        if {len(row) for row in rows} != {len(keys)}:
            return None
        given = zip(*rows, strict=True)
    return _whole([column_of(values) for values in given])


def _whole(columns: Sequence[pa.Array | None]) -> list[pa.Array] | None:
    """Returns columns of which each is a plain one, and some has values; else None."""
    found = [column for column in columns if column is not None]
    has_values = any(column.type != pa.null() for column in found)
    return found if has_values and len(found) == len(columns) else None


def column_of(values: Sequence[object]) -> pa.Array | None:
    """Returns values as a column of the type that their literals have; None for values of several
    types, and of those that are no plain ones."""
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pa.nulls(len(values))
    (kind, *others) = kinds
    if others or kind not in _PLAIN:
        return None
    try:
        if kind is dt.datetime:
            return _times(values)
        column = pa.array(values, _PLAIN[kind])
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None
    if pa.types.is_decimal(column.type) and column.type.precision > 38:
        return None
    return _narrow(column) if kind is int else column


def _times(values: Sequence[object]) -> pa.Array | None:
    """Returns instants where all have a time zone, times of day where none has."""
    zones = {v.tzinfo is None for v in values if isinstance(v, dt.datetime)}
    if len(zones) > 1:
        return None
    return pa.array(values, pa.timestamp("us", None if True in zones else "UTC"))


def _narrow(column: pa.Array) -> pa.Array:
    """Returns whole numbers as INT where all are such, as their literals would be."""
    ends = pc.min_max(column)
    small = ends["min"].as_py() >= -(1 << 31) and ends["max"].as_py() < 1 << 31
    return column.cast(pa.int32()) if small else column
