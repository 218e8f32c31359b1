"""Keys in canonical form: equal keys have equal bytes, on every machine and in every version to come. The form and the
hash over it have one version number, `BUCKET_HASH_VERSION`, which stands in all that is stored by bucket. Version 1:

A key is the concatenation of its columns, each a tag byte and a payload; integers are little-endian.

    00                                  NULL, of any type
    01 u8                               BOOLEAN
    02 i64                              exact number without a fraction that fits 64 bits: TINYINT to BIGINT, DECIMAL
    03 u8 scale, u8 length, i(length)   any other DECIMAL: unscaled value without trailing zeros, shortest two's complement
    04 f64                              FLOAT (widened) and DOUBLE; -0.0 is 0.0, and there is one NaN (7ff8000000000000)
    05 u32 length, UTF-8                CHAR and VARCHAR, as the text is: Flink tells CHAR(3) 'a' from 'a  ' too
    06 u32 length, bytes                BINARY and VARBINARY
    07 i32                              DATE, days
    08 i64                              TIME, nanoseconds
    09 i64 seconds, u32 nanoseconds     TIMESTAMP
    0a i64 seconds, u32 nanoseconds     TIMESTAMP_LTZ
    0b i64                              INTERVAL SECOND, milliseconds
    0c i64                              INTERVAL MONTH, months

So INT 1, BIGINT 1 and DECIMAL 1.00 are one key. An exact and an approximate number are never compared without a cast,
which the planner makes; nor are two different times of the list."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh64_intdigest

from parser.errors import UnsupportedError
from parser.types import DataType, Root, Schema
from sqlengine.state.columns import BoolArray, IntArray, SlotColumn, storage, to_numpy

BUCKETS: Final = 128
BUCKET_HASH_VERSION: Final = 1

_NULL = b"\x00"
_NAN = float("nan")
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_REFUSED = (Root.ARRAY, Root.MAP, Root.MULTISET, Root.ROW)

_Encoder: TypeAlias = Callable[..., bytes]

_bool = struct.Struct("<BB").pack
_int = struct.Struct("<Bq").pack
_day = struct.Struct("<Bi").pack
_double = struct.Struct("<Bd").pack
_head = struct.Struct("<BI").pack
_instant = struct.Struct("<BqI").pack


def check_keys(keys: Schema) -> None:
    """UnsupportedError when a column is of a type that has no canonical form."""
    for column in keys:
        if column.type.root in _REFUSED:
            raise UnsupportedError(
                f"column '{column.name}' of type {column.type} cannot be a key",
                hint="group or join by a field, an element or a text made from it",
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


def buckets_of(types: Sequence[DataType], columns: Sequence[pa.Array], num_rows: int) -> npt.NDArray[np.uint8]:
    """The bucket of each row."""
    if not columns:
        return np.zeros(num_rows, np.uint8)
    rows, codes = _distinct(types, columns)
    return np.fromiter(map(bucket_of, rows), np.uint8, len(rows))[codes]


def _distinct(types: Sequence[DataType], columns: Sequence[pa.Array]) -> tuple[list[bytes], IntArray]:
    """The encoded distinct keys, and for each row its number among them."""
    rows: list[bytes] = []
    codes = np.zeros(0, np.int64)
    for i, (kind, column) in enumerate(zip(types, columns, strict=True)):
        dictionary, own = dictionary_of(column)
        values = _encode_values(kind, dictionary)
        if i == 0:
            rows, codes = values, own
            continue
        pairs, codes = np.unique(codes * len(values) + own, return_inverse=True)
        rows = [rows[p // len(values)] + values[p % len(values)] for p in pairs.tolist()]
    return rows, codes


def dictionary_of(column: pa.Array) -> tuple[pa.Array, IntArray]:
    """Distinct values (NULL among them) and each row's index into them."""
    if pa.types.is_null(column.type):
        return column.slice(0, 1), np.zeros(len(column), np.int64)
    encoded = column.dictionary_encode("encode")
    return encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _encode_values(kind: DataType, values: pa.Array) -> list[bytes]:
    """Canonical bytes of each value of one column."""
    if kind.root is Root.NULL:
        return [_NULL] * len(values)
    one = _encoder(kind, values.type)
    items, valid = to_numpy(kind, values)
    return [one(v) if ok else _NULL for v, ok in zip(items.tolist(), valid.tolist(), strict=True)]


