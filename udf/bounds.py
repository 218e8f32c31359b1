"""Bounds on what kernels make: no value is longer than 'value-size', and no column of a batch takes
more than 'column-size'.

A function whose results may be much longer than its arguments declares how long they are
(`Growth`, `udf/growth.py`). That is asked before the kernel runs. All other results are measured
afterwards: they are a few times as long as the arguments at most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.limits import bytes_text, present
from parser.types import Root
from udf.guard import Run
from udf.vector import ColumnTooLarge, Errors, Vector, merge_errors

IntArray: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = pa.Array | pa.Scalar

# Types whose values may be of any length.
GROWING: Final = frozenset(
    (Root.VARCHAR, Root.VARBINARY, Root.ARRAY, Root.MAP, Root.MULTISET, Root.VARIANT)
)
_END: Final = Struct("<i")
# What an element of an array or map is counted as, besides the bytes of its texts.
ELEMENT: Final = 8


class Size(NamedTuple):
    """The size of an argument: the bytes of all rows, and at most those of the longest one. Of a
    number that is a count: the sum of all rows and the greatest one."""

    total: int
    longest: int


@dataclass(frozen=True)
class Growth:
    """The lengths of a function's results.

    `most`: bytes that those of all rows take at most, from the number of rows and the sizes of the
    arguments, in constant time. `rough`: bytes that each row takes at most, from the lengths of the
    arguments; asked where `most` is too much. `exact`: bytes that each row takes, from their
    values, and asked last. `counts`: integers among the arguments say how often or how long.
    `escaped`: results may be a few times longer than that, and are measured afterwards."""

    most: Callable[..., int]
    exact: Callable[..., IntArray]
    rough: Callable[..., IntArray] | None = None
    counts: bool = False
    escaped: bool = False


def size_of(values: Values, rows: int, counts: bool = False) -> Size:
    """The size of an argument at most. Constant time, but for integers that are `counts`."""
    if isinstance(values, pa.Scalar):
        one = _scalar_size(values, counts=counts)
        return Size(one * rows, one)
    if counts and pa.types.is_integer(values.type):
        greatest = max(int(pc.max(values).as_py() or 0), 0) if len(values) else 0
        return Size(greatest * rows, greatest)
    total = _total(values)
    return Size(total, total)


def _scalar_size(scalar: pa.Scalar, *, counts: bool) -> int:
    if not scalar.is_valid:
        return 0
    if isinstance(scalar, pa.StringScalar | pa.BinaryScalar):
        return int(scalar.as_buffer().size)
    if counts and pa.types.is_integer(scalar.type):
        return max(int(scalar.as_py()), 0)
    return int(row_bytes(pa.repeat(scalar, 1))[0])


def _total(values: pa.Array) -> int:
    if not len(values):
        return 0
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        ends, at = values.buffers()[1], values.offset
        last: int = _END.unpack_from(ends, 4 * (at + len(values)))[0]
        return last - int(_END.unpack_from(ends, 4 * at)[0])
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        ends = ends_of(values)
        start, count = int(ends[0]), int(ends[-1] - ends[0])
        inside = [values.values] if pa.types.is_list(kind) else [values.keys, values.items]
        return ELEMENT * count + sum(_total(v.slice(start, count)) for v in inside)
    return int(values.nbytes)


def lengths(values: Values, rows: int) -> IntArray:
    """The bytes of an argument's rows; 0 for NULL."""
    if isinstance(values, pa.Scalar):
        return np.full(rows, _scalar_size(values, counts=False), np.int64)
    return row_bytes(values)


def numbers(values: Values, rows: int) -> IntArray:
    """The values of an argument that counts, 0 at least and for NULL."""
    if isinstance(values, pa.Scalar):
        return np.full(rows, _scalar_size(values, counts=True), np.int64)
    found: IntArray = np.maximum(np.asarray(values.fill_null(0).cast(pa.int64())), 0)
    return found


def row_bytes(values: pa.Array) -> IntArray:
    """The bytes that each value takes; 0 for NULL."""
    kind, count = values.type, len(values)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        found = np.diff(ends_of(values)).astype(np.int64)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        ends = ends_of(values).astype(np.int64)
        children = values.values if pa.types.is_list(kind) else pa.StructArray.from_arrays(
            [values.keys, values.items], ["f0", "f1"]
        )  # fmt: skip
        # Offsets count from the beginning of all elements.
        inside = np.concatenate([np.zeros(1, np.int64), np.cumsum(row_bytes(children))])
        found = inside[ends[1:]] - inside[ends[:-1]] + ELEMENT * np.diff(ends)
    elif pa.types.is_struct(kind):
        found = np.zeros(count, np.int64)
        for child in values.flatten():
            found += row_bytes(child)
    else:
        found = np.full(count, _width(kind), np.int64)
    if values.null_count:
        found[np.asarray(values.is_null().to_numpy(zero_copy_only=False))] = 0
    return found


