"""The server's HTTP manners: health, problems, many jobs at once, tokens, foreign pages, addresses,
locks."""

from __future__ import annotations

import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from parser.errors import ServiceError
from sqlengine.broker.errors import DataFolderLocked
from sqlengine.client import Client
from sqlengine.config import Config
from sqlengine.service import Service
from tests.service.harness import User, rule, running
from tests.support import PATIENCE_S, eventually


def ask(
    user: User, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], Any]:
    """Status, headers and body, with exactly the headers given."""
    connection = http.client.HTTPConnection(
        user.client.server.removeprefix("http://"), timeout=PATIENCE_S
    )
    try:
        connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        data = answer.read()
        kind = answer.headers.get_content_type()
        return (
            answer.status,
            dict(answer.headers),
            json.loads(data) if kind.endswith("json") else data.decode(),
        )
    finally:
        connection.close()


def test_health(user: User) -> None:
    assert ask(user, "GET", "/healthz")[::2] == (200, {"status": "ok", "problem": None})
    assert ask(user, "GET", "/readyz")[::2] == (200, {"status": "ready", "problem": None})


def test_metrics_count_what_happened(user: User) -> None:
    before = {
        m: user.metric(m) for m in ("sqlengine_records_in_total", "sqlengine_job_records_total")
    }
    user.fired()
    after = {m: user.metric(m) for m in before}
    assert after["sqlengine_records_in_total"] == before["sqlengine_records_in_total"] + 1
    assert after["sqlengine_job_records_total"] == before["sqlengine_job_records_total"] + 1
    status, headers, text = ask(user, "GET", "/metrics")
    assert (status, headers["Content-Type"].split(";")[0]) == (200, "text/plain")
    assert 'sqlengine_jobs{state="running"} 1.0' in text


def test_a_problem_has_the_place_in_the_text(user: User) -> None:
    text = "INSERT INTO alerts\nSELECT 'x', idd\nFROM events"
    status, headers, body = ask(user, "PUT", "/api/v1/jobs/x?file=rules/x.sql", text.encode())
    assert (status, headers["Content-Type"]) == (400, "application/problem+json")
    assert body == {
        "type": "urn:sqlengine:UnknownColumn",
        "title": "invalid statement",
        "status": 400,
        "message": "unknown column 'idd'",
        "detail": "rules/x.sql:2:13: unknown column 'idd'",
        "hint": "did you mean 'id'?",
        "line": 2,
        "column": 13,
        "length": 3,
        "file": "rules/x.sql",
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1/jobs/nobody", 404),
        ("GET", "/api/v1/topics/nothing", 404),
        ("PATCH", "/api/v1/jobs", 405),
        ("POST", "/api/v1/jobs", 400),
        ("POST", "/api/v1/jobs/nobody/rollback", 400),
        ("POST", "/api/v1/topics", 400),
        ("GET", "/api/v1/topics/events/records?offset=999999", 400),
        ("GET", "/api/v1/topics/events/records?limit=x", 400),
    ],
)
def test_every_error_is_a_problem(user: User, method: str, path: str, status: int) -> None:
    got, headers, body = ask(user, method, path)
    assert (got, headers["Content-Type"]) == (status, "application/problem+json")
    assert body["status"] == status
    assert body["title"]
    assert body["message"] == body["message"].rstrip(".")
    assert body["detail"]


