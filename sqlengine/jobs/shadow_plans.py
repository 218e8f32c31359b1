"""What runs of a shadow: its statements with topics of the system in the place of their tables, and
the statements of the live version beside it likewise.

The second ones are equal to those that run, but for their ends. So they are the same nodes of the
graph and cost nothing but their rows, and the comparison is between versions that read the same
records in the same epochs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from parser import parse
from parser.errors import SqlError
from parser.rule_head import rule_head
from parser.statements import Set
from planner.catalog import Table
from planner.logical import LogicalPlan, Project, Sink
from planner.rule_settings import Status, rule_in, rule_settings
from planner.scalar import columns_of, is_deterministic
from sqlengine.connectors.shadow import CONNECTOR, LIVE_ROWS, SHADOW_ROWS
from sqlengine.jobs.planning import PlannedJob
from sqlengine.system.shadow_names import rule_of, shadow_of

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
    job = shadow_of(rule)
    sinks = [_redirected(s, job, SHADOW_ROWS, version, version) for s in plan.sinks]
    for sink in () if beside is None else beside.plan.sinks:
        assert beside is not None
        sinks.append(_redirected(sink, job, LIVE_ROWS, beside.version, version))
    uses = plan.uses | {item.name for item in plan.objects}
    return replace(plan, name=job, sinks=tuple(sinks), objects=(), uses=uses)


def _redirected(sink: Sink, job: str, topic: str, version: int, shadow: int) -> Sink:
    """Returns a statement that writes to a topic of shadows in the place of its table."""
    table, rule = sink.table, rule_of(job)
    assert table is not None, "statements of jobs write to tables"
    schema, unequal = sink.input.schema, varying(sink.input)
    options = {
        "connector": CONNECTOR,
        "topic": topic,
        "rule": rule,
        "version": str(version),
        "shadow": str(shadow),
        "table": table.display,
        "varying": ";".join(n for n in schema.names if n in unequal),
    }
    side = "shadow" if topic == SHADOW_ROWS else "live"
    name = (CONNECTOR, side, f"{table.display} ({side} of {rule})")
    return replace(sink, table=Table(name, schema, schema, options), job=job, apart=False)


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
