"""`sql why --alert`: the events behind an alert."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cli.conftest import Sql
from tests.service.harness import User
from tests.support import eventually

TABLES = """CREATE TABLE logins (host STRING, who STRING, ok BOOLEAN, ts TIMESTAMP(3),
  now AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = '{name}_logins', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE resets (host STRING, who STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = '{name}_resets', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE owners (host STRING, owner STRING, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = '{name}_owners', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE found (host STRING, {columns})
WITH ('connector' = 'topic', 'topic' = '{name}_found', 'format' = 'json'{options});
INSERT INTO found {query}"""
UPSERT = ", 'upsert' = 'true'"


def login(second: int, host: str, who: str = "x", *, ok: bool = False) -> dict[str, object]:
    ts = f"2026-01-01 00:{second // 60:02}:{second % 60:02}"
    return {"host": host, "who": who, "ok": ok, "ts": ts}


@dataclass(frozen=True)
class Case:
    """A rule, the records of its topics, in the order in which they are written, an alert of it,
    and the records behind that one."""

    query: str
    logins: list[dict[str, object]]
    alert: dict[str, object]
    behind: list[str]
    columns: str = "n BIGINT"
    resets: tuple[dict[str, object], ...] = ()
    owners: tuple[tuple[str, str], ...] = ()
    options: str = ""


WINDOW = "SELECT host, COUNT(*) FROM TABLE({}) WHERE NOT ok GROUP BY host, window_start, window_end HAVING COUNT(*) >= 3"
MANY = [
    login(1, "a"),
    login(2, "b"),
    login(3, "a", ok=True),
    login(4, "a"),
    login(50, "a"),
    login(75, "a"),
    login(400, "c"),
]
CASES = {
    "tumble": Case(
        WINDOW.format("TUMBLE(TABLE logins, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"),
        MANY,
        {"host": "a", "n": 3},
        ["logins@0", "logins@3", "logins@4"],
    ),
    "hop": Case(
        WINDOW.format("HOP(TABLE logins, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '2' MINUTE)"),
        MANY,
        {"host": "a", "n": 4},
        ["logins@0", "logins@3", "logins@4", "logins@5"],
    ),
    "session": Case(
        WINDOW.format("SESSION(TABLE logins PARTITION BY host, DESCRIPTOR(ts), INTERVAL '48' SECOND)"),
        MANY,
        {"host": "a", "n": 4},
        ["logins@0", "logins@3", "logins@4", "logins@5"],
    ),
    "having": Case(
        "SELECT host, COUNT(*) FROM logins WHERE NOT ok GROUP BY host HAVING COUNT(*) > 1",
        MANY,
        {"host": "a", "n": 4},
        ["logins@0", "logins@3", "logins@4", "logins@5"],
        "n BIGINT, PRIMARY KEY (host) NOT ENFORCED",
        options=UPSERT,
    ),
    "interval": Case(
        """SELECT l.host, r.who FROM logins l JOIN resets r ON l.host = r.host
AND r.ts BETWEEN l.ts - INTERVAL '10' SECOND AND l.ts""",
        MANY,
        {"host": "a", "who": "root"},
        ["resets@1", "logins@4"],
        "who STRING",
        resets=(login(20, "a", "root"), login(45, "a", "root"), login(46, "b", "root")),
    ),
    "join": Case(
        "SELECT l.host, r.who FROM logins l JOIN resets r ON l.host = r.host AND l.who <> r.who",
        [login(1, "a"), login(2, "b", "y"), login(3, "b", "root")],
        {"host": "b", "who": "root"},
        ["resets@1", "logins@1"],
        "who STRING",
        resets=(login(2, "a", "x"), login(3, "b", "root")),
    ),
    "lookup": Case(
        """SELECT l.host, o.owner FROM logins l JOIN owners FOR SYSTEM_TIME AS OF l.now AS o
ON l.host = o.host WHERE l.ok""",
        [login(1, "b", ok=True), login(2, "a"), login(3, "a", ok=True)],
        {"host": "a", "owner": "ann"},
        ["owners@0", "logins@2"],
        "owner STRING",
        owners=(("a", "ann"), ("b", "bob")),
    ),
    "pattern": Case(
        """SELECT * FROM logins MATCH_RECOGNIZE (PARTITION BY host ORDER BY ts
MEASURES COUNT(F.who) AS n PATTERN (F{2,} S) DEFINE F AS NOT ok, S AS ok)""",
        [
            login(1, "a"),
            login(2, "b"),
            login(3, "a"),
            login(4, "b", ok=True),
            login(5, "a", ok=True),
            login(50, "c"),
        ],
        {"host": "a", "n": 2},
        ["logins@0", "logins@2", "logins@4"],
    ),
    "first": Case(
        """SELECT host, who FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY now) AS n FROM logins
WHERE NOT ok) WHERE n = 1""",
        MANY,
        {"host": "a", "who": "x"},
        ["logins@0"],
        "who STRING",
    ),
    "over": Case(
        """SELECT host, n FROM (SELECT host, COUNT(*) OVER (PARTITION BY host ORDER BY ts
RANGE BETWEEN INTERVAL '50' SECOND PRECEDING AND CURRENT ROW) AS n FROM logins) WHERE n > 2""",
        MANY,
        {"host": "a", "n": 4},
        ["logins@0", "logins@2", "logins@3", "logins@4"],
    ),
}


def started(user: User, name: str, case: Case) -> int:
    """Runs a rule over the records of its case; the offset of its alert."""
    for topic in ("logins", "resets", "found"):
        user.topic(f"{name}_{topic}")
    given = {"name": name, "columns": case.columns, "query": case.query, "options": case.options}
    if case.options:
        user.client.delete(f"/api/v1/topics/{name}_found")
    user.client.post("/api/v1/topics", {"name": f"{name}_owners", "compacted": True})
    user.submit(name, TABLES.format(**given))
    for host, owner in case.owners:
        user.client.post(
            f"/api/v1/topics/{name}_owners/records",
            json.dumps({"host": host, "owner": owner}).encode(),
            key=json.dumps({"host": host}, separators=(",", ":")),
        )
    if case.resets:
        user.write(f"{name}_resets", *case.resets, login(500, "z"))
    for record in (*case.logins, login(600, "z")):
        user.write(f"{name}_logins", record)

    def found() -> list[int]:
        rows = user.read(f"{name}_found")
        return [at + 1 for at, row in enumerate(rows) if row == case.alert]

    return int(eventually(found, f"the alert {case.alert} of '{name}'")[0]) - 1


@pytest.mark.parametrize("name", CASES)
def test_the_events_behind_an_alert(served: Sql, user: User, name: str) -> None:
    case = CASES[name]
    at = started(user, name, case)
    done = served("why", "--alert", f"{name}_found@{at}", "--output", "json")
    assert done.exit_code == 0, done.stderr
    body: dict[str, Any] = json.loads(done.stdout)
    found = [f"{e['topic'].removeprefix(name + '_')}@{e['offset']}" for e in body["events"]]
    assert (found, body["minimal"], body["rule"]) == (case.behind, True, name)
    assert body["alert"] == case.alert
