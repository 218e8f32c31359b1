"""Finds the rows that no record can hold: each is an error of its own, and not one of its table."""

from __future__ import annotations

from collections.abc import Callable

from parser.errors import SqlError
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.base import Connector
from sqlengine.formats.base import OutOfReach


def unencodable(rows: Batch, encode: Callable[[Batch], object]) -> dict[int, str]:
    """Returns the rows for which `encode` raises, also alone, with the reasons; found by
    bisection. OutOfReach where records need a service that does not answer: no fault of a row."""
    found: dict[int, str] = {}
    waiting = [(0, rows)] if rows.num_rows else []
    while waiting:
        first, part = waiting.pop()
        try:
            encode(part)
        except OutOfReach:
            raise
        except Exception as error:  # noqa: BLE001  a format may raise anything for a value
            half = part.num_rows // 2
            if not half:
                found[first] = _reason(error)
                continue
            waiting.append((first, part.slice(0, half)))
            waiting.append((first + half, part.slice(half, part.num_rows - half)))
    return found


def unwritable(table: Table, connector: Connector, rows: Batch) -> dict[int, str]:
    """Returns the rows that are no records of the table, whatever its state, with the reasons.
    OutOfReach as `unencodable`."""
    return unencodable(rows, lambda part: connector.encode(table, part))


def _reason(error: Exception) -> str:
    if isinstance(error, SqlError):
        return error.reason
    return f"{type(error).__name__}: {error}"
