"""What a principal reaches beside SQL: dead letters, consumer groups, modules, quotas, commands and the
broker's protocol."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable

import pytest

from sqlengine.broker.errors import BrokerError
from sqlengine.broker.remote.client import connect
from tests.access.conftest import OUT, TOKENS, Guarded, rows_of, table, temporary
from tests.access.test_routes import ask
from tests.support import eventually


def test_dead_letters_are_those_of_jobs_that_one_may_see(tables: Guarded) -> None:
    alice, bob, root = (tables.user(n) for n in ("alice", "bob", "root"))
    root.submit("r.secrets", "CREATE TEMPORARY TABLE x (id BIGINT) WITH ('connector' = 'blackhole');"
                " INSERT INTO x SELECT CAST(word AS BIGINT) FROM secrets")  # fmt: skip
    root.write("secret", b"torn {", {"id": 1, "word": "no number"})
    letters = eventually(
        lambda: (
            len(found := rows_of(root.client.get("/api/v1/dead-letters"), "letters")) >= 2 and found
        )
    )
    assert {letter["job"] for letter in letters} == {"", "r.secrets"}
    for user in (alice, bob):
        assert user.client.get("/api/v1/dead-letters")["letters"] == []
        assert user.client.get("/api/v1/dead-letters", table="secrets")["letters"] == []
    replay = "/api/v1/jobs/r.secrets/dead-letters/replay"
    assert alice.refused(lambda: alice.client.post(replay)).status == 403
    root.client.delete("/api/v1/jobs/r.secrets")


def test_malformed_records_are_those_of_topics_that_one_may_read(tables: Guarded) -> None:
    """A table was over another topic when they came; its name says nothing."""
    alice, root = tables.user("alice"), tables.user("root")
    root.submit("gone", table("gone", "secret"))
    root.submit("r.gone", "CREATE TEMPORARY TABLE x (id BIGINT) WITH ('connector' = 'blackhole');"
                " INSERT INTO x SELECT id FROM gone")  # fmt: skip
    root.write("secret", b"torn HIDDEN {")
    eventually(lambda: "HIDDEN" in str(root.client.get("/api/v1/dead-letters")))
    root.client.delete("/api/v1/jobs/r.gone")
    root.client.delete("/api/v1/jobs/gone")
    alice.submit(
        "a.gone", table("gone", "a.in") + OUT + "INSERT INTO mine SELECT id, word FROM gone"
    )
    alice.client.post("/api/v1/jobs/a.gone/dead-letters/replay")
    for path in ("/api/v1/dead-letters", "/api/v1/jobs/a.gone/dead-letters"):
        assert "HIDDEN" not in str(alice.client.get(path))
    assert "HIDDEN" not in str(root.read("a.out"))
    assert "HIDDEN" in str(root.client.get("/api/v1/dead-letters"))
    alice.client.delete("/api/v1/jobs/a.gone")


def test_a_job_moves_no_group_of_others(tables: Guarded) -> None:
    """The group of its table reads a topic, too, that the job's principal may not read."""
    alice, bob = tables.user("alice"), connect(tables.url, TOKENS["bob"])
    bob.commit("readers", "b.in", {0: 0})
    bob.commit("readers", "shared", {0: 0})
    text = OUT + temporary("t", "shared", ", 'properties.group.id' = '{}'")
    text += "INSERT INTO mine SELECT id, word FROM t"
    refusal = alice.refused(lambda: alice.submit("a.g", text.format("readers")))
    assert (refusal.status, "may not read topic 'b.in'" in str(refusal)) == (403, True)
    alice.submit("a.g", text.format("hers"))
    alice.client.delete("/api/v1/jobs/a.g")
    bob.close()


def test_modules_come_from_administrators(tables: Guarded) -> None:
    """Python runs as the server's user: who may upload it is an administrator."""
    body: dict[str, object] = {
        "name": "a.up",
        "sql": "CREATE FUNCTION a_up AS 'words.evil' LANGUAGE PYTHON;",
        "modules": {"words.py": "import os"},
    }
    alice = tables.user("alice")
    refusal = alice.refused(lambda: alice.client.post("/api/v1/jobs", body))
    assert refusal.status == 403
    bob = tables.user("bob")
    loads = "CREATE FUNCTION b_f AS 'words.twice' LANGUAGE PYTHON;"
    assert bob.refused(lambda: bob.submit("b.f", loads)).status == 403
    calls = temporary("mine", "b.out") + "INSERT INTO mine SELECT id, twice(word) FROM common"
    refusal = bob.refused(lambda: bob.submit("b.f", calls))
    assert "may not use function 'words.twice'" in str(refusal)


