"""Opens a table whose options refer to secrets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from parser.errors import ExecutionError, SqlError
from planner.catalog import Table
from sqlengine.connectors.base import Environment
from sqlengine.system.secrets import masked

T = TypeVar("T")


def with_secrets(
    opening: Callable[[Table, Environment], T], table: Table, environment: Environment
) -> T:
    """Opens a table with the values of its secrets, which its connector alone sees: an error that
    has one of them tells it not."""
    options, values = environment.secrets.fill(table.options, table.display)
    if not values:
        return opening(table, environment)
    try:
        return opening(replace(table, options=options), environment)
    except Exception as error:
        detail = error.detail if isinstance(error, SqlError) else None
        texts = [str(error), *error.args, detail or ""]
        if all(masked(str(text), values) == str(text) for text in texts):
            raise
        raise ExecutionError(masked(str(error), values)) from None
