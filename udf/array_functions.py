"""Functions of arrays. NULL for a NULL array, unless they say otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import PlanError
from parser.types import BOOLEAN, INT, STRING, DataType, Root, array
from udf.arrays import row_by_row, valid
from udf.coercion import can_assign, merged_type
from udf.intervals import integers
from udf.lists import NULL_CODE, codes_of, elements_in, equal_values, is_array, lists_from, lists_of, picked, spread
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, ResultRule, boolean, int_, nullable, text
from udf.vector import Errors, Vector

Row: TypeAlias = Sequence[int]


def _array_first(
    *rest: Callable[[DataType, DataType], DataType | None],
) -> Callable[[Types], tuple[DataType, ...] | None]:
    """An array, and arguments whose casts are found from the array's type and their own; trailing ones may be missing
    where their rule says so by taking part only if given."""

    def casts(types: Types) -> tuple[DataType, ...] | None:
        if not types or not is_array(types[0]) or len(types) > len(rest) + 1:
            return None
        found = [rule(types[0], t) for rule, t in zip(rest, types[1:], strict=False)]
        known = [t for t in found if t is not None]
        return (types[0], *known) if len(known) == len(found) else None

    return casts


def _element(kind: DataType, given: DataType) -> DataType | None:
    """An element that the array could hold; an untyped NULL is one."""
    element = kind.children[0]
    fits = given.root is Root.NULL or given.same_as(element) or can_assign(given, element)
    return element.with_nullable(given.nullable) if fits else None


def _needs(
    count: int, casts: Callable[[Types], tuple[DataType, ...] | None]
) -> Callable[[Types], tuple[DataType, ...] | None]:
    return lambda types: casts(types) if len(types) >= count else None


def _as_array(types: Types, literals: Literals) -> DataType:
    return types[0].plain.with_nullable(types[0].nullable)


def _grown(types: Types, literals: Literals) -> DataType:
    element = types[0].children[0]
    held = array(element.with_nullable(element.nullable or types[1].nullable))
    return held.with_nullable(nullable(types))


_ONE = Custom(_needs(1, _array_first()), _as_array, "an array")
_WITH_ELEMENT = _needs(2, _array_first(_element))


def _common_arrays(least: int, most: int) -> Callable[[Types], tuple[DataType, ...] | None]:
    def casts(types: Types) -> tuple[DataType, ...] | None:
        if not least <= len(types) <= most or not all(is_array(t) for t in types):
            return None
        common = merged_type([t.children[0].with_nullable(True) for t in types])
        if common is None:
            return None
        return tuple(_array_of(common, t) for t in types)

    return casts


def _array_of(element: DataType, given: DataType) -> DataType:
    """The array type with this element; the given one where only nullability differs."""
    wanted = array(element.with_nullable(given.children[0].nullable)).with_nullable(given.nullable)
    return given if given.children[0].same_as(element) else wanted


def _union_result(types: Types, literals: Literals) -> DataType:
    element = types[0].children[0]
    holds_null = any(t.children[0].nullable for t in types)
    return array(element.with_nullable(holds_null)).with_nullable(nullable(types))


def _pick(ctx: KernelContext, choose: Callable[..., Row], *arrays: Values) -> pa.Array:
    """`choose(codes of the first array, codes of the second, …)` gives places: those of the second array follow those of
    the first."""
    n = ctx.num_rows
    lists = [lists_of(a, n) for a in arrays]
    kind = ctx.result_type.arrow
    flats = [x.values.cast(kind.value_type) for x in lists]
    codes = codes_of(*flats)
    bases = np.cumsum([0, *(len(f) for f in flats)])[:-1].tolist()
    rows: list[Row | None] = []
    for i in range(n):
        if not all(x.present[i] for x in lists):
            rows.append(None)
            continue
        spans = [(int(x.starts[i]), int(x.ends[i])) for x in lists]
        held = [c[a:b] for c, (a, b) in zip(codes, spans, strict=True)]
        starts = [base + a for base, (a, _) in zip(bases, spans, strict=True)]
        rows.append(choose(held, starts))
    return picked(rows, pa.concat_arrays(flats), kind)


def _firsts(held: Sequence[Row], starts: Row, keep: Callable[[int], bool]) -> Row:
    """The places of the first occurrence of every code that is to be kept."""
    seen: dict[int, int] = {}
    for codes, start in zip(held, starts, strict=True):
        for i, code in enumerate(codes):
            if code not in seen and keep(code):
                seen[code] = start + i
    return list(seen.values())


@function("ARRAY_DISTINCT", signature=_ONE)
def array_distinct(ctx: KernelContext, value: Values) -> Values:
    """ARRAY_DISTINCT(array): every element once, at its first place.

    >>> ARRAY_DISTINCT(ARRAY[1, 2, 1])
    [1, 2]
    """
    return _pick(ctx, lambda held, starts: _firsts(held, starts, lambda code: True), value)


@function("ARRAY_UNION", signature=Custom(_common_arrays(2, 2), _union_result, "two arrays of one common type"))
def array_union(ctx: KernelContext, left: Values, right: Values) -> Values:
    """ARRAY_UNION(array, array): the elements of both, every one once.

    >>> ARRAY_UNION(ARRAY[1, 2, 1], ARRAY[3, 2])
    [1, 2, 3]
    """
    return _pick(ctx, lambda held, starts: _firsts(held, starts, lambda code: True), left, right)


@function("ARRAY_INTERSECT", signature=Custom(_common_arrays(2, 2), _union_result, "two arrays of one common type"))
def array_intersect(ctx: KernelContext, left: Values, right: Values) -> Values:
    """ARRAY_INTERSECT(array, array): the elements of the first that are in the second, every one once.

    >>> ARRAY_INTERSECT(ARRAY[1, 2, 1], ARRAY[1])
    [1]
    """

    def choose(held: Sequence[Row], starts: Row) -> Row:
        other = set(held[1])
        return _firsts(held[:1], starts[:1], lambda code: code in other)

    return _pick(ctx, choose, left, right)


@function("ARRAY_EXCEPT", signature=Custom(_common_arrays(2, 2), _union_result, "two arrays of one common type"))
def array_except(ctx: KernelContext, left: Values, right: Values) -> Values:
    """ARRAY_EXCEPT(array, array): the elements of the first that are not in the second, every one once.

    >>> ARRAY_EXCEPT(ARRAY[1, 2, 1], ARRAY[2])
    [1]
    """

    def choose(held: Sequence[Row], starts: Row) -> Row:
        other = set(held[1])
        return _firsts(held[:1], starts[:1], lambda code: code not in other)

    return _pick(ctx, choose, left, right)


@function("ARRAY_CONCAT", signature=Custom(_common_arrays(1, 1 << 16), _union_result, "arrays of one common type"))
def array_concat(ctx: KernelContext, *values: Values) -> Values:
    """ARRAY_CONCAT(array, …): the elements of all arrays, one array after the other; NULL if one is NULL.

    >>> ARRAY_CONCAT(ARRAY[1], ARRAY[2, 3])
    [1, 2, 3]
    """

    def choose(held: Sequence[Row], starts: Row) -> Row:
        return [s + i for codes, s in zip(held, starts, strict=True) for i in range(len(codes))]

    return _pick(ctx, choose, *values)


@function("ARRAY_REVERSE", signature=_ONE)
def array_reverse(ctx: KernelContext, value: Values) -> Values:
    """ARRAY_REVERSE(array): the elements in reverse order.

    >>> ARRAY_REVERSE(ARRAY[1, 2, 3])
    [3, 2, 1]
    """
    return _pick(ctx, lambda held, starts: range(starts[0] + len(held[0]) - 1, starts[0] - 1, -1), value)


def _with_one(ctx: KernelContext, value: Values, element: Values, *, first: bool) -> Values:
    n, kind = ctx.num_rows, ctx.result_type.arrow
    lists = lists_of(value, n)
    flat = lists.values.cast(kind.value_type)
    one = (pa.repeat(element, n) if isinstance(element, pa.Scalar) else element).cast(kind.value_type)
    lengths = np.where(lists.present, lists.lengths + 1, 0)
    places = np.zeros(int(lengths.sum()), np.int64)
    ends = np.cumsum(lengths)
    own = (ends - lengths if first else ends - 1)[lists.present]
    inside = np.ones(len(places), np.bool_)
    inside[own] = False
    places[own] = len(flat) + np.flatnonzero(lists.present)
    places[inside] = elements_in(lists)
    return lists_from(places, lengths, lists.present, pa.concat_arrays([flat, one]), kind)


@function("ARRAY_APPEND", signature=Custom(_WITH_ELEMENT, _grown, "an array and an element of its type"))
def array_append(ctx: KernelContext, value: Values, element: Values) -> Values:
    """ARRAY_APPEND(array, element): the array with one more element at its end, which may be NULL.

    >>> ARRAY_APPEND(ARRAY[1, 2], 3)
    [1, 2, 3]
    """
    return _with_one(ctx, value, element, first=False)


@function("ARRAY_PREPEND", signature=Custom(_WITH_ELEMENT, _grown, "an array and an element of its type"))
def array_prepend(ctx: KernelContext, value: Values, element: Values) -> Values:
    """ARRAY_PREPEND(array, element): the array with one more element at its beginning, which may be NULL.

    >>> ARRAY_PREPEND(ARRAY[1, 2], 3)
    [3, 1, 2]
    """
    return _with_one(ctx, value, element, first=True)


def _hits(ctx: KernelContext, value: Values, needle: Values) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For the elements of all rows: whether it equals the row's needle, its row, its index in the row."""
    lists = lists_of(value, ctx.num_rows)
    lengths = lists.lengths
    held = lists.values.take(pa.array(elements_in(lists)))
    rows = np.repeat(np.arange(ctx.num_rows), lengths)
    index = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return equal_values(held, spread(needle, lengths).cast(held.type)), rows, index