def _encoder(kind: DataType, arrow: pa.DataType) -> _Encoder:
    """A function that encodes one value that is not NULL, as `to_numpy` gives it."""
    match kind.root:
        case Root.TIME:
            return lambda v: _int(8, v * (_UNITS["ns"] // _UNITS[arrow.unit]))
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            tag, unit = 9 if kind.root is Root.TIMESTAMP else 10, _UNITS[arrow.unit]
            return lambda v: _time(tag, v, unit)
    return _ENCODERS[kind.root]


def _text(tag: int, data: bytes) -> bytes:
    head: bytes = _head(tag, len(data))
    return head + data


def _approximate(value: float) -> bytes:
    number: bytes = _double(4, _NAN if value != value else value + 0.0)  # -0.0 + 0.0 is 0.0
    return number


def _time(tag: int, value: int, unit: int) -> bytes:
    instant: bytes = _instant(tag, value // unit, value % unit * (_UNITS["ns"] // unit))
    return instant


def _decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    unscaled: int = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    scale = max(-exponent, 0)
    while scale and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    unscaled = -unscaled if sign else unscaled
    if scale == 0 and -(2**63) <= unscaled < 2**63:
        whole: bytes = _int(2, unscaled)
        return whole
    data = unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "little", signed=True)
    return bytes((3, scale, len(data))) + data


_ENCODERS: dict[Root, _Encoder] = {
    Root.BOOLEAN: lambda v: _bool(1, v),
    Root.TINYINT: lambda v: _int(2, v),
    Root.SMALLINT: lambda v: _int(2, v),
    Root.INT: lambda v: _int(2, v),
    Root.BIGINT: lambda v: _int(2, v),
    Root.DECIMAL: _decimal,
    Root.FLOAT: _approximate,
    Root.DOUBLE: _approximate,
    Root.CHAR: lambda v: _text(5, v.encode("utf-8", "surrogatepass")),
    Root.VARCHAR: lambda v: _text(5, v.encode("utf-8", "surrogatepass")),
    Root.BINARY: lambda v: _text(6, v),
    Root.VARBINARY: lambda v: _text(6, v),
    Root.DATE: lambda v: _day(7, v),
    Root.INTERVAL_DAY_TIME: lambda v: _int(11, v),
    Root.INTERVAL_YEAR_MONTH: lambda v: _int(12, v),
}


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One key column of a batch as a table compares it: equal keys have equal `values` (floats: equal bits), where
    `valid`; and each row's part of the hash."""

    values: SlotColumn
    valid: BoolArray
    hashes: npt.NDArray[np.uint64]

    def same(self, rows: IntArray, values: SlotColumn, valid: BoolArray) -> BoolArray:
        """Whether each of `rows` equals the key beside it; two NULLs do."""
        mine = self.values[rows]
        if mine.dtype.kind == "f":
            mine, values = mine.view(np.int64), values.view(np.int64)
        equal: BoolArray = np.equal(mine, values).astype(np.bool_, copy=False) & (self.valid[rows] == valid)
        return equal


_MIX = np.uint64(0xFF51AFD7ED558CCD)
_PHI = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


def key_column(kind: DataType, column: pa.Array) -> KeyColumn:
    """Objects are made, and hashed, for distinct values only."""
    if storage(kind).kind == "O":
        dictionary, codes = dictionary_of(column)
        distinct, valid = to_numpy(kind, dictionary)
        encoded = _encode_values(kind, dictionary)
        hashes = np.fromiter(map(xxh64_intdigest, encoded), np.uint64, len(encoded))
        return KeyColumn(distinct[codes], valid[codes], hashes[codes])
    values, valid = to_numpy(kind, column)
    if values.dtype == np.float64:
        floats = values.astype(np.float64, copy=False)
        values = np.where(np.isnan(floats), np.nan, floats + 0.0)
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
