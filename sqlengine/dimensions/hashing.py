"""Hashes of keys: 64 bits a row, computed for whole columns.

Equal keys have equal hashes, in every process and on every machine; a seed makes them others, so
that nobody can choose keys that meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root
from sqlengine.state.columns import BoolArray, IntArray, storage, to_numpy, validity
from sqlengine.state.keys import encode

HashArray: TypeAlias = npt.NDArray[np.uint64]

_WORD: Final = 8
_MULTIPLY: Final = np.uint64(0xFF51AFD7ED558CCD)
_PHI: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(32)
# Keeps the first n bytes of a word.
_FIRST: Final = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], np.uint64)
_BYTES: Final = (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY)


def hash_keys(
    types: Sequence[DataType], columns: Sequence[pa.Array], num_rows: int, seed: int
) -> HashArray:
    """Returns the hash of each row's key."""
    result = np.full(num_rows, seed, np.uint64)
    for kind, column in zip(types, columns, strict=True):
        result = _mixed(result, _hashes(kind, column))
    return result


def _mixed(hashes: HashArray, more: HashArray) -> HashArray:
    hashes = (hashes ^ more) * _MULTIPLY
    hashes ^= hashes >> _SHIFT
    return hashes


def _hashes(kind: DataType, column: pa.Array) -> HashArray:
    if kind.root in _BYTES:
        hashes = _of_bytes(column)
    elif storage(kind).kind == "O":
        hashes = _of_bytes(canonical(kind, column))
    else:
        hashes = _of_numbers(kind, column)
    return np.where(validity(column), hashes, _MULTIPLY) if column.null_count else hashes


def canonical(kind: DataType, column: pa.Array) -> pa.Array:
    """Returns values of any type as bytes that are equal where they are."""
    return pa.array(encode([kind], [column], len(column)), pa.binary())


def _of_numbers(kind: DataType, column: pa.Array) -> HashArray:
    values = plain_numbers(kind, column)
    bits = values.astype(np.uint64) if values.dtype.kind == "b" else values.view(np.uint64)
    bits = bits * _PHI
    bits ^= bits >> _SHIFT
    return bits


def plain_numbers(kind: DataType, column: pa.Array) -> npt.NDArray[np.generic]:
    """Returns numbers, times and truth values as NumPy has them; floats as bits, with one NaN."""
    values, _ = to_numpy(kind, column)
    if values.dtype != np.float64:
        return values
    floats = values.astype(np.float64, copy=False)
    return np.where(np.isnan(floats), np.nan, floats).view(np.int64)


def _of_bytes(column: pa.Array) -> HashArray:
    """Mixes the bytes of each value word by word; all rows go in step."""
    starts, lengths, data = _layout(column)
    hashes = lengths.astype(np.uint64) * _PHI
    # Words that begin anywhere: the bytes behind the last value are zeros.
    padded = np.concatenate([data, np.zeros(_WORD, np.uint8)])
    words = np.ndarray((len(data) + 1,), np.uint64, padded, strides=(1,))
    rows: IntArray | None = None  # all
    at = 0
    while True:
        active = lengths > at if rows is None else lengths[rows] > at
        if not active.all():
            rows = np.flatnonzero(active) if rows is None else rows[active]
        if (rows is not None and not len(rows)) or not len(lengths):
            return hashes
        some = slice(None) if rows is None else rows
        left = lengths[some] - at
        word = words[starts[some] + at]
        if (left < _WORD).any():
            word = word & _FIRST[np.minimum(left, _WORD)]
        hashes[some] = _mixed(hashes[some], word)
        at += _WORD


def _layout(column: pa.Array) -> tuple[IntArray, IntArray, npt.NDArray[np.uint8]]:
    """Returns where each value begins, its length, and the bytes of all of them."""
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, places, data = column.buffers()[-3:]
    size, kind = (8, np.int64) if wide else (4, np.int32)
    if places is None or not len(column):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8)
    ends = np.frombuffer(places, kind, len(column) + 1, column.offset * size).astype(np.int64)
    first, last = int(ends[0]), int(ends[-1])
    values = np.zeros(0, np.uint8)
    if data is not None:
        values = np.frombuffer(data, np.uint8)[first:last]
    return ends[:-1] - first, np.diff(ends), values


def same_values(
    kind: DataType, left: pa.Array, right: pa.Array, *, nulls_are_equal: bool
) -> BoolArray:
    """Returns True where two columns of one type have equal values, as keys have."""
    if kind.root in _BYTES:
        equal = _same_bytes(left, right)
    elif storage(kind).kind == "O":
        equal = _same_bytes(canonical(kind, left), canonical(kind, right))
    else:
        equal = np.asarray(plain_numbers(kind, left) == plain_numbers(kind, right), np.bool_)
    if not left.null_count and not right.null_count:
        return equal
    here, there = validity(left), validity(right)
    if nulls_are_equal:
        return np.where(here & there, equal, here == there)
    return equal & here & there


def _same_bytes(left: pa.Array, right: pa.Array) -> BoolArray:
    equal = pc.equal(left, right)
    if equal.null_count:
        equal = equal.fill_null(False)
    return np.asarray(equal.to_numpy(zero_copy_only=False), np.bool_)
