"""Hosts that are asked for the rows of keys."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.connectors.http.answers import JSON, told
from tests.servers.webhook import Got, Receiver, Told
from tests.service.harness import Process, User, running
from tests.spark.scripting import run
from tests.sql.golden import Collected
from tests.support import eventually

ASKED = """
CREATE TABLE asks (id BIGINT, kind STRING, pt AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = '{folder}/asks.json', 'format' = 'json');
CREATE TABLE people (id BIGINT, kind STRING, name STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'http', 'url' = '{url}/people/{{{{id}}}}?v=1', 'format' = 'json', 'lookup.cache' = '{cache}');
SELECT a.id, p.kind, p.name FROM asks AS a
LEFT JOIN people FOR SYSTEM_TIME AS OF a.pt AS p ON a.id = p.id AND a.kind = p.kind;
"""


def person(got: Got) -> Told:
    """Names of people by number and kind, without their numbers; nobody has 404."""
    parts = urlsplit(got.path)
    number, (kind,) = int(parts.path.rpartition("/")[2]), parse_qs(parts.query)["kind"]
    if number == 404:
        return told({"error": "nobody"}, 404)
    if number == 13:
        return Told(200, JSON, b'[{"name": 1}, {"name": "bad"')
    return told([{"name": f"{kind} {number} {i}"} for i in range(number % 3)])


@pytest.mark.parametrize("cache", ["PARTIAL", "NONE"])
def test_a_host_is_asked_for_each_key(host: Receiver, tmp_path: Path, cache: str) -> None:
    host.reply = person
    asks = [(1, "a/b"), (2, "c"), (404, "c"), (3, "c"), (1, "a/b"), (1, "c"), (2, "c")]
    lines = [json.dumps({"id": i, "kind": k}) + "\n" for i, k in asks]
    (tmp_path / "asks.json").write_text("".join(lines))
    text = ASKED.format(folder=tmp_path, url=host.url, cache=cache)
    collected = Collected(text)
    with open_runner(tmp_path / "data", rows_per_read=4) as runner:
        assert Session(runner, collected).run(text), collected.messages
    wanted = [
        [i, k, f"{k} {i} {n}"] if i % 3 and i != 404 else [i, None, None]
        for i, k in asks
        for n in range(max(i % 3, 1) if i != 404 else 1)
    ]
    assert [e["row"] for e in collected.events if e["kind"] == "row"] == wanted
    paths = [g.path for g in host.got]
    assert sorted(set(paths)) == sorted(
        {f"/people/{i}?v=1&kind={k.replace('/', '%2F')}" for i, k in asks}
    )
    assert len(paths) == (5 if cache == "PARTIAL" else 7)


def test_no_key_leads_to_another_place(host: Receiver, tmp_path: Path) -> None:
    host.reply = lambda got: told([{"name": got.path}])
    keys = ["..", ".", "", "a/../b", "%2e%2e", "ok"]
    lines = [json.dumps({"id": 1, "kind": k}) + "\n" for k in keys]
    (tmp_path / "asks.json").write_text("".join(lines))
    text = ASKED.format(folder=tmp_path, url=host.url, cache="NONE").replace("{{id}}", "{{kind}}")
    collected = Collected(text)
    with open_runner(tmp_path / "data") as runner:
        assert Session(runner, collected).run(text), collected.messages
    assert sorted(g.path for g in host.got) == [
        f"/people/{k}?v=1&id=1" for k in ("%252e%252e", "a%2F..%2Fb", "ok")
    ]


def test_a_host_that_answers_badly_fails_the_look_up(host: Receiver, tmp_path: Path) -> None:
    host.reply = person
    (tmp_path / "asks.json").write_text('{"id": 13, "kind": "c"}\n')
    text = ASKED.format(folder=tmp_path, url=host.url, cache="NONE")
    text = text.replace(
        "'lookup.cache' = 'NONE'", "'lookup.cache' = 'NONE', 'lookup.max-retries' = '1'"
    )
    collected = Collected(text)
    with open_runner(tmp_path / "data") as runner:
        assert not Session(runner, collected).run(text)
    (message,) = collected.messages
    assert "table 'people' cannot be asked for rows" in message
    assert "no JSON" in message
    assert "'lookup.on-error' = 'dead-letter' sets the rows of such keys aside" in message
    assert len(host.got) == 2


JOB = """
CREATE TABLE sales (id BIGINT, client BIGINT, now AS PROCTIME())
WITH ('connector' = 'topic', 'topic' = 'sales', 'format' = 'json');
CREATE TABLE clients (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'http', 'url' = '{url}/clients/{{{{id}}}}', 'format' = 'json',
  'lookup.cache' = '{cache}', 'lookup.on-error' = 'dead-letter');