@function(
    "ARRAY_CONTAINS",
    signature=Custom(
        _WITH_ELEMENT, lambda t, _: BOOLEAN.with_nullable(t[0].nullable), "an array and an element of its type"
    ),
)
def array_contains(ctx: KernelContext, value: Values, needle: Values) -> Values:
    """ARRAY_CONTAINS(array, element): whether the element, which may be NULL, is in the array.

    >>> ARRAY_CONTAINS(ARRAY[1, 2], 2)
    TRUE
    """
    hits, rows, _ = _hits(ctx, value, needle)
    found = np.zeros(ctx.num_rows, np.bool_)
    found[rows[hits]] = True
    return pa.array(found, mask=~valid(value, ctx.num_rows))


@function(
    "ARRAY_POSITION",
    signature=Custom(_WITH_ELEMENT, lambda t, _: INT.with_nullable(nullable(t)), "an array and an element of its type"),
)
def array_position(ctx: KernelContext, value: Values, needle: Values) -> Values:
    """ARRAY_POSITION(array, element): where the element is first in the array, from 1; 0 where it is not. NULL if one is
    NULL.

    >>> ARRAY_POSITION(ARRAY['a', 'b'], 'b')
    2
    """
    hits, rows, index = _hits(ctx, value, needle)
    found = np.zeros(ctx.num_rows, np.int32)
    found[rows[hits][::-1]] = index[hits][::-1] + 1  # the first one is written last
    present = valid(value, ctx.num_rows) & valid(needle, ctx.num_rows)
    return pa.array(found, mask=~present)


