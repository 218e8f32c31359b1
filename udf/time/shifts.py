"""Dates and times moved by a number of units, and the units between two: TIMESTAMPADD,
TIMESTAMPDIFF."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import INT, DataType, Root, timestamp
from udf.arrays.arrays import column_of, rows_of, valid
from udf.registry import KernelContext, Literals, Total, Types, Values, function
from udf.signatures import Custom, nullable
from udf.time.intervals import (
    DAY_MS,
    UNIT_MONTHS,
    UNIT_MS,
    Int64s,
    add_months,
    from_integers,
    integers,
    is_point,
    months_of,
    shift,
)
from udf.time.parts import days_and_ms, known_unit

_MONTHS = {**UNIT_MONTHS, "DECADE": 120, "CENTURY": 1200, "MILLENNIUM": 12000}


def _diff_types(types: Types) -> tuple[DataType, ...] | None:
    """A unit and two times, both with a zone or both without."""
    fits = len(types) == 3 and types[0].is_string and all(map(is_point, types[1:]))
    roots = {t.root for t in types[1:]}
    mixed = len(roots) > 1 and bool(roots & {Root.TIME, Root.TIMESTAMP_LTZ})
    return tuple(types) if fits and not mixed else None


def _diff_result(types: Types, literals: Literals) -> DataType:
    known_unit(literals, {*UNIT_MS, *_MONTHS, "MICROSECOND"})
    return INT.with_nullable(nullable(types))


@function(
    "TIMESTAMPDIFF", signature=Custom(_diff_types, _diff_result, "a unit and two dates or times")
)
def timestampdiff(ctx: KernelContext, unit: Values, start: Values, end: Values) -> Values:
    """TIMESTAMPDIFF(unit, start, end): the number of whole units from start to end, negative if the
    end is before the start.

    >>> TIMESTAMPDIFF(DAY, DATE '2020-01-01', DATE '2020-01-31')
    30
    """
    name = str(next(iter(rows_of(unit)), "DAY")).upper()
    if name not in _MONTHS and all(t.root is Root.TIMESTAMP_LTZ for t in ctx.arg_types[1:]):
        ctx = replace(ctx, zone="UTC")  # the time that has passed, also where the clock was changed
    (days, ms), (days2, ms2) = days_and_ms(ctx, start, 1), days_and_ms(ctx, end, 2)
    if name == "MICROSECOND":
        units = ((days2 - days) * DAY_MS + ms2 - ms) * 1000
    elif name in UNIT_MS:
        units = _toward_zero((days2 - days) * DAY_MS + ms2 - ms, UNIT_MS[name])
    else:
        units = _toward_zero(_months_between(days, ms, days2, ms2), _MONTHS[name])
    present = valid(start, ctx.num_rows) & valid(end, ctx.num_rows)
    return column_of(units.astype(np.int32), present, pa.int32())


def _toward_zero(numbers: Int64s, size: int) -> Int64s:
    # The size is divided, for Java cuts towards zero.
    whole = np.abs(numbers) // size
    return np.where(numbers < 0, -whole, whole)


def _months_between(days: Int64s, ms: Int64s, days2: Int64s, ms2: Int64s) -> Int64s:
    """Whole months: the last one counts when its day (or the month's last) and its time are
    reached."""
    # Counted from the earlier time to the later one, and the sign put back at the end.
    back = (days2 < days) | ((days2 == days) & (ms2 < ms))
    start, start_ms = np.where(back, days2, days), np.where(back, ms2, ms)
    end, end_ms = np.where(back, days, days2), np.where(back, ms, ms2)
    months = months_of(end) - months_of(start)
    reached = add_months(start, months)
    # One too many where the last month is not complete.
    months -= (reached > end) | ((reached == end) & (end_ms < start_ms))
    return np.where(back, -months, months)


def _add_types(types: Types) -> tuple[DataType, ...] | None:
    fits = len(types) == 3 and types[0].is_string and types[1].is_integer and is_point(types[2])
    return tuple(types) if fits else None


def _add_result(types: Types, literals: Literals) -> DataType:
    unit = known_unit(literals, {*UNIT_MS, *_MONTHS})
    kind = types[2].plain
    if kind.root is Root.DATE and unit in ("MILLISECOND", "SECOND", "MINUTE", "HOUR"):
        kind = timestamp(6)
    if unit == "MILLISECOND" and kind.root is not Root.DATE and kind.precision < 3:
        kind = replace(kind, precision=3)
    return kind.with_nullable(nullable(types))


@function(
    "TIMESTAMPADD",
    signature=Custom(_add_types, _add_result, "a unit, a number and a date or time"),
    total=Total.ALWAYS,
)
def timestampadd(ctx: KernelContext, unit: Values, amount: Values, value: Values) -> Values:
    """TIMESTAMPADD(unit, number, time): the time moved by so many units.

    >>> TIMESTAMPADD(MONTH, 1, DATE '2020-01-31')
    2020-02-29
    """
    n, t = ctx.num_rows, ctx.arg_types[2]
    name = str(next(iter(rows_of(unit)), "DAY")).upper()
    base, count = integers(value, n), integers(amount, n)
    # A DATE that is moved by less than a day becomes a TIMESTAMP in microseconds.
    if t.root is Root.DATE and ctx.result_type.root is Root.TIMESTAMP:
        base, t = base * DAY_MS * 1000, ctx.result_type
    months = name in _MONTHS
    moved = shift(base, count * (_MONTHS[name] if months else UNIT_MS[name]), t, months=months)
    return from_integers(moved, valid(value, n) & valid(amount, n), ctx.result_type.arrow)
