"""Elements of arrays by value and by place: added, found, removed, cut out, counted, joined to a
text. NULL for a NULL array, unless they say otherwise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parser.types import BOOLEAN, INT, STRING, DataType, Root
from udf.arrays.arrays import row_by_row, valid
from udf.arrays.lists import elements_in, equal_values, is_array, lists_from, lists_of, spread
from udf.arrays.signatures import array_and_element, as_array, grown, one_array
from udf.growth import ARRAY_JOINED
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, ResultRule, int_or_null, nullable, text_or_null
from udf.time.intervals import integers
from udf.vector import Errors, Vector


def _with_one(ctx: KernelContext, value: Values, element: Values, *, first: bool) -> Values:
    n, kind = ctx.num_rows, ctx.result_type.arrow
    lists = lists_of(value, n)
    flat = lists.values.cast(kind.value_type)
    one = (pa.repeat(element, n) if isinstance(element, pa.Scalar) else element).cast(
        kind.value_type
    )
    # A NULL array stays NULL, and takes no element.
    lengths = np.where(lists.present, lists.lengths + 1, 0)
    places = np.zeros(int(lengths.sum()), np.int64)
    ends = np.cumsum(lengths)
    # Where in the result the new element of each present row stands.
    own = (ends - lengths if first else ends - 1)[lists.present]
    inside = np.ones(len(places), np.bool_)
    inside[own] = False
    # The new elements stand behind all old ones in the joined column.
    places[own] = len(flat) + np.flatnonzero(lists.present)
    places[inside] = elements_in(lists)
    return lists_from(places, lengths, lists.present, pa.concat_arrays([flat, one]), kind)


@function(
    "ARRAY_APPEND",
    signature=Custom(array_and_element, grown, "an array and an element of its type"),
)
def array_append(ctx: KernelContext, value: Values, element: Values) -> Values:
    """ARRAY_APPEND(array, element): the array with an element added at its end, which may be NULL.

    >>> ARRAY_APPEND(ARRAY[1, 2], 3)
    [1, 2, 3]
    """
    return _with_one(ctx, value, element, first=False)


@function(
    "ARRAY_PREPEND",
    signature=Custom(array_and_element, grown, "an array and an element of its type"),
)
def array_prepend(ctx: KernelContext, value: Values, element: Values) -> Values:
    """ARRAY_PREPEND(array, element): the array with an element added at its beginning, which may be
    NULL.

    >>> ARRAY_PREPEND(ARRAY[1, 2], 3)
    [3, 1, 2]
    """
    return _with_one(ctx, value, element, first=True)


def _hits(
    ctx: KernelContext, value: Values, needle: Values
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compares the elements of all rows with the needle of their row.

    Returns a mask of equal ones, the row of each element, and its index in the row."""
    lists = lists_of(value, ctx.num_rows)
    lengths = lists.lengths
    elements = lists.values.take(pa.array(elements_in(lists)))
    rows = np.repeat(np.arange(ctx.num_rows), lengths)
    # The index in the row: the running number less the number at which the row began.
    index = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return equal_values(elements, spread(needle, lengths).cast(elements.type)), rows, index


@function(
    "ARRAY_CONTAINS",
    signature=Custom(
        array_and_element,
        lambda t, _: BOOLEAN.with_nullable(t[0].nullable),
        "an array and an element of its type",
    ),
)
def array_contains(ctx: KernelContext, value: Values, needle: Values) -> Values:
    """ARRAY_CONTAINS(array, element): TRUE if the element, which may be NULL, is in the array.

    >>> ARRAY_CONTAINS(ARRAY[1, 2], 2)
    TRUE
    """
    hits, rows, _ = _hits(ctx, value, needle)
    contains = np.zeros(ctx.num_rows, np.bool_)
    contains[rows[hits]] = True
    return pa.array(contains, mask=~valid(value, ctx.num_rows))


@function(
    "ARRAY_POSITION",
    signature=Custom(
        array_and_element,
        lambda t, _: INT.with_nullable(nullable(t)),
        "an array and an element of its type",
    ),
)
def array_position(ctx: KernelContext, value: Values, needle: Values) -> Values:
    """ARRAY_POSITION(array, element): the position of the first such element in the array, from 1;
    0 if there is none. NULL if one is NULL.

    >>> ARRAY_POSITION(ARRAY['a', 'b'], 'b')
    2
    """
    hits, rows, index = _hits(ctx, value, needle)
    positions = np.zeros(ctx.num_rows, np.int32)
    positions[rows[hits][::-1]] = index[hits][::-1] + 1  # the first one is written last
    present = valid(value, ctx.num_rows) & valid(needle, ctx.num_rows)
    return pa.array(positions, mask=~present)


