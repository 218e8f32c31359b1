"""Tables in memory: what one statement writes, the next one reads, with the kinds of its rows."""

from __future__ import annotations

from sqlengine.batch import Batch
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.memory.tables import Memory
from sqlengine.executors.build import OperatorFactory
from sqlengine.formats.results import Row, rows_of
from sqlengine.session.runner import EmbeddedRunner
from sqlengine.session.session import Session


class Collected:
    """Keeps the rows of queries, and the errors."""

    def __init__(self) -> None:
        self.rows_seen: list[Row] = []
        self.errors: list[str] = []

    def schema(self, stmt: int, schema: object) -> None: ...

    def rows(self, stmt: int, batch: Batch) -> None:
        self.rows_seen += rows_of(batch)

    def done(self, stmt: int, message: str) -> None: ...

    def error(self, stmt: int, error: Exception) -> None:
        self.errors.append(str(error))


def run(text: str) -> Collected:
    output = Collected()
    Session(
        EmbeddedRunner(Environment(None, lambda: 0, "w", memory=Memory()), OperatorFactory()),
        output,
    ).run(text)
    return output


TABLES = """
CREATE TABLE events (k STRING, v INT) WITH ('connector' = 'memory', 'name' = 'events');
CREATE TABLE totals (k STRING, n BIGINT) WITH ('connector' = 'memory', 'name' = 'totals', 'changelog-mode' = '{mode}');
INSERT INTO events VALUES ('a', 1), ('b', 2), ('a', 3);
INSERT INTO totals SELECT k, COUNT(*) FROM events GROUP BY k;
"""


def test_a_changelog_is_written_and_read() -> None:
    output = run(
        TABLES.format(mode="I,UB,UA,D")
        + "SELECT * FROM totals; SELECT n, COUNT(*) FROM totals GROUP BY n;"
    )
    assert not output.errors
    counts: list[Row] = [("+I", ["a", 1]), ("+I", ["b", 1]), ("-U", ["a", 1]), ("+U", ["a", 2])]
    by_count: list[Row] = [
        ("+I", [1, 1]),
        ("-U", [1, 1]),
        ("+U", [1, 2]),
        ("-U", [1, 2]),
        ("+U", [1, 1]),
        ("+I", [2, 1]),
    ]
    assert output.rows_seen == [*counts, *by_count]


def test_a_table_of_new_rows_refuses_changes() -> None:
    assert "takes new rows only" in run(TABLES.format(mode="I")).errors[0]
