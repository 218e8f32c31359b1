"""The databases that the connector 'jdbc' speaks to."""

from __future__ import annotations

from typing import Final

from parser.errors import OptionError
from sqlengine.connectors.jdbc.dialect import Dialect, parts_of, shown
from sqlengine.connectors.jdbc.mysql import MySql
from sqlengine.connectors.jdbc.postgresql import PostgreSql
from sqlengine.connectors.jdbc.sqlite import Sqlite

_DIALECTS: Final[tuple[Dialect, ...]] = (Sqlite(), PostgreSql(), MySql())


def dialect_of(url: str) -> Dialect:
    """The dialect of a URL; OptionError for one that no database has."""
    for dialect in _DIALECTS:
        if url.startswith(dialect.prefixes) and parts_of(url) is not None:
            dialect.check_url(url)
            return dialect
    examples = [dialect.example for dialect in _DIALECTS]
    raise OptionError(
        f"no database that the connector 'jdbc' knows: '{shown(url)}'",
        hint=", ".join(examples) + " or jdbc:mariadb://host:3306/database",
        subject="url",
    )