def test_of_many_jobs_each_has_its_outcome(user: User) -> None:
    jobs = {"one": rule("one"), "two": rule("two", "nothing = 1"), "three": rule("three")}
    send = json.dumps({"jobs": jobs}).encode()
    status, _, body = ask(
        user, "POST", "/api/v1/jobs?dry-run=true", send, Content_Type="application/json"
    )
    assert (status, {j["name"]: j["status"] for j in body["jobs"]}) == (
        207,
        {"one": "valid", "two": "refused", "three": "valid"},
    )
    assert user.fired() == set()
    status, _, body = ask(user, "POST", "/api/v1/jobs", send, Content_Type="application/json")
    assert status == 207
    outcomes = {j["name"]: j for j in body["jobs"]}
    assert {n: o["status"] for n, o in outcomes.items()} == {
        "one": "added",
        "two": "refused",
        "three": "added",
    }
    assert outcomes["two"]["error"]["message"] == "unknown column 'nothing'"
    assert user.fired() == {"one", "three"}
    del jobs["two"]
    status, _, body = ask(
        user,
        "POST",
        "/api/v1/jobs",
        json.dumps({"jobs": jobs}).encode(),
        Content_Type="application/json",
    )
    assert (status, {j["status"] for j in body["jobs"]}) == (200, {"unchanged"})
    for name in jobs:
        user.client.delete(f"/api/v1/jobs/{name}")


def test_jobs_come_in_pages(user: User) -> None:
    names = {f"page.{n}" for n in range(5)}
    ask_jobs = {"jobs": {name: rule(name) for name in names}}
    assert (
        ask(
            user,
            "POST",
            "/api/v1/jobs",
            json.dumps(ask_jobs).encode(),
            content_type="application/json",
        )[0]
        == 200
    )
    whole = ask(user, "GET", "/api/v1/jobs")[2]
    assert whole["next"] is None
    found: list[Any] = []
    after: Any = ""
    pages = 0
    while after is not None:
        _, _, page = ask(user, "GET", f"/api/v1/jobs?limit=2&after={after}")
        assert len(page["jobs"]) <= 2
        found += page["jobs"]
        after, pages = page["next"], pages + 1
    assert [job["name"] for job in found] == [job["name"] for job in whole["jobs"]]
    assert names < {job["name"] for job in found}
    assert pages == -(-len(found) // 2)
    for limit in ("0", "two"):
        assert ask(user, "GET", f"/api/v1/jobs?limit={limit}")[0] == 400


def test_codes_of_success(user: User) -> None:
    assert ask(user, "PUT", "/api/v1/jobs/codes", rule("codes").encode())[0] == 201
    assert ask(user, "PUT", "/api/v1/jobs/codes", rule("codes", "id > 0").encode())[0] == 200
    assert ask(user, "POST", "/api/v1/jobs?name=codes2", rule("codes2").encode())[0] == 201
    assert user.fired() == {"codes", "codes2"}
    for name in ("codes", "codes2"):
        assert ask(user, "DELETE", f"/api/v1/jobs/{name}")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8083"},
        {"Host": "localhost.evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.example"},
        {"Host": "[::1"},
    ],
)
def test_requests_that_a_web_page_sends_are_refused(user: User, headers: dict[str, str]) -> None:
    status, _, body = ask(user, "POST", "/api/v1/jobs?name=evil", rule("evil").encode(), **headers)
    assert status in (400, 403), body
    assert "evil" not in user.states()


def test_the_servers_own_pages_are_not(user: User) -> None:
    own = f"localhost:{user.client.server.rsplit(':', 1)[1]}"
    assert ask(user, "GET", "/api/v1/jobs", Host=own, Origin=f"http://{own}")[0] == 200


def test_a_token(tmp_path: Path) -> None:
    with running(tmp_path / "data", token="secret") as (service, user):
        user.submit("definition", "CREATE TABLE t (id INT) WITH ('connector' = 'blackhole')")
        for given in ("", "wrong", "secret2", "secre"):
            other = User(Client(user.client.server, given or None))
            error = other.refused(other.states)
            assert (error.status, error.message) == (401, "not authorised")
            assert "set SQLENGINE_TOKEN, or --token-file" in (error.hint or "")
            assert "Bearer" in str(error.hint)
        assert ask(user, "GET", "/metrics")[0] == 401
        assert ask(user, "GET", "/readyz")[0] == ask(user, "GET", "/healthz")[0] == 200
        # With a token other hosts and pages may come, if they have it.
        allowed: dict[str, Any] = {
            "Host": "db.example",
            "Origin": "http://db.example",
            "Authorization": "Bearer secret",
        }
        assert ask(user, "GET", "/api/v1/jobs", **allowed)[0] == 200
        assert service.port != 8083


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_without_a_token_it_listens_to_this_machine_only(tmp_path: Path, host: str) -> None:
    with pytest.raises(ServiceError, match="refusing to listen on") as error:
        Service(Config(data=tmp_path / "data", port=0, host=host))
    assert "token" in str(error.value.hint)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("host", ["localhost", "::1"])
