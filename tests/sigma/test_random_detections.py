"""Random detections over random events, judged by an evaluator that knows neither pySigma nor
SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from parser.types import STRING, Schema
from sqlengine.sigma.conditions import where
from sqlengine.sigma.reading import Reading
from sqlengine.sigma.tables import EventTable
from tests.sigma.running import matched, rule_of

FIELDS = ("A", "B", "C")
SCHEMA = Schema.of(A=STRING, B=STRING, C=STRING)
CHARACTERS = "aAbB%_'\\*?.\n"
PLACES = ("", "contains", "startswith", "endswith")
Event = Mapping[str, str | None]

texts = st.text(CHARACTERS, max_size=5)
values = st.one_of(texts, st.none(), st.integers(0, 3))
events = st.fixed_dictionaries(
    {f: st.one_of(st.none(), texts, st.sampled_from("0123")) for f in FIELDS}
)


@st.composite
def items(draw: st.DrawFn) -> tuple[str, Any]:
    """A field with modifiers and its values."""
    place = draw(st.sampled_from(PLACES))
    kind = texts if place else values
    chosen = draw(st.one_of(kind, st.lists(kind, min_size=1, max_size=3)))
    modifiers = [place] if place else []
    if place and isinstance(chosen, list):
        modifiers += draw(st.sampled_from(([], ["all"])))
    only_texts = chosen if isinstance(chosen, list) else [chosen]
    if all(isinstance(v, str) for v in only_texts):
        modifiers += draw(st.sampled_from(([], [], ["cased"])))
    modifiers += draw(st.sampled_from(([], [], ["neq"])))
    return "|".join([draw(st.sampled_from(FIELDS)), *modifiers]), chosen


maps = st.lists(items(), min_size=1, max_size=3).map(dict)
selections = st.one_of(maps, st.lists(maps, min_size=1, max_size=3))
conditions = st.recursive(
    st.sampled_from(["s1", "s2", "s3", "1 of s*", "all of s*", "all of them"]),
    lambda inner: st.one_of(
        inner.map(lambda c: f"not ({c})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda p: f"({' '.join(p)})"),
    ),
    max_leaves=4,
)


def fits(asked: Any, modifiers: list[str], value: str | None) -> bool:
    """Whether a value is what one value of a rule asks for."""
    if asked is None or value is None:
        return asked is None and value is None
    parts = re.findall(r"\\[\\*?]|.", str(asked), re.DOTALL)
    pattern = "".join(
        ".*" if p == "*" else "." if p == "?" else re.escape(p[-1] if len(p) == 2 else p)
        for p in parts
    )
    before = ".*" if {"contains", "endswith"} & {*modifiers} else ""
    behind = ".*" if {"contains", "startswith"} & {*modifiers} else ""
    flags = re.DOTALL | (0 if "cased" in modifiers else re.IGNORECASE)
    return re.fullmatch(before + pattern + behind, value, flags) is not None


def holds(selection: Any, event: Event) -> bool:
    """Whether an event has what a selection asks for."""
    if isinstance(selection, list):
        return any(holds(each, event) for each in selection)
    for key, asked in selection.items():
        field, *modifiers = key.split("|")
        several = asked if isinstance(asked, list) else [asked]
        found = [fits(a, modifiers, event[field]) for a in several]
        if (all(found) if "all" in modifiers else any(found)) == ("neq" in modifiers):
            return False
    return True


def judged(condition: str, found: Mapping[str, bool]) -> bool:
    """The value of a condition: Python reads AND, OR and NOT as Sigma does."""
    python = re.sub(
        r"\b(1|all) of (s\*|them)", lambda m: "any(_)" if m[1] == "1" else "all(_)", condition
    )
    return bool(eval(python, {"any": any, "all": all, "_": list(found.values()), **found}))


@settings(max_examples=40)
@given(st.tuples(selections, selections, selections), conditions, st.lists(events, max_size=6))
def test_random_detections(
    chosen: tuple[Any, Any, Any], condition: str, given_events: list[Event]
) -> None:
    detections = {f"s{i}": s for i, s in enumerate(chosen, 1)}
    rule = rule_of(json.dumps({**detections, "condition": condition}))
    text = where(rule.condition, Reading(EventTable("t", SCHEMA)))
    expected = [
        judged(condition, {n: holds(s, e) for n, s in detections.items()}) for e in given_events
    ]
    assert matched(text, SCHEMA, given_events) == expected, text
