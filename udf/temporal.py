"""Dates and times: now, parts of a time, differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from parser.errors import PlanError
from parser.types import BIGINT, DATE, INT, DataType, Root, TimeAttribute, time, timestamp, timestamp_ltz
from udf.arrays import rows_of, valid
from udf.intervals import (
    DAY_MS,
    UNIT_MONTHS,
    UNIT_MS,
    Int64s,
    add_months,
    first_day,
    from_integers,
    integers,
    months_of,
    shift,
    units_per_ms,
)
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, never_null, nullable, takes
from udf.texts import local

_LTZ3 = timestamp_ltz(3)


def _now(ctx: KernelContext) -> pa.Scalar:
    return pa.scalar(ctx.proctime_ms, pa.int64()).cast(pa.timestamp("ms", "UTC"))


@function(
    "CURRENT_TIMESTAMP", "NOW", "CURRENT_ROW_TIMESTAMP", signature=takes(result=never_null(_LTZ3)), deterministic=False
)
def current_timestamp(ctx: KernelContext) -> Values:
    """The epoch's processing time."""
    return _now(ctx)


@function(
    "PROCTIME", signature=takes(result=never_null(_LTZ3.as_attribute(TimeAttribute.PROCTIME))), deterministic=False
)
def proctime(ctx: KernelContext) -> Values:
    """The epoch's processing time, as a time attribute."""
    return _now(ctx)


@function("LOCALTIMESTAMP", signature=takes(result=never_null(timestamp(3))), deterministic=False)
def localtimestamp(ctx: KernelContext) -> Values:
    """The epoch's processing time as the session's wall clock shows it."""
    return local(_now(ctx), ctx.zone)


@function("CURRENT_DATE", signature=takes(result=never_null(DATE)), deterministic=False)
def current_date(ctx: KernelContext) -> Values:
    """The day of the epoch's processing time in the session's time zone."""
    return local(_now(ctx), ctx.zone).cast(pa.date32(), safe=False)


