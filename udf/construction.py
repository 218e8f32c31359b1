"""Arrays, maps and rows from values, and values from them: ARRAY[…], MAP[…], ROW(…), a[i],
r.field."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import PlanError
from parser.types import DataType, Root, array, map_of, row
from udf.arrays.arrays import null_where, valid
from udf.arrays.lists import Indices, elements_in, equal_values, interleaved, lists_of, spread
from udf.casts.coercion import common_type
from udf.casts.nested import RECORDS
from udf.growth import COLLECTED
from udf.json.variants import item_of_variant
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, nullable
from udf.time.intervals import integers
from udf.vector import Errors, Vector


def _array_types(types: Types) -> tuple[DataType, ...] | None:
    common = common_type(types) if types else None
    if common is None or common.root is Root.NULL:
        return None
    return tuple(common.with_nullable(t.nullable) for t in types)


def _array_result(types: Types, literals: Literals) -> DataType:
    return array(types[0].with_nullable(nullable(types))).with_nullable(False)


@function(
    "ARRAY",
    signature=Custom(_array_types, _array_result, "values of one common type"),
    growth=COLLECTED,
)
def array_(ctx: KernelContext, *values: Values) -> Values:
    """ARRAY[value, …]: an array of values, which are cast to their common type.

    >>> ARRAY[1, 2, 3]
    [1, 2, 3]
    """
    n, kind = ctx.num_rows, ctx.result_type.arrow
    elements = interleaved(values, n, kind.value_type)
    offsets = np.arange(n + 1, dtype=np.int32) * len(values)
    return pa.ListArray.from_arrays(pa.array(offsets), elements, type=kind)


def _map_types(types: Types) -> tuple[DataType, ...] | None:
    if not types or len(types) % 2:
        return None
    key, value = common_type(types[::2]), common_type(types[1::2])
    if key is None or value is None or key.root is Root.NULL:
        return None
    if value.root is Root.NULL:  # as Flink, which reads the keys' type into it
        value = key.with_nullable(True)
    return tuple((value if i % 2 else key).with_nullable(t.nullable) for i, t in enumerate(types))


def _map_result(types: Types, literals: Literals) -> DataType:
    key, value = (
        types[0].with_nullable(nullable(types[::2])),
        types[1].with_nullable(nullable(types[1::2])),
    )
    return map_of(key, value).with_nullable(False)


@function(
    "MAP",
    signature=Custom(_map_types, _map_result, "keys and values by turns, of one common type each"),
    growth=COLLECTED,
)
def map_(ctx: KernelContext, *values: Values) -> Vector:
    """MAP[key, value, …]: a map; of equal keys the last one counts. Error: a NULL key.

    >>> MAP['a', 1, 'b', 2]
    {'a': 1, 'b': 2}
    """
    n, kind, pairs = ctx.num_rows, ctx.result_type.arrow, len(values) // 2
    keys = [pa.repeat(k, n) if isinstance(k, pa.Scalar) else k for k in values[::2]]
    kept = np.ones((n, pairs), np.bool_)
    for i in range(pairs):
        for j in range(i + 1, pairs):
            kept[:, i] &= ~equal_values(keys[i], keys[j])
    chosen = pa.array(np.flatnonzero(kept.ravel()))
    flat_keys = interleaved(keys, n, kind.key_type).take(chosen)
    flat_values = interleaved(values[1::2], n, kind.item_type).take(chosen)
    return map_column(kept.sum(axis=1), flat_keys, flat_values, kind)


def map_column(lengths: Indices, keys: pa.Array, values: pa.Array, kind: pa.DataType) -> Vector:
    """Maps of so many entries each. A NULL key, which Flink has and Arrow has not, is an error of
    its row."""
    known = valid(keys, len(keys))
    rows = np.repeat(np.arange(len(lengths)), lengths)
    broken = np.zeros(len(lengths), np.bool_)
    broken[rows[~known]] = True
    if broken.any():
        whole = pa.array(~broken[rows])
        keys, values, lengths = (
            keys.filter(whole),
            values.filter(whole),
            np.where(broken, 0, lengths),
        )
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    maps = pa.MapArray.from_arrays(pa.array(offsets), keys, values, type=kind)
    return Vector(maps, Errors.where(broken, "a key of a map is NULL"))


def _row_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if types and all(t.root is not Root.NULL for t in types) else None


def _row_result(types: Types, literals: Literals) -> DataType:
    return row(tuple(f"EXPR${i}" for i in range(len(types))), tuple(types)).with_nullable(False)


@function("ROW", signature=Custom(_row_types, _row_result, "values, none of them an untyped NULL,"))
def row_(ctx: KernelContext, *values: Values) -> Values:
    """ROW(value, …) or (value, …): a row; its fields are named EXPR$0, EXPR$1, ….

    >>> ROW(1, 'a')
    (1, 'a')
    """
    kind = ctx.result_type.arrow
    columns = [
        (pa.repeat(v, ctx.num_rows) if isinstance(v, pa.Scalar) else v).cast(f.type)
        for v, f in zip(values, kind, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _item_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) != 2:
        return None
    subject, key = types
    match subject.root:
        case Root.ARRAY if key.is_integer:
            return subject, key
        case Root.ROW | Root.STRUCTURED if key.is_integer or key.is_string:
            return subject, key
        case Root.MAP | Root.MULTISET:
            common = common_type((subject.children[0], key))
            if common is not None and _alike(subject.children[0], key):
                return subject, subject.children[0].with_nullable(key.nullable)
        case Root.VARIANT if key.is_integer or key.is_string:
            return subject, key
    return None


def _alike(a: DataType, b: DataType) -> bool:
    return a.root is b.root or (a.is_string and b.is_string) or (a.is_numeric and b.is_numeric)


def _item_result(types: Types, literals: Literals) -> DataType:
    subject, index = types[0], literals[1]
    if subject.root is Root.ARRAY:
        if isinstance(index, int) and index < 1:
            raise PlanError(f"an index is 1 or more, not {index}")
        return subject.children[0].with_nullable(True)
    if subject.root in RECORDS:
        at = _field_at(subject, index)
        return subject.children[at].with_nullable(subject.nullable or subject.children[at].nullable)
    if subject.root is Root.VARIANT:
        return subject.with_nullable(True)
    return subject.children[-1].with_nullable(True)


def _field_at(subject: DataType, index: object) -> int:
    if isinstance(index, str) and index in subject.names:
        return subject.names.index(index)
    if isinstance(index, int) and 1 <= index <= len(subject.names):
        return index - 1
    raise PlanError(
        f"a row has no field {index}", hint=f"its fields are {', '.join(subject.names)}"
    )


@function(
    "ITEM",
    signature=Custom(
        _item_types, _item_result, "an array and an integer, a map and a key, a row and a name"
    ),
)
def item(ctx: KernelContext, subject: Values, key: Values) -> Values | Vector:
    """array[index], map[key], row[name]: the element at an index from 1, or of a key; NULL where
    there is none. Error: an index of 0 or less.

    >>> ARRAY['a', 'b'][2]
    'b'
    >>> MAP['a', 1]['a']
    1
    """
    kind = ctx.arg_types[0]
    if kind.root is Root.ARRAY:
        return _at_index(ctx, subject, key)
    if kind.root in RECORDS:
        index = key.as_py() if isinstance(key, pa.Scalar) else key[0].as_py()
        return field_of(subject, _field_at(kind, index), ctx.num_rows)
    if kind.root is Root.VARIANT:
        return item_of_variant(ctx, subject, key)
    return _of_key(ctx, subject, key)


def _at_index(ctx: KernelContext, subject: Values, key: Values) -> Vector:
    n = ctx.num_rows
    lists, index = lists_of(subject, n), integers(key, n)
    asked = valid(key, n) & lists.present
    inside = asked & (index >= 1) & (index <= lists.lengths)
    places = np.where(inside, lists.starts + index - 1, 0)
    elements = lists.values.take(pa.array(places, mask=~inside)).cast(ctx.result_type.arrow)
    return Vector(elements, Errors.where(asked & (index < 1), "an index of an array is 1 or more"))


def _of_key(ctx: KernelContext, subject: Values, key: Values) -> Values:
    n, kind = ctx.num_rows, ctx.result_type.arrow
    entries = lists_of(subject, n)
    lengths = entries.lengths
    places = elements_in(entries)
    keys = pc.struct_field(entries.values, 0).take(pa.array(places))
    hits = np.flatnonzero(equal_values(keys, spread(key, lengths).cast(keys.type)))
    value_places = np.full(n, -1, np.int64)
    value_places[np.repeat(np.arange(n), lengths)[hits]] = places[hits]
    missing = (value_places < 0) | ~valid(key, n)
    return pc.struct_field(entries.values, 1).take(pa.array(value_places, mask=missing)).cast(kind)


def field_of(subject: Values, at: int, num_rows: int) -> pa.Array:
    """Field `at` of a ROW column, NULL where the row is."""
    column = pa.repeat(subject, num_rows) if isinstance(subject, pa.Scalar) else subject
    return null_where(~valid(column, num_rows), pc.struct_field(column, at))
