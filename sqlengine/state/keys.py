"""Keys: their canonical bytes, their bucket, and how a table compares them.

A key is the concatenation of its columns in canonical form (`sqlengine.state.canonical`). The form
and the hash over it have one version number, `BUCKET_HASH_VERSION`, which is part of everything
that is stored by bucket.
"""

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
from sqlengine.state.columns import BoolArray, IntArray, SlotColumn, Values, storage, to_numpy

BUCKETS: Final = 128
BUCKET_HASH_VERSION: Final = 1


def check_keys(keys: Schema) -> None:
    """Raises UnsupportedError when the type of a column has no canonical form."""
    for column in keys:
        if not has_form(column.type):
            raise UnsupportedError(
                f"column '{column.name}' of type {column.type} cannot be a key",
                hint="group or join by something made from it",
            )


def bucket_of(key: bytes) -> int:
    """Returns the bucket, 0 to 127, of a key in canonical bytes; a key of no columns is in bucket
    0."""
    return xxh64_intdigest(key, 0) % BUCKETS if key else 0


def encode(types: Sequence[DataType], columns: Sequence[pa.Array], num_rows: int) -> list[bytes]:
    """Returns the canonical bytes of each row's key; encodes distinct values and distinct rows
    only."""
    rows, codes = _distinct(types, columns)
    if not columns:
        return [b""] * num_rows
    return [rows[c] for c in codes.tolist()]


def buckets_of(
    types: Sequence[DataType], columns: Sequence[pa.Array], num_rows: int
) -> npt.NDArray[np.uint8]:
    """Returns the bucket of each row."""
    if not columns:
        return np.zeros(num_rows, np.uint8)
    rows, codes = _distinct(types, columns)
    return np.fromiter(map(bucket_of, rows), np.uint8, len(rows))[codes]


def _distinct(
    types: Sequence[DataType], columns: Sequence[pa.Array]
) -> tuple[list[bytes], IntArray]:
    """Returns the encoded distinct keys, and for each row the number of its key among them."""
    rows: list[bytes] = []
    codes = np.zeros(0, np.int64)
    for i, (kind, column) in enumerate(zip(types, columns, strict=True)):
        _, values, own = distinct_forms(kind, column)
        if i == 0:
            rows, codes = values, own
            continue
        # One column more: the pairs (key so far, value) are numbered anew, so that codes stay below
        # the number of rows and the product cannot overflow.
        pairs, codes = np.unique(codes * len(values) + own, return_inverse=True)
        rows = [rows[p // len(values)] + values[p % len(values)] for p in pairs.tolist()]
    return rows, codes


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One key column of a batch in the form in which a table compares it.

    Equal keys have equal `values` (floats: equal bits) where `valid`; `hashes` is each row's part
    of the hash.
    """

    values: SlotColumn
    valid: BoolArray
    hashes: npt.NDArray[np.uint64]

    def same(self, rows: IntArray, values: SlotColumn, valid: BoolArray) -> BoolArray:
        """Returns True where a row's key equals the key beside it; NULL equals NULL."""
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


def key_column(kind: DataType, column: Values) -> KeyColumn:
    """Converts one key column; objects are made and hashed for distinct values only."""
    if storage(kind).kind == "O":
        dictionary, encoded, codes = distinct_forms(kind, column)
        distinct, valid = comparable(kind, dictionary)
        hashes = np.fromiter(map(xxh64_intdigest, encoded), np.uint64, len(encoded))
        return KeyColumn(distinct[codes], valid[codes], hashes[codes])
    values, valid = to_numpy(kind, column)
    if values.dtype == np.float64:
        # There are many NaN bit patterns: keys know one.
        values = np.where(np.isnan(values.astype(np.float64, copy=False)), np.nan, values)
    bits = values.astype(np.uint64) if values.dtype.kind == "b" else values.view(np.uint64)
    bits = bits * _PHI
    bits ^= bits >> _SHIFT
    return KeyColumn(values, valid, bits if valid.all() else np.where(valid, bits, _MIX))


def hash_rows(columns: Sequence[KeyColumn], num_rows: int) -> npt.NDArray[np.uint64]:
    """Returns a 64-bit hash of each row's key, for the index in memory; it is never stored."""
    result = np.full(num_rows, _PHI, np.uint64)
    for column in columns:
        result = (result ^ column.hashes) * _MIX
        result ^= result >> _SHIFT
    return result
