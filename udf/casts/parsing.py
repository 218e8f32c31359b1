"""Parsers of text as Flink's casts read it.

They take one stripped or raw text; None says that it is no value."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal, InvalidOperation

from parser.types import DataType
from udf.numbers.decimals import fit

# A lone point is let through, too: its digits are then "0".
_INTEGER = re.compile(r"([+-]?)(?:([0-9]+)(?:\.[0-9]*)?|\.[0-9]*)")
_NUMBER = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)
_HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F]*(?:\.[0-9a-fA-F]*)?[pP][+-]?[0-9]{1,4}[fFdD]?")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_DATE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")
_TIME = re.compile(r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9})[0-9]*)?)?)?")
_TIMESTAMP = re.compile(
    r"([0-9]{1,4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?)?"
)
# What Java's String.trim() removes.
BLANK = "".join(map(chr, range(33)))
EPOCH = date(1970, 1, 1).toordinal()
DAY_NS = 86_400_000_000_000
# Years after which the calendar begins anew, and their days.
_CYCLE, _CYCLE_DAYS = 400, 146_097


def parse_integer(text: str, bits: int) -> int | None:
    """An integer with an optional fraction, which is cut off."""
    match = _INTEGER.fullmatch(text.strip(BLANK))
    if match is None:
        return None
    digits = (match[2] or "").lstrip("0")
    # 2**63 has 19 digits; the bound keeps int() from reading a text of megabytes.
    if len(digits) > 19:
        return None
    value = int(match[1] + (digits or "0"))
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def parse_double(text: str) -> float | None:
    """A decimal number with an optional exponent and Java's suffix f or d; NaN and Infinity."""
    text = text.strip(BLANK)
    if _HEXADECIMAL.fullmatch(text):
        return _from_hexadecimal(text)
    if not _NUMBER.fullmatch(text):
        return None
    # "NaN" and "Infinity" end in N and y; the suffix of any other number is cut off, for Python
    # knows none.
    return float(text if text[-1] in "Ny" else text.rstrip("fFdD"))


def _from_hexadecimal(text: str) -> float | None:
    mantissa, _, exponent = text.lower().partition("p")
    try:
        return float.fromhex(f"{mantissa}p{exponent.rstrip('fd')}")
    except (ValueError, OverflowError):
        return None


def parse_decimal(text: str, target: DataType) -> Decimal | None:
    text = text.strip(BLANK)
    if not _DECIMAL.fullmatch(text):
        return None
    try:
        return fit(Decimal(text), target)
    except InvalidOperation:
        return None


_BOOLEANS = dict.fromkeys(("true", "t", "yes", "y", "1"), True) | dict.fromkeys(
    ("false", "f", "no", "n", "0"), False
)


def parse_boolean(text: str) -> bool | None:
    # Not stripped: blanks around a BOOLEAN make it no value.
    return _BOOLEANS.get(text.lower())


def days_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01, None for a date that does not exist."""
    try:
        return date(year, month, day).toordinal() - EPOCH
    except ValueError:
        return None


def parse_date(text: str) -> int | None:
    """Days since 1970-01-01; month and day may be missing, a time of day is ignored."""
    # Only the part before the first blank counts.
    match = _DATE.fullmatch(text.strip(BLANK).split(" ", 1)[0])
    if match is None:
        return None
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    if year:
        return days_of(year, month, day)
    # Python's calendar begins with the year 1; Flink's dates know the year 0.
    later = days_of(_CYCLE, month, day)
    return None if later is None else later - _CYCLE_DAYS


def parse_time(text: str) -> int | None:
    """Nanoseconds since midnight."""
    match = _TIME.fullmatch(text.strip(BLANK))
    if match is None:
        return None
    return time_of_day(int(match[1]), int(match[2] or 0), int(match[3] or 0), match[4])


def time_of_day(hour: int, minute: int, second: int, fraction: str | None = None) -> int | None:
    """Nanoseconds since midnight, None where an hour, minute or second does not exist."""
    if hour > 23 or minute > 59 or second > 59:
        return None
    # Digits behind the ninth are cut off, not rounded.
    return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + int(
        (fraction or "").ljust(9, "0")[:9]
    )


def parse_timestamp(text: str) -> int | None:
    """Nanoseconds since 1970-01-01 00:00:00 of `yyyy-MM-dd[ HH:mm:ss[.fraction]]`. A day up to 31
    that the month lacks is its last one."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    days = lenient_days(int(match[1]), int(match[2]), int(match[3]))
    # 24:00:00 is midnight of the next day; any other time of hour 24 is no value.
    if match[4] == "24" and days is not None and not any(int(match[i] or 0) for i in (5, 6, 7)):
        return (days + 1) * DAY_NS
    time = time_of_day(int(match[4] or 0), int(match[5] or 0), int(match[6] or 0), match[7])
    return None if days is None or time is None else days * DAY_NS + time


def lenient_days(year: int, month: int, day: int) -> int | None:
    """Returns the days since 1970-01-01. A day up to 31 that the month lacks is its last day."""
    if not 1 <= day <= 31:
        return None
    # At most three steps back: from 31 to February 28.
    return next(
        (
            d
            for d in (days_of(year, month, day - back) for back in range(4) if day > back)
            if d is not None
        ),
        None,
    )
