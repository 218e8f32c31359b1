"""Conversion between Arrow columns and NumPy columns by slot, in which state tables keep values."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import DataType, Root
from udf.aggregates.sorted_multiset import as_stored
from udf.time.plain import as_plain, from_plain, plain_type

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
SlotColumn: TypeAlias = npt.NDArray[np.generic]
# A column of values: Arrow's, or as a table has it.
Values: TypeAlias = "pa.Array | SlotColumn"
Kind = TypeVar("Kind", bound=np.generic)
Integer = TypeVar("Integer", bound=np.integer)

_INT64 = pa.int64()
_FLOATS = (Root.FLOAT, Root.DOUBLE)
_INTEGERS = (
    Root.TINYINT,
    Root.SMALLINT,
    Root.INT,
    Root.BIGINT,
    Root.DATE,
    Root.TIME,
    Root.TIMESTAMP,
    Root.TIMESTAMP_LTZ,
    Root.INTERVAL_DAY_TIME,
    Root.INTERVAL_YEAR_MONTH,
)


def storage(kind: DataType) -> np.dtype[np.generic]:
    """Returns the NumPy type that holds values of `kind`.

    int64 for integers, dates, times and intervals (in the unit of their Arrow type), float64, bool,
    and objects (`as_py` values) for all other types. Dates and times within such objects are
    integers too, since Python has no nanoseconds.
    """
    if kind.root in _INTEGERS:
        return np.dtype(np.int64)
    if kind.root in _FLOATS:
        return np.dtype(np.float64)
    return np.dtype(np.bool_) if kind.root is Root.BOOLEAN else np.dtype(np.object_)


def objects(values: Iterable[object], count: int) -> npt.NDArray[np.object_]:
    """Returns Python values as an array of objects; lists among them stay whole."""
    return np.fromiter(values, np.dtype(np.object_), count)


def blank(kind: DataType, count: int) -> SlotColumn:
    """Returns the values of new rows: 0, 0.0, False or None."""
    return (
        objects(repeat(None, count), count)
        if storage(kind).kind == "O"
        else np.zeros(count, storage(kind))
    )


def longer(array: npt.NDArray[Kind], more: int) -> npt.NDArray[Kind]:
    """Returns the array with `more` zeros appended. (`np.pad` takes ten times as long.)"""
    return np.concatenate([array, np.zeros(more, array.dtype)])


def distinct(numbers: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """Returns each of the numbers once, in ascending order."""
    if len(numbers) < 2:
        return numbers.copy()
    # `np.unique` hashes integers, which takes ten times as long as sorting millions of them.
    ordered = np.sort(numbers)
    found: npt.NDArray[Integer] = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found


def validity(array: pa.Array) -> BoolArray:
    """True where `array` is not NULL."""
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def to_numpy(kind: DataType, array: Values) -> tuple[SlotColumn, BoolArray]:
    """Returns the values in `storage(kind)`, and True where they are not NULL.

    The value of a NULL is 0, 0.0, False or None. Values that are in NumPy have no NULL.
    """
    if isinstance(array, np.ndarray):
        return array.astype(storage(kind), copy=False), np.ones(len(array), np.bool_)
    valid = validity(array)
    dtype = storage(kind)
    if dtype.kind == "O":
        return objects(as_plain(array).to_pylist(), len(array)), valid
    plain = _stored_integers(array) if dtype.kind == "i" else array
    if plain.null_count:
        plain = plain.fill_null(pa.scalar(False if dtype.kind == "b" else 0, plain.type))
    return plain.to_numpy(zero_copy_only=False).astype(dtype, copy=False), valid


def as_integers(array: pa.Array) -> pa.Array:
    """Returns integers, dates, times or timestamps as BIGINT, in the unit of their type."""
    array = _stored_integers(array)
    return array if array.type.equals(_INT64) else array.cast(_INT64)


def _stored_integers(array: pa.Array) -> pa.Array:
    """Returns integers, and as such dates, times or timestamps, in the width of their type."""
    if pa.types.is_temporal(array.type):
        return array.view(pa.int32() if array.type.bit_width == 32 else _INT64)
    return array


def to_arrow(kind: DataType, values: SlotColumn, valid: BoolArray | None = None) -> pa.Array:
    """Reverses `to_numpy`; `valid` None means that no value is NULL (of objects: None is NULL)."""
    arrow = kind.arrow
    mask = None if valid is None or valid.all() else ~valid
    if not pa.types.is_temporal(arrow):
        if values.dtype.kind == "O":
            plain = as_stored(values) if kind.root is Root.ARRAY else values
            return from_plain(pa.array(plain, plain_type(arrow), mask=mask), arrow)
        array = pa.array(values, mask=mask)
        return array if array.type.equals(arrow) else array.cast(arrow)
    integers = pa.array(values, mask=mask)
    return integers.cast(pa.int32()).view(arrow) if arrow.bit_width == 32 else integers.view(arrow)


_PER_MS = {"ns": 10**6, "us": 10**3, "ms": 1}


def milliseconds(array: pa.Array) -> tuple[IntArray, BoolArray]:
    """Returns timestamps in ms, rounded down, and True where they are not NULL (NULL is 0)."""
    integers = as_integers(array)
    if integers.null_count:
        integers = integers.fill_null(0)
    values: IntArray = integers.to_numpy(zero_copy_only=False)
    per_ms = _PER_MS[array.type.unit]
    return values if per_ms == 1 else values // per_ms, validity(array)
