"""The statistics of a Parquet file as bounds of columns in its groups of rows.

What is not known for certain is not known: INT96 (as Flink writes timestamps) has no statistics,
unsigned numbers have another order, and NaN in the place of a bound says nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import Column
from sqlengine.formats.bounds import Bounds
from udf.numbers.decimals import EXACT

# Converts the bytes of a statistic to a value of Arrow.
_Read = Callable[[Any], object]
_PLAIN: Final = {
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
}
_UNITS: Final = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def parquet_bounds(file: Any, column: Column) -> Bounds | None:
    """Returns the bounds of a column in each group of an open file; None where nothing is known
    of it. A column that the file has not is NULL."""
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    rows = np.array([g.num_rows for g in groups], np.int64)
    there = file.schema_arrow
    if column.name not in there.names:
        nothing = pa.nulls(len(groups), column.type.arrow)
        return Bounds(nothing, nothing, rows, rows)
    place = _place(file.schema, column.name)
    if place is None:
        return None
    statistics = [g.column(place).statistics for g in groups]
    nulls = [-1 if s is None or not s.has_null_count else s.null_count for s in statistics]
    known = _values(
        file.schema.column(place), there.field(column.name).type, statistics, column.type.arrow
    )
    least, greatest = known or [pa.nulls(len(groups), column.type.arrow)] * 2
    return Bounds(least, greatest, np.array(nulls, np.int64), rows)


def _place(schema: Any, name: str) -> int | None:
    """Returns the number of a column that is no part of another one; None where there is none."""
    found = [i for i in range(len(schema)) if schema.column(i).path == name]
    return found[0] if len(found) == 1 and "." not in name else None


def _values(
    stored: Any, kind: pa.DataType, statistics: Sequence[Any], wanted: pa.DataType
) -> list[pa.Array] | None:
    """Returns the least and the greatest values as rows have them once they are read; None where
    these are not comparable."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    how = _how_to_read(stored, kind)
    if how is None:
        return None
    storage, read = how
    pairs = [_pair(s, read) for s in statistics]
    try:
        raw = [pa.array([p[i] for p in pairs], storage) for i in (0, 1)]
        values = [a.view(kind) if pa.types.is_temporal(kind) else a for a in raw]
        options = pc.CastOptions(wanted, allow_time_truncate=True)
        return [pc.cast(v, options=options) for v in values]
    except (pa.ArrowException, OverflowError):  # rows that have such values cannot be read either
        return None


def _how_to_read(stored: Any, kind: pa.DataType) -> tuple[pa.DataType, _Read] | None:
    """Returns the type of the numbers in statistics, and what makes these of their bytes, for a
    column that Arrow reads as `kind`."""
    logical = json.loads(stored.logical_type.to_json())
    plain = _PLAIN.get(stored.physical_type)
    match logical["Type"]:
        case "String" if not pa.types.is_binary(kind):
            return pa.string(), bytes.decode
        case "Decimal":
            return kind, _decimal(int(logical["scale"]))
        case "Timestamp" if pa.types.is_timestamp(kind) and kind.tz in (None, "UTC", "+00:00"):
            return (pa.int64(), int) if _UNITS.get(logical["timeUnit"]) == kind.unit else None
        case "Time" if pa.types.is_time(kind):
            return (plain, int) if _UNITS.get(logical["timeUnit"]) == kind.unit else None
        case "Date" if pa.types.is_date32(kind):
            return pa.int32(), int
        case "Int" if logical["isSigned"] and plain is not None:
            return plain, int
        case "None" if plain is not None and plain == kind:
            return plain, _number
    return None


def _pair(statistics: Any, read: _Read) -> tuple[object, object]:
    if statistics is None or not statistics.has_min_max:
        return None, None
    try:
        return read(statistics.min_raw), read(statistics.max_raw)
    except ValueError:  # a text that is cut off within a character, or NaN
        return None, None


def _number(value: float) -> float:
    if value != value:
        raise ValueError("NaN is no bound")
    return value


def _decimal(scale: int) -> _Read:
    def read(value: Any) -> Decimal:
        unscaled = value if isinstance(value, int) else int.from_bytes(value, "big", signed=True)
        return Decimal(unscaled).scaleb(-scale, EXACT)

    return read
