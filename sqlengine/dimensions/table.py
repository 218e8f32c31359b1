"""A version of a table that rows are looked up in: built from its rows, and mapped by who asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import Schema
from sqlengine.dimensions.columns import MappedColumns
from sqlengine.dimensions.hashing import HashArray, hash_keys, same_values
from sqlengine.dimensions.index import MappedIndex, replaced_rows, write_index
from sqlengine.state.columns import BoolArray, IntArray, validity

_PIECE: Final = 1 << 16


@dataclass(frozen=True)
class Lookup:
    """A way of looking rows up: by the values of the columns `keys`, of which those in `null_safe`
    find NULL by NULL, and no other does. Of rows that are equal in the columns `unique` the last
    one is there (none: all are)."""

    keys: tuple[str, ...]
    null_safe: frozenset[str] = frozenset()
    unique: tuple[str, ...] = ()


def build_index(
    path: Path,
    columns: MappedColumns,
    schema: Schema,
    lookup: Lookup,
    seed: int,
    proceed: Callable[[], None],
) -> None:
    """Writes the index for a way of looking rows up; calls `proceed`, which may raise, now and
    then."""
    hashes, valid = _hashed(columns, schema, lookup.keys, lookup.null_safe, seed, proceed)
    if lookup.unique:
        every = frozenset(lookup.unique)
        if lookup.unique == lookup.keys:
            unique, known = hashes, valid
        else:
            unique, known = _hashed(columns, schema, lookup.unique, every, seed, proceed)

        def same(left: IntArray, right: IntArray) -> BoolArray:
            return _same(columns, schema, lookup.unique, every, left, right)

        rows = np.flatnonzero(known)
        valid[replaced_rows(unique[rows], rows, same)] = False
        proceed()
    rows = np.flatnonzero(valid)
    write_index(path, hashes[rows] if len(rows) < len(hashes) else hashes, rows, seed)


def _hashed(
    columns: MappedColumns,
    schema: Schema,
    names: Sequence[str],
    null_safe: frozenset[str],
    seed: int,
    proceed: Callable[[], None],
) -> tuple[HashArray, BoolArray]:
    """Returns the hash of each row's key, and True where it can be found."""
    types = [schema.type(n) for n in names]
    hashes = np.zeros(columns.num_rows, np.uint64)
    valid = np.ones(columns.num_rows, np.bool_)
    for rows, arrays in columns.pieces(names, _PIECE):
        proceed()
        hashes[rows[0] : rows[-1] + 1] = hash_keys(types, arrays, len(rows), seed)
        for name, array in zip(names, arrays, strict=True):
            if name not in null_safe and array.null_count:
                valid[rows] &= validity(array)
    return hashes, valid


def _same(
    columns: MappedColumns,
    schema: Schema,
    names: Sequence[str],
    null_safe: frozenset[str],
    left: IntArray,
    right: IntArray,
) -> BoolArray:
    equal = np.ones(len(left), np.bool_)
    for name in names:
        here, there = columns.take(name, left), columns.take(name, right)
        nulls = name in null_safe
        equal &= same_values(schema.type(name), here, there, nulls_are_equal=nulls)
    return equal


class MappedTable:
    """A version of a table, mapped into memory. Any thread.

    A slot is the number of a row. As `RowsTable` it finds the rows of many keys at once, in the
    order in which the table has them."""

    def __init__(
        self, columns: MappedColumns, index: MappedIndex, schema: Schema, by: Lookup
    ) -> None:
        self._columns, self._index, self._schema, self._by = columns, index, schema, by
        self._types = [schema.type(name) for name in by.keys]

    @property
    def num_rows(self) -> int:
        """The rows of the version, also those that nobody finds."""
        return self._columns.num_rows

    def first_matches(
        self, key: Sequence[pa.Array], num_rows: int, most: int | None
    ) -> tuple[IntArray, IntArray, int]:
        """Returns the pairs of a key's number and a slot for the first keys, at most `most`, and
        how many keys are covered; never splits a key."""
        hashes = hash_keys(self._types, key, num_rows, self._index.seed)
        numbers, rows, covered = self._index.candidates(hashes, most)
        equal = np.ones(len(rows), np.bool_)
        for name, kind, values in zip(self._by.keys, self._types, key, strict=True):
            asked, stored = values.take(pa.array(numbers)), self._columns.take(name, rows)
            nulls = name in self._by.null_safe
            equal &= same_values(kind, asked, stored, nulls_are_equal=nulls)
        if not equal.all():
            numbers, rows = numbers[equal], rows[equal]
        return numbers, rows, covered

    def column(self, name: str, slots: IntArray) -> pa.Array:
        """Returns a column of the rows in these slots."""
        return self._columns.take(name, slots)
