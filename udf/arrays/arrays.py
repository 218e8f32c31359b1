"""Small tools for kernels: between Arrow and Python, a value or a distinct value at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udf.registry import Values
from udf.vector import BoolArray, Errors

# A Python function of one row's values, none of them None.
Row: TypeAlias = Callable[..., object]


class RowError(Exception):
    """Raised by a row function: this row has no value, and why."""


def bools(values: pa.Array) -> BoolArray:
    """TRUE as True, FALSE and NULL as False."""
    buffer = values.buffers()[1] if pa.types.is_boolean(values.type) else None
    if buffer is None:
        return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)
    bits = _bits(buffer, values)
    return bits & valid(values, len(values)) if values.null_count else bits


def _bits(buffer: pa.Buffer, values: pa.Array) -> BoolArray:
    bits = np.unpackbits(
        np.frombuffer(buffer, np.uint8), bitorder="little", count=values.offset + len(values)
    )
    return bits[values.offset :].view(np.bool_)


def valid(values: Values, num_rows: int) -> BoolArray:
    """Returns a mask of the values that are not NULL."""
    if isinstance(values, pa.Scalar):
        return np.full(num_rows, values.is_valid)
    if not values.null_count:
        return np.ones(num_rows, np.bool_)
    buffer = values.buffers()[0]
    return bools(values.is_valid()) if buffer is None else _bits(buffer, values)


def column_of(numbers: npt.NDArray[Any], present: BoolArray, kind: pa.DataType) -> pa.Array:
    """A column of a type of fixed width from its numbers (bits, for BOOLEAN) as Arrow holds them,
    NULL where not `present`."""
    nulls = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(
        kind, len(present), [nulls, pa.py_buffer(np.ascontiguousarray(numbers))]
    )


def null_where(mask: BoolArray, values: pa.Array) -> pa.Array:
    """The values with NULL in the rows of `mask`."""
    return (
        pc.if_else(pa.array(mask), pa.scalar(None, values.type), values) if mask.any() else values
    )


def in_two_ways(
    values: pa.Array,
    first: BoolArray,
    one: Callable[[pa.Array], pa.Array],
    other: Callable[[pa.Array], pa.Array],
) -> pa.Array:
    """`one` of the rows of `first`, `other` of all others, in the order of the rows."""
    if first.all():
        return one(values)
    mask = pa.array(first)
    results = pa.concat_arrays([one(values.filter(mask)), other(values.filter(pc.invert(mask)))])
    places = np.empty(len(values), np.int64)
    places[np.argsort(~first, kind="stable")] = np.arange(len(values))
    return results.take(pa.array(places))


def is_constant(*values: Values) -> bool:
    return all(isinstance(v, pa.Scalar) for v in values)


def rows_of(values: Values) -> Iterable[object]:
    """Yields one Python value per row; endless for a scalar."""
    return repeat(values.as_py()) if isinstance(values, pa.Scalar) else values.to_pylist()


def row_by_row(num_rows: int, function: Row, result: pa.DataType, *values: Values) -> pa.Array:
    """`function` of each row's values, NULL where one is NULL. For what Arrow has no kernel."""
    first, *rest = values
    if isinstance(first, pa.Array) and is_constant(*rest) and all(r.is_valid for r in rest):
        constants = [r.as_py() for r in rest]
        return pa.array(
            [None if v is None else function(v, *constants) for v in first.to_pylist()], result
        )
    given = zip(range(num_rows), *map(rows_of, values), strict=False)
    return pa.array([None if None in row else function(*row[1:]) for row in given], result)


def per_distinct(
    function: Row, result: pa.DataType, values: Values, *constants: Values
) -> pa.Array:
    """`function(value, *constants)` once per distinct value; NULL stays NULL. `constants` are
    scalars, not NULL."""
    extra = [c.as_py() for c in constants]
    encoded = values.dictionary_encode()
    mapped = pa.array([function(v, *extra) for v in encoded.dictionary.to_pylist()], result)
    return mapped.take(encoded.indices)


def repeats(values: pa.Array) -> bool:
    """True if values repeat often, judged by some of the first: then each distinct one is computed
    once."""
    sample = values.slice(0, 512)
    return 2 * int(pc.count_distinct(sample).as_py()) < len(sample)


def map_text(num_rows: int, function: Row, result: pa.DataType, *values: Values) -> pa.Array:
    """`per_distinct` where only the first value varies, `row_by_row` else."""
    first, *rest = values
    if any(isinstance(v, pa.Scalar) and not v.is_valid for v in values):
        return pa.nulls(num_rows, result)
    if is_constant(*rest) and not isinstance(first, pa.Scalar):
        return per_distinct(function, result, first, *rest)
    return row_by_row(num_rows, function, result, *values)


def row_errors(
    num_rows: int, function: Row, result: pa.DataType, *values: Values
) -> tuple[pa.Array, Errors | None]:
    """Applies a function row by row.

    A row whose function raises RowError is NULL and has that error."""
    failures: dict[int, str] = {}
    results: list[object] = []
    for _, *row in zip(range(num_rows), *map(rows_of, values), strict=False):
        try:
            results.append(None if None in row else function(*row))
        except RowError as error:
            failures[len(results)] = str(error)
            results.append(None)
    return pa.array(results, result), errors_of(failures, num_rows)


def errors_of(failures: dict[int, str], num_rows: int) -> Errors | None:
    """Errors from row number to reason."""
    if not failures:
        return None
    mask, codes = np.zeros(num_rows, np.bool_), np.zeros(num_rows, np.int32)
    reasons = list(dict.fromkeys(failures.values()))
    known = {r: i for i, r in enumerate(reasons)}
    for row, reason in failures.items():
        mask[row], codes[row] = True, known[reason]
    return Errors(mask, codes, tuple(reasons))


def is_ascii(values: pa.Array) -> bool:
    """True if all characters of a string array are ASCII."""
    if not len(values):
        return True
    _, offsets, data = values.buffers()
    if data is None:
        return True
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return bytes(data[int(bounds[0]) : int(bounds[-1])]).isascii()


def wrap(value: int, bits: int) -> int:
    """A Python integer as Java's of so many bits, in two's complement."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def quoted(values: Sequence[object], limit: int = 60) -> str:
    """A value for an error message, cut when long."""
    shown = ", ".join(str(v) for v in values)
    return f"'{shown[:limit]}…'" if len(shown) > limit else f"'{shown}'"
