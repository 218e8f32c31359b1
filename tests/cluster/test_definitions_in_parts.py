"""Shared definitions change while the jobs that use them run in parts, and ad-hoc queries read beside
them: each row counts once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.leader import SHARED
from tests.service.harness import Process, User
from tests.support import eventually

OPTIONS = "instances=2, parts=2, session_ms=1000, checkpoint_ms=500"
EVENTS = """CREATE TABLE readings (id BIGINT, word STRING{column})
WITH ('connector' = 'topic', 'topic' = 'readings', 'format' = 'json')"""
TOTALS = """CREATE TABLE totals (word STRING, n BIGINT, PRIMARY KEY (word) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'upsert' = 'true'{option})"""
COUNT = "INSERT INTO totals SELECT word, COUNT(*) FROM readings GROUP BY word"
FOUND = """CREATE TABLE found (id BIGINT, word STRING)
WITH ('connector' = 'topic', 'topic' = 'found', 'format' = 'json');
INSERT INTO found SELECT id, word FROM readings WHERE id >= 0"""


@pytest.mark.slow
def test_definitions_change_while_their_jobs_run_in_parts(tmp_path: Path) -> None:
    with Process(tmp_path / "data", options=OPTIONS) as process:
        user = process.user()
        user.topic("readings", shards=4)
        user.client.post("/api/v1/topics", {"name": "totals", "compacted": True})
        user.submit("readings", EVENTS.format(column=""))
        user.submit("table", TOTALS.format(option=""))
        user.submit("count", COUNT)
        user.submit("found", FOUND)
        written: list[int] = []
        write(user, written)
        await_all(user, written)
        assert {user.job(name)["graph"] for name in ("count", "found")} == {SHARED}

        changed = user.submit("readings", EVENTS.format(column=", extra STRING"))
        assert {d["name"] for d in changed["dependents"]} == {"count", "found"}
        write(user, written)
        await_all(user, written)

        user.submit(
            "table", TOTALS.format(option=", 'json.timestamp-format.standard' = 'ISO-8601'")
        )
        write(user, written)
        await_all(user, written)

        user.client.post("/api/v1/statements", b"ALTER TABLE readings ADD other INT")
        write(user, written)
        await_all(user, written)
        assert {user.job(name)["graph"] for name in ("count", "found")} == {SHARED}
        assert {user.job(name)["state"] for name in ("count", "found")} == {"running"}

        page: Any = user.client.post(
            "/api/v1/queries", b"SELECT COUNT(*), COUNT(extra) FROM readings"
        )
        assert [values for _, values in page["rows"]] == [[len(written), 0]]
        page = user.client.post("/api/v1/queries", b"SELECT SUM(n) FROM totals")
        assert [values for _, values in page["rows"]] == [[len(written)]]


def write(user: User, written: list[int]) -> None:
    for shard in range(4):
        numbers = range(len(written), len(written) + 25)
        written += numbers
        user.write("readings", *({"id": n, "word": f"w{n % 7}"} for n in numbers), shard=shard)


def await_all(user: User, written: list[int]) -> None:
    """Waits until both jobs have every row, each once."""

    def totals() -> int:
        latest = {row["word"]: row["n"] for row in user.read("totals")}
        return sum(latest.values())

    eventually(lambda: totals() >= len(written), lambda: f"{totals()} of {len(written)}")
    eventually(lambda: len(user.read("found")) >= len(written), "the rows of the other job")
    assert totals() == len(written)
    assert sorted(row["id"] for row in user.read("found")) == written
