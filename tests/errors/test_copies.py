"""Errors that are copied, or come out of the process that plans, say all that they said."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from parser.errors import OptionError, Position, SqlError, render
from sqlengine.connectors.boundary.openings import StillOpening
from sqlengine.machine import THIS

Made = Callable[[SqlError], SqlError]


def crossed(error: SqlError) -> SqlError:
    """Sends an error to another process, and back."""
    found: SqlError = pickle.loads(pickle.dumps(error))
    return found


@pytest.mark.parametrize("made", [copy.copy, crossed])
def test_it_says_the_same(made: Made) -> None:
    error = OptionError(
        "'x' is wrong", detail="why", hint="so", subject="x", position=Position(1, 9)
    )
    error.about_table(("t",))
    error.used_at = Position(3, 1)
    error.add_note("by the way")
    found = made(error)
    assert type(found) is OptionError
    assert (render(found), found.subject, found.table) == (render(error), "x", ("t",))
    found.add_note("of the copy")
    assert error.__notes__ == ["hint: so", "by the way"]


def test_a_copy_waits_for_the_same_call() -> None:
    error = StillOpening("table 't' cannot be read: it is not open yet")
    lanes = THIS.threads.lanes()
    assert lanes is not None
    error.call = lanes.begin(lambda: None)
    assert copy.copy(error).wait(60)
