"""Mistakes of the first day: each message says what is wrong, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlengine.cli.dead_letters import describe
from tests.cli.conftest import Sql

TABLE = "CREATE TABLE t (a STRING, n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');\n"
# A statement, the column of the caret, and parts of the message.
MISTAKES = {
    "a misspelt aggregate": ("SELECT CUONT(*) FROM t;", 8, ["unknown function 'CUONT'", "COUNT?"]),
    "a reserved word": ("SELECT order FROM t;", 8, ["if it is a column, write it as `order`"]),
    "a word that is a function": (
        "SELECT user FROM t;",
        8,
        ["unknown column 'user'", "USER is a reserved word", "is written as `user`"],
    ),
    "quotes of a word processor": (
        "SELECT a FROM t WHERE a = \u2018x\u2019;",
        27,
        ["unexpected character '\u2018'", "strings stand in straight quotes: 'text'"],
    ),
    "a table of Kafka": (
        "CREATE TABLE k (a INT) WITH ('connector' = 'kafka', 'topic' = 'a'); SELECT * FROM k;",
        14,
        ["needs the option 'properties.bootstrap.servers'", "hosts and ports of some brokers"],
    ),
    "a table of another database": (
        "CREATE DATABASE d; CREATE TABLE d.u LIKE t; SELECT * FROM u;",
        59,
        ["there is default_catalog.d.u: write its whole name, or USE before"],
    ),
    "jobs in a script": ("SHOW JOBS;", 1, ['sql query "SHOW JOBS"']),
    "a clause where a column stands": ("SELECT FROM t;", 8, ["unexpected 'FROM'"]),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_in_a_script(sql: Sql, what: str) -> None:
    statement, column, parts = MISTAKES[what]
    done = sql("run", "-", stdin=(TABLE + statement).encode())
    assert done.exit_code == 1
    assert f"2:{column}: " in done.stderr
    assert [p for p in parts if p not in done.stderr] == []
    assert "`FROM`" not in done.stderr


def test_values_look_as_in_flink(sql: Sql) -> None:
    done = sql("run", "-e", "SELECT 1 = 1 AS a, CAST(NULL AS BOOLEAN) AS b")
    assert "TRUE" in done.stdout
    assert "NULL" in done.stdout
    assert done.stderr == "1 row\n"


def test_a_query_is_no_job(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1;")
    done = sql("explain", tmp_path / "q.sql")
    assert "a query alone has no place in a job: its rows would go nowhere" in done.stderr
    assert "hint: write INSERT INTO a_table SELECT …; ask once with `sql query`" in done.stderr


def test_a_data_folder_that_cannot_be_made(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = sql("serve", "--data", tmp_path / "file" / "data", "--port", 0)
    assert done.exit_code == 1
    assert f"data folder '{tmp_path}/file/data' cannot be used" in done.stderr
    assert "Not a directory" in done.stderr
    assert "hint: name another with --data" in done.stderr


def test_a_dead_letter_is_no_failed_job() -> None:
    letter: dict[str, object] = {
        "id": 0,
        "time": 0,
        "job": "",
        "version": 0,
        "subject": "t",
        "replayed": [],
        "reason": "malformed JSON",
        "payload": "x",
        "shard": 0,
        "offset": 1,
        "stored": "t",
    }
    assert describe(letter).splitlines()[1] == "row set aside: malformed JSON"
