"""The demo's made-up events: the same for the same seed, sensible, with the attacks where they were
asked for."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import pytest

from demo.events import ATTACKS, FIELDS, Event, generate, spread

COUNT = 12_000
PLACES = spread(COUNT, ATTACKS)


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return list(generate(7, COUNT, PLACES))


def test_a_seed_decides_everything(events: list[Event]) -> None:
    assert json.dumps(events) == json.dumps(list(generate(7, COUNT, PLACES)))
    assert events[:100] != list(generate(8, 100, PLACES))


def test_form(events: list[Event]) -> None:
    assert len(events) == COUNT
    assert all(tuple(event) == FIELDS for event in events)
    assert all(str(one["ts"]) <= str(two["ts"]) for one, two in pairwise(events))
    assert {event["os"] for event in events} == {"windows", "linux"}
    kinds = Counter(event["event_type"] for event in events)
    assert set(kinds) == {"process_creation", "file", "network", "authentication"}
    assert min(kinds.values()) > COUNT / 50


def test_attacks_begin_where_they_were_put(events: list[Event]) -> None:
    for place, name in PLACES.items():
        steps = [number for number, event in enumerate(events) if event["scenario"] == name]
        assert place <= steps[0] < place + 20
        assert len(steps) >= 5
    assert not any(event["scenario"] for event in generate(7, 1000))


def test_parents_exist(events: list[Event]) -> None:
    """A parent that was created in sight is the program that its children say it is; no pid is used
    twice."""
    seen: dict[tuple[object, object], Event] = {}
    for event in events:
        if event["event_type"] == "process_creation":
            parent = seen.get((event["host"], event["ppid"]))
            assert parent is None or parent["image"] == event["parent_image"]
            assert (event["host"], event["pid"]) not in seen
            seen[event["host"], event["pid"]] = event
        elif (event["host"], event["pid"]) in seen:
            assert seen[event["host"], event["pid"]]["image"] == event["image"]


@pytest.mark.parametrize(
    ("field", "least", "most"), [("command_line", 0.6, 0.85), ("hashes", 0.9, 1), ("host", 0.99, 1)]
)
def test_values_repeat(events: list[Event], field: str, least: float, most: float) -> None:
    values = [
        event[field]
        for event in events
        if event["event_type"] == "process_creation" and event[field]
    ]
    assert least <= 1 - len(set(values)) / len(values) <= most
