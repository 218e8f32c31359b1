"""Functions of maps. NULL for a NULL map."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root, array, map_of, row
from udf.arrays.arrays import errors_of, null_where
from udf.arrays.lists import Indices, Lists, codes_of, elements_in, is_array, lists_from, lists_of
from udf.casts.coercion import merged_type
from udf.construction import map_column
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, nullable
from udf.vector import BoolArray, Vector, merge_errors


def _is_map(t: DataType) -> bool:
    return t.root is Root.MAP


def _one_map(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) == 1 and _is_map(types[0]) else None


def _keys(types: Types, literals: Literals) -> DataType:
    return array(types[0].children[0]).with_nullable(types[0].nullable)


def _values(types: Types, literals: Literals) -> DataType:
    return array(types[0].children[1]).with_nullable(types[0].nullable)


def _entries(types: Types, literals: Literals) -> DataType:
    return array(row(("key", "value"), types[0].children)).with_nullable(types[0].nullable)


def _parts(ctx: KernelContext, value: Values, part: int | None) -> pa.Array:
    lists, kind = lists_of(value, ctx.num_rows), ctx.result_type.arrow
    source = lists.values if part is None else pc.struct_field(lists.values, part)
    if part is None:
        columns = [pc.struct_field(source, i) for i in (0, 1)]
        source = pa.StructArray.from_arrays(columns, fields=list(kind.value_type))
    return lists_from(elements_in(lists), lists.lengths, lists.present, source, kind)


@function("MAP_KEYS", signature=Custom(_one_map, _keys, "a map"))
def map_keys(ctx: KernelContext, value: Values) -> Values:
    """MAP_KEYS(map): the keys as an array.

    >>> MAP_KEYS(MAP['a', 1, 'b', 2])
    ['a', 'b']
    """
    return _parts(ctx, value, 0)


@function("MAP_VALUES", signature=Custom(_one_map, _values, "a map"))
def map_values(ctx: KernelContext, value: Values) -> Values:
    """MAP_VALUES(map): the values as an array, in the order of MAP_KEYS.

    >>> MAP_VALUES(MAP['a', 1, 'b', 2])
    [1, 2]
    """
    return _parts(ctx, value, 1)


@function("MAP_ENTRIES", signature=Custom(_one_map, _entries, "a map"))
def map_entries(ctx: KernelContext, value: Values) -> Values:
    """MAP_ENTRIES(map): the pairs as an array of rows with the fields `key` and `value`.

    >>> MAP_ENTRIES(MAP['a', 1])
    [('a', 1)]
    """
    return _parts(ctx, value, None)


def _array_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) == 2 and all(is_array(t) for t in types) else None


def _from_arrays_result(types: Types, literals: Literals) -> DataType:
    return map_of(types[0].children[0], types[1].children[0]).with_nullable(nullable(types))


@function(
    "MAP_FROM_ARRAYS",
    signature=Custom(_array_types, _from_arrays_result, "an array of keys and one of values"),
)
def map_from_arrays(ctx: KernelContext, keys: Values, values: Values) -> Vector:
    """MAP_FROM_ARRAYS(keys, values): a map of an array of keys and one of values; of equal keys the
    last one counts. NULL if one is NULL. Error: arrays of different lengths, a NULL key.

    >>> MAP_FROM_ARRAYS(ARRAY['a', 'b'], ARRAY[1, 2])
    {'a': 1, 'b': 2}
    """
    n = ctx.num_rows
    first, second = lists_of(keys, n), lists_of(values, n)
    present = first.present & second.present
    # Of a NULL array the length says nothing.
    unequal = present & (first.lengths != second.lengths)
    failures = {
        int(i): f"{first.lengths[i]} keys and {second.lengths[i]} values do not make a map"
        for i in np.flatnonzero(unequal)
    }
    usable = present & ~unequal
    # Rows that fail have no pairs: their ends are set to their starts.
    first, second = (replace(x, ends=np.where(usable, x.ends, x.starts)) for x in (first, second))
    pairs = _Pairs(np.repeat(np.arange(n), first.lengths), elements_in(first), elements_in(second))
    built = _maps(pairs, first.values, second.values, usable, ctx.result_type)
    return Vector(built.values, merge_errors([errors_of(failures, n), built.errors]))


@dataclass(frozen=True)
class _Pairs:
    """The row of each pair in order, and the places of its key and its value."""

    rows: Indices
    keys: Indices
    values: Indices


def _maps(
    pairs: _Pairs,
    keys: pa.Array,
    values: pa.Array,
    present: BoolArray,
    kind: DataType,
    *,
    first_counts: bool = False,
) -> Vector:
    """A map a row that is `present`; of equal keys the last one counts (or the first), at the place
    of the first."""
    codes = codes_of(keys)[0][pairs.keys]
    # Row and key in one number: `codes` begin at -1 (NULL), hence the shift by one.
    known = pairs.rows * (int(codes.max(initial=0)) + 2) + codes + 1
    _, first, which = np.unique(known, return_index=True, return_inverse=True)
    last = np.empty(len(first), np.int64)
    # A later pair overwrites an earlier one: what remains is the last of each key.
    last[which] = np.arange(len(known))
    # By first appearance, which is also by row.
    order = np.argsort(first)
    chosen = (first if first_counts else last)[order]
    taken = [
        column.take(pa.array(places[chosen])).cast(t.arrow)
        for column, places, t in zip(
            (keys, values), (pairs.keys, pairs.values), kind.children, strict=True
        )
    ]
    lengths = np.bincount(pairs.rows[first], minlength=len(present))
    built = map_column(lengths, taken[0], taken[1], kind.arrow)
    return Vector(null_where(~present, built.values), built.errors)


def _union_types(types: Types) -> tuple[DataType, ...] | None:
    if not types or not all(_is_map(t) for t in types):
        return None
    key = merged_type([t.children[0].with_nullable(True) for t in types])
    value = merged_type([t.children[1].with_nullable(True) for t in types])
    if key is None or value is None:
        return None
    return tuple(_map_as(t, key, value) for t in types)


def _map_as(given: DataType, key: DataType, value: DataType) -> DataType:
    if given.children[0].same_as(key) and given.children[1].same_as(value):
        return given
    pair = (
        key.with_nullable(given.children[0].nullable),
        value.with_nullable(given.children[1].nullable),
    )
    return map_of(*pair).with_nullable(given.nullable)


def _union_result(types: Types, literals: Literals) -> DataType:
    parts = [
        types[0].children[i].with_nullable(any(t.children[i].nullable for t in types))
        for i in (0, 1)
    ]
    return map_of(parts[0], parts[1]).with_nullable(nullable(types))


@function("MAP_UNION", signature=Custom(_union_types, _union_result, "maps of one common type"))
def map_union(ctx: KernelContext, *maps: Values) -> Vector:
    """MAP_UNION(map, …): the pairs of all maps, those of the last one first; of equal keys the one
    of the last map counts. NULL if one is NULL.

    >>> MAP_UNION(MAP['a', 1], MAP['b', 2, 'a', 3])
    {'a': 3, 'b': 2}
    """
    n, kind = ctx.num_rows, ctx.result_type
    # Reversed: the last map's pairs come first, and of equal keys the first counts.
    lists: list[Lists] = [lists_of(m, n) for m in reversed(maps)]
    keys = [pc.struct_field(x.values, 0).cast(kind.children[0].arrow) for x in lists]
    values = [pc.struct_field(x.values, 1).cast(kind.children[1].arrow) for x in lists]
    present = np.logical_and.reduce([x.present for x in lists])
    lists = [replace(x, ends=np.where(present, x.ends, x.starts)) for x in lists]
    bases = np.cumsum([0, *(len(k) for k in keys)])
    places = np.concatenate([elements_in(x) + base for x, base in zip(lists, bases, strict=False)])
    rows = np.concatenate([np.repeat(np.arange(n), x.lengths) for x in lists])
    # Stable: within a row the order of the maps stays.
    order = np.argsort(rows, kind="stable")
    pairs = _Pairs(rows[order], places[order], places[order])
    return _maps(
        pairs, pa.concat_arrays(keys), pa.concat_arrays(values), present, kind, first_counts=True
    )
