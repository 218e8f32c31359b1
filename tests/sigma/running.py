"""What tests of Sigma share: a rule over a few events."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import indent
from typing import Any

import pyarrow as pa

from parser import parse_condition
from parser.types import STRING, DataType, Schema
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Context, Field, Place, Scope
from planner.catalog import Catalog
from planner.scalar import ColumnRef
from sqlengine.batch import Batch
from sqlengine.expressions import evaluate
from sqlengine.sigma.conditions import where
from sqlengine.sigma.parsing import read
from sqlengine.sigma.reading import Reading
from sqlengine.sigma.rules import Rule, Unread, fields_of
from sqlengine.sigma.tables import EventTable


def rule_of(detection: str) -> Rule:
    """A rule with the detection of a YAML text; its condition is `selection` unless it has one."""
    text = (
        detection
        if re.search("condition\\W*:", detection)
        else detection + "\ncondition: selection"
    )
    (found,) = read(f"title: T\nlogsource: {{product: p}}\ndetection:\n{indent(text, '    ')}\n")
    assert not isinstance(found, Unread), found.reason
    assert isinstance(found, Rule)
    return found


def matched(where_text: str, schema: Schema, events: Sequence[Mapping[str, Any]]) -> list[bool]:
    """For each event whether the condition is TRUE."""
    columns = tuple(pa.array([e.get(c.name) for e in events], c.type.arrow) for c in schema)
    scope = Scope(tuple(Field(("t",), c.name, ColumnRef(c.name, c.type)) for c in schema))
    bound = bind_scalar(parse_condition(where_text), Place(Context(Catalog(), {}), scope, "WHERE"))
    found = evaluate(bound, Batch(schema, columns, len(events)))
    assert found.errors is None
    return [v is True for v in found.array(len(events)).to_pylist()]


def matches(detection: str, event: Mapping[str, Any], **types: DataType) -> bool:
    """Whether a detection matches an event; fields are texts unless they have a type."""
    rule = rule_of(detection)
    named = dict.fromkeys((*event, *fields_of(rule.condition)), STRING) | types
    schema = Schema.of(**named)
    text = where(rule.condition, Reading(EventTable("events", schema)))
    return matched(text, schema, [event]) == [True]
