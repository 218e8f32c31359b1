"""`sql run` and `sql explain FILE`: what people see, and what programs read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Sql

ROWS = '{"id": 1, "word": "one", "price": 1.50}\n{"id": 2, "word": null, "price": 2}\n'
TABLE = """CREATE TABLE t (id INT, word STRING, price DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "t.json").write_text(ROWS)
    path = tmp_path / "script.sql"
    table = TABLE.format(path=tmp_path / "t.json")
    path.write_text(table + "SELECT * FROM t;\nSELECT id AS n FROM t WHERE id > ${LEAST};\n")
    return path


def test_tables_for_people(sql: Sql, script: Path) -> None:
    done = sql("run", script, "-D", "LEAST=1")
    assert done.exit_code == 0, done.output
    lines = [
        [c.strip() for c in line.split("│")[1:-1]]
        for line in done.stdout.splitlines()
        if line.startswith("│")
    ]
    assert lines == [["1", "one", "1.50"], ["2", "NULL", "2.00"], ["2"]]
    assert done.stdout.count("rows") == 2


def test_json_for_programs(sql: Sql, script: Path) -> None:
    done = sql("run", script, "-D", "LEAST=1", "--output", "json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"id": 1, "word": "one", "price": "1.50"},
        {"id": 2, "word": None, "price": "2.00"},
        {"n": 2},
    ]


@pytest.mark.parametrize("size", [1, 2, 4096])
def test_events_with_the_number_of_the_statement(sql: Sql, script: Path, size: int) -> None:
    done = sql(
        "run",
        "-",
        "-D",
        "LEAST=1",
        "--output",
        "events",
        "--batch-size",
        size,
        stdin=script.read_bytes(),
    )
    assert done.exit_code == 0, done.output
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {
            "stmt": 1,
            "kind": "schema",
            "columns": [["id", "INT"], ["word", "STRING"], ["price", "DECIMAL(10, 2)"]],
        },
        {"stmt": 1, "kind": "row", "op": "+I", "row": [1, "one", "1.50"]},
        {"stmt": 1, "kind": "row", "op": "+I", "row": [2, None, "2.00"]},
        {"stmt": 2, "kind": "schema", "columns": [["n", "INT"]]},
        {"stmt": 2, "kind": "row", "op": "+I", "row": [2]},
    ]


def test_a_failing_statement_is_shown_with_its_place_and_the_others_run(
    sql: Sql, tmp_path: Path
) -> None:
    path = tmp_path / "bad.sql"
    path.write_text(
        "SELECT 1 AS a;\n\nSELECT\n  wrod\nFROM (VALUES ('x')) AS t(word);\nSELECT 2 AS b;\n"
    )
    done = sql("run", path, "--output", "json")
    assert done.exit_code == 1
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"a": 1}, {"b": 2}]
    assert done.stderr.splitlines() == [
        f"{path}:4:3: invalid statement: unknown column 'wrod'",
        "  |   wrod",
        "  |   ^^^^",
        "  hint: did you mean 'word'?",
    ]
    events = [
        json.loads(line) for line in sql("run", path, "--output", "events").stdout.splitlines()
    ]
    (error,) = [e for e in events if e["kind"] == "error"]
    assert (error["stmt"], error["hint"]) == (1, "did you mean 'word'?")


def test_a_variable_without_a_value(sql: Sql, script: Path) -> None:
    done = sql("run", script)
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        f"{script}:4:34: syntax error: variable 'LEAST' has no value",
        "  | SELECT id AS n FROM t WHERE id > ${LEAST};",
        "  |                                  ^^^^^^^^",
        "  hint: pass -D LEAST=VALUE",
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run"], "Missing argument"),
        (["run", "nowhere.sql"], "does not exist"),
        (["run", "."], "is a directory"),
        (["run", "-", "-D", "X"], "is not NAME=VALUE"),
        (["run", "-", "-D", "=1"], "is not NAME=VALUE"),
        (["run", "-", "--batch-size", "0"], "0 is not in the range"),
        (["run", "-", "--output", "xml"], "is not one of"),
        (["nothing"], "No such command"),
        (["serve", "--port", "70000"], "70000 is not in the range"),
        (["submit", "-"], "standard input needs --name"),
        (["topic", "list", "--data", "x", "--server", "http://127.0.0.1:1"], "give one of them"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_wrong_usage_exits_2(sql: Sql, arguments: list[str], told: str) -> None:
    done = sql(*arguments)
    assert done.exit_code == 2
    assert told in done.stderr


def test_scripts_that_are_no_text(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "binary.sql").write_bytes(b"\x7fELF\xff\xfe\x00")
    done = sql("run", "binary.sql")
    assert done.exit_code == 1
    assert "'binary.sql' is not UTF-8" in done.stderr
    assert sql("run", "-", stdin=b"\xff").exit_code == 1
    (tmp_path / "empty.sql").write_text("")
    assert sql("run", "empty.sql").exit_code == 0
    (tmp_path / "mark.sql").write_bytes(b"\xef\xbb\xbfSELECT 1 AS a;")
    assert sql("run", "mark.sql", "--output", "json").stdout == '{"a": 1}\n'


def test_a_row_that_fails_ends_a_script(sql: Sql, tmp_path: Path) -> None:
    done = sql("run", "-", stdin="SELECT 1 / x AS q FROM (VALUES (1), (0)) AS t(x); SELECT 1 AS a;")
    assert done.exit_code == 1
    assert "zero" in done.stderr
    assert "'job.on-error' = 'dead-letter'" in done.stderr


def test_topics_of_a_script_stay_in_a_data_folder(sql: Sql, tmp_path: Path) -> None:
    table = "CREATE TABLE k (id INT) WITH ('connector' = 'topic', 'topic' = 'k', 'format' = 'json',"
    table += "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');"
    done = sql("run", "-", "--data", "d", stdin=table + "INSERT INTO k VALUES (1), (2);")
    assert done.exit_code == 0, done.output
    done = sql("run", "-", "--data", "d", "--output", "json", stdin=table + "SELECT id FROM k;")
    assert done.stdout == '{"id": 1}\n{"id": 2}\n'
    assert sql("topic", "read", "k", "--data", "d").stdout == '{"id":1}\n{"id":2}\n'


EXPLAINED = """CREATE TABLE e (id INT, word STRING) WITH ('connector' = 'datagen');
CREATE TABLE o (id INT) WITH ('connector' = 'blackhole');
INSERT INTO o SELECT id FROM e WHERE word = 'x' AND ${MORE};
"""


def test_explain_a_file(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "my plan.sql").write_text(EXPLAINED)
    done = sql("explain", "my plan.sql", "-D", "MORE=id > 3")
    assert done.exit_code == 0, done.output
    titles = [line for line in done.stdout.splitlines() if line.startswith("== ")]
    assert titles[0] == "== bind =="
    assert titles[-1] == "== operators =="
    assert "id > 3" in done.stdout
    body = json.loads(sql("explain", "my plan.sql", "-D", "MORE=TRUE", "--output", "json").stdout)
    assert body


def test_explain_what_cannot_be_planned(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text("INSERT INTO o SELECT 1")
    done = sql("explain", "x.sql")
    assert done.exit_code == 1
    assert "x.sql:1:" in done.stderr
    assert "unknown table 'o'" in done.stderr
    (tmp_path / "folder").mkdir()
    assert (
        sql("explain", "folder").exit_code == 3
    )  # no file: the name of a job, and there is no server
