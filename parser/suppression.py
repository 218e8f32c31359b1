"""Texts of a rule's head about how often it may fire:

suppress: 1h by host, rule into suppressed
suppress: 1h by host, then count into suppressed
threshold: 5 in 10m by host
limit: 100/h
maintenance: ["2026-02-01 22:00 to 2026-02-02 04:00", "Sun 02:00-04:00"]"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from parser.durations import duration_in, unit_ms
from parser.errors import ParseError

_NAME = r"(?:`[^`]+`|[^\s,`]+)"
_BEHIND: Final = rf"(?:\s+by\s+(?P<by>{_NAME}(?:\s*,\s*{_NAME})*))?"
_INTO: Final = rf"(?:(?:,?\s+(?P<then>then\s+count))?\s+into\s+(?P<into>{_NAME}))?"
_SUPPRESS = re.compile(rf"(?P<time>\d+\s*[a-z]+){_BEHIND}{_INTO}", re.IGNORECASE)
_THRESHOLD = re.compile(
    rf"(?P<rows>\d{{1,18}})\s+in\s+(?P<time>\d+\s*[a-z]+){_BEHIND}", re.IGNORECASE
)
_LIMIT = re.compile(
    rf"(?P<rows>\d{{1,18}})\s*+/\s*+(?P<time>\d*\s*+[a-z]+){_BEHIND}{_INTO}", re.IGNORECASE
)
_EACH = re.compile(_NAME)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WEEKLY = re.compile(
    r"(?:(?P<first>[a-z]{3})(?:\s*-\s*(?P<last>[a-z]{3}))?\s+)?"
    r"(?P<start>\d\d:\d\d)\s*-\s*(?P<end>\d\d:\d\d)",
    re.IGNORECASE,
)
_TIMES: Final = ("%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S")
DAY_MINUTES: Final = 24 * 60
# The longest time, and the most rows in it: state holds each row of a threshold.
_LONGEST_MS: Final = 366 * 86_400_000
_MOST_ROWS: Final = 10_000


@dataclass(frozen=True)
class AlertLimit:
    """So many alerts in a time (ms), counted for each value of the columns `by`, or for all.
    `into`: the column of the alerts that says how many were held back; '' for none. `closes`: it is
    not the next alert that says so, but a row at the end of the time."""

    rows: int
    period_ms: int
    by: tuple[str, ...] = ()
    into: str = ""
    closes: bool = False


@dataclass(frozen=True)
class Once:
    """Maintenance from one time to another, in the session's time zone."""

    start: datetime
    end: datetime


@dataclass(frozen=True)
class Weekly:
    """Maintenance on days of the week, 1 (Sunday) to 7, from a minute of the day to another: of the
    next day, where that comes before."""

    days: frozenset[int]
    start: int
    end: int


Maintenance: TypeAlias = Once | Weekly


def suppression(text: str) -> AlertLimit:
    """Reads '1h by host into suppressed', or '1h by host, then count into suppressed'. ParseError
    for any other text."""
    found = _SUPPRESS.fullmatch(text.strip())
    return _limit(found, text, "suppress", "1h by host, rule")


def threshold(text: str) -> AlertLimit:
    """Reads '5 in 10m by host'. ParseError for any other text."""
    found = _THRESHOLD.fullmatch(text.strip())
    return _limit(found, text, "threshold", "5 in 10m by host")


def limit(text: str) -> AlertLimit:
    """Reads '100/h by host into suppressed', or '100/h, then count into suppressed'. ParseError for
    any other text."""
    found = _LIMIT.fullmatch(text.strip())
    return _limit(found, text, "limit", "100/h by host")


def maintenance(text: str) -> Maintenance:
    """Reads '2026-02-01 22:00 to 2026-02-02 04:00', 'Sun 02:00-04:00', 'Mon-Fri 22:00-06:00' or
    '02:00-04:00'. ParseError for any other text."""
    weekly = _WEEKLY.fullmatch(text.strip())
    return _once(text) if weekly is None else _weekly(weekly, text)


# By field, what reads its text, or each of its texts.
READERS: Final[Mapping[str, Callable[[str], AlertLimit | Maintenance]]] = {
    "suppress": suppression,
    "threshold": threshold,
    "limit": limit,
    "maintenance": maintenance,
}


def _limit(found: re.Match[str] | None, text: str, field: str, like: str) -> AlertLimit:
    """Returns what a text says that matched. ParseError, with what it should be `like`, if not."""
    parts = {} if found is None else found.groupdict()
    time = parts.get("time") or ""
    period = duration_in(time) if time[:1].isdigit() else unit_ms(time.strip())
    if not period:
        hint = f"write it as '{field}: {like}'; times are 30s, 10m, 1h or 7d"
        raise ParseError(f"'{text}' is no {field}", hint=hint)
    rows = int(parts.get("rows") or 1)
    if not 1 <= rows <= _MOST_ROWS or period > _LONGEST_MS:
        detail = f"from 1 to {_MOST_ROWS:,} rows, in 366 days at most"
        raise ParseError(f"'{text}' is no {field}", detail=detail)
    by = tuple(n.strip("`") for n in _EACH.findall(parts.get("by") or ""))
    if len(set(by)) < len(by):
        raise ParseError(f"'{text}' names a column twice", hint="name each column once")
    into = (parts.get("into") or "").strip("`")
    return AlertLimit(rows, period, by, into, bool(parts.get("then")))


def _once(text: str) -> Once:
    first, _, second = text.partition(" to ")
    start, end = _time(first), _time(second)
    if start is None or end is None:
        raise ParseError(
            f"'{text}' is no time of maintenance",
            hint="write '2026-02-01 22:00 to 2026-02-02 04:00', or 'Sun 02:00-04:00'",
        )
    if end <= start:
        raise ParseError(f"'{text}' ends before it begins", hint="write the earlier time first")
    return Once(start, end)


def _weekly(found: re.Match[str], text: str) -> Weekly:
    names = [(found[part] or "").lower() for part in ("first", "last")]
    if any(name and name not in _DAYS for name in names):
        hint = "days are Mon, Tue, Wed, Thu, Fri, Sat and Sun, or Mon-Fri"
        raise ParseError(f"'{text}' names no day of the week", hint=hint)
    start, end = _minutes(found["start"]), _minutes(found["end"])
    if start is None or end is None or start in (end, DAY_MINUTES):
        hint = "write '02:00-04:00': hours from 00 to 24, minutes from 00 to 59"
        raise ParseError(f"'{text}' is no time of maintenance", hint=hint)
    first = _DAYS.index(names[0]) if names[0] else 0
    last = _DAYS.index(names[1]) if names[1] else first if names[0] else 6
    count = (last - first) % 7 + 1
    return Weekly(frozenset((first + i) % 7 + 1 for i in range(count)), start, end)


def _time(text: str) -> datetime | None:
    for form in _TIMES:
        try:
            return datetime.strptime(text.strip(), form)
        except ValueError:
            continue
    return None


def _minutes(text: str) -> int | None:
    """The minutes since midnight; None for no time of the day."""
    hours, minutes = map(int, text.split(":"))
    total = hours * 60 + minutes
    return total if minutes < 60 and total <= DAY_MINUTES else None
