"""ARRAY, MAP, MULTISET and ROW as others of their kind, by a cast of their parts; and their texts:
[1, NULL], {a=1}, (1, a), (name=a). A part that cannot be cast is an error of the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import INT, DataType, Root
from udf.arrays.arrays import valid
from udf.arrays.lists import Indices, Lists, elements_in, lists_of
from udf.vector import Errors, Vector, merge_errors

# Values of named fields.
RECORDS = (Root.ROW, Root.STRUCTURED)
NESTED = (Root.ARRAY, Root.MAP, Root.MULTISET, *RECORDS)

# The cast of one part: values, their type, the type wanted.
PartCast: TypeAlias = Callable[[pa.Array, DataType, DataType], Vector]
# The text of one part: values and their type.
PartText: TypeAlias = Callable[[pa.Array, DataType], pa.Array]


def parts_of(t: DataType) -> tuple[DataType, ...]:
    """The types of the parts as Arrow holds them: a MULTISET is a map to the number of each."""
    return (*t.children, INT.with_nullable(False)) if t.root is Root.MULTISET else t.children


def convert_nested(values: pa.Array, source: DataType, target: DataType, cast: PartCast) -> Vector:
    """`values` of a nested type as another of the same kind."""
    n = len(values)
    pairs = list(zip(parts_of(source), parts_of(target), strict=True))
    present = valid(values, n)
    if source.root in RECORDS:
        fields = [cast(pc.struct_field(values, i), *pair) for i, pair in enumerate(pairs)]
        # Parts of a NULL row are cast with the others; their errors count for nothing.
        made = pa.StructArray.from_arrays(
            [f.values for f in fields], fields=list(target.arrow), mask=pa.array(~present)
        )
        errors = merge_errors([f.errors for f in fields])
        return Vector(made, errors and errors.restrict(present))
    lists = lists_of(values, n)
    places = elements_in(lists)
    # Elements of NULL lists may stand in the buffers; only those of present rows are cast.
    parts = [
        cast(c.take(pa.array(places)), *pair)
        for c, pair in zip(_columns(values), pairs, strict=True)
    ]
    errors = merge_errors([_of_parents(p.errors, lists.lengths) for p in parts])
    return Vector(
        rebuilt([p.values for p in parts], lists, target.root is Root.ARRAY, target.arrow), errors
    )


def _columns(values: pa.Array) -> Sequence[pa.Array]:
    return (values.keys, values.items) if pa.types.is_map(values.type) else (values.values,)


def rebuilt(parts: Sequence[pa.Array], lists: Lists, is_array: bool, kind: pa.DataType) -> pa.Array:
    """Arrays or maps of these parts, as long as `lists` says."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(lists.lengths)]).astype(np.int32))
    mask = pa.array(~lists.present)
    if is_array:
        return pa.ListArray.from_arrays(offsets, parts[0], type=kind, mask=mask)
    return pa.MapArray.from_arrays(offsets, *parts, type=kind, mask=mask)


def _of_parents(errors: Errors | None, lengths: Indices) -> Errors | None:
    """The first error of each row's parts."""
    if errors is None:
        return None
    # The row of each failed element.
    rows = np.repeat(np.arange(len(lengths)), lengths)[errors.mask]
    mask, codes = np.zeros(len(lengths), np.bool_), np.zeros(len(lengths), np.int32)
    mask[rows] = True
    # Written from the last to the first, so that the first error of a row stays.
    codes[rows[::-1]] = errors.codes[errors.mask][::-1]
    return Errors(mask, codes, errors.reasons)


_BRACKETS = {
    Root.ARRAY: ("[", "]"), Root.MAP: ("{", "}"), Root.MULTISET: ("{", "}"),
    Root.ROW: ("(", ")"), Root.STRUCTURED: ("(", ")"),
}  # fmt: skip


def nested_text(values: pa.Array, source: DataType, text: PartText) -> pa.Array:
    """The texts of nested values: NULL parts are `NULL`."""
    n, kinds = len(values), parts_of(source)
    opening, closing = _BRACKETS[source.root]
    if source.root in RECORDS:
        columns = [_or_null(text(pc.struct_field(values, i), kind)) for i, kind in enumerate(kinds)]
        if source.root is Root.STRUCTURED:
            columns = [
                [f"{name}={t}" for t in texts]
                for name, texts in zip(source.names, columns, strict=True)
            ]
        rows = [", ".join(r) for r in zip(*columns, strict=True)] if columns else [""] * n
    else:
        lists = lists_of(values, n)
        places = pa.array(elements_in(lists))
        texts = [
            _or_null(text(c.take(places), k)) for c, k in zip(_columns(values), kinds, strict=True)
        ]
        # An array has one column of texts, a map two, joined by "=".
        items = ["=".join(pair) for pair in zip(*texts, strict=True)]
        # All items of the batch stand in one list; each row is a slice of it.
        ends = np.cumsum(lists.lengths).tolist()
        rows = [
            ", ".join(items[end - size : end])
            for end, size in zip(ends, lists.lengths.tolist(), strict=True)
        ]
    whole = [f"{opening}{row}{closing}" for row in rows]
    return pa.array(whole, pa.string(), mask=~valid(values, n))


def _or_null(texts: pa.Array) -> list[str]:
    return ["NULL" if t is None else t for t in texts.to_pylist()]
