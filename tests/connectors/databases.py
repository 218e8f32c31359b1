"""Databases for the tests of the connector 'jdbc': files of SQLite, and real servers."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from parser.types import Schema
from planner.catalog import Table
from sqlengine.connectors.jdbc.dialect import Dialect
from sqlengine.connectors.jdbc.dialects import dialect_of
from sqlengine.connectors.jdbc.driver import Account, Connection
from tests.connectors.tables import SCHEMA, table


@dataclass(frozen=True)
class Database:
    """Where it is, and who may use it."""

    url: str
    username: str | None = None

    @property
    def dialect(self) -> Dialect:
        return dialect_of(self.url)

    def connect(self) -> Connection:
        return self.dialect.open(self.url, Account(self.username, None))

    def execute(self, *statements: str) -> None:
        with closing(self.connect()) as connection:
            for statement in statements:
                connection.cursor().execute(statement)
            connection.commit()

    def rows(self, name: str) -> list[tuple[object, ...]]:
        return self.query(f"SELECT * FROM {name} ORDER BY 1, 2")

    def query(self, text: str) -> list[tuple[object, ...]]:
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(text)
            return [tuple(row) for row in cursor.fetchall()]

    def table(
        self, name: str, schema: Schema = SCHEMA, key: tuple[str, ...] = (), retries: int = 3
    ) -> Table:
        given = {
            "connector": "jdbc",
            "url": self.url,
            "table-name": name,
            "sink.max-retries": str(retries),
        }
        if self.username is not None:
            given["username"] = self.username
        found = table(given, schema)
        return Table(found.name, found.schema, found.physical, found.options, primary_key=key)


def sqlite(folder: Path) -> Database:
    path = folder / "app.db"
    path.touch()
    return Database(f"jdbc:sqlite:{path}")
