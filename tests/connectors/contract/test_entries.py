"""No connector is without a contract, and what an entry names is there."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from planner.capabilities import DeliveryGuarantee
from sqlengine.connectors.registry import connector_names, get_connector
from tests.connectors.contract.entries import ENTRIES, WITHIN, Entry
from tests.connectors.contract.place import Direction
from tests.support import TESTS


def promised() -> set[tuple[str, Direction]]:
    """Each connector with each of its directions, as they are declared."""
    found: set[tuple[str, Direction]] = set()
    for name in connector_names():
        connector = get_connector(name)
        assert connector is not None
        found |= {(name, "in")} if connector.capabilities.source is not None else set()
        found |= {(name, "out")} if connector.capabilities.sink is not None else set()
    return found


def test_each_connector_has_an_entry() -> None:
    """Where this fails for a new connector: give it a `Place`, and an entry in `entries.py`."""
    entries = [(entry.connector, entry.direction) for entry in ENTRIES]
    assert Counter(entries + [e for e in promised() if e[0] in WITHIN]) == Counter(promised())


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: f"{e.connector} {e.direction}")
def test_what_an_entry_names_is_there(entry: Entry) -> None:
    assert entry.places
    named = [where for where in entry.elsewhere.values() if "::" in where]
    for where in named:
        file, _, test = where.partition("::")
        tree = ast.parse((TESTS / file).read_text())
        assert test in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)], where


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: f"{e.connector} {e.direction}")
def test_who_promises_exactly_once_is_killed(entry: Entry) -> None:
    connector = get_connector(entry.connector)
    assert connector is not None
    sink = connector.capabilities.sink
    if entry.direction == "out" and sink and sink.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        assert "::" in entry.elsewhere.get("kills", "::")
        assert all(place.once for place in entry.places)