@function(
    "ARRAY_REMOVE",
    signature=Custom(_WITH_ELEMENT, _as_array, "an array and an element of its type"),
)
def array_remove(ctx: KernelContext, value: Values, needle: Values) -> Values:
    """ARRAY_REMOVE(array, element): the array without all elements that equal this one, which may be NULL.

    >>> ARRAY_REMOVE(ARRAY[1, 2, 1], 1)
    [2]
    """
    lists = lists_of(value, ctx.num_rows)
    hits, rows, _ = _hits(ctx, value, needle)
    lengths = np.bincount(rows[~hits], minlength=ctx.num_rows)
    return lists_from(elements_in(lists)[~hits], lengths, lists.present, lists.values, ctx.result_type.arrow)


def _slice_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) not in (2, 3) or not is_array(types[0]) or not all(t.is_integer for t in types[1:]):
        return None
    return (types[0], *[int_.cast(t) for t in types[1:]])


@function(
    "ARRAY_SLICE",
    signature=Custom(_slice_types, lambda t, _: t[0].with_nullable(nullable(t)), "an array and one or two integers"),
)
def array_slice(ctx: KernelContext, value: Values, start: Values, end: Values | None = None) -> Values:
    """ARRAY_SLICE(array, start [, end]): the elements from `start` to `end` (inclusive), counted from 1, or from the last
    one for negative numbers; 0 is 1. NULL if one is NULL.

    >>> ARRAY_SLICE(ARRAY[1, 2, 3, 4], 2, 3)
    [2, 3]
    """
    n = ctx.num_rows
    lists = lists_of(value, n)
    size = lists.lengths
    first = _place(integers(start, n), size)
    last = size if end is None else _place(integers(end, n), size)
    first, last = np.maximum(first, 1), np.minimum(last, size)
    present = lists.present & valid(start, n) & (valid(end, n) if end is not None else True)
    lengths = np.where(present, np.maximum(last - first + 1, 0), 0)
    begin = np.repeat(lists.starts + first - 1, lengths)
    offsets = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return lists_from(begin + offsets, lengths, present, lists.values, ctx.result_type.arrow)


