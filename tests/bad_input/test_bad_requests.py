"""What attackers and impatient people send: every answer is a problem that says what is wrong, and
nothing else happens."""

from __future__ import annotations

import http.client
import json
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.service.harness import User, rule
from tests.service.test_http_service import ask
from tests.support import PATIENCE_S

NAMES = [
    "../x",
    "..",
    "a/../../b",
    ".hidden",
    "/etc/passwd",
    "a b",
    "a\nb",
    "a\x00b",
    "größe",
    "\u202egnp.sql",
    "\U0001f600",
    "'; DROP TABLE jobs; --",
    '"><script>alert(1)</script>',
    "a?take-over=true",
    "a&take-over=true",
    "x" * 201,
    "x" * 5_000,
    "",
]


def listing(data: Path) -> set[Path]:
    """Everything around the data folder, without the segments that grow."""
    return {
        p for p in data.parent.rglob("*") if "graphs" not in p.parts and "patterns" not in p.parts
    }


@pytest.mark.parametrize("name", NAMES, ids=lambda n: repr(n)[:30])
def test_names_of_jobs(user: User, data: Path, name: str) -> None:
    before, files = user.states(), listing(data)
    sql = rule("odd")
    sent: list[tuple[str, str, bytes]] = [
        ("POST", f"/api/v1/jobs?name={quote(name, safe='')}", sql.encode()),
        ("POST", "/api/v1/jobs", json.dumps({"name": name, "sql": sql}).encode()),
        ("POST", "/api/v1/jobs?dry-run=true", json.dumps({"name": name, "sql": sql}).encode()),
        ("PUT", f"/api/v1/jobs/{quote(name, safe='')}", sql.encode()),
        ("GET", f"/api/v1/jobs/{quote(name, safe='')}/history", b""),
        ("DELETE", f"/api/v1/jobs/{quote(name, safe='')}", b""),
    ]
    for method, path, body in sent:
        kind = "application/json" if body.startswith(b"{") else "text/plain"
        status, headers, answer = ask(user, method, path, body, Content_Type=kind)
        assert 400 <= status < 500, (method, path, answer)
        assert headers["Content-Type"] == "application/problem+json"
        assert answer["message"], answer
    assert user.command(op="submit", name=name, sql=sql)["status"] == "refused"
    assert user.states() == before
    assert listing(data) == files
    assert user.fired() == set()


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n != ".hidden" and n != ".."], ids=lambda n: repr(n)[:30]
)
def test_names_of_topics(user: User, data: Path, name: str) -> None:
    files = listing(data)
    status, _, answer = ask(user, "POST", "/api/v1/topics", json.dumps({"name": name}).encode())
    assert status == 400, answer
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/records"), ("POST", "/records")):
        status, headers, answer = ask(
            user, method, f"/api/v1/topics/{quote(name, safe='')}{path}", b"x"
        )
        assert 400 <= status < 500, (method, path, answer)
        assert headers["Content-Type"] == "application/problem+json"
    assert listing(data) == files


def test_a_topic_may_begin_with_a_dot_and_stays_in_its_folder(user: User, data: Path) -> None:
    outside = set(data.parent.iterdir())
    user.topic(".hidden")
    user.write(".hidden", {"id": 1})
    listed: Any = user.client.get("/api/v1/topics")["topics"]
    assert ".hidden" in {t["name"] for t in listed}
    ask(user, "DELETE", "/api/v1/topics/.hidden")
    for name in (".", ".."):
        assert "is not a topic name" in str(user.refused(partial(user.topic, name)))
    assert set(data.parent.iterdir()) == outside


