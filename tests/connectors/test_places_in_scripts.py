"""Errors of tables in a script of `sql run` point into the statement that defines the table, also
where another one uses it: its option, its column, or its name."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from parser.errors import SqlError
from sqlengine.session.environment import open_runner
from sqlengine.session.output import EventOutput
from sqlengine.session.session import Session

Errors = Callable[..., list[SqlError]]


class Refusals(EventOutput):
    """The errors of a session."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())
        self.errors: list[SqlError] = []

    def error(self, stmt: int, error: SqlError) -> None:
        self.errors.append(error)


@pytest.fixture
def errors_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Errors:
    monkeypatch.chdir(tmp_path)

    def errors(*texts: str) -> list[SqlError]:
        found = Refusals()
        with open_runner(tmp_path / "data") as runner:
            session = Session(runner, found)
            for text in texts:
                session.run(text)
        return found.errors

    return errors


USED = ";\nSELECT id FROM s;"


# Each has the mark > in front of what the error points at.
@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("s (id INT, >o BIGINT METADATA FROM 'ofset') WITH ('connector' = 'filesystem', 'path' = '.', 'format' = 'json')", "connector 'filesystem' has no metadata 'ofset'"),
        ("s (id INT, >`file.path` MAP<INT, INT> METADATA) WITH ('connector' = 'filesystem', 'path' = '.', 'format' = 'json')", "cannot be cast to MAP<INT, INT>"),
        (">s (id INT) WITH ('connector' = 'filesystem', 'format' = 'json')", "needs the option 'path'"),
        ("s (id INT) WITH ('connector' = 'filesystem', >'path' = 'nothing', 'format' = 'json')", "there is no file or folder"),
        ("s (id INT) WITH (>'connector' = 'nothing')", "unknown connector 'nothing'"),
        ("s (id INT) WITH ('connector' = 'filesystem', 'path' = '.', >'format' = 'nothing')", "unknown format 'nothing'"),
        ("s (id INT) WITH ('connector' = 'filesystem', 'path' = '.', 'format' = 'json', >'json.ignore-parse-errors' = 'perhaps')", "bad value 'perhaps'"),
        (">s (id INT) WITH ('format' = 'json')", "has no connector"),
        ("s (id INT) WITH ('connector' = 'jdbc', 'table-name' = 's', >'url' = 'jdbc:nothing:x')", "nothing"),
    ],
)  # fmt: skip
def test_the_table_of_an_error(errors_of: Errors, definition: str, message: str) -> None:
    text = "SELECT 1;\nCREATE TABLE " + definition.replace(">", "", 1) + USED
    (error,) = errors_of(text)
    assert message in error.reason
    assert "'s'" in error.reason, "the table is named"
    assert _place(error) == (2, len("CREATE TABLE ") + definition.index(">") + 1)


def test_the_table_that_another_is_like(errors_of: Errors) -> None:
    text = (
        "CREATE TABLE base (id INT, o INT METADATA FROM 'none') WITH\n"
        " ('connector' = 'filesystem', 'path' = '.', 'format' = 'json');\n"
        "CREATE TABLE s WITH ('format' = 'csv') LIKE base;\nSELECT id FROM s;"
    )
    (error,) = errors_of(text)
    assert _place(error) == (1, text.index("o INT") + 1)


def test_a_table_of_an_earlier_text(errors_of: Errors) -> None:
    """A place in a text that is not shown would mislead: the statement that uses the table is
    named, and the table by the message."""
    first = "\n\nCREATE TABLE s (id INT) WITH ('connector' = 'filesystem', 'format' = 'json');"
    (error,) = errors_of(first, "SELECT id FROM s;")
    assert _place(error) == (1, 1)
    assert "table 's'" in error.message


def test_two_tables_with_one_wrong_option(errors_of: Errors) -> None:
    blackhole = "WITH ('connector' = 'blackhole',\n'none' = '1');\n"
    text = f"CREATE TABLE a (i INT) {blackhole}CREATE TABLE b (i INT) {blackhole}INSERT INTO a SELECT 1;"
    (error,) = errors_of(text)
    assert _place(error) == (2, 1)


def test_an_option_that_is_altered(errors_of: Errors) -> None:
    text = (
        "CREATE TABLE s (id INT) WITH ('connector' = 'filesystem', 'path' = '.', 'format' = 'json');\n"
        "ALTER TABLE s SET ('json.ignore-parse-errors' = 'perhaps');\nSELECT id FROM s;"
    )
    (error,) = errors_of(text)
    assert _place(error) == (2, len("ALTER TABLE s SET (") + 1)


def test_an_option_in_a_hint(errors_of: Errors) -> None:
    text = (
        "CREATE TABLE s (id INT) WITH ('connector' = 'filesystem', 'path' = '.', 'format' = 'json');\n"
        "SELECT id FROM s\n /*+ OPTIONS('source.monitor-interval' = 'soon') */;"
    )
    (error,) = errors_of(text)
    assert _place(error) == (3, len(" /*+ OPTIONS(") + 1)


def test_one_of_several_inserts(errors_of: Errors) -> None:
    text = (
        "CREATE TABLE s (id INT) WITH ('connector' = 'filesystem', 'path' = '.', 'format' = 'json');\n"
        "CREATE TABLE n (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '.', 'format' = 'json');\n"
        "BEGIN STATEMENT SET;\nINSERT INTO s SELECT 1;\nINSERT INTO n SELECT COUNT(*) FROM s;\nEND;"
    )
    (error,) = errors_of(text)
    assert _place(error) == (5, 1)


def _place(error: SqlError) -> tuple[int, int]:
    assert error.position is not None
    return error.position.line, error.position.column
