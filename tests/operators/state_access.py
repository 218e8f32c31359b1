"""Counts the rows of state that operators read, write, scan or sort."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from sqlengine.state.rows import RowsTable
from sqlengine.state.table import KeyedTable

# Methods that take the slots of rows first (by name, behind a column's name), and those that give
# them.
_TAKE = {"array": 1, "write": 0, "mark": 0, "remove": 0, "in_order": 0, "key_arrays": 0}
_GIVE = ("live", "due")
_ROWS_GIVE = ("slots", "first", "beyond", "between")


@dataclass
class StateAccess:
    rows: int = 0


@contextmanager
def count_access() -> Iterator[StateAccess]:
    """Counts accesses within the context."""
    touched = StateAccess()
    with pytest.MonkeyPatch.context() as patch:
        for name, at in _TAKE.items():
            patch.setattr(KeyedTable, name, _taking(getattr(KeyedTable, name), at, touched))
        for name in _GIVE:
            patch.setattr(KeyedTable, name, _giving(getattr(KeyedTable, name), touched))
        for name in _ROWS_GIVE:
            patch.setattr(RowsTable, name, _giving(getattr(RowsTable, name), touched))
        yield touched


def _taking(method: Callable[..., Any], at: int, touched: StateAccess) -> Callable[..., Any]:
    def call(self: object, *args: Any, **named: Any) -> Any:
        touched.rows += len(args[at])
        return method(self, *args, **named)

    return call


def _giving(method: Callable[..., Any], touched: StateAccess) -> Callable[..., Any]:
    def call(self: object, *args: Any, **named: Any) -> Any:
        found = method(self, *args, **named)
        touched.rows += len(found)
        return found

    return call
