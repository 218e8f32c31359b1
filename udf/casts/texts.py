"""The text of values, as Flink's CAST to STRING writes them."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root
from udf.arrays.arrays import in_two_ways, per_distinct
from udf.casts.nested import NESTED, nested_text
from udf.registry import Values
from udf.vector import BoolArray

_STRING = pa.string()


def to_text(values: pa.Array, source: DataType, zone: str) -> pa.Array:
    """The text of values of type `source`; TIMESTAMP_LTZ in the time zone `zone`."""
    match source.root:
        case Root.CHAR | Root.VARCHAR:
            return values
        case Root.BOOLEAN:
            return pc.if_else(values, pa.scalar("TRUE"), pa.scalar("FALSE"))
        case Root.FLOAT | Root.DOUBLE:
            return _floats(values, single=source.root is Root.FLOAT)
        case Root.DECIMAL:
            return _decimals(values)
        case Root.BINARY | Root.VARBINARY:
            return pa.array(
                [None if v is None else v.decode("utf-8", "replace") for v in values.to_pylist()],
                _STRING,
            )
        case Root.TIME:
            return _cut(values.cast(_STRING), 8, source.precision)
        case Root.TIMESTAMP:
            return _cut(values.cast(_STRING), 19, source.precision)
        case Root.TIMESTAMP_LTZ:
            return _cut(local(values, zone).cast(_STRING), 19, source.precision)
        case Root.INTERVAL_DAY_TIME:
            return per_distinct(_day_time_text, _STRING, values)
        case Root.INTERVAL_YEAR_MONTH:
            return per_distinct(
                lambda v: f"{_sign(v)}{abs(v) // 12}-{abs(v) % 12:02d}", _STRING, values
            )
    if source.root in NESTED:
        return nested_text(values, source, lambda v, t: to_text(v, t, zone))
    return values.cast(_STRING)


def _cut(text: pa.Array, whole: int, precision: int) -> pa.Array:
    """Arrow writes as many fractional digits as its unit has."""
    # A precision of 0 has no point either.
    return pc.utf8_slice_codeunits(text, 0, whole + precision + 1 if precision else whole)


def local(values: Values, zone: str) -> Values:
    """Instants as the wall clock of `zone` shows them."""
    return pc.local_timestamp(values.cast(pa.timestamp(values.type.unit, zone)))


def instants(values: pa.Array, zone: str) -> pa.Array:
    """The instants (in UTC) at which the wall clock of `zone` shows `values`: the first of two, and
    where the clock skips them, as long after the skip as they lie in it."""
    kind = pa.timestamp(values.type.unit, "UTC")
    if zone == "UTC":
        return values.cast(kind)
    # Both "earliest" make a total function; the offset found there is then applied by hand, which
    # moves a time in a gap behind it.
    near = pc.assume_timezone(values, zone, ambiguous="earliest", nonexistent="earliest")
    offset = pc.subtract(pc.local_timestamp(near), near.cast(kind).cast(values.type))
    return pc.subtract(values, offset).cast(kind)


def float_text(value: float, single: bool = False) -> str:
    """Formats a double (or, if `single`, a float) as Java does: 1.0E7 from ten million on and below
    a thousandth."""
    # Only NaN differs from itself.
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    # NumPy's float32 writes the shortest text that reads back as that float, repr() the same for a
    # double.
    shortest = str(np.float32(value)) if single else repr(value)
    # Within these bounds Python writes plainly, as Java does.
    if "e" not in shortest and (1e-3 <= abs(value) < 1e7 or value == 0):
        return shortest
    sign, digits, exponent = Decimal(shortest).as_tuple()
    # Java's mantissa has no zeros at its end.
    text = "".join(map(str, digits)).rstrip("0") or "0"
    mark = "-" if sign else ""
    # The value is 0.<digits> * 10**point.
    return mark + _java_notation(text, len(digits) + int(exponent))


def _java_notation(digits: str, point: int) -> str:
    """Puts the point between digits, or writes an exponent where Java does."""
    if digits == "0":
        return "0.0"
    # Plain from 10**-3 up to below 10**7.
    if not -3 < point <= 7:
        return f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    digits = digits.ljust(point, "0")
    return f"{digits[:point]}.{digits[point:] or '0'}"


def _floats(values: pa.Array, *, single: bool) -> pa.Array:
    def exact(rest: pa.Array) -> pa.Array:
        return per_distinct(float_text, _STRING, rest, pa.scalar(single))

    if single:
        return exact(values)
    # Where Java writes an exponent, value by value.
    return in_two_ways(values, plain_doubles(values), written_doubles, exact)


def plain_doubles(values: pa.Array) -> BoolArray:
    """Returns a mask of the values that Java writes without an exponent: from a thousandth to ten
    millions, and NULL."""
    size = np.abs(values.fill_null(0.0).to_numpy(zero_copy_only=False))
    return np.asarray((size == 0) | ((size >= 1e-3) & (size < 1e7)))


def written_doubles(values: pa.Array) -> pa.Array:
    """The texts of such, by Arrow, which only leaves out the point of whole numbers."""
    numbers = values.fill_null(0.5).to_numpy(zero_copy_only=False)
    whole = numbers == np.trunc(numbers)
    written = values.cast(_STRING)
    if not whole.any():
        return written
    return pc.binary_join_element_wise(written, pc.if_else(pa.array(whole), ".0", ""), "")


def _decimals(values: pa.Array) -> pa.Array:
    """Formats without an exponent, which Arrow writes for small numbers of more than six places."""
    # Up to six places Arrow never writes an exponent.
    if pa.types.is_decimal128(values.type) and values.type.scale <= 6:
        return values.cast(_STRING)
    return pa.array([None if v is None else f"{v:f}" for v in values.to_pylist()], _STRING)


def _sign(value: int) -> str:
    return "-" if value < 0 else "+"


def _day_time_text(value: int) -> str:
    seconds, ms = divmod(abs(value), 1000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    return f"{_sign(value)}{hours // 24} {hours % 24:02d}:{minute:02d}:{second:02d}.{ms:03d}"
