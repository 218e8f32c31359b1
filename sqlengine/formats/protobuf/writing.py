"""Messages of rows: each column becomes what the constructor of a message takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from parser.types import Root
from sqlengine.formats.protobuf.fields import (
    BOOL,
    ENUM,
    MESSAGE,
    STRING,
    UINT32,
    UINT64,
    Field,
)
from sqlengine.formats.times import NANOS

_SECOND: Final = 10**9
_MASKS: Final = {UINT32: 0xFFFFFFFF, UINT64: 0xFFFFFFFFFFFFFFFF}

# From a value of a column, which is not NULL, to what a message takes.
Convert = Callable[[object], object]


def plain_values(column: pa.Array, field: Field) -> list[object]:
    """Returns the values of a column as `converter` takes them: times as numbers."""
    if field.is_instant:
        column = column.view(pa.int64())
    values: list[object] = _without_times(column).to_pylist()
    return values


def _without_times(column: pa.Array) -> pa.Array:
    """Returns timestamps inside of rows, arrays and maps as numbers, too."""
    return column.cast(_numbers(column.type)) if pa.types.is_nested(column.type) else column


def _numbers(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _numbers(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_numbers(kind.key_type), _numbers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_numbers(kind.value_type))
    return kind


def converter(field: Field, null_text: str) -> Convert:
    """Returns the conversion of a column's values. `null_text`: a text that is NULL, in an array or
    a map, where protobuf has no NULL."""
    if field.mapped:
        key, value = (_element(f, null_text) for f in field.inner)
        return lambda entries: {key(k): value(v) for k, v in entries}  # type: ignore[attr-defined]
    if field.repeated:
        element = _element(field.inner[0], null_text)
        return lambda values: [element(v) for v in values]  # type: ignore[attr-defined]
    if field.is_instant:
        return _instant(NANOS[str(field.kind.arrow.unit)])
    if field.form == MESSAGE:
        parts = [(f.name, converter(f, null_text)) for f in field.inner]
        return lambda row: {n: c(row[n]) for n, c in parts if row[n] is not None}  # type: ignore[index]
    if field.form in _MASKS:
        mask = _MASKS[field.form]
        return lambda value: value & mask  # type: ignore[operator]
    return lambda value: value


def _instant(unit: int) -> Convert:
    def convert(value: object) -> object:
        assert isinstance(value, int)
        seconds, nanos = divmod(value * unit, _SECOND)
        return {"seconds": seconds, "nanos": nanos}

    return convert


def _element(field: Field, null_text: str) -> Convert:
    """Returns the conversion of an element of an array or a map: NULL is a default."""
    convert, default = converter(field, null_text), _default(field, null_text)
    return lambda value: default if value is None else convert(value)


def _default(field: Field, null_text: str) -> object:
    match field.form:
        case form if form == MESSAGE:
            return {}
        case form if form == ENUM:
            return field.enum[0][0]
        case form if form == STRING:
            return b"" if field.binary else null_text
        case form if form == BOOL:
            return False
    return 0.0 if field.kind.root in (Root.FLOAT, Root.DOUBLE) else 0
