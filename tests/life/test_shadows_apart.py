"""A shadow whose tables are away, or that runs in parts, does no harm to the live version."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Sql
from tests.service.harness import Process, User, rule
from tests.support import eventually

SHADOW = "-- @rule\n-- status: shadow\n"
AWAY = {
    "mqtt": "'connector' = 'mqtt', 'server' = 'tcp://127.0.0.1:1', 'topic' = 'a', 'format' = 'json'",
    "kafka": "'connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = '127.0.0.1:1', 'properties.group.id' = 'g', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json'",
    "jdbc": "'connector' = 'jdbc', 'url' = 'jdbc:postgresql://127.0.0.1:1/x', 'table-name' = 'a', 'username' = 'u', 'password' = 'p'",
}
PARTS = "instances=2, parts=2, session_ms=1000, checkpoint_ms=500"


@pytest.mark.parametrize(
    "connector",
    [pytest.param(c, marks=() if c == "mqtt" else pytest.mark.slow) for c in AWAY],
)
def test_a_table_of_a_shadow_is_away(user: User, connector: str) -> None:
    user.submit("loud", rule("loud", "amount > 5"))
    columns = "(id BIGINT, word STRING, amount INT)"
    user.submit("away", f"CREATE TABLE away_{connector} {columns} WITH ({AWAY[connector]})")
    text = rule("loud", "amount > 3").replace("FROM events", f"FROM away_{connector}")
    user.try_to(lambda: user.submit("loud", SHADOW + text))
    assert user.fired(amount=6) == {"loud"}
    user.submit("loud", rule("loud", "amount > 7"))
    assert user.fired(amount=6) == set()
    assert user.fired(amount=8) == {"loud"}


@pytest.mark.slow
def test_a_shadow_in_parts_is_compared_and_promoted(tmp_path: Path) -> None:
    with Process(tmp_path / "data", options=PARTS) as server:
        user = server.user()
        user.prepare()
        user.submit("loud", rule("loud", "amount > 5"))
        user.submit("loud", SHADOW + rule("loud", "amount > 3"))
        assert (user.fired(amount=4), user.fired(amount=6)) == (set(), {"loud"})

        def table() -> Any:
            tables: Any = user.client.get("/api/v1/jobs/loud/diff")["tables"]
            return [(t["both"], t["added"], t["left_out"]) for t in tables] == [(1, 1, 0)]

        eventually(table, "the rows of both")
        eventually(lambda: user.job("loud@shadow")["rows"] == 2, "its rows")
        user.client.post("/api/v1/jobs/loud/promote")
        assert user.fired(amount=4) == {"loud"}


def test_controls_in_a_title_stay_in_their_cell(served: Sql, user: User) -> None:
    title = json.dumps("Lo\x1b[31mud\nlive  1\u202e<b>")
    user.submit("loud", f"-- @rule\n-- title: {title}\n" + rule("loud", "amount > 5"))
    (line,) = [line for line in served("jobs").stdout.split("\n") if "Lo" in line]
    assert "ud\\nlive" in line
    for name in user.client.get_text("/metrics").split("\n"):
        assert not name.startswith("live")


def test_a_budget_that_is_wrong_is_refused_alone(user: User) -> None:
    user.submit("loud", rule("loud", "amount > 5"))
    for setting in ("state' = 'lots'", "cpu-us-per-event' = '-1'", "exceeded' = 'burn'"):
        text = f"SET 'job.budget.{setting};\n" + rule("wrong")
        assert user.refused(partial(user.submit, "wrong", text)).status == 400
    assert user.fired(amount=6) == {"loud"}
