"""Dates and times as integers: sums with intervals, floors and ceilings, and the units of time.

DATE counts days; TIME, TIMESTAMP and TIMESTAMP_LTZ count their Arrow unit; intervals count months
or milliseconds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import INTERVAL_DAY_TIME, DataType, Root
from udf.arrays.arrays import column_of, rows_of, valid
from udf.casts.texts import instants, local
from udf.registry import KernelContext, Types, Values, function
from udf.signatures import Custom, nullable
from udf.vector import Errors, Vector

Int64s = npt.NDArray[np.int64]
DAY_MS = 86_400_000
INTERVALS = (Root.INTERVAL_DAY_TIME, Root.INTERVAL_YEAR_MONTH)
_UNITS_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}
UNIT_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": DAY_MS,
    "WEEK": 7 * DAY_MS,
}
UNIT_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
# Spans of years to which FLOOR and CEIL round, with the year in which one of them began; centuries
# begin in a year 1.
_SPANS = {"DECADE": (10, 0), "CENTURY": (100, 1), "MILLENNIUM": (1000, 1)}


def is_point(t: DataType) -> bool:
    """A date, a time of day or a timestamp."""
    return t.is_timestamp or t.root in (Root.DATE, Root.TIME)


def interval_casts(operator: str, types: Types) -> tuple[DataType, ...] | None:
    """The operands of +, - and * if they are times and intervals that go together."""
    if len(types) != 2:
        return None
    left, right = types
    if operator == "*":
        pairs = ((left, right), (right, left))
        return tuple(types) if any(a.root in INTERVALS and b.is_integer for a, b in pairs) else None
    if operator not in "+-":
        return None
    fits = right.root in INTERVALS and (is_point(left) or left.root is right.root)
    mirrored = operator == "+" and left.root in INTERVALS and is_point(right)
    return tuple(types) if fits or mirrored else None


def interval_result(types: Types) -> DataType | None:
    left, right = types
    if is_point(left) or is_point(right):
        return left if is_point(left) else right
    return left if left.root in INTERVALS else right


def units_per_ms(kind: pa.DataType) -> int:
    """Units of a TIME or TIMESTAMP type in a millisecond."""
    return _UNITS_PER_MS[kind.unit]


def integers(values: Values, num_rows: int) -> Int64s:
    """A date, time, interval or integer as int64; 0 for NULL."""
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values, num_rows)
    kind = values.type
    if pa.types.is_temporal(kind) or pa.types.is_duration(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    buffer = values.buffers()[1] if pa.types.is_signed_integer(values.type) else None
    if buffer is None:
        return np.asarray(values.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    view = np.frombuffer(buffer, values.type.to_pandas_dtype())[
        values.offset : values.offset + len(values)
    ]
    return np.asarray(
        view if not values.null_count else np.where(valid(values, len(values)), view, 0), np.int64
    )


def from_integers(numbers: Int64s, present: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """Integers as a column of `kind`, NULL where not `present`."""
    storage = pa.int32() if kind.bit_width == 32 else pa.int64()
    return column_of(numbers.astype(storage.to_pandas_dtype(), copy=False), present, kind)


def add_interval(ctx: KernelContext, left: Values, right: Values, sign: int) -> Vector:
    """A time plus or minus an interval, or the sum of two intervals. Error: a time that its type
    does not hold."""
    n, kind = ctx.num_rows, ctx.result_type
    alike = _moved_alike(ctx, left, right, sign)
    if alike is not None:
        return Vector(alike)
    present = valid(left, n) & valid(right, n)
    types = ctx.arg_types
    if types[0].root in INTERVALS and is_point(types[1]):
        left, right, types = right, left, (types[1], types[0])
    base, amount = integers(left, n), sign * integers(right, n)
    if types[0].root in INTERVALS:
        return Vector(from_integers(base + amount, present, kind.arrow))
    months = types[1].root is Root.INTERVAL_YEAR_MONTH
    per_ms = units_per_ms(kind.arrow) if types[0].is_timestamp else 1
    if types[0].is_timestamp and not months and _is_near(base) and _is_near(amount * per_ms):
        return Vector(from_integers(base + amount * per_ms, present, kind.arrow))
    moved = shift(base, amount, types[0], months=months)
    return Vector(
        from_integers(moved, present, kind.arrow),
        _outside(base, amount, moved, types[0], months, present),
    )


def _moved_alike(ctx: KernelContext, left: Values, right: Values, sign: int) -> pa.Array | None:
    """The common case with few calls: timestamps without NULL, all moved by one interval. Else
    None."""
    kind, of_right = ctx.result_type.arrow, ctx.arg_types[1].root
    if not isinstance(left, pa.TimestampArray) or not isinstance(right, pa.Int64Scalar):
        return None
    if left.null_count or not len(left) or of_right is not Root.INTERVAL_DAY_TIME:
        return None
    amount = right.as_py()
    if amount is None or not left.type.equals(kind):
        return None
    amount *= sign * units_per_ms(kind)
    base = np.frombuffer(left.buffers()[1], np.int64, len(left), 8 * left.offset)
    if not _is_near(base) or abs(amount) >= 2**62:
        return None
    return pa.Array.from_buffers(kind, len(left), [None, pa.py_buffer(base + amount)])


def _is_near(numbers: Int64s) -> bool:
    """True if the sum of two such numbers surely fits into 64 bits."""
    return bool(len(numbers)) and int(numbers.max()) < 2**62 and int(numbers.min()) > -(2**62)


def _outside(
    base: Int64s,
    amount: Int64s,
    moved: Int64s,
    t: DataType,
    months: bool,
    present: npt.NDArray[np.bool_],
) -> Errors | None:
    """The rows whose sum is beyond what 64 bits count: nanoseconds reach from 1677 to 2262."""
    if not t.is_timestamp:
        return None
    per_day = DAY_MS * units_per_ms(t.arrow)
    way = amount * (30.4 * per_day) if months else amount * float(units_per_ms(t.arrow))
    far = np.abs((base + way) - moved) > 2.0**62
    return Errors.where(far & present, f"the sum is beyond the times that {t.plain} holds")


def shift(base: Int64s, amount: Int64s, t: DataType, *, months: bool) -> Int64s:
    """Times of type `t` moved by `amount` months or milliseconds. The day of a month that lacks it
    is its last; TIME wraps around at midnight, DATE moves by whole days."""
    if t.root is Root.DATE:
        return (
            add_months(base, amount) if months else base + np.fix(amount / DAY_MS).astype(np.int64)
        )
    per_ms = units_per_ms(t.arrow)
    day = DAY_MS * per_ms
    if t.root is Root.TIME:
        return base if months else (base + amount * per_ms) % day
    if months:
        days = base // day
        return add_months(days, amount) * day + (base - days * day)
    return base + amount * per_ms


def add_months(days: Int64s, amount: Int64s) -> Int64s:
    """Days since 1970-01-01 moved by months; the day of a month that lacks it is its last."""
    date = days.astype("datetime64[D]")
    month = date.astype("datetime64[M]")
    target = month + amount.astype("timedelta64[M]")
    last = (target + 1).astype("datetime64[D]") - np.timedelta64(1, "D")
    moved = target.astype("datetime64[D]") + (date - month.astype("datetime64[D]"))
    return np.asarray(np.minimum(moved, last).astype(np.int64))


def _points(types: Types) -> tuple[DataType, ...] | None:
    if len(types) != 2 or not all(map(is_point, types)):
        return None
    clock = [t.root is Root.TIME for t in types]
    return tuple(types) if clock[0] == clock[1] else None


@function(
    "TIMESTAMP MINUS",
    signature=Custom(
        _points, lambda t, _: INTERVAL_DAY_TIME.with_nullable(nullable(t)), "two dates or times"
    ),
)
def minus(ctx: KernelContext, later: Values, earlier: Values) -> Values:
    """(later - earlier) DAY, HOUR, …: the time between, to the millisecond."""
    n = ctx.num_rows
    ms = [
        _milliseconds(integers(v, n), t)
        for v, t in zip((later, earlier), ctx.arg_types, strict=True)
    ]
    return pa.array(ms[0] - ms[1], mask=~(valid(later, n) & valid(earlier, n)))


def _milliseconds(numbers: Int64s, t: DataType) -> Int64s:
    return numbers * DAY_MS if t.root is Root.DATE else numbers // units_per_ms(t.arrow)


def scale_interval(ctx: KernelContext, left: Values, right: Values) -> Values:
    """An interval times an integer; it wraps around as Java's long, or int for months."""
    product = pc.multiply(left.cast(pa.int64()), right.cast(pa.int64()))
    if ctx.result_type.root is Root.INTERVAL_DAY_TIME or isinstance(product, pa.Scalar):
        return product
    months = integers(product, ctx.num_rows).astype(np.int32)
    return pa.array(months, pa.int64(), mask=~valid(product, ctx.num_rows))