def test_quotas(tables: Guarded) -> None:
    """Three jobs of alice's, and no fourth, in one request or in several; a kilobyte a second of
    the sender's."""
    alice, sender = tables.user("alice"), tables.user("sender")
    text = OUT + "INSERT INTO mine SELECT * FROM common WHERE id = {}"
    jobs = {f"a.q{n}": text.format(n) for n in range(4)}
    done = rows_of(alice.client.post("/api/v1/jobs", {"jobs": jobs}), "jobs")
    assert sorted(o["status"] for o in done) == ["added"] * 3 + ["refused"]
    refusal = alice.refused(lambda: alice.submit("a.q9", text.format(9)))
    assert "principal 'alice' has 3 jobs, and may have 3" in str(refusal)
    alice.submit("a.q0", text.format(17))  # one that there is may change
    for job in alice.jobs():
        alice.client.delete(f"/api/v1/jobs/{job['name']}")
    sender.write("shared", b"x" * 2000)
    assert sender.refused(lambda: sender.write("shared", b"x")).status == 429
    assert ask(tables, "sender", "POST", "/api/v1/topics/shared/records", b"x", **{"X-Client": "o"})[
        0
    ] == 429  # fmt: skip


def test_the_broker_for_other_processes(tables: Guarded) -> None:
    """Every message is judged as its route over HTTP would be."""
    alice = connect(tables.url, TOKENS["alice"])
    refused: list[Callable[[], object]] = [
        lambda: alice.read("secret", 0, 0),
        lambda: alice.read("_jobs", 0, 0),
        lambda: alice.topic("secret"),
        lambda: alice.end_offset("secret", 0),
        lambda: alice.lookup("_jobs", b"x"),
        lambda: alice.append("shared", 0, [b"x"], timestamp_ms=1),
        lambda: alice.append("_commands", 0, [b"x"], timestamp_ms=1),
        lambda: alice.delete_topic("secret"),
        lambda: alice.create_topic("c.new"),
        lambda: alice.trim("secret", 0, 1),
        lambda: alice.join("b", "m", ["b.in"]),
        lambda: alice.commit("g", "secret", {0: 0}),
        lambda: alice.apply_retention(),
    ]
    for work in refused:
        with pytest.raises(BrokerError, match="may not"):
            work()
    assert {t.name for t in alice.topics()} == {"shared", "a.in", "a.out"}
    alice.append("a.in", 0, [b"x"], timestamp_ms=1)
    assert alice.read("a.in", 0, 0) is not None
    alice.append("a.in", 0, [b"x"], timestamp_ms=1, writer="client:alice/loader", epoch=1)
    for writer in ("main/28fe6082805045e5", "client:bob/loader", "alice"):  # a job's rows would go
        with pytest.raises(BrokerError, match=r"may not write topic 'a\.in'"):
            alice.append("a.in", 0, [b"x"], timestamp_ms=1, writer=writer, epoch=1 << 62)
    bob = connect(tables.url, TOKENS["bob"])
    bob.commit("bobs", "b.in", {0: 0})
    with pytest.raises(BrokerError, match="may not"):
        alice.delete_group("bobs")
    with pytest.raises(BrokerError, match="may not"):
        alice.commit("bobs", "a.in", {0: 0})  # nor moves it
    assert "bobs" not in {g.name for g in alice.groups()}
    alice.close()
    bob.close()


def test_commands_come_from_administrators(tables: Guarded) -> None:
    root = tables.user("root")
    assert root.command(op="list")["status"] == "listed"
    alice = tables.user("alice")
    command: dict[str, object] = {"id": "1", "op": "remove", "name": "defs"}
    refusal = alice.refused(lambda: alice.write("_commands", command))
    assert refusal.status == 403
    assert "defs" in root.states()


def test_a_body_is_not_waited_for(tables: Guarded) -> None:
    """The roles are looked at by the head of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", tables.port, timeout=60)
    connection.putrequest("POST", "/api/v1/topics/a.in/records")
    connection.putheader("Authorization", f"Bearer {TOKENS['reader']}")
    connection.putheader("Content-Length", "0")
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 403
    assert "role 'write'" in json.loads(answer.read())["cause"]
    connection.close()
