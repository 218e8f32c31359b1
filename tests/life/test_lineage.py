"""`sql why --alert`: the events behind an alert."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Sql
from tests.service.harness import User
from tests.support import eventually

LOGINS = """CREATE TABLE logins (host STRING, who STRING, ok BOOLEAN, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = '{name}_in', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE found (host STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = '{name}_out', 'format' = 'json');
"""
RULES = {
    "tumble": """INSERT INTO found SELECT host, COUNT(*) FROM TABLE(TUMBLE(TABLE logins, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
WHERE NOT ok GROUP BY host, window_start, window_end HAVING COUNT(*) >= 3""",
}


def login(second: int, host: str, who: str = "a", *, ok: bool = False) -> dict[str, object]:
    return {
        "host": host,
        "who": who,
        "ok": ok,
        "ts": f"2026-01-01 00:{second // 60:02}:{second % 60:02}",
    }


def alerts_of(user: User, name: str, number: int) -> list[dict[str, Any]]:
    return eventually(
        lambda: found if len(found := user.read(f"{name}_out")) >= number else [],
        f"{number} alerts of {name}",
    )


def test_a_window_has_its_rows(served: Sql, user: User) -> None:
    user.topic("tumble_in")
    user.submit("tumble", LOGINS.format(name="tumble") + RULES["tumble"])
    user.write(
        "tumble_in",
        login(1, "a"),
        login(2, "b"),
        login(3, "a", ok=True),
        login(4, "a"),
        login(50, "a"),
        login(61, "a"),
        login(200, "c"),
    )
    assert alerts_of(user, "tumble", 1) == [{"host": "a", "n": 3}]
    done = served("why", "--alert", "tumble_out@0", "--output", "json")
    assert done.exit_code == 0, done.stderr
    body = json.loads(done.stdout)
    assert [e["offset"] for e in body["events"]] == [0, 3, 4]
