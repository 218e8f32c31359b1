"""Keys: their canonical bytes, their bucket, and how a table compares them.

A key is the concatenation of its columns in canonical form (`sqlengine.state.canonical`). The form
and the hash over it have one version number, `BUCKET_HASH_VERSION`, which is part of everything
that is stored by bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh64_intdigest

from parser.errors import UnsupportedError
from parser.types import DataType, Schema
from sqlengine.batch import Batch
from sqlengine.state.canonical import comparable, distinct_forms, forms_of, has_form
from sqlengine.state.columns import (
    BoolArray,
    IntArray,
    SlotColumn,
    Values,
    storage,
    to_arrow,
    to_numpy,
)
from sqlengine.state.index import FEW
from udf.casts.nested import NESTED

BUCKETS: Final = 128
BUCKET_HASH_VERSION: Final = 1
# Where a batch remembers a key column.
_KEY: Final = "key column"


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
    types: Sequence[DataType], columns: Sequence[Key], num_rows: int
) -> npt.NDArray[np.uint8]:
    """Returns the bucket of each row."""
    if not columns:
        return np.zeros(num_rows, np.uint8)
    rows, codes = _distinct(types, columns)
    return np.fromiter(map(bucket_of, rows), np.uint8, len(rows))[codes]


def _distinct(types: Sequence[DataType], columns: Sequence[Key]) -> tuple[list[bytes], IntArray]:
    """Returns the encoded distinct keys, and for each row the number of its key among them; of few
    rows all."""
    parts = [_forms(kind, column) for kind, column in zip(types, columns, strict=True)]
    if not parts:
        return [], np.zeros(0, np.int64)
    rows, codes = parts[0]
    if len(parts) > 1 and len(codes) <= FEW:
        texts = ([forms[c] for c in of.tolist()] for forms, of in parts)
        return [b"".join(row) for row in zip(*texts, strict=True)], np.arange(len(codes))
    for values, own in parts[1:]:
        # One column more: the pairs (key so far, value) are numbered anew, so that codes stay below
        # the number of rows and the product cannot overflow.
        pairs, codes = np.unique(codes * len(values) + own, return_inverse=True)
        rows = [rows[p // len(values)] + values[p % len(values)] for p in pairs.tolist()]
    return rows, codes


def _forms(kind: DataType, column: Key) -> tuple[list[bytes], IntArray]:
    """Returns the canonical bytes of values among which are all distinct ones, and each row's index
    into them."""
    if not isinstance(column, KeyColumn):
        if len(column) > FEW or kind.root in NESTED:
            return distinct_forms(kind, column)[1:]
        arrow = column.type if isinstance(column, pa.Array) else None
        return forms_of(kind, *to_numpy(kind, column), arrow), np.arange(len(column))
    if column.forms is not None and len(column.forms) <= len(column):
        return column.forms, column.codes
    if column.forms is not None:
        return [column.forms[c] for c in column.codes.tolist()], np.arange(len(column))
    if len(column) <= FEW:
        return forms_of(kind, column.values, column.valid), np.arange(len(column))
    return distinct_forms(kind, to_arrow(kind, column.values, column.valid))[1:]


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One key column of a batch in the form in which a table compares it: made once, it does for
    all tables that have the column as a key.

    Equal keys have equal `values` (floats: equal bits) where `valid`; `hashes` is each row's part
    of the hash. `forms`: the canonical bytes of some values, and each row's index into them
    (`codes`), where the hash was made of them.
    """

    values: SlotColumn
    valid: BoolArray
    hashes: npt.NDArray[np.uint64]
    forms: list[bytes] | None = None
    codes: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: IntArray) -> KeyColumn:
        """Returns the keys of these rows."""
        codes = self.codes if self.forms is None else self.codes[rows]
        return KeyColumn(self.values[rows], self.valid[rows], self.hashes[rows], self.forms, codes)

    def same(self, rows: IntArray, values: SlotColumn, valid: BoolArray) -> BoolArray:
        """Returns True where a row's key equals the key beside it; NULL equals NULL."""
        mine = self.values[rows]
        if mine.dtype.kind == "f":
            mine, values = mine.view(np.int64), values.view(np.int64)
        equal: BoolArray = np.equal(mine, values).astype(np.bool_, copy=False) & (
            self.valid[rows] == valid
        )
        return equal


# A key column of a batch, as it is there or made ready for tables.
Key: TypeAlias = "Values | KeyColumn"

_MIX = np.uint64(0xFF51AFD7ED558CCD)
_PHI = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


def key_column(kind: DataType, column: Key) -> KeyColumn:
    """Converts one key column, unless that is done; of many objects distinct values only."""
    if isinstance(column, KeyColumn):
        return column
    if storage(kind).kind == "O" and (len(column) > FEW or kind.root in NESTED):
        dictionary, forms, codes = distinct_forms(kind, column)
        values, valid = comparable(kind, dictionary)
        return KeyColumn(values[codes], valid[codes], _hashes(forms)[codes], forms, codes)
    return plain_column(kind, *to_numpy(kind, column))


def batch_keys(batch: Batch, names: Sequence[str]) -> list[KeyColumn]:
    """Converts key columns of a batch, once for all that ask for them."""
    found: list[KeyColumn] = []
    for name in names:
        known = batch.memo.get((_KEY, name))
        if not isinstance(known, KeyColumn):
            known = key_column(batch.schema.type(name), batch.column(name))
            batch.memo[_KEY, name] = known
        found.append(known)
    return found


def plain_column(kind: DataType, values: SlotColumn, valid: BoolArray) -> KeyColumn:
    """Converts one key column that is in the form in which tables have it."""
    if values.dtype.kind == "O":
        if len(values) > FEW or kind.root in NESTED:
            return key_column(kind, to_arrow(kind, values, valid))
        forms = forms_of(kind, values, valid)
        return KeyColumn(values, valid, _hashes(forms), forms, np.arange(len(forms)))
    if values.dtype == np.float64:
        # There are many NaN bit patterns: keys know one.
        values = np.where(np.isnan(values.astype(np.float64, copy=False)), np.nan, values)
    bits = values.astype(np.uint64) if values.dtype.kind == "b" else values.view(np.uint64)
    bits = bits * _PHI
    bits ^= bits >> _SHIFT
    return KeyColumn(values, valid, bits if valid.all() else np.where(valid, bits, _MIX))


def _hashes(forms: list[bytes]) -> npt.NDArray[np.uint64]:
    return np.fromiter(map(xxh64_intdigest, forms), np.uint64, len(forms))


def hash_rows(columns: Sequence[KeyColumn], num_rows: int) -> npt.NDArray[np.uint64]:
    """Returns a 64-bit hash of each row's key, for the index in memory; it is never stored."""
    result = np.full(num_rows, _PHI, np.uint64)
    for column in columns:
        result = (result ^ column.hashes) * _MIX
        result ^= result >> _SHIFT
    return result