def _place(index: np.ndarray, size: np.ndarray) -> np.ndarray:
    return np.where(index > 0, index, np.where(index == 0, 1, size + index + 1))


def _ordered(t: DataType) -> bool:
    return not t.children and t.root not in (Root.NULL, Root.BOOLEAN)


def _sort_types(types: Types) -> tuple[DataType, ...] | None:
    if not 1 <= len(types) <= 3 or not is_array(types[0]) or not _ordered(types[0].children[0]):
        return None
    return (types[0], *[boolean.cast(t) for t in types[1:]])


@function(
    "ARRAY_SORT",
    signature=Custom(
        _sort_types,
        lambda t, _: t[0].with_nullable(nullable(t)),
        "an array of values that can be ordered and two BOOLEAN",
    ),
)
def array_sort(
    ctx: KernelContext, value: Values, ascending: Values | None = None, first: Values | None = None
) -> Values:
    """ARRAY_SORT(array [, ascending [, nulls first]]): the elements in order; NULL comes first in ascending order and last
    in descending order, unless the third argument says otherwise. NULL if one is NULL.

    >>> ARRAY_SORT(ARRAY[3, NULL, 1])
    [NULL, 1, 3]
    """
    n = ctx.num_rows
    lists = lists_of(value, n)
    rank = _ranks(lists.values)
    up = ascending if ascending is not None else pa.scalar(True)
    early = first if first is not None else up
    up_rows, early_rows = _flags(up, n), _flags(early, n)
    rows: list[Row | None] = []
    for i in range(n):
        ascends, nulls_first = up_rows[i], early_rows[i]
        if not lists.present[i] or ascends is None or nulls_first is None:
            rows.append(None)
            continue
        places = range(int(lists.starts[i]), int(lists.ends[i]))
        known = sorted((p for p in places if rank[p] != NULL_CODE), key=rank.__getitem__, reverse=not ascends)
        nulls = [p for p in places if rank[p] == NULL_CODE]
        rows.append(nulls + known if nulls_first else known + nulls)
    return picked(rows, lists.values, ctx.result_type.arrow)


