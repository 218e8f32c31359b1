"""Arrays and maps as flat columns with offsets: what their functions share.

Most functions of arrays choose elements and put them in an order; so they work on numbers (equal
elements have equal codes) and say which elements they take; the elements themselves are taken by
Arrow, whatever their type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root
from udf.arrays.arrays import valid
from udf.registry import Values
from udf.time.plain import as_plain
from udf.vector import BoolArray

Indices: TypeAlias = npt.NDArray[np.int64]
# The code of NULL.
NULL_CODE = -1


@dataclass(frozen=True)
class Lists:
    """A column of lists: row i is `values[starts[i]:ends[i]]`, or NULL where not `present[i]`."""

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
        pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
        if _is_map(column)
        else column.values
    )
    starts, ends = offsets[:-1], np.where(present, offsets[1:], offsets[:-1])
    return Lists(starts, ends, present, elements)


def _is_map(column: pa.Array) -> bool:
    return bool(pa.types.is_map(column.type))


def codes_of(*columns: pa.Array) -> list[Indices]:
    """Numbers for the values of columns of one type: equal values have equal codes, NULL has -1."""
    joined = pa.concat_arrays(columns)
    if pa.types.is_nested(joined.type):
        known: dict[str, int] = {}
        texts = [None if v is None else repr(v) for v in as_plain(joined).to_pylist()]
        codes = np.array(
            [NULL_CODE if t is None else known.setdefault(t, len(known)) for t in texts], np.int64
        )
    elif pa.types.is_null(joined.type):
        codes = np.full(len(joined), NULL_CODE)
    else:
        indices = joined.dictionary_encode().indices.fill_null(NULL_CODE)
        codes = np.asarray(indices.to_numpy(zero_copy_only=False), np.int64)
    return np.split(codes, np.cumsum([len(c) for c in columns])[:-1])


@dataclass(frozen=True)
class Elements:
    """The elements of several lists a row, one list after the other: for each the row that it is
    in, its place in `source` and the number of its list. A row that is not `present`, since one of
    its lists is NULL, has none."""

    rows: Indices
    places: Indices
    which: Indices
    source: pa.Array
    present: BoolArray

    @property
    def codes(self) -> Indices:
        return codes_of(self.source)[0][self.places]

    def kept(self, elements: Indices | BoolArray, kind: pa.DataType) -> pa.Array:
        """The list of each row with some of its elements."""
        lengths = np.bincount(self.rows[elements], minlength=len(self.present))
        return lists_from(self.places[elements], lengths, self.present, self.source, kind)


def elements_of(num_rows: int, kind: pa.DataType, *arrays: Values) -> Elements:
    """Returns the elements of ARRAY columns, as elements of the array type `kind`."""
    lists = [lists_of(a, num_rows) for a in arrays]
    present = np.logical_and.reduce([x.present for x in lists])
    lists = [replace(x, ends=np.where(present, x.ends, x.starts)) for x in lists]
    flats = [x.values.cast(kind.value_type) for x in lists]
    rows = [np.repeat(np.arange(num_rows), x.lengths) for x in lists]
    bases = np.cumsum([0, *(len(f) for f in flats)])
    places = np.concatenate([elements_in(x) + base for x, base in zip(lists, bases, strict=False)])
    which = np.repeat(np.arange(len(lists)), [len(r) for r in rows])
    order = (
        np.argsort(np.concatenate(rows), kind="stable")
        if len(lists) > 1
        else np.arange(len(places))
    )
    source = flats[0] if len(flats) == 1 else pa.concat_arrays(flats)
    return Elements(np.concatenate(rows)[order], places[order], which[order], source, present)


def firsts(rows: Indices, codes: Indices) -> Indices:
    """Returns the indices of the first occurrence of each code in each row, in order."""
    _, indices = np.unique(rows * (int(codes.max(initial=0)) + 2) + codes + 1, return_index=True)
    return np.sort(indices)


def lists_from(
    places: Indices, lengths: Indices, present: BoolArray, source: pa.Array, kind: pa.DataType
) -> pa.Array:
    """Lists of so many elements each, taken from `source` (-1 is NULL)."""
    taken = source.take(pa.array(places, mask=places < 0)).cast(kind.value_type)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), taken, type=kind, mask=pa.array(~present))


def interleaved(columns: Sequence[Values], num_rows: int, kind: pa.DataType) -> pa.Array:
    """The values of all columns row by row."""
    arrays = [
        (pa.repeat(c, num_rows) if isinstance(c, pa.Scalar) else c).cast(kind) for c in columns
    ]
    order = np.arange(len(columns) * num_rows).reshape(len(columns), num_rows).T.ravel()
    return pa.concat_arrays(arrays).take(pa.array(order))


def spread(values: Values, lengths: Indices) -> pa.Array:
    """Repeats each row's value as often as its list has elements."""
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
    """Returns a mask of the rows where two columns hold equal values; NULL equals NULL."""
    if pa.types.is_nested(left.type) or pa.types.is_null(left.type):
        first, second = codes_of(left, right)
        return np.equal(first, second)
    same = pc.fill_null(pc.equal(left, right), False)
    both = pc.and_(left.is_null(), right.is_null())
    return np.asarray(pc.or_(same, both).to_numpy(zero_copy_only=False), np.bool_)
