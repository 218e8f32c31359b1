"""Search of a text in another: position, prefix and suffix.

Positions count Unicode code points, from 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import BOOLEAN, INT, DataType
from udf.arrays.arrays import (
    RowError,
    column_of,
    is_ascii,
    is_constant,
    map_text,
    row_errors,
    valid,
)
from udf.registry import KernelContext, Types, Values, function
from udf.signatures import (
    Custom,
    gives,
    int_,
    takes,
    text,
    text_or_null,
)
from udf.text.bytes import MANY, hits
from udf.vector import Vector


def _position(search: str, value: str, start: int = 1) -> int:
    return value.find(search, max(start, 1) - 1) + 1 if search else 1


def _constant_position(value: pa.Array, search: Values, start: Values) -> Values | None:
    """Searches by bytes, where bytes are characters; None elsewhere."""
    if not (is_constant(search, start) and search.is_valid and start.is_valid and search.as_py()):
        return None
    if not is_ascii(value):
        return None
    before = max(start.as_py(), 1) - 1
    needle = search.as_py().encode()
    if not before and len(needle) > 1 and len(value) >= MANY:
        positions = np.zeros(len(value), np.int32)
        rows, at = hits(value, needle)
        positions[rows] = at + 1
        return column_of(positions, valid(value, len(value)), pa.int32())
    places = pc.find_substring(
        pc.utf8_slice_codeunits(value, before) if before else value, search.as_py()
    )
    return pc.if_else(
        pc.less(places, 0),
        pa.scalar(0, pa.int32()),
        pc.add(places, pa.scalar(before + 1, pa.int32())),
    )


@function("POSITION", signature=takes(text, text, int_, optional=1, result=INT))
def position(ctx: KernelContext, search: Values, value: Values, *start: Values) -> Values:
    """POSITION(search IN text [FROM start]): the position of the first occurrence of `search` in
    the text; 0 if there is none; 1 for an empty `search`.

    >>> POSITION('l' IN 'hello')
    3
    """
    fast = (
        None
        if is_constant(value)
        else _constant_position(value, search, start[0] if start else pa.scalar(1))
    )
    if fast is not None:
        return fast
    swapped: Callable[..., int] = lambda v, s, *at: _position(s, v, *at)  # noqa: E731
    return map_text(ctx.num_rows, swapped, pa.int32(), value, search, *start)


@function("LOCATE", signature=takes(text, text, int_, optional=1, result=INT))
def locate(ctx: KernelContext, search: Values, value: Values, *start: Values) -> Values:
    """LOCATE(search, text [, start]): the position of the first occurrence of `search` in the text,
    from `start` on; 0 if there is none; 1 for an empty `search`.

    >>> LOCATE('l', 'hello', 4)
    4
    """
    return position(ctx, search, value, *start)


def _nth_position(value: str, search: str, start: int, nth: int = 1) -> int:
    if nth < 1:
        raise RowError("INSTR counts occurrences from 1")
    if start == 0 or not search:
        return int(start != 0)
    place = start - 1 if start > 0 else max(len(value) + start + 1, 0)
    for _ in range(nth):
        index = value.find(search, place) if start > 0 else value.rfind(search, 0, place)
        if index < 0:
            return 0
        place = index + 1 if start > 0 else index + len(search) - 1
    return index + 1


@function("INSTR", signature=takes(text, text, int_, int_, optional=2, result=INT))
def instr(ctx: KernelContext, value: Values, search: Values, *places: Values) -> Values | Vector:
    """INSTR(text, search [, start [, n]]): the position of the n-th (by default the first)
    occurrence of `search` in the text from `start` on; 0 if there is none. From a negative start
    the search goes towards the beginning. Error: n below 1.

    >>> INSTR('hello', 'l')
    3
    >>> INSTR('hello', 'l', 1, 2)
    4
    """
    if not places:
        return position(ctx, search, value)
    return Vector(*row_errors(ctx.num_rows, _nth_position, pa.int32(), value, search, *places))


def _end_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) != 2 or any(t.is_binary for t in types):
        return tuple(types) if len(types) == 2 and all(t.is_binary for t in types) else None
    return tuple([text_or_null.cast(t) for t in types])


_END = Custom(_end_types, gives(BOOLEAN), "two strings or two binary values")


@function("STARTSWITH", signature=_END)
def startswith(ctx: KernelContext, value: Values, prefix: Values) -> Values:
    """STARTSWITH(text, prefix): TRUE if the text (or the bytes) begins with the prefix.

    >>> STARTSWITH('abc', 'ab')
    TRUE
    """
    if is_constant(prefix) and prefix.is_valid:
        return pc.starts_with(value, prefix.as_py())
    return map_text(ctx.num_rows, lambda v, p: v.startswith(p), pa.bool_(), value, prefix)


@function("ENDSWITH", signature=_END)
def endswith(ctx: KernelContext, value: Values, suffix: Values) -> Values:
    """ENDSWITH(text, suffix): TRUE if the text (or the bytes) ends with the suffix.

    >>> ENDSWITH('abc', 'bc')
    TRUE
    """
    if is_constant(suffix) and suffix.is_valid:
        return pc.ends_with(value, suffix.as_py())
    return map_text(ctx.num_rows, lambda v, e: v.endswith(e), pa.bool_(), value, suffix)
