"""What users see of instances: commands, REST, metrics, the log."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sqlengine.cli import cli
from tests.cluster.workload import Workload
from tests.service.harness import Process
from tests.support import eventually


@pytest.mark.slow
def test_users_see_instances_and_the_parts_that_move(tmp_path: Path) -> None:
    with Process(tmp_path / "data", options="instances=2, parts=4, session_ms=1000") as server:
        user = server.user()
        work = Workload(user, random.Random(0))
        work.prepare()
        work.write(80)

        def sql(*arguments: str) -> str:
            done = CliRunner().invoke(cli, [*arguments, "--server", user.client.server])
            assert done.exit_code == 0, done.output
            return done.stdout

        def seen() -> bool:
            found = json.loads(sql("instances", "--output", "json"))["instances"]
            return (
                len(found) == 2
                and all(i["parts"] and i["lag"] == 0 for i in found)
                and sum(i["rows"] for i in found) >= 80
            )

        eventually(seen, server.said)
        table = sql("instances").splitlines()
        assert (
            table[0].split()
            == "graph instance state pid parts rows/s lag (records) memory since restarts".split()
        )
        assert [line.split()[:3] for line in table[1:]] == [
            ["shared", "1", "running"],
            ["shared", "2", "running"],
        ]
        eventually(lambda: user.job("alarms")["rows"] == sum(work.alarms().values()))
        assert [line.split()[4] for line in sql("jobs").splitlines()[1:]] == [
            "shared",
            "shared",
            "main",
            "shared",
        ]
        sql("isolate", "totals")
        assert user.job("totals")["graph"].startswith("totals@")
        work.write(40)
        eventually(lambda: work.totals_found() == work.totals(), server.said)
        sql("merge", "totals")
        eventually(lambda: user.job("totals")["graph"] == "shared", server.said)
        work.write(40)
        eventually(lambda: work.totals_found() == work.totals(), server.said)
        assert user.metric("sqlengine_instance_parts") == 4
        assert user.metric("sqlengine_standstill_seconds_count") >= 2
        assert 0 < user.metric("sqlengine_standstill_seconds_sum") < 60
        _group_has_a_process_of_its_own(work, server)
        assert user.metric("sqlengine_records_in_total") >= 80
        assert user.client.get("/readyz")["status"] == "ready"
        assert server.end(signal.SIGTERM) == 0
        log = server.said()
        assert all(name in log for name in ("NewSplit", "RemoveSplit", "CheckPoint"))


def _group_has_a_process_of_its_own(work: Workload, server: Process) -> None:
    """It is killed, and goes on; it ends with the last job of the group."""
    user = work.user
    user.topic("seen")
    user.submit(
        "tables.seen",
        "CREATE TABLE seen (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'seen', 'format' ="
        " 'json')",
    )
    user.submit(
        "own",
        "SET 'job.isolation' = 'team';\nINSERT INTO seen SELECT id FROM readings WHERE amount < 50",
    )
    graph = user.job("own")["graph"]
    assert "in a process of its own" in user.client.get_text("/api/v1/jobs/own/explain")

    def members() -> list[dict[str, Any]]:
        found: Any = user.client.get("/api/v1/instances")["instances"]
        return [i for i in found if i["graph"] == graph]

    (instance,) = eventually(lambda: [i for i in members() if i["parts"]], server.said)
    before = len(work.written)
    work.write(40)
    os.kill(instance["pid"], signal.SIGKILL)
    work.write(40)
    expected = sorted(r["id"] for r in work.written[before:] if r["amount"] < 50)
    eventually(lambda: sorted(r["id"] for r in user.read("seen")) == expected, server.said)
    user.client.delete("/api/v1/jobs/own")
    assert not members()
    topics: Any = user.client.get("/api/v1/topics")["topics"]
    assert not [t["name"] for t in topics if "team" in t["name"]]
