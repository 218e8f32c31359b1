"""NEW_TERM in rules: what it remembers outlives a restart and a new version, and is each rule's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from parser.errors import SqlError
from sqlengine import connect
from sqlengine.connection.base import Connection
from tests.support import eventually

TABLES = """CREATE TABLE logins (who STRING, country STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'topic', 'topic' = 'logins', 'format' = 'json');
CREATE TABLE alerts (rule STRING, who STRING, country STRING)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
"""
RULE = "INSERT INTO alerts SELECT RULE_NAME(), who, country FROM logins WHERE {}"


def rule(condition: str) -> str:
    return RULE.format(condition)


def write(connection: Connection, *logins: str) -> None:
    """Writes logins: who, country, and a day of January 2026."""
    rows = (login.split() for login in logins)
    connection.write(
        "logins",
        [f'{{"who":"{w}","country":"{c}","ts":"2026-01-{d} 00:00:00"}}' for w, c, d in rows],
    )


def alerts(connection: Connection, number: int) -> list[str]:
    """Waits for so many alerts, and returns them: rule, who, country."""

    def read() -> list[str]:
        rows = (r.value.decode() for r in connection.read("alerts") if r.value)
        return sorted(" ".join(row.split('"')[3::4]) for row in rows)

    eventually(lambda: len(read()) >= number, lambda: str(read()))
    return read()


def test_terms_are_remembered_over_a_restart_and_a_new_version(tmp_path: Path) -> None:
    condition = "NEW_TERM(who, UPPER(country), INTERVAL '10' DAY)"
    with connect(data=tmp_path) as connection:
        connection.create_topic("logins")
        connection.create_topic("alerts")
        connection.submit("tables", TABLES)
        connection.submit("first", rule(condition))
        write(connection, "ann de 01", "ann DE 02", "ann fr 02")
        assert alerts(connection, 2) == ["first ann de", "first ann fr"]
    with connect(data=tmp_path) as connection:
        changed = rule(condition) + " AND country <> 'xx'"
        connection.submit("first", f"SET 'job.state' = 'keep'; {changed}")
        write(connection, "ann de 03", "ann es 04")
        assert alerts(connection, 3) == ["first ann de", "first ann es", "first ann fr"]
        write(connection, "ann fr 20")
        assert alerts(connection, 4)[2:] == ["first ann fr", "first ann fr"]


def test_each_rule_remembers_what_passes_its_other_conditions(tmp_path: Path) -> None:
    with connect(data=tmp_path) as connection:
        connection.create_topic("logins")
        connection.create_topic("alerts")
        connection.submit("tables", TABLES)
        for who in ("ann", "bob"):
            connection.submit(who, rule(f"NEW_TERM(country) AND who = '{who}'"))
        connection.submit("known", rule("NOT NEW_TERM(who, INTERVAL '1' DAY)"))
        write(connection, "ann de 01", "bob de 01", "ann de 01", "cid fr 01", "bob de 03")
        assert alerts(connection, 3) == ["ann ann de", "bob bob de", "known ann de"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (rule("NEW_TERM()"), "NEW_TERM takes values"),
        (rule("NEW_TERM(INTERVAL '1' DAY)"), "NEW_TERM takes values"),
        (
            rule("NEW_TERM(who, INTERVAL '1' MONTH)"),
            "the memory of NEW_TERM is an interval of days",
        ),
        (
            "INSERT INTO alerts SELECT 'x', who, CAST(NEW_TERM(who) AS STRING) FROM logins",
            "NEW_TERM cannot stand in SELECT",
        ),
        (
            """INSERT INTO alerts SELECT 'x', who, 'y'
            FROM (SELECT who, COUNT(*) AS n FROM logins GROUP BY who) WHERE NEW_TERM(who)""",
            "NEW_TERM over rows that are updated is not supported",
        ),
    ],
)
def test_what_it_cannot_do_is_said(tmp_path: Path, query: str, reason: str) -> None:
    with connect(data=tmp_path) as connection:
        connection.create_topic("logins")
        connection.create_topic("alerts")
        connection.submit("tables", TABLES)
        with pytest.raises(SqlError) as error:
            connection.submit("rule", query)
        assert reason in str(error.value)
        assert error.value.position is not None