BODIES: dict[str, tuple[str, str, Any]] = {
    "no json": ("POST", "/api/v1/jobs", b"{"),
    "a list": ("POST", "/api/v1/jobs", []),
    "null": ("POST", "/api/v1/jobs", None),
    "a number": ("POST", "/api/v1/jobs", 7),
    "no name": ("POST", "/api/v1/jobs", {"sql": "x"}),
    "no sql": ("POST", "/api/v1/jobs", {"name": "x"}),
    "sql is a number": ("POST", "/api/v1/jobs", {"name": "x", "sql": 5}),
    "name is a list": ("POST", "/api/v1/jobs", {"name": ["x"], "sql": "x"}),
    "jobs is a list": ("POST", "/api/v1/jobs", {"jobs": ["x"]}),
    "a job is null": ("POST", "/api/v1/jobs", {"jobs": {"x": None}}),
    "deep json": ("POST", "/api/v1/jobs", b"[" * 200_000),
    "bad utf-8": ("POST", "/api/v1/jobs", b'{"name": "\xff"}'),
    "sql in bad utf-8": ("PUT", "/api/v1/jobs/x", b"\xff\xfe\x00"),
    "sql is binary": ("PUT", "/api/v1/jobs/x", bytes(range(128)) * 100),
    "sql is empty": ("PUT", "/api/v1/jobs/x", b""),
    "sql is blank": ("PUT", "/api/v1/jobs/x", b" \n -- nothing\n"),
    "sql is deep": ("PUT", "/api/v1/jobs/x", b"INSERT INTO alerts SELECT " + b"(" * 50_000),
    "topic is a list": ("POST", "/api/v1/topics", []),
    "topic is a string": ("POST", "/api/v1/topics", "x"),
    "shards is text": ("POST", "/api/v1/topics", {"name": "t", "shards": "two"}),
    "shards is 0": ("POST", "/api/v1/topics", {"name": "t", "shards": 0}),
    "shards is negative": ("POST", "/api/v1/topics", {"name": "t", "shards": -1}),
    "shards is true": ("POST", "/api/v1/topics", {"name": "t", "shards": True}),
    "shards is a billion": ("POST", "/api/v1/topics", {"name": "t", "shards": 1_000_000_000}),
    "a topic in deep json": ("POST", "/api/v1/topics", b"[" * 200_000),
    "letters in deep json": ("POST", "/api/v1/jobs/all/dead-letters/replay", b"[" * 200_000),
    "a command in deep json": ("POST", "/api/v1/topics/_commands/records", b"[" * 200_000),
    "a limit that fits no number": ("POST", "/api/v1/topics", {"name": "t", "max_bytes": 10**30}),
    "retention is text": ("POST", "/api/v1/topics", {"name": "t", "retention_ms": "1d"}),
    "compacted is text": ("POST", "/api/v1/topics", {"name": "t", "compacted": "no"}),
    "an unknown option": ("POST", "/api/v1/topics", {"name": "t", "shardz": 3}),
    "a system topic": ("POST", "/api/v1/topics", {"name": "_mine"}),
    "writing to a system topic": ("POST", "/api/v1/topics/_epochs/records", b"x"),
    "deleting a system topic": ("DELETE", "/api/v1/topics/_jobs", b""),
    "a shard that is not there": ("POST", "/api/v1/topics/events/records?shard=7", b"x"),
    "a negative shard": ("POST", "/api/v1/topics/events/records?shard=-1", b"x"),
    "a shard that is no number": ("POST", "/api/v1/topics/events/records?shard=a", b"x"),
    "a negative offset": ("GET", "/api/v1/topics/events/records?offset=-1", b""),
    "a huge offset": ("GET", f"/api/v1/topics/events/records?offset={10**30}", b""),
    "an offset that is no number": ("GET", "/api/v1/topics/events/records?offset=1e3", b""),
    "no number of rows": ("GET", "/api/v1/jobs/all/state/1?limit=x", b""),
    "a negative limit": ("GET", "/api/v1/topics/events/records?limit=-1", b""),
    "an endless wait": ("GET", "/api/v1/topics/events/records?wait=inf", b""),
    "a wait that is no number": ("GET", "/api/v1/topics/events/records?wait=nan", b""),
    "a rollback to nothing": ("POST", "/api/v1/jobs/all/rollback?version=x", b""),
    "a rollback to a superscript": ("POST", f"/api/v1/jobs/all/rollback?version={quote('²')}", b""),
    "a command without an id": ("POST", "/api/v1/topics/_commands/records", {"op": "list"}),
    "a command with a number for an id": (
        "POST",
        "/api/v1/topics/_commands/records",
        {"id": 5, "op": "list"},
    ),
    "a command that is no json": ("POST", "/api/v1/topics/_commands/records", b"remove all"),
}


@pytest.mark.parametrize(("method", "path", "body"), BODIES.values(), ids=BODIES)
def test_bad_bodies_and_parameters(user: User, method: str, path: str, body: Any) -> None:
    before = user.states()
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "text/plain" if method == "PUT" else "application/json"
    status, headers, answer = ask(user, method, path, data, Content_Type=kind)
    assert 400 <= status < 500, answer
    assert headers["Content-Type"] == "application/problem+json"
    assert answer["message"]
    assert len(json.dumps(answer)) < 3_000
    assert user.states() == before
    assert user.fired() == set()


def test_a_body_that_is_too_large(user: User) -> None:
    status, _, answer = ask(user, "POST", "/api/v1/topics/events/records", b"x" * (65 << 20))
    assert (status, answer["message"]) == (413, "the request's body is larger than 64 MiB")
    assert user.fired() == set()


def test_a_request_that_is_no_http_and_one_that_never_ends(user: User) -> None:
    host = user.client.server.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=PATIENCE_S)
    connection.connect()
    connection.sock.sendall(b"\x16\x03\x01 TLS?\r\n\r\n")
    assert b"400" in connection.sock.recv(200)
    connection.close()
    slow = [http.client.HTTPConnection(host) for _ in range(30)]
    for one in slow:  # more than there are threads: each begins a request and says no more
        one.connect()
        one.sock.sendall(
            b"POST /api/v1/jobs?name=x HTTP/1.1\r\nHost: localhost\r\nContent-Length:"
            b" 100\r\n\r\nINSERT"
        )
    assert user.fired() == set()
    for one in slow:
        one.close()


COMMANDS: dict[str, dict[str, object]] = {
    "no op": {},
    "an unknown op": {"op": "format_disk"},
    "a number for an op": {"op": 5},
    "a number for a name": {"op": "remove", "name": 5},
    "a text for a version": {"op": "rollback", "name": "all", "version": "1"},
    "a version that is not there": {"op": "rollback", "name": "all", "version": -1},
    "no name": {"op": "submit", "sql": rule("x")},
    "no sql": {"op": "submit", "name": "x"},
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_bad_commands_are_answered_under_their_id(user: User, command: dict[str, object]) -> None:
    before = user.states()
    answer = user.command(**command)
    assert answer["status"] == "refused"
    assert answer["error"]["message"]
    assert user.states() == before
    assert user.command(op="list")["status"] == "listed"
