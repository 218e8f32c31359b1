"""Dates and times as the integers that Arrow holds, within nested values too: what state and Python
see of them, since Python has no nanoseconds and no years beyond 9999."""

from __future__ import annotations

import pyarrow as pa


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type with integers in the place of dates and times."""
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, plain_type(f.type)) for f in kind])
    return kind


def as_plain(array: pa.Array) -> pa.Array:
    """Views dates and times as integers; nothing is copied."""
    kind = plain_type(array.type)
    return array if kind.equals(array.type) else array.view(kind)


def from_plain(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The reverse of `as_plain`, for the type that it was."""
    return array if kind.equals(array.type) else array.view(kind)
