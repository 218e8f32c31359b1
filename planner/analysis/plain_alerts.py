"""The plain SQL of a rule whose head holds alerts back: what EXPLAIN shows of
`planner.analysis.suppress_alerts`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from parser.statements import Insert, Query
from parser.types import Root
from parser.writer.names import name, names
from parser.writer.statements import write, write_tree
from planner.analysis.alert_limits import (
    LONGER_MS,
    AlertLimits,
    Limit,
    during,
    limits_in,
    time_column,
)
from planner.logical import Sink
from planner.settings import STATE_TTL, duration_text

_UNITS: Final = (("DAY", 86_400_000), ("HOUR", 3_600_000), ("MINUTE", 60_000), ("SECOND", 1_000))


def plain_alerts(statement: Insert, bound: Sink, settings: Mapping[str, str]) -> str:
    """Returns the INSERT that gives the same rows without the fields of the head; '' where these
    say nothing. `bound`: its plan before the analysis."""
    limits = limits_in(settings)
    if limits is None:
        return ""
    columns = _columns(statement, bound)
    told = [limits.into] if limits.into else []
    targets = [*columns, *(n for n in told if n not in columns)]
    given = names(targets) + " " if statement.columns or len(targets) > len(columns) else ""
    body = _from(write_tree(statement.query), columns, bound, limits)
    items = ", ".join(_item(n, limits) for n in targets)
    text = write(replace(statement, columns=(), query=_ONE))
    before, _, behind = text.partition(write_tree(_ONE))
    return f"{_kept(limits)}{before}{given.rstrip()}\nSELECT {items}\nFROM {body}{behind}"


def _kept(limits: AlertLimits) -> str:
    """A comment on how long state is kept."""
    longest = max((x.limit.period_ms for x in limits.limits if not x.limit.closes), default=0)
    if not longest:
        return ""
    ttl = duration_text(longest + LONGER_MS)
    return f"-- state that nobody touches is forgotten, as by SET '{STATE_TTL}' = '{ttl}'\n"


def _query(text: str) -> Query:
    from parser import parse

    (statement,) = parse(text)
    assert isinstance(statement, Query)
    return statement


_ONE = _query("SELECT 1").query


def _columns(statement: Insert, bound: Sink) -> list[str]:
    """The columns of the table that the query gives."""
    if statement.columns:
        return [".".join(column) for column in statement.columns]
    fixed = {part.name for part in statement.partition}
    return [n for n in bound.input.schema.names if n not in fixed]


def _item(column: str, limits: AlertLimits) -> str:
    """A column of the alerts, or the number that it gets."""
    if column != limits.into:
        return name(column)
    return f"{_number(limits.counting[-1])} AS {name(column)}"


def _number(limit: Limit) -> str:
    return {"suppress": "suppressed", "limit": "limited", "threshold": "reached"}[
        limit.field
    ] + "_rows"


def _from(query: str, columns: list[str], bound: Sink, limits: AlertLimits) -> str:
    """The alerts that pass all that holds them back, as what stands behind FROM."""
    time = time_column(bound)
    body = f"(\n{query}\n) AS alerts {names(columns)}"
    if limits.maintenance:
        body += f"\nWHERE ({during(limits.maintenance, _local(time, bound))}) IS NOT TRUE"
    told: list[str] = []
    for limit in limits.limits:
        if limit.limit.closes:
            body = _closed(body, columns, limit, time)
            continue
        at = "PROCTIME()" if time is None else name(time)
        of, number = limit.limit, _number(limit)
        by = f"PARTITION BY {', '.join(map(name, of.by))} " if of.by else ""
        arguments = ", ".join([at, _interval(of.period_ms), str(of.rows), *told])
        told = [number] if limit in limits.counting else []
        over = f"{limit.function}({arguments}) OVER ({by}ORDER BY PROCTIME()) AS {number}"
        passes = number if limit.function == "REACHED" else f"{number} IS NOT NULL"
        body = f"(\nSELECT *, {over}\nFROM {body}\n)\nWHERE {passes}"
    return body


def _closed(body: str, columns: list[str], limit: Limit, time: str | None) -> str:
    """The alerts that pass a limit, and those that end its periods."""
    of, number = limit.limit, _number(limit)
    clock = [] if time is not None else ["alert_clock"]
    items = ", ".join([*map(name, columns), *(f"PROCTIME() AS {n}" for n in clock)])
    by = f" PARTITION BY {names(of.by)}" if of.by else ""
    at = f"DESCRIPTOR({name(time or clock[0])}), {_interval(of.period_ms)}, {of.rows}"
    table = f"TABLE (\nSELECT {items}\nFROM {body}\n){by}"
    given = names([*columns, *clock, number])
    return f"TABLE(SUPPRESSION({table}, {at})) AS alerts {given}\nWHERE {number} IS NOT NULL"


def _local(time: str | None, bound: Sink) -> str:
    """The time of an alert in the session's time zone."""
    if time is None:
        return "CAST(PROCTIME() AS TIMESTAMP(3))"
    kind = bound.input.schema.type(time)
    is_local = kind.root is Root.TIMESTAMP and kind.precision == 3
    return name(time) if is_local else f"CAST({name(time)} AS TIMESTAMP(3))"


def _interval(ms: int) -> str:
    """The literal of a duration, in its largest whole unit."""
    for unit, size in _UNITS:
        if not ms % size:
            count = str(ms // size)
            return f"INTERVAL '{count}' {unit}" + (f"({len(count)})" if len(count) > 2 else "")
    seconds = str(ms // 1_000)
    return f"INTERVAL '{seconds}.{ms % 1_000:03}' SECOND({max(len(seconds), 2)}, 3)"