CREATE TABLE named (id BIGINT, name STRING) WITH ('connector' = 'topic', 'topic' = 'named', 'format' = 'json');
"""
NAMED = """INSERT INTO named SELECT s.id, c.name FROM sales AS s
LEFT JOIN clients FOR SYSTEM_TIME AS OF s.now AS c ON s.client = c.id"""
WRONG = {
    13: (Told(200, JSON, b"<html>come back later"), "is no JSON"),
    14: (Told(500, {}, b"division by zero"), "500 division by zero"),
    15: (told({"error": "unlucky"}, 422), '422 {"error": "unlucky"}'),
}


def client(got: Got) -> Told:
    """The name of each client but some."""
    number = int(got.path.rpartition("/")[2])
    return WRONG[number][0] if number in WRONG else told({"name": f"n{number}"})


@pytest.mark.parametrize("cache", ["PARTIAL", "NONE"])
def test_a_key_of_a_bad_answer_costs_its_own_rows(
    host: Receiver, tmp_path: Path, cache: str
) -> None:
    """They are dead letters, once, also where the server dies and the host answers well then."""
    host.reply = client
    options = "checkpoint_ms=3600000"
    sales = [(i, i % 8 + 10) for i in range(16)]
    rows = [{"id": i, "name": f"n{c}"} for i, c in sales if c not in WRONG]

    def letters(user: User) -> dict[int, str]:
        found = [x for x in user.letters() if x["job"] == "named"]
        assert {x["subject"] for x in found} <= {"table 'clients'"}
        return {json.loads(x["payload"])["id"]: x["reason"] for x in found}

    with Process(tmp_path / "data", options=options) as life:
        user = life.user()
        for topic in ("sales", "named"):
            user.topic(topic)
        user.submit("tables", JOB.format(url=host.url, cache=cache))
        user.submit("named", NAMED)
        asks: list[dict[str, object]] = [{"id": i, "client": c} for i, c in sales]
        user.write("sales", *asks)
        eventually(lambda: user.read("named") == rows)
        before = eventually(lambda: len(found := letters(user)) == 6 and found)
        for number, reason in before.items():
            assert WRONG[number % 8 + 10][1] in reason
        assert life.end(signal.SIGKILL) == -signal.SIGKILL
    host.reply = lambda got: told({"name": "now"})
    with Process(tmp_path / "data", options=options) as life:
        user = life.user()
        user.write("sales", {"id": 16, "client": 13})
        eventually(lambda: user.read("named") == [*rows, {"id": 16, "name": "now"}])
        assert letters(user) == before


@pytest.mark.parametrize("where", ["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_script_goes_on_without_them(host: Receiver, tmp_path: Path, where: str) -> None:
    host.reply = client
    asks = [json.dumps({"id": i, "client": i % 8 + 10}) for i in range(16)]
    (tmp_path / "asks.json").write_text("\n".join(asks))
    text = JOB.format(url=host.url, cache="NONE") + NAMED.removeprefix("INSERT INTO named ") + ";"
    topic = "'connector' = 'topic', 'topic' = 'sales'"
    text = text.replace(topic, f"'connector' = 'filesystem', 'path' = '{tmp_path}/asks.json'")
    failed = run(text, tmp_path, tmp_path / "failed", where)
    assert "job failed: table 'clients' cannot be asked for the rows of this one" in "".join(
        failed.errors.values()
    )
    text = f"SET 'job.on-error' = 'dead-letter';{text}"
    outcome = run(text, tmp_path, tmp_path / "run", where)
    assert not outcome.errors
    rows = [["+I", [i, f"n{i % 8 + 10}"]] for i in range(16) if i % 8 + 10 not in WRONG]
    wanted = [f"statement 4: {json.dumps(row)}" for row in rows]
    assert sorted(k for k in outcome.rows if "+I" in k) == sorted(wanted)
    assert outcome.set_aside == 6


@pytest.mark.parametrize(("status", "body"), [(401, b"who?"), (503, b"busy"), (302, b"elsewhere")])
def test_a_host_that_refuses_everyone_is_waited_for(
    host: Receiver, tmp_path: Path, status: int, body: bytes
) -> None:
    host.reply = lambda got: Told(status, {"Retry-After": "0"}, body)
    with running(tmp_path / "data") as (_, user):
        for topic in ("sales", "named"):
            user.topic(topic)
        user.submit("tables", JOB.format(url=host.url, cache="NONE"))
        user.submit("named", NAMED)
        user.write("sales", {"id": 1, "client": 2})
        eventually(lambda: user.states()["named"] == "restarting")
        assert f"answers {status}" in user.job("named")["reason"]
        assert not user.letters()
        host.reply = client
        user.client.post("/api/v1/jobs/named/start", {})
        eventually(lambda: user.read("named") == [{"id": 1, "name": "n2"}])
