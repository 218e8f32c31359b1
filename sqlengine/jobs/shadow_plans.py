"""The plans of shadows: their statements with topics of the system in the place of their tables,
and those of the live version beside them likewise.

The second ones are equal to those that run, but for their ends. So they are the same nodes of the
graph and cost nothing but their rows, and the comparison is between versions that read the same
records in the same epochs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from parser import parse
from parser.errors import SqlError
from parser.rule_head import rule_head
from parser.statements import Set
from planner.catalog import Identifier, Table
from planner.logical import LogicalPlan, Project, Sink
from planner.rule_settings import Status, rule_in, rule_settings
from planner.scalar import columns_of, is_deterministic
from sqlengine.access.shadow_names import rule_of, shadow_of
from sqlengine.connectors.shadow import CONNECTOR, LIVE_ROWS, SHADOW_ROWS
from sqlengine.jobs.planning import PlannedJob

_MAY_BE: Final = re.compile(r"\b(shadow|canary)\b")


@dataclass(frozen=True)
class Beside:
    """A live version and its plan, beside which a shadow runs."""

    version: int
    plan: PlannedJob


def is_shadow_text(sql: str) -> bool:
    """True if a text says that it is to run as a shadow: `status: shadow`, or a canary, which is a
    shadow for some time. False where it says nothing that can be read."""
    if _MAY_BE.search(sql) is None:
        return False
    try:
        settings = rule_settings(rule_head(sql) or {})
        if "rule." in sql:
            settings |= {s.key: s.value or "" for s in parse(sql) if isinstance(s, Set) and s.key}
        rule = rule_in(settings)
    except SqlError:
        return False
    if rule is None or rule.status in (Status.DRAFT, Status.RETIRED):
        return False
    return rule.status is Status.SHADOW or bool(rule.canary)


def as_shadow(plan: PlannedJob, version: int, beside: Beside | None = None) -> PlannedJob:
    """Returns what runs of a rule's version as its shadow. It defines nothing, and uses what its
    text defines in the same words as others."""
    rule = rule_of(plan.name)
    live = () if beside is None else beside.plan.sinks
    unequal = _varying_by_table((*plan.sinks, *live))
    shadow = {"topic": SHADOW_ROWS, "rule": rule, "version": str(version), "shadow": str(version)}
    beside_it = {**shadow, "topic": LIVE_ROWS, "version": str(beside.version if beside else 0)}
    ends = [(s, shadow, "shadow") for s in plan.sinks] + [(s, beside_it, "live") for s in live]
    sinks = tuple(_redirected(s, about, side, unequal) for s, about, side in ends)
    uses = plan.uses | {item.name for item in plan.objects}
    return replace(plan, name=shadow_of(rule), sinks=sinks, objects=(), uses=uses)


def _redirected(
    sink: Sink, about: Mapping[str, str], side: str, unequal: Mapping[Identifier, Iterable[str]]
) -> Sink:
    """Returns a statement that writes to a topic of shadows in the place of its table."""
    table, rule, schema = sink.table, about["rule"], sink.input.schema
    assert table is not None, "statements of jobs write to tables"
    more = {"table": table.display, "varying": ";".join(unequal[table.name])}
    options = {"connector": CONNECTOR, **about, **more}
    name = (CONNECTOR, side, f"{table.display} ({side} of {rule})")
    end = Table(name, schema, schema, options)
    return replace(sink, table=end, job=shadow_of(rule), apart=False)


def _varying_by_table(sinks: Iterable[Sink]) -> dict[Identifier, list[str]]:
    """Returns the columns of each table that are not compared: one of both versions makes them
    anew with each run."""
    found: dict[Identifier, dict[str, None]] = {}
    for sink in sinks:
        assert sink.table is not None, "statements of jobs write to tables"
        unequal = varying(sink.input)
        names = (name for name in sink.input.schema.names if name in unequal)
        found.setdefault(sink.table.name, {}).update(dict.fromkeys(names))
    return {table: list(names) for table, names in found.items()}


def varying(plan: LogicalPlan) -> frozenset[str]:
    """Returns the columns that two runs need not give alike, as RAND(), UUID() and PROCTIME() make
    them."""
    below = [varying(source) for source in plan.inputs]
    if isinstance(plan, Project):
        return frozenset(
            name
            for name, value in plan.items
            if not is_deterministic(value) or columns_of(value) & below[0]
        )
    return frozenset(_forwarded(plan, below))


def _forwarded(plan: LogicalPlan, below: list[frozenset[str]]) -> Iterator[str]:
    for port, names in enumerate(below):
        sources = plan.column_sources(port) if names else {}
        yield from (name for name, source in sources.items() if source in names)
