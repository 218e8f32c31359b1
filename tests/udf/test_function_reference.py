"""Every function says what it does with an example that is true, and the page of all functions is
up to date."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from parser import parse_condition
from parser.types import INT, DataType, Root, Schema, TimeAttribute, timestamp
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Context, Field, Place, Scope
from planner.catalog import Catalog
from planner.scalar import ColumnRef
from sqlengine.batch import Batch
from sqlengine.expressions import evaluate
from sqlengine.formats.results import column_to_json
from udf.reference import Entry, Example, aggregate_entries, entries, entry_named, page

PAGE = Path(__file__).parents[2] / "docs" / "functions.md"
X = INT.with_nullable(False)
TS = timestamp(3).as_attribute(TimeAttribute.ROWTIME)
SCOPE = Scope((Field(("t",), "x", ColumnRef("x", X)), Field(("t",), "ts", ColumnRef("ts", TS))))
COLUMNS = (pa.array([0], pa.int32()), pa.array([5000], pa.timestamp("ms")))
BATCH = Batch(Schema.of(x=X, ts=TS), COLUMNS, 1, proctime=1_750_000_000_000, watermark=1000)
HEAD = {
    "rule.title": "Encoded PowerShell",
    "rule.id": "r-17",
    "rule.severity": "high",
    "rule.owner": "blue team",
    "rule.description": "It hides what it does.",
    "rule.tags": "[attack.execution, attack.t1059.001]",
    "rule.attributes": "{playbook: PB-17}",
}
EXAMPLES = [(entry, example) for entry in entries() for example in entry.examples]


def shown(value: object, kind: DataType) -> str:
    """A value as examples write it."""
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if kind.is_string or kind.root is Root.VARIANT:
        return f"'{value}'"
    if isinstance(value, list) and kind.root is Root.MAP:
        key, item = kind.children
        return "{" + ", ".join(f"{shown(k, key)}: {shown(v, item)}" for k, v in value) + "}"
    if isinstance(value, list) and kind.root is Root.ROW:
        return "(" + ", ".join(shown(v, c) for v, c in zip(value, kind.children, strict=True)) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(shown(v, kind.children[0]) for v in value) + "]"
    return str(value)


@pytest.mark.parametrize(("entry", "example"), EXAMPLES, ids=[e.expression for _, e in EXAMPLES])
def test_examples(entry: Entry, example: Example) -> None:
    place = Place(Context(Catalog(), HEAD, "windows.encoded"), SCOPE, "SELECT")
    bound = bind_scalar(parse_condition(example.expression), place)
    result = evaluate(bound, BATCH)
    assert result.errors is None, result.errors.reason(int(np.flatnonzero(result.errors.mask)[0]))
    (value,) = column_to_json(result.array(1), bound.type)
    assert shown(value, bound.type) == example.result


@pytest.mark.parametrize("entry", entries(), ids=lambda e: e.names[0])
def test_every_function_is_documented(entry: Entry) -> None:
    assert entry.usage, "the docstring begins with the usage and a colon"
    assert entry.text
    assert entry.examples


@pytest.mark.parametrize("entry", aggregate_entries(), ids=lambda e: e.names[0])
def test_every_aggregate_is_documented(entry: Entry) -> None:
    assert entry.usage
    assert entry.text


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m udf.reference docs/functions.md"
    )


def test_one_function_is_found_by_any_name() -> None:
    assert entry_named("character_length") == entry_named("CHAR_LENGTH")
    assert entry_named("NO_SUCH") is None
