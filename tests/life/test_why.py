"""`sql why`: each condition of a rule with the values that it saw."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Sql
from tests.life.test_lineage import CASES, MANY, login, started
from tests.service.harness import User

RULE = """CREATE TABLE processes (host STRING, command STRING, ppid INT)
WITH ('connector' = 'topic', 'topic' = 'processes', 'format' = 'json');
CREATE TABLE found (rule STRING, host STRING) WITH ('connector' = 'topic', 'topic' = 'found', 'format' = 'json');
INSERT INTO found SELECT RULE_NAME(), host FROM processes
WHERE (LOWER(command) LIKE '%-enc%' OR ppid IN (1, 2)) AND NOT (host = 'lab' OR host = 'test')"""
COUNTS = """CREATE TABLE totals (word STRING, n BIGINT, PRIMARY KEY (word) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'upsert' = 'true');
INSERT INTO totals SELECT word, COUNT(*) FROM events GROUP BY word HAVING COUNT(*) > 1"""


@pytest.fixture
def rule(tmp_path: Path) -> str:
    (tmp_path / "rule.sql").write_text(RULE)
    return "rule.sql"


def test_each_condition_has_the_values_that_it_saw(sql: Sql, rule: str) -> None:
    done = sql("why", rule, '{"host": "lab", "command": "powershell -ENC x", "ppid": 7}')
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "rule does not fire",
        "filter 1",
        "  FALSE  AND",
        "    TRUE   OR",
        "      TRUE   (LOWER(command) LIKE '%-enc%')   [command = \"powershell -ENC x\"]",
        "      FALSE  (ppid IN (1, 2))   [ppid = 7]",
        "    FALSE  NOT",
        "      TRUE   OR",
        "        TRUE   (host = 'lab')   [host = \"lab\"]",
        "        FALSE  (host = 'test')   [host = \"lab\"]",
        "it would need:",
        "  NOT (host = 'lab')   [host = \"lab\"]",
    ]


def test_what_fires_shows_what_it_writes(sql: Sql, rule: str) -> None:
    done = sql("why", rule, '{"host": "a", "ppid": 1}')
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "rule fires"
    assert done.stdout.splitlines()[-1] == 'found: {"rule": "rule", "host": "a"}'
    assert "NULL   (LOWER(command)" in done.stdout
    body = json.loads(sql("why", rule, '{"host": "a", "ppid": 1}', "--output", "json").stdout)
    assert (body["fires"], body["alerts"]) == (True, {"found": [{"rule": "rule", "host": "a"}]})
    assert body["filters"][0]["rows"][0]["parts"][0]["parts"][1]["columns"] == {"ppid": 1}


def test_the_event_is_of_the_table_that_is_not_looked_up(sql: Sql, tmp_path: Path) -> None:
    tables = RULE.replace("ppid INT)", "ppid INT, now AS PROCTIME())").rsplit("INSERT", 1)[0]
    known = """CREATE TABLE hosts (host STRING, owner STRING) WITH ('connector' = 'topic', 'topic' = 'h', 'format' = 'json');
INSERT INTO found SELECT h.owner, p.host FROM processes p
JOIN hosts FOR SYSTEM_TIME AS OF p.now AS h ON p.host = h.host WHERE p.ppid = 1"""
    (tmp_path / "known.sql").write_text(tables + known)
    done = sql("why", "known.sql", '{"host": "a", "ppid": 2}')
    assert "FALSE  (ppid = 1)   [ppid = 2]" in done.stdout
    assert "LookupJoin" in done.stderr


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ('{"hots": "a"}', "did you mean 'host'?"),
        ("{", "the event is no JSON"),
        ('{"host": ' + "[" * 100_000, "the event is no JSON"),
        ('{"host": "\\ud800"}', "the event is no JSON"),
        ('{"ppid": "x"}', "is no row of table 'processes'"),
        ("processes", "is no event"),
        ("processes@x", "is no event"),
    ],
)
def test_what_is_no_event_is_named(sql: Sql, rule: str, event: str, message: str) -> None:
    done = sql("why", rule, event)
    assert done.exit_code == 1
    assert message in done.stderr


STATES = {
    "tumble": (4, ['  under host = "a"', "  TRUE   (COUNT(*) >= 3)   [COUNT(*) = 3]"]),
    "hop": (3, ["  FALSE  (COUNT(*) >= 3)   [COUNT(*) = 2]", "  (COUNT(*) >= 3)   [COUNT(*) = 2]"]),
    "having": (
        4,
        ['  gives {"host": "a", "COUNT(*)": 3}', '  instead of {"host": "a", "COUNT(*)": 2}'],
    ),
    "interval": (
        6,
        ['  under host = "c"', "  0 rows of the other side", "  gives nothing because of it"],
    ),
    "join": (
        2,
        ["  1 row of the other side", '  FALSE  (who <> who0)   [who = "root", who0 = "root"]'],
    ),
    "lookup": (
        2,
        ["  1 row of the other side", '  gives {"host": "a", "host0": "a", "owner": "ann"}'],
    ),
    "pattern": (3, ["  matched nothing, not yet F S", "  TRUE   S AS ok   [ok = true]"]),
    "first": (5, ["  gives nothing because of it"]),
    "over": (5, ["  FALSE  (COUNT(*) > 2)   [COUNT(*) = 2]"]),
}


@pytest.mark.parametrize("name", STATES)
def test_state_is_that_of_then(served: Sql, user: User, name: str) -> None:
    at, lines = STATES[name]
    started(user, f"then_{name}", CASES[name])
    done = served("why", f"then_{name}", f"then_{name}_logins@{at}")
    assert set(lines) <= set(done.stdout.splitlines()), done.stdout + done.stderr


def test_a_row_that_comes_late_is_told(served: Sql, user: User) -> None:
    late = replace(CASES["tumble"], logins=[*MANY, login(5, "a")])
    started(user, "late", late)
    done = served("why", "late", "late_logins@7")
    assert done.exit_code == 1
    said = "  it may have been late: a row of 2026-01-01 00:06:40.000 had come before"
    assert said in done.stdout.splitlines()


def test_a_job_and_a_record_of_a_server(served: Sql, user: User) -> None:
    user.submit("counts", COUNTS)
    at = user.write("events", user.event("x", 1))
    done = served("why", "counts", f"events@{at}")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (1, "counts does not fire")
    assert "= 1]" in done.stdout
    again = user.write("events", user.event("x", 1))
    then = served("why", "counts", f"events@{again}")
    assert (then.exit_code, then.stdout.splitlines()[-1]) == (0, 'totals: {"word": "x", "n": 2}')
    alone = served("why", "counts", '{"word": "x"}')
    assert "its state is empty but for this event: " in alone.stderr
    assert served("why", "all", f"events@{at}").exit_code == 0
    assert "is out of range" in served("why", "all", "events@999999").stderr
    assert "does not exist" in served("why", "none", "{}").stderr
