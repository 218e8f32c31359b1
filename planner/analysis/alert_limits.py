"""Limits and times of maintenance of a rule, as its settings say them, and the conditions that
these are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from parser.suppression import DAY_MINUTES, AlertLimit, Maintenance, Once, suppression, threshold
from parser.suppression import limit as read_limit
from parser.suppression import maintenance as read_maintenance
from parser.types import DataType
from planner.logical import LogicalPlan, Project, Sink
from planner.rule_settings import PREFIX, rule_in
from planner.scalar import Call, ColumnRef, Scalar

# State is kept for so much longer than a period: until then the number of alerts that were held
# back is told by the next one, and rows may come later than their time.
LONGER_MS: Final = 86_400_000
MAINTENANCE: Final = "maintenance"
# What counts for less comes first: an alert that is no threshold's is no alert yet.
_FIELDS: Final = ("threshold", "suppress", "limit")
_KEYS: Final = frozenset(PREFIX + name for name in (*_FIELDS, MAINTENANCE))
_ALL_DAYS: Final = frozenset(range(1, 8))


@dataclass(frozen=True)
class Limit:
    """A limit of one field of a head, with its text."""

    field: str
    text: str
    limit: AlertLimit

    @property
    def key(self) -> str:
        """The setting that has it."""
        return PREFIX + self.field

    @property
    def function(self) -> str:
        """The function of OVER that tells which rows pass."""
        return "REACHED" if self.field == "threshold" else "SUPPRESSED"


@dataclass(frozen=True)
class AlertLimits:
    """All that holds alerts of a rule back: times of `maintenance`, whose `text` is that of the
    head, then `limits`, in the order in which rows pass them."""

    limits: tuple[Limit, ...]
    maintenance: tuple[Maintenance, ...]
    text: str

    @property
    def into(self) -> str:
        """The column that says how many alerts were held back before one; '' for none."""
        return next((x.limit.into for x in self.limits if x.limit.into), "")

    @property
    def counting(self) -> list[Limit]:
        """The limits that count what they hold back: each goes on with the number of the one
        before, so that the last one has them all."""
        return [x for x in self.limits if x.function == "SUPPRESSED"]


def limits_in(settings: Mapping[str, str]) -> AlertLimits | None:
    """Returns the limits of a rule; None where it has none."""
    rule = rule_in(settings) if _KEYS & settings.keys() else None
    if rule is None:
        return None
    given = ("threshold", rule.threshold, threshold), ("suppress", rule.suppress, suppression)
    limits = tuple(
        Limit(name, text, read(text))
        for name, text, read in (*given, ("limit", rule.limit, read_limit))
        if text
    )
    times = tuple(map(read_maintenance, rule.maintenance))
    return AlertLimits(limits, times, ", ".join(rule.maintenance)) if limits or times else None


def time_column(sink: Sink) -> str | None:
    """Returns the first column of the alerts that has the row time of the query, also cast for the
    table; None where there is none: then the clock counts."""
    items = dict(sink.input.items) if isinstance(sink.input, Project) else {}
    names = sink.input.schema.names
    return next((n for n in names if _is_row_time(items.get(n), n, sink.input)), None)


def keeps_time(sink: Sink, name: str) -> bool:
    """Returns True if a column of the row time is no cast from local time to instants, or back: it
    can be compared with the watermark."""
    items = dict(sink.input.items) if isinstance(sink.input, Project) else {}
    kind = _uncast(items.get(name), name, sink.input)
    return kind.root is sink.input.schema.type(name).root


def _is_row_time(value: Scalar | None, name: str, plan: LogicalPlan) -> bool:
    return _uncast(value, name, plan).is_rowtime


def _uncast(value: Scalar | None, name: str, plan: LogicalPlan) -> DataType:
    """The type that a column of the plan has before it is cast for the table."""
    while isinstance(value, Call) and value.function in ("CAST", "CHECK NOT NULL"):
        value = value.args[0]
    return value.type if isinstance(value, ColumnRef) else plan.schema.type(name)


def during(times: Iterable[Maintenance], at: str) -> str:
    """Returns the condition, as SQL, that a time is in one of those of maintenance. `at`: what
    gives it, a TIMESTAMP in the session's time zone."""
    return " OR ".join(f"({_during(time, at)})" for time in times)


def _during(time: Maintenance, at: str) -> str:
    if isinstance(time, Once):
        return f"{at} >= TIMESTAMP '{time.start}' AND {at} < TIMESTAMP '{time.end}'"
    if time.start < time.end:
        return " AND ".join(_part(time.days, time.start, time.end, at))
    days = frozenset(day % 7 + 1 for day in time.days)
    begun = " AND ".join(_part(time.days, time.start, DAY_MINUTES, at))
    return f"({begun}) OR ({' AND '.join(_part(days, 0, time.end, at))})"


def _part(days: frozenset[int], start: int, end: int, at: str) -> list[str]:
    """The conditions of some hours of these days; there is at least one."""
    found = []
    if days != _ALL_DAYS:
        found.append(f"DAYOFWEEK({at}) IN ({', '.join(map(str, sorted(days)))})")
    clock = f"CAST({at} AS TIME)"
    if start or (end == DAY_MINUTES and not found):
        found.append(f"{clock} >= TIME '{_clock(start)}'")
    if end < DAY_MINUTES:
        found.append(f"{clock} < TIME '{_clock(end)}'")
    return found


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}:00"