def months_of(days: Int64s) -> Int64s:
    """Months since January 1970 of days since 1970-01-01."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def first_day(months: Int64s) -> Int64s:
    """Days since 1970-01-01 of the first day of months since January 1970."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _floored(numbers: Int64s, t: DataType, unit: str) -> Int64s:
    day = 1 if t.root is Root.DATE else DAY_MS * units_per_ms(t.arrow)
    if unit in UNIT_MONTHS:
        size = UNIT_MONTHS[unit]
        # Whole months since 1970, cut to a multiple: a quarter begins in January, April, July or
        # October.
        return first_day(months_of(numbers // day) // size * size) * day
    if unit in _SPANS:
        years, first = _SPANS[unit]
        # Centuries begin in a year that `_SPANS` names, not at a multiple of a hundred.
        begin = (months_of(numbers // day) // 12 + 1970 - first) // years * years + first
        return first_day((begin - 1970) * 12) * day
    if unit == "WEEK":  # weeks begin on Sunday; 1970-01-01 was a Thursday
        days = numbers // day
        return (days - (days + 4) % 7) * day
    if t.root is Root.DATE:
        return numbers
    size = UNIT_MS.get(unit, 1) * units_per_ms(t.arrow)
    return numbers // size * size


def _next(numbers: Int64s, t: DataType, unit: str) -> Int64s:
    day = 1 if t.root is Root.DATE else DAY_MS * units_per_ms(t.arrow)
    # Centuries and the like count as months, too.
    months = UNIT_MONTHS.get(unit) or 12 * _SPANS.get(unit, (0, 0))[0]
    if months:
        return first_day(months_of(numbers // day) + months) * day
    if t.root is Root.DATE:
        return numbers + (7 if unit == "WEEK" else 1)
    return numbers + UNIT_MS.get(unit, 1) * units_per_ms(t.arrow)


def floor_time(ctx: KernelContext, value: Values, unit: Values) -> Values:
    """The beginning of the unit (a literal) that a time is in, by the clock of the session's zone
    for TIMESTAMP_LTZ."""
    numbers, t, name = _by_the_clock(ctx, value, unit)
    return _moved(ctx, numbers, _floored(numbers, t, name), value, name)


def ceil_time(ctx: KernelContext, value: Values, unit: Values) -> Values:
    """The beginning of the next unit, or the time itself where one begins. Of weeks and longer
    units only the day is looked at, of seconds to days the millisecond, as in Flink: at noon of a
    Sunday the week's beginning is the midnight before."""
    numbers, t, name = _by_the_clock(ctx, value, unit)
    seen = 1
    if t.root is not Root.DATE and name != "MILLISECOND":
        by_day = name == "WEEK" or name in UNIT_MONTHS or name in _SPANS
        seen = (DAY_MS if by_day else 1) * units_per_ms(t.arrow)
    cut = numbers // seen * seen
    below = _floored(cut, t, name)
    # A time at which the unit begins is its own ceiling.
    return _moved(ctx, numbers, np.where(below == cut, cut, _next(below, t, name)), value, name)


def _by_the_clock(ctx: KernelContext, value: Values, unit: Values) -> tuple[Int64s, DataType, str]:
    """The time as the clock shows it, its type, and the unit's name."""
    t = ctx.arg_types[0]
    if t.root is Root.TIMESTAMP_LTZ:
        value = local(value, ctx.zone)
    return integers(value, ctx.num_rows), t, str(next(iter(rows_of(unit)), "DAY")).upper()


def _moved(ctx: KernelContext, shown: Int64s, wanted: Int64s, value: Values, unit: str) -> Values:
    """The time for which the clock shows `wanted` instead of `shown`. Units below the day do not
    meet its changes: of two hours that it shows alike, the second one stays the second."""
    if (
        ctx.arg_types[0].root is Root.TIMESTAMP_LTZ
        and unit in UNIT_MS
        and unit not in ("DAY", "WEEK")
    ):
        present = valid(value, ctx.num_rows)
        return from_integers(
            integers(value, ctx.num_rows) + wanted - shown, present, ctx.arg_types[0].arrow
        )
    return _by_the_zone(ctx, wanted, value)


def _by_the_zone(ctx: KernelContext, numbers: Int64s, value: Values) -> Values:
    """Times of the clock as values of the argument's type."""
    t, present = ctx.arg_types[0], valid(value, ctx.num_rows)
    if t.root is not Root.TIMESTAMP_LTZ:
        return from_integers(numbers, present, t.arrow)
    return instants(from_integers(numbers, present, pa.timestamp(t.arrow.unit)), ctx.zone)
