"""Parts of dates, times and intervals: YEAR, EXTRACT and the like."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa

from parser.errors import PlanError
from parser.types import BIGINT, DataType, Root
from udf.arrays.arrays import column_of, rows_of, valid
from udf.casts.texts import local
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, nullable
from udf.time.intervals import (
    DAY_MS,
    INTERVALS,
    Int64s,
    first_day,
    integers,
    is_point,
    months_of,
    units_per_ms,
)


def days_and_ms(ctx: KernelContext, value: Values, at: int) -> tuple[Int64s, Int64s]:
    """Days since 1970-01-01 and milliseconds since midnight, by the wall clock."""
    t = ctx.arg_types[at]
    numbers = integers(
        local(value, ctx.zone) if t.root is Root.TIMESTAMP_LTZ else value, ctx.num_rows
    )
    if t.root is Root.DATE:
        return numbers, np.zeros_like(numbers)
    per_ms = units_per_ms(t.arrow)
    ms = numbers if per_ms == 1 else numbers // per_ms
    # Floor division: 1969-12-31 23:00 is day -1, hour 23.
    days = ms // DAY_MS
    return days, ms - days * DAY_MS


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
    present, kind = valid(value, ctx.num_rows), ctx.arg_types[at]
    if kind.root in INTERVALS:
        numbers = integers(value, ctx.num_rows)
        parts = _OF_MONTHS if kind.root is Root.INTERVAL_YEAR_MONTH else _OF_MS
        # Parts of negative intervals are negative: they are computed of the size, and the sign put
        # back.
        size = np.where(numbers < 0, -1, 1)
        return pa.array(parts[name](np.abs(numbers)) * size, pa.int64(), mask=~present)
    if name in _FRACTIONS:
        unit = units_per_ms(kind.arrow) * 1000 if kind.root is not Root.DATE else 1
        # The fraction of the second in nanoseconds, from whatever unit the column has.
        fraction = integers(value, ctx.num_rows) % unit * (1_000_000_000 // unit)
        return pa.array(fraction // _FRACTIONS[name], pa.int64(), mask=~present)
    days, ms = days_and_ms(ctx, value, at)
    return column_of(
        _by_table(name, days) if name in _OF_DATE else _PARTS[name](days, ms), present, pa.int64()
    )


# Parts that depend on the day alone, and how many days a table of them begins and ends at a
# multiple of, and has at most.
_OF_DATE = frozenset(_PARTS) - {"HOUR", "MINUTE", "SECOND", "MILLISECOND", "EPOCH"}
_STEP, _DAYS_MOST = 4096, 65_536


def _by_table(name: str, days: Int64s) -> Int64s:
    first, last = (int(days.min()), int(days.max())) if len(days) else (0, 0)
    # Too wide a range for a table.
    if last - first > _DAYS_MOST - _STEP:
        return _PARTS[name](days, days)
    # Bounds at multiples of the step let batches of neighbouring days share one cached table.
    start = first // _STEP * _STEP
    return _table(name, start, last // _STEP * _STEP + _STEP).take(days - start)


@lru_cache(maxsize=64)
def _table(name: str, first: int, end: int) -> Int64s:
    days = np.arange(first, end)
    return _PARTS[name](days, days)


def _check_part(name: str, kind: DataType) -> None:
    """PlanError for a part that a time of day or an interval has not."""
    known: object = {*_PARTS, *_FRACTIONS}
    if kind.root is Root.TIME:
        known = _OF_DAY
    elif kind.root in INTERVALS:
        known = _OF_MONTHS if kind.root is Root.INTERVAL_YEAR_MONTH else _OF_MS
    if name not in known:  # type: ignore[operator]
        raise PlanError(f"{kind.plain} has no {name}")


def _bigint(types: Types, literals: Literals) -> DataType:
    return BIGINT.with_nullable(nullable(types))


def _point(name: str) -> Custom:
    def result(types: Types, literals: Literals) -> DataType:
        _check_part(name, types[0])
        return _bigint(types, literals)

    return Custom(
        lambda t: tuple(t) if len(t) == 1 and _has_parts(t[0]) else None, result, "a date or time"
    )


def _has_parts(t: DataType) -> bool:
    return is_point(t) or t.root in INTERVALS


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


def known_unit(literals: Literals, known: object) -> str:
    """The unit that a literal names; the parser writes one for SECOND, DAY, … as first argument."""
    name = str(literals[0]).upper()
    if name not in known:  # type: ignore[operator]
        raise PlanError(f"unit {name} is not supported")
    return name


def _extract_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) == 2 and types[0].is_string and _has_parts(types[1]) else None


def _extract_result(types: Types, literals: Literals) -> DataType:
    _check_part(known_unit(literals, {*_PARTS, *_FRACTIONS}), types[1])
    return _bigint(types, literals)


@function(
    "EXTRACT",
    signature=Custom(_extract_types, _extract_result, "a unit and a date, a time or an interval"),
)
def extract(ctx: KernelContext, unit: Values, value: Values) -> Values:
    """EXTRACT(unit FROM time): a part of a date, a time or an interval: MILLENNIUM, CENTURY,
    DECADE, YEAR, ISOYEAR, QUARTER, MONTH, WEEK (ISO), DAY, DOY, DOW (Sunday is 1), ISODOW (Monday
    is 1), HOUR, MINUTE, SECOND, MILLISECOND, MICROSECOND and NANOSECOND (of the second), EPOCH
    (seconds since 1970).

    >>> EXTRACT(MONTH FROM DATE '2006-06-05')
    6
    """
    return _part(ctx, str(next(iter(rows_of(unit)), "DAY")).upper(), value, 1)
