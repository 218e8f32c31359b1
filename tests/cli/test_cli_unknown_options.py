"""Settings and options that nobody reads: refused at their place, or noted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Sql

GEN = "CREATE TABLE t (id INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1'{});\n"
# A script, the place of its error, and what was meant.
REFUSED = {
    "a setting": ("SET 'table.exec.state.tll' = '1 h';", "1:5", "table.exec.state.ttl"),
    "a reset": ("RESET 'table.exec.state.tll';", "1:7", "table.exec.state.ttl"),
    "an option": (
        GEN.format(", 'number-of-row' = '1'") + "SELECT id FROM t;",
        "1:80",
        "number-of-rows",
    ),
    "a hint": (
        GEN.format("") + "SELECT id FROM t /*+ OPTIONS('number-of-row' = '1') */;",
        "2:30",
        "number-of-rows",
    ),
    "a hint of a table that is written": (
        (
            "CREATE TABLE p (id INT) WITH ('connector' = 'print');\n"
            "INSERT INTO p /*+ OPTIONS('standard-eror' = 'true') */ SELECT 1;"
        ),
        "2:27",
        "standard-error",
    ),
    "ALTER TABLE": (
        GEN.format("") + "ALTER TABLE t SET ('number-of-row' = '1');\nSELECT id FROM t;",
        "2:20",
        "number-of-rows",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_at_its_place(sql: Sql, what: str) -> None:
    script, place, meant = REFUSED[what]
    done = sql("run", "-", stdin=script.encode())
    assert done.exit_code == 1
    assert f"{place}: invalid statement: unknown " in done.stderr
    assert f"did you mean '{meant}'?" in done.stderr


def test_a_script_made_for_flink(sql: Sql) -> None:
    script = (
        "SET 'job.unknown-options' = 'ignore';\nSET 'my.own' = '1';\nSET 'my.own' = '2';\n"
        + GEN.format(", 'number-of-row' = '1'")
        + "SELECT COUNT(*) AS n FROM t /*+ OPTIONS('rows-per-secnd' = '1') */;\n"
    )
    done = sql("run", "-", "--output", "json", stdin=script.encode())
    assert (done.exit_code, done.stdout) == (0, '{"n": 1}\n')
    assert done.stderr.splitlines() == [
        "warning: 2:5: unknown setting 'my.own' is ignored",
        "warning: 4:80: unknown option 'number-of-row' of table 't' is ignored",
        "warning: 5:41: unknown option 'rows-per-secnd' of table 't' is ignored",
    ]


def test_a_key_of_flink_without_effect_is_noted_once(sql: Sql) -> None:
    script = "SET 'parallelism.default' = '4';\nSET 'parallelism.default' = '8';\nSELECT 1 AS n;"
    done = sql("run", "-", "--output", "json", stdin=script.encode())
    assert (done.exit_code, done.stdout) == (0, '{"n": 1}\n')
    assert done.stderr == (
        "warning: 1:5: 'parallelism.default' has no effect here: it says how Flink runs a plan\n"
    )


def test_explain_refuses_as_a_server_does(sql: Sql, tmp_path: Path) -> None:
    path = tmp_path / "job.sql"
    path.write_text("SET 'job.on-eror' = 'fail';\n")
    done = sql("explain", path)
    assert done.exit_code == 1
    assert f"{path}:1:5: invalid statement: unknown setting 'job.on-eror'" in done.stderr