def ends_of(values: pa.Array) -> npt.NDArray[np.int32]:
    buffer = values.buffers()[1]
    if buffer is None or not len(values):
        return np.zeros(len(values) + 1, np.int32)
    return np.frombuffer(buffer, np.int32)[values.offset : values.offset + len(values) + 1]


def _width(kind: pa.DataType) -> int:
    try:
        return int(kind.bit_width) // 8
    except ValueError:  # NULLs have no width
        return 0


def fits(growth: Growth, args: Sequence[Vector], rows: int) -> bool:
    """True if the results are sure to be within all bounds, which costs no time for each row."""
    most, counts = present().value_size, growth.counts
    # First by whole buffers, which take less time to ask; others may share them.
    sizes = [
        _whole_buffer(v) if type(v := a.values) is pa.StringArray else size_of(v, rows, counts)
        for a in args
    ]
    if growth.most(rows, *sizes) <= most:
        return True
    return growth.most(rows, *[size_of(a.values, rows, counts) for a in args]) <= most


def _whole_buffer(values: pa.StringArray) -> Size:
    data = values.buffers()[2]
    total = 0 if data is None else data.size
    return Size(total, total)


def within(name: str, growth: Growth, run: Run, args: Sequence[Vector], rows: int) -> Vector:
    """The vector of a kernel whose results may be too long; rows whose value would be longer than
    'value-size' are in error, and not computed. ColumnTooLarge where the others are too much for
    one column."""
    limits, values = present(), [a.values for a in args]
    if growth.rough is not None:
        found = growth.rough(rows, *values)
        if found.max() <= limits.value_size and int(found.sum()) <= limits.column_size:
            return run(args, rows)
    found = growth.exact(rows, *values)
    long = found > limits.value_size
    if rows > 1 and int(found[~long].sum()) > limits.column_size:
        raise ColumnTooLarge
    if not long.any():
        return run(args, rows)
    kept = np.flatnonzero(~long)
    part = run([_taken(a, kept) for a in args], len(kept))
    return _spread(part, kept, rows, _too_long(name, found, long))


def measured(name: str, result: Vector, rows: int) -> Vector:
    """The kernel's vector without values that are longer than 'value-size', whose rows are in
    error. ColumnTooLarge where the column is too large."""
    limits, values = present(), result.values
    if type(values) is pa.StringArray and _whole_buffer(values).total <= limits.value_size:
        return result  # most are, and this is asked of every call
    if isinstance(values, pa.Scalar) or _total(values) <= limits.value_size:
        return result
    found = row_bytes(values)
    long = found > limits.value_size
    if rows > 1 and int(found[~long].sum()) > limits.column_size:
        raise ColumnTooLarge
    if not long.any():
        return result
    kept = pc.if_else(pa.array(~long), values, pa.scalar(None, values.type))
    return Vector(kept, merge_errors([result.errors, _too_long(name, found, long)]))


def _too_long(name: str, found: IntArray, long: npt.NDArray[np.bool_]) -> Errors:
    most = f"at most {present().value_size:,} are allowed ('value-size')"
    numbers = np.unique(found[long])
    codes = np.zeros(len(found), np.int32)
    codes[long] = np.searchsorted(numbers, found[long])
    reasons = tuple(f"{name}: the value has {bytes_text(n)}, {most}" for n in numbers.tolist())
    return Errors(long, codes, reasons)


def _taken(vector: Vector, rows: npt.NDArray[np.intp]) -> Vector:
    errors = None if vector.errors is None else vector.errors.take(rows)
    if isinstance(vector.values, pa.Scalar):
        return Vector(vector.values, errors)
    return Vector(vector.values.take(pa.array(rows)), errors)


def _spread(part: Vector, kept: npt.NDArray[np.intp], rows: int, own: Errors) -> Vector:
    """The vector of some rows as one of all, of which the others have the errors `own`."""
    places = np.zeros(rows, np.int64)
    places[kept] = np.arange(len(kept))
    values = part.array(len(kept)).take(pa.array(places, mask=own.mask))
    if part.errors is None:
        return Vector(values, own)
    mask, codes = np.zeros(rows, np.bool_), np.zeros(rows, np.int32)
    mask[kept], codes[kept] = part.errors.mask, part.errors.codes
    return Vector(values, merge_errors([Errors(mask, codes, part.errors.reasons), own]))