def test_other_names_of_this_machine(tmp_path: Path, host: str) -> None:
    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    service = Service(Config(data=tmp_path / "data", port=0, host=host))
    try:
        service.start()
        shown = f"[{host}]" if ":" in host else host
        assert User(Client(f"http://{shown}:{service.port}")).states() == {}
    finally:
        service.stop()


def test_a_port_in_use(tmp_path: Path, user: User) -> None:
    port = int(user.client.server.rsplit(":", 1)[1])
    with pytest.raises(ServiceError, match=f"cannot listen on 127.0.0.1 port {port}") as error:
        Service(Config(data=tmp_path / "data", port=port))
    assert "already in use" in str(error.value.detail)
    with running(tmp_path / "data") as (_, other):  # the folder was released
        assert other.states() == {}


def test_two_servers_on_one_folder(data: Path, user: User) -> None:
    with pytest.raises(DataFolderLocked, match="is in use by the process") as error:
        Service(Config(data=data, port=0))
    assert error.value.hint
    assert user.fired() == set()


def test_stopping_twice_and_before_the_start(tmp_path: Path) -> None:
    service = Service(Config(data=tmp_path / "data", port=0))
    service.stop()
    service.stop()


def test_requests_that_run_are_answered_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "data") as (service, user), ThreadPoolExecutor(4) as pool:
        user.topic("quiet")
        broker = service.engine.broker
        wait, waiting = broker.wait_for_records, list[float]()

        def counted(topic: str, shard: int, offset: int, seconds: float) -> bool:
            waiting.append(seconds)
            return wait(topic, shard, offset, seconds)

        monkeypatch.setattr(broker, "wait_for_records", counted)
        asked: dict[str, object] = {"offset": "latest", "wait": 1}
        polls = [
            pool.submit(lambda: user.client.get("/api/v1/topics/quiet/records", **asked))
            for _ in range(4)
        ]
        eventually(lambda: waiting.count(1) == 4)
        service.stop()
        assert [p.result(PATIENCE_S)["records"] for p in polls] == [[]] * 4


def test_the_serving_thread_may_be_awake_when_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "data") as (service, user):
        user.topic("t")
        trigger = service._http._listeners[0].trigger
        pull = trigger._physical_pull

        def late() -> None:  # a request that ends has woken the thread first
            pull()
            time.sleep(0.05)
            pull()

        monkeypatch.setattr(trigger, "_physical_pull", late)
        service.stop()
        assert not service._http._thread.is_alive()


def test_commands_answers_and_old_records_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics without a retention keep all they have."""
    with running(tmp_path / "data") as (service, user):
        user.client.post("/api/v1/topics", {"name": "short", "retention_ms": 1000})
        user.topic("long")
        for topic in ("short", "long"):
            user.write(topic, {"id": 1})
        assert user.command(op="list")["jobs"] == []
        broker = service.engine.broker
        now = broker._clock()
        for days, left in (
            (0, {"_commands": 1, "_command_results": 1, "long": 1}),
            (8, {"long": 1}),
        ):
            monkeypatch.setattr(broker, "_clock", lambda days=days: now + days * 86_400_000 + 2000)
            service.upkeep.turn()
            names = ("_commands", "_command_results", "short", "long")
            found = {n: broker.end_offset(n, 0) - broker.begin_offset(n, 0) for n in names}
            assert {n: count for n, count in found.items() if count} == left
        monkeypatch.undo()
        assert user.command(op="list")["jobs"] == []
