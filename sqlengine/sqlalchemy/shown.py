"""The catalog, as SHOW and DESCRIBE tell of it, in the forms that SQLAlchemy wants."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from parser.writer.names import backticked
from sqlengine.sqlalchemy.types import type_of

_KEY: Final = re.compile(r"PRI\((.*)\)")


def primary_key(told: Iterable[str | None]) -> list[str]:
    """Returns the columns of the primary key, from what DESCRIBE tells of each."""
    keys = [found[1] for key in told if (found := _KEY.match(key or ""))]
    return keys[0].split(", ") if keys else []


def column(about: Any) -> dict[str, Any]:
    """Returns a column, from a row of DESCRIBE."""
    extras = about["extras"] or ""
    found = {
        "name": about["name"],
        "type": type_of(about["type"].partition(" *")[0]),
        "nullable": about["null"],
        "default": None,
        "comment": dict(about).get("comment"),
    }
    if extras.startswith("AS "):
        found["computed"] = {"sqltext": extras[3:], "persisted": False}
    return found


def path(name: str, database: str | None) -> str:
    """Returns a table as SQL writes it."""
    return backticked(name) if database is None else f"{place(database)}.{backticked(name)}"


def place(database: str) -> str:
    """Returns a database as SQL writes it; before a dot stands its catalog."""
    return ".".join(map(backticked, database.split(".")))


def names(connection: Any, what: str, database: str | None) -> list[str]:
    """Returns the names of all TABLES, or VIEWS, of a database; None: of that in use."""
    within = "" if database is None else f" FROM {place(database)}"
    return first(connection, f"SHOW {what}{within}")


def first(connection: Any, statement: str) -> list[str]:
    """Returns the first column of what a statement gives."""
    return [row[0] for row in connection.exec_driver_sql(statement)]