@function(
    "ARRAY_REMOVE",
    signature=Custom(array_and_element, as_array, "an array and an element of its type"),
)
def array_remove(ctx: KernelContext, value: Values, needle: Values) -> Values:
    """ARRAY_REMOVE(array, element): the array without the elements that equal this one, which may
    be NULL.

    >>> ARRAY_REMOVE(ARRAY[1, 2, 1], 1)
    [2]
    """
    lists = lists_of(value, ctx.num_rows)
    hits, rows, _ = _hits(ctx, value, needle)
    # Rows without elements left still need a length of zero.
    lengths = np.bincount(rows[~hits], minlength=ctx.num_rows)
    return lists_from(
        elements_in(lists)[~hits], lengths, lists.present, lists.values, ctx.result_type.arrow
    )


def _slice_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) not in (2, 3) or not is_array(types[0]):
        return None
    return (types[0], *[int_or_null.cast(t) for t in types[1:]])


@function(
    "ARRAY_SLICE",
    signature=Custom(
        _slice_types,
        lambda t, _: t[0].with_nullable(nullable(t)),
        "an array and one or two integers",
    ),
)
def array_slice(
    ctx: KernelContext, value: Values, start: Values, end: Values | None = None
) -> Values:
    """ARRAY_SLICE(array, start [, end]): the elements from `start` to `end` (inclusive), counted
    from 1, or from the last one for negative numbers; 0 is 1. NULL if one is NULL.

    >>> ARRAY_SLICE(ARRAY[1, 2, 3, 4], 2, 3)
    [2, 3]
    """
    n = ctx.num_rows
    lists = lists_of(value, n)
    size = lists.lengths
    first = _place(integers(start, n), size)
    last = size if end is None else _place(integers(end, n), size)
    # Bounds may lie outside of the array: they are drawn in, and an empty range has length zero.
    first, last = np.maximum(first, 1), np.minimum(last, size)
    present = lists.present & valid(start, n) & (valid(end, n) if end is not None else True)
    lengths = np.where(present, np.maximum(last - first + 1, 0), 0)
    begin = np.repeat(lists.starts + first - 1, lengths)
    offsets = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return lists_from(begin + offsets, lengths, present, lists.values, ctx.result_type.arrow)


def _place(index: np.ndarray, size: np.ndarray) -> np.ndarray:
    # -1 is the last element: size + index + 1.
    return np.where(index > 0, index, np.where(index == 0, 1, size + index + 1))


def _join_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) not in (2, 3) or not is_array(types[0]) or not types[0].children[0].is_string:
        return None
    return (types[0], *[text_or_null.cast(t) for t in types[1:]])


@function(
    "ARRAY_JOIN",
    signature=Custom(
        _join_types,
        lambda t, _: STRING.with_nullable(nullable(t)),
        "an array of strings and one or two strings",
    ),
    growth=ARRAY_JOINED,
)
def array_join(
    ctx: KernelContext, value: Values, delimiter: Values, missing: Values | None = None
) -> Values:
    """ARRAY_JOIN(array, delimiter [, text for NULL]): the elements joined by the delimiter; NULL
    elements are left out unless there is a replacement for them. NULL if one is NULL.

    >>> ARRAY_JOIN(ARRAY['a', NULL, 'b'], ',', '-')
    'a,-,b'
    """

    def joined(elements: list[str | None], between: str, instead: str | None = None) -> str:
        texts = (instead if e is None else e for e in elements)
        return between.join(t for t in texts if t is not None)

    rest = (delimiter,) if missing is None else (delimiter, missing)
    return row_by_row(ctx.num_rows, joined, pa.string(), value, *rest)


def _sized(t: DataType) -> bool:
    return t.root in (Root.ARRAY, Root.MAP, Root.MULTISET)


_ANY_SIZE: ResultRule = lambda t, _: INT.with_nullable(nullable(t))  # noqa: E731


@function(
    "CARDINALITY",
    signature=Custom(
        lambda t: tuple(t) if len(t) == 1 and _sized(t[0]) else None, _ANY_SIZE, "an array or a map"
    ),
)
def cardinality(ctx: KernelContext, value: Values) -> Values:
    """CARDINALITY(array or map): the number of its elements.

    >>> CARDINALITY(ARRAY['a', NULL])
    2
    """
    lists = lists_of(value, ctx.num_rows)
    return pa.array(lists.lengths.astype(np.int32), mask=~lists.present)


def _element_result(types: Types, literals: Literals) -> DataType:
    element = types[0].children[0]
    return element.with_nullable(element.nullable or types[0].nullable)


@function("ELEMENT", signature=Custom(one_array, _element_result, "an array"))
def element(ctx: KernelContext, value: Values) -> Vector:
    """ELEMENT(array): the only element of an array; NULL for an empty one. Error: an array of
    several elements.

    >>> ELEMENT(ARRAY[7])
    7
    """
    lists = lists_of(value, ctx.num_rows)
    one = lists.lengths == 1
    places = np.where(one, lists.starts, 0)
    # The mask makes an index NULL, and so the element; place 0 is never read there.
    elements = lists.values.take(pa.array(places, mask=~one)).cast(ctx.result_type.arrow)
    return Vector(elements, Errors.where(lists.lengths > 1, "ELEMENT of an array that has several"))