def _flags(values: Values, num_rows: int) -> list[bool | None]:
    column = pa.repeat(values, num_rows) if isinstance(values, pa.Scalar) else values
    found: list[bool | None] = column.to_pylist()
    return found


def _ranks(values: pa.Array) -> list[int]:
    """Numbers in the order of the values; NULL has -1."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if not len(values) or pa.types.is_null(values.type):
        return [NULL_CODE] * len(values)
    ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
    numbers: list[int] = np.where(valid(values, len(values)), ranks.to_numpy().astype(np.int64), NULL_CODE).tolist()
    return numbers


def _extreme_result(types: Types, literals: Literals) -> DataType:
    element = types[0].children[0]
    if not _ordered(element):
        raise PlanError(f"elements of type {element.plain} have no order")
    return element.with_nullable(True)


def _extreme(ctx: KernelContext, value: Values, *, greatest: bool) -> Values:
    lists = lists_of(value, ctx.num_rows)
    rank = np.asarray(_ranks(lists.values), np.int64)
    places, rows = elements_in(lists), np.repeat(np.arange(ctx.num_rows), lists.lengths)
    known = rank[places] != NULL_CODE
    places, rows = places[known], rows[known]
    order = np.lexsort((rank[places] if greatest else -rank[places], rows))
    found = np.full(ctx.num_rows, -1, np.int64)
    found[rows[order]] = places[order]  # the last of a row's is its extreme
    return lists.values.take(pa.array(found, mask=found < 0)).cast(ctx.result_type.arrow)


@function("ARRAY_MAX", signature=Custom(_needs(1, _array_first()), _extreme_result, "an array"))
def array_max(ctx: KernelContext, value: Values) -> Values:
    """ARRAY_MAX(array): the greatest element that is not NULL; NULL if there is none.

    >>> ARRAY_MAX(ARRAY[1, NULL, 3])
    3
    """
    return _extreme(ctx, value, greatest=True)


@function("ARRAY_MIN", signature=Custom(_needs(1, _array_first()), _extreme_result, "an array"))
def array_min(ctx: KernelContext, value: Values) -> Values:
    """ARRAY_MIN(array): the smallest element that is not NULL; NULL if there is none.

    >>> ARRAY_MIN(ARRAY[1, NULL, 3])
    1
    """
    return _extreme(ctx, value, greatest=False)


def _join_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) not in (2, 3) or not is_array(types[0]) or not types[0].children[0].is_string:
        return None
    return (types[0], *[text.cast(t) for t in types[1:]])


@function(
    "ARRAY_JOIN",
    signature=Custom(
        _join_types, lambda t, _: STRING.with_nullable(nullable(t)), "an array of strings and one or two strings"
    ),
)
def array_join(ctx: KernelContext, value: Values, delimiter: Values, missing: Values | None = None) -> Values:
    """ARRAY_JOIN(array, delimiter [, text for NULL]): the elements joined; NULL elements are left out unless there is a
    text for them. NULL if one is NULL.

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
    signature=Custom(lambda t: tuple(t) if len(t) == 1 and _sized(t[0]) else None, _ANY_SIZE, "an array or a map"),
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


@function("ELEMENT", signature=Custom(_needs(1, _array_first()), _element_result, "an array"))
def element(ctx: KernelContext, value: Values) -> Vector:
    """ELEMENT(array): the only element of an array; NULL for an empty one. Error: an array of several elements.

    >>> ELEMENT(ARRAY[7])
    7
    """
    lists = lists_of(value, ctx.num_rows)
    one = lists.lengths == 1
    places = np.where(one, lists.starts, 0)
    found = lists.values.take(pa.array(places, mask=~one)).cast(ctx.result_type.arrow)
    return Vector(found, Errors.where(lists.lengths > 1, "ELEMENT of an array that has several"))
