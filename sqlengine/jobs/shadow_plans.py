"""The plans of shadows: their statements with topics of the system in the place of their tables,
and those of the live version beside them likewise.

The second ones are equal to those that run, but for their ends. So they are the same nodes of the
graph and cost nothing but their rows, and the comparison is between versions that read the same
records in the same epochs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from parser import parse
from parser.errors import SqlError
from parser.rule_head import rule_head
from parser.statements import Set
from parser.types import STRING, Column, Schema
from planner.catalog import Identifier, Table
from planner.logical import LogicalPlan, Project, Sink
from planner.rule_settings import Status, rule_in, rule_settings
from planner.scalar import ColumnRef, Literal, columns_of, is_deterministic
from sqlengine.access.shadow_names import rule_of, shadow_of
from sqlengine.connectors.shadow import ABOUT, CONNECTOR, LIVE_ROWS, SHADOW_ROWS, About
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
    versions = {SHADOW_ROWS: version, LIVE_ROWS: 0 if beside is None else beside.version}
    ends = [(s, SHADOW_ROWS) for s in plan.sinks] + [(s, LIVE_ROWS) for s in live]
    sinks = tuple(
        _redirected(s, topic, About(rule, versions[topic], version, unequal[_table(s).name]))
        for s, topic in ends
    )
    uses = plan.uses | {item.name for item in plan.objects}
    return replace(plan, name=shadow_of(rule), sinks=sinks, objects=(), uses=uses)


def _table(sink: Sink) -> Table:
    assert sink.table is not None, "statements of jobs write to tables"
    return sink.table


def _redirected(sink: Sink, topic: str, about: About) -> Sink:
    """Returns a statement that writes to a topic of shadows in the place of its table. All shadows
    of one table write to one, so that what they give in an epoch is one append."""
    table, side = _table(sink), "shadows" if topic == SHADOW_ROWS else "live beside shadows"
    names = sink.input.schema.names
    columns = (*(Column(n, table.written_type(n)) for n in names), Column(ABOUT, STRING))
    options = {"connector": CONNECTOR, "topic": topic, "table": table.display}
    name = (CONNECTOR, f"{side} {'.'.join(table.name)}", f"{table.display} ({side})")
    end = Table(name, Schema(columns), Schema(columns), options)
    rows = _with_constant(sink.input, ABOUT, about.written())
    counted = topic == SHADOW_ROWS
    job = shadow_of(about.rule)
    return replace(sink, input=rows, table=end, job=job, apart=False, counted=counted)


def _with_constant(plan: LogicalPlan, name: str, value: str) -> Project:
    """Returns the rows with a constant more: of a projection with the others, unless these are
    another each time that they are computed."""
    constant = (name, Literal(value, STRING))
    if isinstance(plan, Project) and all(is_deterministic(e) for _, e in plan.items):
        return replace(plan, items=(*plan.items, constant))
    return Project(plan, (*((c.name, ColumnRef(c.name, c.type)) for c in plan.schema), constant))


def _varying_by_table(sinks: Iterable[Sink]) -> dict[Identifier, tuple[str, ...]]:
    """Returns the columns of each table that are not compared: one of both versions makes them
    anew with each run."""
    found: dict[Identifier, dict[str, None]] = {}
    for sink in sinks:
        unequal = varying(sink.input)
        names = (name for name in sink.input.schema.names if name in unequal)
        found.setdefault(_table(sink).name, {}).update(dict.fromkeys(names))
    return {table: tuple(names) for table, names in found.items()}


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
