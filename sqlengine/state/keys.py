"""Keys: their canonical bytes, their bucket, and how a table compares them.

A key is the concatenation of its columns in canonical form (`sqlengine.state.canonical`). The form
and the hash over it have one version number, `BUCKET_HASH_VERSION`, which stands in all that is
stored by bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh64_intdigest

from parser.errors import UnsupportedError
from parser.types import DataType, Schema
from sqlengine.state.canonical import comparable, distinct_forms, has_form
from sqlengine.state.columns import BoolArray, IntArray, SlotColumn, storage, to_numpy

BUCKETS: Final = 128
BUCKET_HASH_VERSION: Final = 1


def check_keys(keys: Schema) -> None:
    """UnsupportedError when a column is of a type that has no canonical form."""
    for column in keys:
        if not has_form(column.type):
            raise UnsupportedError(
                f"column '{column.name}' of type {column.type} cannot be a key",
                hint="group or join by something made from it",
            )


def bucket_of(key: bytes) -> int:
    """The bucket of a key in canonical bytes, 0 to 127; a key of no columns is in bucket 0."""
    return xxh64_intdigest(key, 0) % BUCKETS if key else 0


def encode(types: Sequence[DataType], columns: Sequence[pa.Array], num_rows: int) -> list[bytes]:
    """Canonical bytes of each row's key. Only distinct values and distinct rows are encoded."""
    rows, codes = _distinct(types, columns)
    if not columns:
        return [b""] * num_rows
    return [rows[c] for c in codes.tolist()]


def buckets_of(
    types: Sequence[DataType], columns: Sequence[pa.Array], num_rows: int
) -> npt.NDArray[np.uint8]:
    """The bucket of each row."""
    if not columns:
        return np.zeros(num_rows, np.uint8)
    rows, codes = _distinct(types, columns)
    return np.fromiter(map(bucket_of, rows), np.uint8, len(rows))[codes]


def _distinct(
    types: Sequence[DataType], columns: Sequence[pa.Array]
) -> tuple[list[bytes], IntArray]:
    """The encoded distinct keys, and for each row its number among them."""
    rows: list[bytes] = []
    codes = np.zeros(0, np.int64)
    for i, (kind, column) in enumerate(zip(types, columns, strict=True)):
        _, values, own = distinct_forms(kind, column)
        if i == 0:
            rows, codes = values, own
            continue
        pairs, codes = np.unique(codes * len(values) + own, return_inverse=True)
        rows = [rows[p // len(values)] + values[p % len(values)] for p in pairs.tolist()]
    return rows, codes


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One key column of a batch as a table compares it: equal keys have equal `values` (floats:
    equal bits), where `valid`; and each row's part of the hash."""

    values: SlotColumn
    valid: BoolArray
    hashes: npt.NDArray[np.uint64]

    def same(self, rows: IntArray, values: SlotColumn, valid: BoolArray) -> BoolArray:
        """Whether each of `rows` equals the key beside it; two NULLs do."""
        mine = self.values[rows]
        if mine.dtype.kind == "f":
            mine, values = mine.view(np.int64), values.view(np.int64)
        equal: BoolArray = np.equal(mine, values).astype(np.bool_, copy=False) & (
            self.valid[rows] == valid
        )
        return equal


_MIX = np.uint64(0xFF51AFD7ED558CCD)
_PHI = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


def key_column(kind: DataType, column: pa.Array) -> KeyColumn:
    """Objects are made, and hashed, for distinct values only."""
    if storage(kind).kind == "O":
        dictionary, encoded, codes = distinct_forms(kind, column)
        distinct, valid = comparable(kind, dictionary)
        hashes = np.fromiter(map(xxh64_intdigest, encoded), np.uint64, len(encoded))
        return KeyColumn(distinct[codes], valid[codes], hashes[codes])
    values, valid = to_numpy(kind, column)
    if values.dtype == np.float64:
        values = np.where(np.isnan(values.astype(np.float64, copy=False)), np.nan, values)
    bits = values.astype(np.uint64) if values.dtype.kind == "b" else values.view(np.uint64)
    bits = bits * _PHI
    bits ^= bits >> _SHIFT
    return KeyColumn(values, valid, np.where(valid, bits, _MIX))


def hash_rows(columns: Sequence[KeyColumn], num_rows: int) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each row's key. It serves the index in memory and is never stored."""
    result = np.full(num_rows, _PHI, np.uint64)
    for column in columns:
        result = (result ^ column.hashes) * _MIX
        result ^= result >> _SHIFT
    return result
