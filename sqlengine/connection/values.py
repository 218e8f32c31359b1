"""Columns of results as Python values, without loss."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_MS: Final = dt.timedelta(milliseconds=1)
_DAY_TIME: Final = b"INTERVAL SECOND"
_T = TypeVar("_T")


def python_values(column: pa.Array, field: pa.Field) -> list[object]:
    """Returns the values of a column: int, str, Decimal, date, time, datetime (UTC for
    TIMESTAMP_LTZ), timedelta for INTERVAL … SECOND, a dict for a ROW, a MAP or a MULTISET.

    What Python's types cannot hold is a value of NumPy, which can: times with nanoseconds
    (TIMESTAMP(9)), and years before 1 or after 9999. A MAP whose keys have no hash is a list of
    pairs."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _rows(column, field)
    if pa.types.is_map(kind):
        return _maps(column, field)
    if pa.types.is_list(kind):
        return list(_lists(column, python_values(column.values, field.type.value_field)))
    if (field.metadata or {}).get(b"sql", b"").startswith(_DAY_TIME):
        return [None if ms is None else ms * _MS for ms in column.to_pylist()]
    if pa.types.is_temporal(kind):
        return _times(column)
    values: list[object] = column.to_pylist()
    return values


def _times(column: pa.Array) -> list[object]:
    if getattr(column.type, "unit", None) == "ns":
        return [_of_numpy(ticks, column.type) for ticks in _ticks(column)]
    try:
        values: list[object] = column.to_pylist()
    except (OverflowError, ValueError):
        values = list(map(_time, column, _ticks(column)))
    if getattr(column.type, "tz", None):  # of one kind, however Arrow says UTC
        return [v.replace(tzinfo=dt.UTC) if isinstance(v, dt.datetime) else v for v in values]
    return values


def _time(value: pa.Scalar, ticks: int | None) -> object:
    try:
        found: object = value.as_py()
    except (OverflowError, ValueError):
        return _of_numpy(ticks, value.type)
    return found


def _ticks(column: pa.Array) -> list[int | None]:
    storage = pa.int32() if column.type.bit_width == 32 else pa.int64()
    ticks: list[int | None] = column.view(storage).to_pylist()
    return ticks


def _of_numpy(ticks: int | None, kind: pa.DataType) -> object:
    if ticks is None:
        return None
    if pa.types.is_date(kind):
        return np.datetime64(ticks, "D")
    return (np.timedelta64 if pa.types.is_time(kind) else np.datetime64)(ticks, kind.unit)


def _rows(column: pa.Array, field: pa.Field) -> list[object]:
    fields = [field.type.field(i) for i in range(field.type.num_fields)]
    names = [f.name for f in fields]
    parts = [python_values(pc.struct_field(column, [i]), f) for i, f in enumerate(fields)]
    rows: Iterable[Sequence[object]] = zip(*parts, strict=True) if parts else [()] * len(column)
    valid = column.is_valid().to_pylist()
    return [
        dict(zip(names, row, strict=True)) if ok else None
        for row, ok in zip(rows, valid, strict=True)
    ]


def _maps(column: pa.Array, field: pa.Field) -> list[object]:
    keys = python_values(column.keys, field.type.key_field)
    items = python_values(column.items, field.type.item_field)
    pairs = _lists(column, list(zip(keys, items, strict=True)))
    return [None if p is None else _map(p) for p in pairs]


def _map(pairs: list[tuple[object, object]]) -> object:
    try:
        return dict(pairs)
    except TypeError:
        return pairs


def _lists(column: pa.Array, items: Sequence[_T]) -> list[list[_T] | None]:
    ends = column.offsets.to_pylist()
    bounds = zip(ends[:-1], ends[1:], column.is_valid().to_pylist(), strict=True)
    return [list(items[start:end]) if ok else None for start, end, ok in bounds]
