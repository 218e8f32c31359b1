"""`sql lint`: each check doubts what it is for, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Sql

TABLES = """
CREATE TABLE logins (host STRING, who STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'logins', 'format' = 'json');
CREATE TABLE found (host STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'found', 'format' = 'json');
CREATE TABLE totals (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'upsert' = 'true');
"""
TTL = "SET 'table.exec.state.ttl' = '1 h';\n"
FIND = "INSERT INTO found SELECT a.host, CAST(1 AS BIGINT) FROM logins a "
DOUBTFUL = {
    "pattern-anywhere": FIND + "WHERE REGEXP(who, '.*admin')",
    "long-list": FIND + f"WHERE n IN ({', '.join(map(str, range(1000)))})",
    "unbounded-state": FIND + "JOIN logins b ON a.host = b.host AND b.n > 1",
    "unbounded-state: terms": FIND + "WHERE NEW_TERM(who)",
    "costly": FIND + "WHERE REGEXP_REPLACE(who, '[0-9]', '') = 'root'",
    "cross-join": TTL + FIND + "JOIN logins b ON a.n < b.n",
}
SOUND = {
    "pattern": FIND + "WHERE REGEXP(who, 'admin.*')",
    "list": FIND + f"WHERE n IN ({', '.join(map(str, range(900)))})",
    "few rows": FIND + "WHERE host = 'a' AND REGEXP_REPLACE(who, '[0-9]', '') = 'root'",
    "ttl": TTL + FIND + "JOIN logins b ON a.host = b.host AND b.n > 1",
    "memory": FIND + "WHERE NEW_TERM(who, INTERVAL '30' DAY)",
    "interval": FIND
    + "JOIN logins b ON a.host = b.host AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR",
    "window": "INSERT INTO found SELECT host, COUNT(*) FROM TABLE(TUMBLE(TABLE logins,"
    " DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY host, window_start, window_end",
    "window rank": "INSERT INTO found SELECT host, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY"
    " window_start, window_end ORDER BY n DESC) AS place FROM TABLE(TUMBLE(TABLE logins, DESCRIPTOR(ts),"
    " INTERVAL '1' MINUTE))) WHERE place <= 3",
    "keyed": TTL + "INSERT INTO totals SELECT host, COUNT(*) FROM logins GROUP BY host",
}


@pytest.fixture
def rules(sql: Sql, tmp_path: Path) -> Path:
    """A folder with tables; the working folder is the one above it."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "_tables.sql").write_text(TABLES)
    return tmp_path / "rules"


@pytest.mark.parametrize("code", DOUBTFUL)
def test_what_is_doubtful_is_named(sql: Sql, rules: Path, code: str) -> None:
    (rules / "one.sql").write_text(DOUBTFUL[code])
    done = sql("lint", "rules", "--output", "json")
    assert done.exit_code == 1
    assert {json.loads(line)["code"] for line in done.stdout.splitlines()} == {code.split(":")[0]}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_is_not_doubted(sql: Sql, rules: Path, name: str) -> None:
    (rules / "one.sql").write_text(SOUND[name])
    done = sql("lint", "rules")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "1 rule, 0 doubtful\n"


def test_rules_are_seen_beside_each_other(sql: Sql, rules: Path) -> None:
    (rules / "all.sql").write_text(FIND + "WHERE n > 5")
    (rules / "part.sql").write_text(FIND + "WHERE who = 'x' AND n > 5")
    (rules / "same.sql").write_text(FIND + "WHERE n > 5")
    (rules / "other.sql").write_text(FIND + "WHERE who = 'x'")
    lines = sql("lint", "rules").stdout.splitlines()
    assert lines == [
        "rules/part.sql: all that it finds 'all' finds, too (contained)",
        "  hint: leave it out, or leave its rows out of 'all'",
        "rules/part.sql: all that it finds 'other' finds, too (contained)",
        "  hint: leave it out, or leave its rows out of 'other'",
        "rules/part.sql: all that it finds 'same' finds, too (contained)",
        "  hint: leave it out, or leave its rows out of 'same'",
        "rules/same.sql: it has the same conditions as 'all' (equal)",
        "  hint: keep one of the two",
    ]


def test_rows_that_are_counted_are_not_found(sql: Sql, rules: Path) -> None:
    counted = SOUND["window"].replace(" GROUP BY", " WHERE n > 5 GROUP BY")
    (rules / "burst.sql").write_text(counted)
    (rules / "hourly.sql").write_text(counted.replace("'1' MINUTE", "'1' HOUR"))
    (rules / "one.sql").write_text(FIND + "WHERE n > 5 AND who = 'root'")
    done = sql("lint", "rules")
    assert (done.exit_code, done.stdout) == (0, "")


def test_a_rule_that_fires_in_no_case(sql: Sql, rules: Path) -> None:
    (rules / "one.sql").write_text(FIND + "WHERE n > 5")
    (rules / "one.test.yaml").write_text("- {events: [{n: 1}], alerts: []}")
    assert "none of its cases expects an alert (never-fires)" in sql("lint", "rules").stdout
    (rules / "one.test.yaml").write_text("- {events: [{n: 1}], alerts: 1}")
    assert sql("lint", "rules").exit_code == 0


def test_a_window_without_a_watermark(sql: Sql, rules: Path) -> None:
    """The planner refuses it, and says what to do."""
    tables = TABLES.replace(", WATERMARK FOR ts AS ts", "")
    (rules / "_tables.sql").write_text(tables)
    (rules / "one.sql").write_text(SOUND["window"])
    done = sql("lint", "rules")
    assert done.exit_code == 1
    assert "a window needs a time attribute" in done.stderr
    assert "declare WATERMARK FOR column" in done.stderr


def test_a_rule_that_cannot_be_planned(sql: Sql, rules: Path) -> None:
    (rules / "one.sql").write_text(FIND + "WHERE nothing")
    done = sql("lint", "rules")
    assert done.exit_code == 1
    assert "one.sql:1:72: invalid statement: unknown column 'nothing'" in done.stderr
