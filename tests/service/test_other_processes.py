"""Other processes of the machine beside a server: they use its topics, own shards, and are slowed
down where it says so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerError, DataFolderLocked, Fenced, TooFast
from sqlengine.broker.remote.client import RemoteBroker, connect
from sqlengine.broker.storage.quota import Rates
from sqlengine.client import Client, Refused
from sqlengine.config import Config
from sqlengine.service import Service
from tests.service.harness import User
from tests.support import PATIENCE_S, ROOT, eventually

# Joins a group, reads all that its shards hold, commits, and says what it read.
MEMBER = """
import json, sys
from sqlengine.broker.remote.client import connect

server, name = sys.argv[1:]
broker = connect(server)
mine = broker.join("readers", name, ["shared"])
print(json.dumps(mine.shards), flush=True)
sys.stdin.readline()
mine = broker.heartbeat("readers", name, mine.generation)
for shard in mine.shards["shared"]:
    offset, found = 0, []
    while (records := broker.read("shared", shard, offset, max_records=3)) is not None:
        found += records.values.to_pylist()
        offset = records.next_offset
    broker.commit("readers", "shared", {shard: offset}, fence=mine.fence("shared", shard))
    print(json.dumps([value.decode() for value in found]), flush=True)
broker.close()
"""


def test_processes_share_a_topic(user: User) -> None:
    broker = connect(user.client.server)
    broker.create_topic("shared", 2, compression="zstd")
    for shard in range(2):
        broker.append("shared", shard, [b"%d-%d" % (shard, n) for n in range(10)], timestamp_ms=1)
    members = [
        subprocess.Popen(
            [sys.executable, "-c", MEMBER, user.client.server, name],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name in ("one", "two")
    ]  # fmt: skip
    for member in members:
        assert member.stdout is not None
        assert "shared" in json.loads(member.stdout.readline())
    read = [member.communicate("go\n", timeout=PATIENCE_S)[0].splitlines() for member in members]
    assert [len(lines) for lines in read] == [1, 1]
    assert sorted(json.loads(line) for lines in read for line in lines) == [
        [f"{shard}-{n}" for n in range(10)] for shard in range(2)
    ]
    described = user.client.get("/api/v1/topics/shared")
    (group,) = [g for g in user.client.get("/api/v1/groups")["groups"] if g["group"] == "readers"]  # type: ignore[attr-defined]
    assert {m["name"] for m in group["members"]} == {"one", "two"}
    assert [(r["group"], r["lag"]) for r in described["groups"]] == [("readers", 0)]  # type: ignore[attr-defined]
    with pytest.raises(Refused) as refused:
        user.client.post("/api/v1/groups/readers/reset", {"topic": "shared", "to": "earliest"})
    assert refused.value.status == 409
    with pytest.raises(Fenced):
        broker.heartbeat("readers", "three", 1)
    broker.close()


def test_the_programs_of_the_document_run(user: User, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "broker.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    known: dict[str, object] = {}
    for program in programs:
        exec(
            program.replace("http://127.0.0.1:8083", user.client.server).replace(
                "timeout_s=1", "timeout_s=0"
            ),
            known,
        )
    broker = known["broker"]
    assert isinstance(broker, RemoteBroker)
    broker.close()
    assert capsys.readouterr().out.splitlines() == ["[b'{\"id\": 1}', b'{\"id\": 2}']", "2"]


def test_the_folder_of_a_server_is_its_own(user: User, data: Path) -> None:
    with pytest.raises(DataFolderLocked, match="is in use by the process"):
        EmbeddedBroker(data)
    broker = connect(user.client.server)
    with pytest.raises(BrokerError, match="is used by"):
        broker.delete_topic("events")
    broker.close()


def test_a_client_that_sends_too_fast_is_told_when_to_go_on(tmp_path: Path) -> None:
    service = Service(Config(data=tmp_path / "data", port=0, client_rate=1000))
    try:
        service.start()
        server = f"http://127.0.0.1:{service.port}"
        broker, client = connect(server), Client(server)
        broker.create_topic("t")
        broker.append("t", 0, [bytes(1_000_000)], timestamp_ms=0)
        with pytest.raises(TooFast, match="sends too fast") as told:
            broker.append("t", 0, [b"more"], timestamp_ms=0)
        assert 900_000 < told.value.retry_ms < 1_000_000
        with pytest.raises(Refused) as refused:
            client.post("/api/v1/topics/t/records", b"more")
        assert refused.value.status == 429
        assert int(str(refused.value.body["retry_ms"])) > 900_000
        assert broker.end_offset("t", 0) == 1
        broker.close()
    finally:
        service.stop()


def test_a_full_topic_stops_the_stream_and_loses_nothing(user: User) -> None:
    user.client.post("/api/v1/topics", {"name": "narrow", "max_bytes": 3000})
    user.submit(
        "tables.narrow",
        "CREATE TABLE narrow (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'narrow', 'format'"
        " = 'json')",
    )
    user.submit("filling", "INSERT INTO narrow SELECT id FROM events")
    ids = []
    problem: object = None
    while not problem:
        event = user.event()
        ids.append(event["id"])
        user.write("events", event)
        problem = user.client.get("/healthz")["problem"]
    assert "topic 'narrow' is full" in str(problem)
    more = [user.event() for _ in range(50)]
    user.write("events", *more)
    assert user.client.get("/api/v1/topics/narrow")["records"] != len(ids) + 50
    user.client.request("PATCH", "/api/v1/topics/narrow", {"max_bytes": None})
    expected = ids + [event["id"] for event in more]
    eventually(lambda: len(user.read("narrow")) >= len(expected))
    assert [row["id"] for row in user.read("narrow")] == expected
    assert user.client.get("/healthz")["problem"] is None


def test_rates_are_per_client_and_paid_off() -> None:
    now = 10_000
    rates = Rates(1000, lambda: now)
    rates.take("a", 500)
    rates.take("a", 600)
    with pytest.raises(TooFast) as told:
        rates.take("a", 1)
    assert told.value.retry_ms == 101
    rates.take("b", 1)
    now += 101
    rates.take("a", 1)
