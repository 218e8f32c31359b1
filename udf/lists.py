"""Arrays and maps as flat columns with offsets: what their functions share.

Most functions of arrays choose elements and put them in an order; so they work on numbers (equal elements have equal
codes) and say which elements they take; the elements themselves are taken by Arrow, whatever their type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root
from udf.arrays import valid
from udf.plain import as_plain
from udf.registry import KernelContext, Values
from udf.vector import BoolArray

Indices: TypeAlias = npt.NDArray[np.int64]
Row: TypeAlias = Sequence[int]
# The code of NULL.
NULL_CODE = -1


@dataclass(frozen=True)
class Lists:
    """One list a row: `values[starts[i]:ends[i]]`, or NULL where not `present[i]`."""

    starts: Indices
    ends: Indices
    present: BoolArray
    values: pa.Array

    @property
    def lengths(self) -> Indices:
        return self.ends - self.starts


def lists_of(values: Values, num_rows: int) -> Lists:
    """An ARRAY column (or constant); the entries of a MAP are pairs."""
    column = pa.repeat(values, num_rows) if isinstance(values, pa.Scalar) else values
    present = valid(column, num_rows)
    offsets = np.asarray(column.offsets.to_numpy(), np.int64)
    elements = (
        pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"]) if _is_map(column) else column.values
    )
    starts, ends = offsets[:-1], np.where(present, offsets[1:], offsets[:-1])
    return Lists(starts, ends, present, elements)


def _is_map(column: pa.Array) -> bool:
    return bool(pa.types.is_map(column.type))


def codes_of(*columns: pa.Array) -> list[list[int]]:
    """Numbers for the values of columns of one type: equal values have equal codes, NULL has -1."""
    joined = pa.concat_arrays(columns)
    if pa.types.is_nested(joined.type):
        known: dict[str, int] = {}
        codes = [
            NULL_CODE if v is None else known.setdefault(repr(v), len(known)) for v in as_plain(joined).to_pylist()
        ]
    elif pa.types.is_null(joined.type):
        codes = [NULL_CODE] * len(joined)
    else:
        codes = joined.dictionary_encode().indices.fill_null(NULL_CODE).to_pylist()
    found, at = [], 0
    for column in columns:
        found.append(codes[at : at + len(column)])
        at += len(column)
    return found


def picked(rows: Sequence[Sequence[int] | None], source: pa.Array, kind: pa.DataType) -> pa.Array:
    """The list of each row from the places of its elements in `source` (-1 is NULL); None is a NULL list."""
    present = np.array([r is not None for r in rows], np.bool_)
    lengths = np.array([len(r) if r is not None else 0 for r in rows], np.int64)
    places = np.fromiter((i for r in rows if r is not None for i in r), np.int64, int(lengths.sum()))
    return lists_from(places, lengths, present, source, kind)


def chosen(ctx: KernelContext, choose: Callable[..., Row], *arrays: Values) -> pa.Array:
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


def lists_from(places: Indices, lengths: Indices, present: BoolArray, source: pa.Array, kind: pa.DataType) -> pa.Array:
    """Lists of so many elements each, taken from `source` (-1 is NULL)."""
    taken = source.take(pa.array(places, mask=places < 0)).cast(kind.value_type)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), taken, type=kind, mask=pa.array(~present))


def interleaved(columns: Sequence[Values], num_rows: int, kind: pa.DataType) -> pa.Array:
    """The values of all columns row by row."""
    arrays = [(pa.repeat(c, num_rows) if isinstance(c, pa.Scalar) else c).cast(kind) for c in columns]
    order = np.arange(len(columns) * num_rows).reshape(len(columns), num_rows).T.ravel()
    return pa.concat_arrays(arrays).take(pa.array(order))


def spread(values: Values, lengths: Indices) -> pa.Array:
    """Each row's value as often as its list has elements."""
    if isinstance(values, pa.Scalar):
        return pa.repeat(values, int(lengths.sum()))
    return values.take(pa.array(np.repeat(np.arange(len(lengths)), lengths)))


def elements_in(lists: Lists) -> Indices:
    """The places of all elements of all rows, row by row."""
    lengths = lists.lengths
    total = int(lengths.sum())
    before = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.arange(total) - before + np.repeat(lists.starts, lengths)


def element_type(t: DataType) -> DataType:
    return t.children[0]


def is_array(t: DataType) -> bool:
    return t.root is Root.ARRAY


def equal_values(left: pa.Array, right: pa.Array) -> BoolArray:
    """Where two columns hold equal values; NULL equals NULL."""
    if pa.types.is_nested(left.type) or pa.types.is_null(left.type):
        first, second = codes_of(left, right)
        return np.equal(np.asarray(first, np.int64), np.asarray(second, np.int64))
    same = pc.fill_null(pc.equal(left, right), False)
    both = pc.and_(left.is_null(), right.is_null())
    return np.asarray(pc.or_(same, both).to_numpy(zero_copy_only=False), np.bool_)
