"""Dates and times: now, parts of a time, differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
    """CURRENT_TIMESTAMP, NOW(), CURRENT_ROW_TIMESTAMP(): the epoch's processing time.

    >>> CURRENT_TIMESTAMP IS NULL
    FALSE
    """
    return _now(ctx)


@function(
    "PROCTIME", signature=takes(result=never_null(_LTZ3.as_attribute(TimeAttribute.PROCTIME))), deterministic=False
)
def proctime(ctx: KernelContext) -> Values:
    """PROCTIME(): the epoch's processing time, as a time attribute.

    >>> PROCTIME() IS NULL
    FALSE
    """
    return _now(ctx)


@function("LOCALTIMESTAMP", signature=takes(result=never_null(timestamp(3))), deterministic=False)
def localtimestamp(ctx: KernelContext) -> Values:
    """LOCALTIMESTAMP: the epoch's processing time as the session's wall clock shows it.

    >>> LOCALTIMESTAMP IS NULL
    FALSE
    """
    return local(_now(ctx), ctx.zone)


@function("CURRENT_DATE", signature=takes(result=never_null(DATE)), deterministic=False)
def current_date(ctx: KernelContext) -> Values:
    """CURRENT_DATE: the day of the epoch's processing time in the session's time zone.

    >>> CURRENT_DATE > DATE '2020-01-01'
    TRUE
    """
    return local(_now(ctx), ctx.zone).cast(pa.date32(), safe=False)


@function("CURRENT_TIME", "LOCALTIME", signature=takes(result=never_null(time(0))), deterministic=False)
def current_time(ctx: KernelContext) -> Values:
    """CURRENT_TIME, LOCALTIME: the time of day of the epoch's processing time in the session's time zone, in whole
    seconds.

    >>> CURRENT_TIME IS NULL
    FALSE
    """
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
    "ISOYEAR": lambda d, ms: _year_of(d - (d + 3) % 7 + 3),
    "DECADE": lambda d, ms: _year_of(d) // 10,
    "CENTURY": lambda d, ms: (_year_of(d) + 99) // 100,
    "MILLENNIUM": lambda d, ms: (_year_of(d) + 999) // 1000,
}
_FRACTIONS = {"MICROSECOND": 1_000, "NANOSECOND": 1}
_OF_DAY = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "EPOCH")
# Parts of intervals: what a part is of months, or of milliseconds.
_OF_MONTHS: dict[str, Callable[[Int64s], Int64s]] = {
    "YEAR": lambda n: n // 12,
    "QUARTER": lambda n: n % 12 // 3 + 1,
    "MONTH": lambda n: n % 12,
}
_OF_MS: dict[str, Callable[[Int64s], Int64s]] = {
    "DAY": lambda n: n // DAY_MS,
    "HOUR": lambda n: n // 3_600_000 % 24,
    "MINUTE": lambda n: n // 60_000 % 60,
    "SECOND": lambda n: n // 1000 % 60,
    "MILLISECOND": lambda n: n % 1000,
}


def _part(ctx: KernelContext, name: str, value: Values, at: int = 0) -> Values:
    missing, kind = ~valid(value, ctx.num_rows), ctx.arg_types[at]
    if kind.root in _INTERVALS:
        numbers = integers(value, ctx.num_rows)
        parts = _OF_MONTHS if kind.root is Root.INTERVAL_YEAR_MONTH else _OF_MS
        size = np.where(numbers < 0, -1, 1)
        return pa.array(parts[name](np.abs(numbers)) * size, pa.int64(), mask=missing)
    if name in _FRACTIONS:
        unit = units_per_ms(kind.arrow) * 1000 if kind.root is not Root.DATE else 1
        fraction = integers(value, ctx.num_rows) % unit * (1_000_000_000 // unit)
        return pa.array(fraction // _FRACTIONS[name], pa.int64(), mask=missing)
    days, ms = _days_and_ms(ctx, value, at)
    return pa.array(_PARTS[name](days, ms), pa.int64(), mask=missing)


_INTERVALS = (Root.INTERVAL_DAY_TIME, Root.INTERVAL_YEAR_MONTH)


def _check_part(name: str, kind: DataType) -> None:
    """PlanError for a part that a time of day or an interval has not."""
    known: object = {*_PARTS, *_FRACTIONS}
    if kind.root is Root.TIME:
        known = _OF_DAY
    elif kind.root in _INTERVALS:
        known = _OF_MONTHS if kind.root is Root.INTERVAL_YEAR_MONTH else _OF_MS
    if name not in known:  # type: ignore[operator]
        raise PlanError(f"{kind.plain} has no {name}")


def _is_time(t: DataType) -> bool:
    return t.is_timestamp or t.root in (Root.DATE, Root.TIME)


def _bigint(types: Types, literals: Literals) -> DataType:
    return BIGINT.with_nullable(nullable(types))


def _point(name: str) -> Custom:
    def result(types: Types, literals: Literals) -> DataType:
        _check_part(name, types[0])
        return _bigint(types, literals)

    return Custom(lambda t: tuple(t) if len(t) == 1 and _has_parts(t[0]) else None, result, "a date or time")


def _has_parts(t: DataType) -> bool:
    return _is_time(t) or t.root in _INTERVALS


@function("YEAR", signature=_point("YEAR"))
def year(ctx: KernelContext, value: Values) -> Values:
    """YEAR(time): the year.

    >>> YEAR(DATE '1994-09-27')
    1994
    """
    return _part(ctx, "YEAR", value)


@function("QUARTER", signature=_point("QUARTER"))
def quarter(ctx: KernelContext, value: Values) -> Values:
    """QUARTER(time): the quarter of the year, 1 to 4.

    >>> QUARTER(DATE '1994-09-27')
    3
    """
    return _part(ctx, "QUARTER", value)


@function("MONTH", signature=_point("MONTH"))
def month(ctx: KernelContext, value: Values) -> Values:
    """MONTH(time): the month, 1 to 12.

    >>> MONTH(DATE '1994-09-27')
    9
    """
    return _part(ctx, "MONTH", value)


@function("WEEK", signature=_point("WEEK"))
def week(ctx: KernelContext, value: Values) -> Values:
    """WEEK(time): the ISO week of the year, 1 to 53.

    >>> WEEK(DATE '1994-09-27')
    39
    """
    return _part(ctx, "WEEK", value)


@function("DAYOFYEAR", signature=_point("DOY"))
def dayofyear(ctx: KernelContext, value: Values) -> Values:
    """DAYOFYEAR(time): the day of the year, 1 to 366.

    >>> DAYOFYEAR(DATE '1994-09-27')
    270
    """
    return _part(ctx, "DOY", value)


@function("DAYOFMONTH", signature=_point("DAY"))
def dayofmonth(ctx: KernelContext, value: Values) -> Values:
    """DAYOFMONTH(time): the day of the month, 1 to 31.

    >>> DAYOFMONTH(DATE '1994-09-27')
    27
    """
    return _part(ctx, "DAY", value)


@function("DAYOFWEEK", signature=_point("DOW"))
def dayofweek(ctx: KernelContext, value: Values) -> Values:
    """DAYOFWEEK(time): the day of the week, 1 (Sunday) to 7.

    >>> DAYOFWEEK(DATE '1994-09-27')
    3
    """
    return _part(ctx, "DOW", value)


@function("HOUR", signature=_point("HOUR"))
def hour(ctx: KernelContext, value: Values) -> Values:
    """HOUR(time): the hour of the day, 0 to 23.

    >>> HOUR(TIMESTAMP '1994-09-27 13:14:15')
    13
    """
    return _part(ctx, "HOUR", value)


@function("MINUTE", signature=_point("MINUTE"))
def minute(ctx: KernelContext, value: Values) -> Values:
    """MINUTE(time): the minute of the hour, 0 to 59.

    >>> MINUTE(TIMESTAMP '1994-09-27 13:14:15')
    14
    """
    return _part(ctx, "MINUTE", value)


@function("SECOND", signature=_point("SECOND"))
def second(ctx: KernelContext, value: Values) -> Values:
    """SECOND(time): the second of the minute, 0 to 59.

    >>> SECOND(TIMESTAMP '1994-09-27 13:14:15')
    15
    """
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


def _extract_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) == 2 and types[0].is_string and _has_parts(types[1]) else None


def _extract_result(types: Types, literals: Literals) -> DataType:
    _check_part(_unit(literals, {*_PARTS, *_FRACTIONS}), types[1])
    return _bigint(types, literals)


@function("EXTRACT", signature=Custom(_extract_types, _extract_result, "a unit and a date, a time or an interval"))
def extract(ctx: KernelContext, unit: Values, value: Values) -> Values:
    """EXTRACT(unit FROM time): a part of a date, a time or an interval: MILLENNIUM, CENTURY, DECADE, YEAR, ISOYEAR,
    QUARTER, MONTH, WEEK (ISO), DAY, DOY, DOW (Sunday is 1), ISODOW (Monday is 1), HOUR, MINUTE, SECOND, MILLISECOND,
    MICROSECOND and NANOSECOND (of the second), EPOCH (seconds since 1970).

    >>> EXTRACT(MONTH FROM DATE '2006-06-05')
    6
    """
    return _part(ctx, str(next(iter(rows_of(unit)), "DAY")).upper(), value, 1)


def _diff_result(types: Types, literals: Literals) -> DataType:
    _unit(literals, {*UNIT_MS, *UNIT_MONTHS, "MICROSECOND"})
    return INT.with_nullable(nullable(types))


@function("TIMESTAMPDIFF", signature=Custom(_unit_first(3), _diff_result, "a unit and two dates or times"))
def timestampdiff(ctx: KernelContext, unit: Values, start: Values, end: Values) -> Values:
    """TIMESTAMPDIFF(unit, start, end): whole units from start to end, negative if the end is before the start.

    >>> TIMESTAMPDIFF(DAY, DATE '2020-01-01', DATE '2020-01-31')
    30
    """
    name = str(next(iter(rows_of(unit)), "DAY")).upper()
    (days, ms), (days2, ms2) = _days_and_ms(ctx, start, 1), _days_and_ms(ctx, end, 2)
    if name == "MICROSECOND":
        units = ((days2 - days) * DAY_MS + ms2 - ms) * 1000
    elif name in UNIT_MS:
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
    if kind.root is Root.DATE and unit in ("MILLISECOND", "SECOND", "MINUTE", "HOUR"):
        kind = timestamp(6)
    if unit == "MILLISECOND" and kind.root is not Root.DATE and kind.precision < 3:
        kind = replace(kind, precision=3)
    return kind.with_nullable(nullable(types))


@function("TIMESTAMPADD", signature=Custom(_add_types, _add_result, "a unit, a number and a date or time"))
def timestampadd(ctx: KernelContext, unit: Values, amount: Values, value: Values) -> Values:
    """TIMESTAMPADD(unit, number, time): the time moved by so many units.

    >>> TIMESTAMPADD(MONTH, 1, DATE '2020-01-31')
    2020-02-29
    """
    n, t = ctx.num_rows, ctx.arg_types[2]
    name = str(next(iter(rows_of(unit)), "DAY")).upper()
    base, count = integers(value, n), integers(amount, n)
    if t.root is Root.DATE and ctx.result_type.root is Root.TIMESTAMP:
        base, t = base * DAY_MS * 1000, ctx.result_type
    months = name in UNIT_MONTHS
    moved = shift(base, count * (UNIT_MONTHS[name] if months else UNIT_MS[name]), t, months=months)
    return from_integers(moved, valid(value, n) & valid(amount, n), ctx.result_type.arrow)
