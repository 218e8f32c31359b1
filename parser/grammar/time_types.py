"""Types of times and intervals."""

from __future__ import annotations

from dataclasses import replace

from parser.grammar.cursor import Cursor
from parser.types import (
    INTERVAL_DAY_TIME,
    INTERVAL_YEAR_MONTH,
    DataType,
    Root,
    Written,
    time,
    timestamp,
    timestamp_ltz,
)

_INTERVAL_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


def precision(cursor: Cursor, default: int) -> int:
    """(p) behind the name of a type: more than nine digits are nine, as in Flink."""
    if not cursor.take("("):
        return default
    digits = cursor.integer("the number of fractional digits")
    cursor.expect(")")
    return min(digits, 9)


def refuse_zone(cursor: Cursor, what: str) -> None:
    """UnsupportedError where WITH TIME ZONE stands behind TIME or TIMESTAMP: Flink has no such
    type."""
    if cursor.at("WITH", "TIME", "ZONE"):
        raise cursor.unsupported(f"{what} WITH TIME ZONE", "use TIMESTAMP_LTZ")


def time_type(cursor: Cursor) -> DataType:
    digits = precision(cursor, 0)
    if cursor.take("WITH", "LOCAL", "TIME", "ZONE"):
        return DataType(Root.TIME_LTZ, precision=digits)
    refuse_zone(cursor, "TIME")
    cursor.take("WITHOUT", "TIME", "ZONE")
    return time(digits)


def timestamp_type(cursor: Cursor) -> DataType:
    digits = precision(cursor, 6)
    if cursor.take("WITH", "LOCAL", "TIME", "ZONE"):
        return timestamp_ltz(digits)
    refuse_zone(cursor, "TIMESTAMP")
    cursor.take("WITHOUT", "TIME", "ZONE")
    return timestamp(digits)


def interval_type(cursor: Cursor) -> DataType:
    """INTERVAL unit [(p)] [TO unit [(p)]], or INTERVAL SECOND (p, s)."""
    start = end = cursor.one_of(*_INTERVAL_UNITS)
    leading, last = _unit_precision(cursor)
    if cursor.take("TO"):
        end = cursor.one_of(*_INTERVAL_UNITS[_INTERVAL_UNITS.index(start) + 1 :])
        last, _ = _unit_precision(cursor)
    kind = INTERVAL_YEAR_MONTH if start in ("YEAR", "QUARTER", "MONTH") else INTERVAL_DAY_TIME
    return replace(kind, written=Written(start=start, end=end, precisions=(leading, last)))


def _unit_precision(cursor: Cursor) -> tuple[int | None, int | None]:
    """(p) or (p, s) after a unit, None for what is not there."""
    if not cursor.take("("):
        return None, None
    leading = cursor.integer("a number of digits")
    fraction = cursor.integer("a number of digits") if cursor.take(",") else None
    cursor.expect(")")
    return leading, fraction
