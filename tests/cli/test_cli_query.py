"""`sql query`: what it prints, and how it ends."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys

import pytest

from sqlengine.session.live_table import Screen
from sqlengine.session.printers import CsvRows, JsonRows, ResultRow, RowPrinter, TableRows
from tests.cli.conftest import Sql
from tests.service.harness import User
from tests.support import ROOT, eventually


@pytest.fixture
def asked(served: Sql, user: User) -> Sql:
    user.topic("asked")
    user.submit(
        "asked",
        "CREATE TABLE asked (id BIGINT, word STRING) WITH ('connector' = 'topic', 'topic' = 'asked',"
        " 'format' = 'json', 'topic.auto-create' = 'true')",
    )
    if user.client.get("/api/v1/topics/asked")["records"] == 0:
        user.write("asked", {"id": 1, "word": 'a "b"'}, {"id": 2, "word": None}, b"broken")
    return served


def test_rows_in_three_forms(asked: Sql) -> None:
    done = asked("query", "SELECT * FROM asked")
    assert done.stdout == 'id  word\n1   a "b"\n2   NULL\n'
    assert done.stderr.startswith("2 rows\n1 row in error set aside; the first: malformed JSON")
    done = asked("query", "SELECT * FROM asked", "--output", "csv")
    assert done.stdout == 'id,word\n1,"a ""b"""\n2,\n'
    done = asked("query", "-", "--output", "json", stdin="SELECT id AS n FROM asked LIMIT 1")
    assert done.stdout == '{"n": 1}\n'


def test_an_error_has_a_caret_and_a_hint(asked: Sql) -> None:
    done = asked("query", "SELECT idd\nFROM asked")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "1:8: invalid statement: unknown column 'idd'",
        "  | SELECT idd",
        "  |        ^^^",
        "  hint: did you mean 'id'?",
    ]
    assert asked("query").exit_code == 2


def test_an_empty_result_has_its_columns(asked: Sql) -> None:
    assert asked("query", "SELECT id FROM asked WHERE FALSE").stdout == "id\n"
    assert asked("query", "SET 'table.exec.state.ttl' = '1 h'").stderr == "OK\n"


def test_ctrl_c_ends_the_query_on_the_server(asked: Sql, user: User) -> None:
    command = "from sqlengine.cli import main; main(['query', '--follow', 'SELECT id FROM asked'])"
    with subprocess.Popen(
        [sys.executable, "-c", command], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == ["id\n", "1\n", "2\n"]
        assert "SELECT id FROM asked" in asked("query", "--list").stdout
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    eventually(lambda: asked("query", "--list").stdout == "", "the end of the query")


CHANGES: list[ResultRow] = [("+I", [1, "wörd"]), ("-U", [1, None]), ("+U", [2, [1, True]])]


@pytest.mark.parametrize(
    ("printer", "expected"),
    [
        (TableRows, "op  n  w\n+I  1  wörd\n-U  1  NULL\n+U  2  [1, true]\n"),
        (CsvRows, 'op,n,w\n+I,1,wörd\n-U,1,\n+U,2,"[1, true]"\n'),
        (JsonRows, None),
    ],
)
def test_changes_are_shown_with_their_kinds(
    printer: type[TableRows | CsvRows | JsonRows], expected: str | None
) -> None:
    out = io.StringIO()
    rows: RowPrinter = printer(out)
    rows.begin([("n", "INT"), ("w", "STRING")], changes=True)
    for row in CHANGES:
        rows.rows([row])
    rows.end()
    if expected is None:
        assert [json.loads(line).get("op") for line in out.getvalue().splitlines()] == [
            None,
            "-U",
            "+U",
        ]
    else:
        assert out.getvalue() == expected


def test_a_terminal_sees_lines_and_the_number_of_rows(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    rows = TableRows(out, screen=Screen(80))
    rows.begin([("n", "INT"), ("名", "STRING")], changes=False)
    rows.rows([("+I", [1, "日本"])])
    rows.rows([("+I", [12345, "a"])])
    rows.end()
    assert out.getvalue().splitlines() == [
        "┏━━━┳━━━━━━┓",
        "┃ n ┃ 名   ┃",
        "┡━━━╇━━━━━━┩",
        "│ 1 │ 日本 │",
        "│ 12345 │ a    │",
        "└───────┴──────┘",
    ]
    assert capsys.readouterr().err == "2 rows\n"