@function("CURRENT_TIME", "LOCALTIME", signature=takes(result=never_null(time(0))), deterministic=False)
def current_time(ctx: KernelContext) -> Values:
    """The time of day of the epoch's processing time in the session's time zone, in whole seconds."""
    ms = local(_now(ctx), ctx.zone).cast(pa.int64()).as_py()
    return pa.scalar(ms % DAY_MS // 1000 * 1000, pa.int32()).cast(pa.time32("ms"))


def _days_and_ms(ctx: KernelContext, value: Values, at: int) -> tuple[Int64s, Int64s]:
    """Days since 1970-01-01 and milliseconds since midnight, by the wall clock."""
    t = ctx.arg_types[at]
    numbers = integers(local(value, ctx.zone) if t.root is Root.TIMESTAMP_LTZ else value, ctx.num_rows)
    if t.root is Root.DATE:
        return numbers, np.zeros_like(numbers)
    ms = numbers // units_per_ms(t.arrow)
    return ms // DAY_MS, ms % DAY_MS


def _year_of(days: Int64s) -> Int64s:
    return months_of(days) // 12 + 1970


def _iso_week(days: Int64s) -> Int64s:
    thursday = days - (days + 3) % 7 + 3  # the Thursday of the week decides its year
    return (thursday - first_day((_year_of(thursday) - 1970) * 12)) // 7 + 1


Part = Callable[[Int64s, Int64s], Int64s]
_PARTS: dict[str, Part] = {
    "YEAR": lambda d, ms: _year_of(d),
    "QUARTER": lambda d, ms: months_of(d) % 12 // 3 + 1,
    "MONTH": lambda d, ms: months_of(d) % 12 + 1,
    "WEEK": lambda d, ms: _iso_week(d),
    "DAY": lambda d, ms: d - first_day(months_of(d)) + 1,
    "DOY": lambda d, ms: d - first_day((_year_of(d) - 1970) * 12) + 1,
    "DOW": lambda d, ms: (d + 4) % 7 + 1,
    "ISODOW": lambda d, ms: (d + 3) % 7 + 1,
    "HOUR": lambda d, ms: ms // 3_600_000,
    "MINUTE": lambda d, ms: ms // 60_000 % 60,
    "SECOND": lambda d, ms: ms // 1000 % 60,
    "MILLISECOND": lambda d, ms: ms % 60_000 % 1000,
    "EPOCH": lambda d, ms: d * 86_400 + ms // 1000,
}


def _part(ctx: KernelContext, name: str, value: Values, at: int = 0) -> Values:
    days, ms = _days_and_ms(ctx, value, at)
    return pa.array(_PARTS[name](days, ms), pa.int64(), mask=~valid(value, ctx.num_rows))


def _is_time(t: DataType) -> bool:
    return t.is_timestamp or t.root in (Root.DATE, Root.TIME)


def _bigint(types: Types, literals: Literals) -> DataType:
    return BIGINT.with_nullable(nullable(types))


_POINT = Custom(lambda t: tuple(t) if len(t) == 1 and _is_time(t[0]) else None, _bigint, "a date or time")


@function("YEAR", signature=_POINT)
def year(ctx: KernelContext, value: Values) -> Values:
    """The year."""
    return _part(ctx, "YEAR", value)


@function("QUARTER", signature=_POINT)
def quarter(ctx: KernelContext, value: Values) -> Values:
    """The quarter of the year, 1 to 4."""
    return _part(ctx, "QUARTER", value)


@function("MONTH", signature=_POINT)
def month(ctx: KernelContext, value: Values) -> Values:
    """The month, 1 to 12."""
    return _part(ctx, "MONTH", value)


@function("WEEK", signature=_POINT)
def week(ctx: KernelContext, value: Values) -> Values:
    """The ISO week of the year, 1 to 53."""
    return _part(ctx, "WEEK", value)


@function("DAYOFYEAR", signature=_POINT)
def dayofyear(ctx: KernelContext, value: Values) -> Values:
    """The day of the year, 1 to 366."""
    return _part(ctx, "DOY", value)


@function("DAYOFMONTH", signature=_POINT)
def dayofmonth(ctx: KernelContext, value: Values) -> Values:
    """The day of the month, 1 to 31."""
    return _part(ctx, "DAY", value)


@function("DAYOFWEEK", signature=_POINT)
def dayofweek(ctx: KernelContext, value: Values) -> Values:
    """The day of the week, 1 (Sunday) to 7."""
    return _part(ctx, "DOW", value)


@function("HOUR", signature=_POINT)
def hour(ctx: KernelContext, value: Values) -> Values:
    """The hour of the day, 0 to 23."""
    return _part(ctx, "HOUR", value)


@function("MINUTE", signature=_POINT)
def minute(ctx: KernelContext, value: Values) -> Values:
    """The minute of the hour, 0 to 59."""
    return _part(ctx, "MINUTE", value)


@function("SECOND", signature=_POINT)
def second(ctx: KernelContext, value: Values) -> Values:
    """The second of the minute, 0 to 59."""
    return _part(ctx, "SECOND", value)


def _unit_first(count: int) -> Callable[[Types], tuple[DataType, ...] | None]:
    def casts(types: Types) -> tuple[DataType, ...] | None:
        return tuple(types) if len(types) == count and types[0].is_string and all(map(_is_time, types[1:])) else None

    return casts


def _unit(literals: Literals, known: object) -> str:
    """The unit that a literal names; the parser writes one for SECOND, DAY, … as first argument."""
    name = str(literals[0]).upper()
    if name not in known:  # type: ignore[operator]
        raise PlanError(f"unit {name} is not supported")
    return name


def _extract_result(types: Types, literals: Literals) -> DataType:
    _unit(literals, _PARTS)
    return _bigint(types, literals)


@function("EXTRACT", signature=Custom(_unit_first(2), _extract_result, "a unit and a date or time"))
def extract(ctx: KernelContext, unit: Values, value: Values) -> Values:
    """EXTRACT('YEAR', time) for EXTRACT(YEAR FROM time)."""
    return _part(ctx, str(next(iter(rows_of(unit)), "DAY")).upper(), value, 1)


def _diff_result(types: Types, literals: Literals) -> DataType:
    _unit(literals, {*UNIT_MS, *UNIT_MONTHS})
    return INT.with_nullable(nullable(types))


@function("TIMESTAMPDIFF", signature=Custom(_unit_first(3), _diff_result, "a unit and two dates or times"))
def timestampdiff(ctx: KernelContext, unit: Values, start: Values, end: Values) -> Values:
    """TIMESTAMPDIFF('HOUR', start, end): whole units from start to end, negative if the end is before the start."""
    name = str(next(iter(rows_of(unit)), "DAY")).upper()
    (days, ms), (days2, ms2) = _days_and_ms(ctx, start, 1), _days_and_ms(ctx, end, 2)
    if name in UNIT_MS:
        units = _toward_zero((days2 - days) * DAY_MS + ms2 - ms, UNIT_MS[name])
    else:
        units = _toward_zero(_months_between(days, ms, days2, ms2), UNIT_MONTHS[name])
    present = valid(start, ctx.num_rows) & valid(end, ctx.num_rows)
    return pa.array(units.astype(np.int32), pa.int32(), mask=~present)


def _toward_zero(numbers: Int64s, size: int) -> Int64s:
    return np.asarray(np.sign(numbers) * (np.abs(numbers) // size), np.int64)


def _months_between(days: Int64s, ms: Int64s, days2: Int64s, ms2: Int64s) -> Int64s:
    """Whole months: the last one counts when its day (or the month's last) and its time are reached."""
    back = (days2 < days) | ((days2 == days) & (ms2 < ms))
    start, start_ms = np.where(back, days2, days), np.where(back, ms2, ms)
    end, end_ms = np.where(back, days, days2), np.where(back, ms, ms2)
    months = months_of(end) - months_of(start)
    reached = add_months(start, months)
    months -= (reached > end) | ((reached == end) & (end_ms < start_ms))
    return np.where(back, -months, months)


def _add_types(types: Types) -> tuple[DataType, ...] | None:
    fits = len(types) == 3 and types[0].is_string and types[1].is_integer and _is_time(types[2])
    return tuple(types) if fits else None


def _add_result(types: Types, literals: Literals) -> DataType:
    unit = _unit(literals, {*UNIT_MS, *UNIT_MONTHS})
    kind = types[2].plain
    if kind.root is Root.DATE and unit in ("SECOND", "MINUTE", "HOUR"):
        kind = timestamp(6)
    return kind.with_nullable(nullable(types))


@function("TIMESTAMPADD", signature=Custom(_add_types, _add_result, "a unit, a number and a date or time"))
def timestampadd(ctx: KernelContext, unit: Values, amount: Values, value: Values) -> Values:
    """TIMESTAMPADD('MONTH', number, time): the time moved by so many units."""
    n, t = ctx.num_rows, ctx.arg_types[2]
    name = str(next(iter(rows_of(unit)), "DAY")).upper()
    base, count = integers(value, n), integers(amount, n)
    if t.root is Root.DATE and ctx.result_type.root is Root.TIMESTAMP:
        base, t = base * DAY_MS * 1000, ctx.result_type
    months = name in UNIT_MONTHS
    moved = shift(base, count * (UNIT_MONTHS[name] if months else UNIT_MS[name]), t, months=months)
    return from_integers(moved, valid(value, n) & valid(amount, n), ctx.result_type.arrow)
