"""The description of the server's routes: it has all of them, their parameters and answers, and its
page runs."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator
from werkzeug.test import Client

from sqlengine.api.access import admission
from sqlengine.api.app import create_app
from sqlengine.api.openapi.document import document, with_reference
from sqlengine.api.openapi.paths import GROUPS
from sqlengine.api.starting import Gate
from sqlengine.broker.auto_create import AutoCreate
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.executors.steps.limits import Steps
from tests.service.answers import faults, path_of
from tests.service.harness import TABLES, User, rule, running
from tests.support import ROOT, eventually

PAGE = Path(ROOT) / "docs" / "rest.md"
_READ = re.compile(
    r'(?:(?:args|values)\.get|whole_number|seconds|flag)\(\s*"([\w-]+)"|"([\w-]+)" in request\.args'
)


def test_all_routes_are_described_and_no_others(tmp_path: Path) -> None:
    engine = Engine(Config(data=tmp_path))
    rules = list(create_app(engine).url_map.iter_rules())
    engine.close()
    routes = {(m, path_of(r)) for r in rules for m in (r.methods or set()) - {"HEAD", "OPTIONS"}}
    assert routes == {(e.method, e.path) for endpoints in GROUPS.values() for e in endpoints}


def test_all_parameters_are_described_and_no_others() -> None:
    texts = [p.read_text() for p in (ROOT / "sqlengine" / "api").rglob("*.py")]
    read = {a or b for text in texts for a, b in _READ.findall(text)}
    assert read == {q.name for endpoints in GROUPS.values() for e in endpoints for q in e.query}


def test_the_document_is_one() -> None:
    about: Any = document()
    schemas = about["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    used = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(about)))
    assert used == schemas.keys()


def test_the_page_is_as_the_description() -> None:
    hint = "run: python -m sqlengine.api.openapi.document docs/rest.md"
    assert with_reference(PAGE.read_text()) == PAGE.read_text(), hint


def test_a_server_that_starts_answers_as_described(tmp_path: Path) -> None:
    engine = Engine(Config(data=tmp_path, auto_create=AutoCreate(True, True)))
    engine.submit("tables", TABLES)
    gate = Gate(Steps(None, float), admission(Config()))
    gate.attach(engine)
    for path, status in (("/api/v1/jobs", 200), ("/healthz", 200), ("/readyz", 503)):
        answer = Client(gate).get(path)
        assert answer.status_code == status
        assert (
            list(faults("GET", path, status, answer.mimetype or "", answer.data, strict=True)) == []
        )
    engine.close()


class Checker:
    """Asks a server, and holds each answer strictly against the description."""

    def __init__(self, user: User) -> None:
        self._server = user.client.server.removeprefix("http://")
        self.asked: set[tuple[str, str]] = set()

    def __call__(
        self, method: str, path: str, body: Any = b"", *, status: int = 200, **names: object
    ) -> Any:
        """`path`: as it is described, with a query behind it; `names`: its parameters."""
        kind = "text/plain" if isinstance(body, bytes) else "application/json"
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        described = path.partition("?")[0]
        self.asked.add((method, described))
        connection = http.client.HTTPConnection(self._server, timeout=60)
        connection.request(method, path.format(**names), data, {"Content-Type": kind})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        assert answer.status == status, content
        kind = answer.headers.get_content_type()
        assert not list(faults(method, described, status, kind, content, strict=True))
        return json.loads(content) if kind.endswith("json") else content.decode()


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("openapi")
    with running(folder / "data", volumes=(folder / "disk",), uploads=True) as (_, user):
        yield user


def test_real_answers_of_all_requests(user: User, tmp_path: Path) -> None:
    ask = Checker(user)
    _topics(ask, tmp_path)
    _jobs(ask, user)
    _state(ask)
    _queries(ask)
    _pushes(ask)
    _definitions(ask)
    for path in ("/healthz", "/readyz", "/metrics", "/api/v1/metrics", "/api/v1/openapi.json"):
        ask("GET", path)
    ask("GET", "/api/v1/spark")
    ask("GET", "/api/v1/instances")
    _gateway(ask)
    _rsqldb(ask)
    described = {(e.method, e.path) for endpoints in GROUPS.values() for e in endpoints}
    assert described - ask.asked == {("POST", "/api/v1/broker")}


def _topics(ask: Checker, folder: Path) -> None:
    for name in ("events", "alerts", "spare"):
        ask("POST", "/api/v1/topics", {"name": name, "shards": 1})
    ask("POST", "/api/v1/topics", {"name": "events"}, status=409)
    ask("GET", "/api/v1/topics")
    ask("PATCH", "/api/v1/topics/{name}", {"retention_ms": 86_400_000}, name="spare")
    ask("PATCH", "/api/v1/topics/{name}", {"nonsense": 1}, status=400, name="spare")
    records = "/api/v1/topics/{name}/records"
    ask("POST", records + "?shard=0&key=k", b"a\n\xff", name="spare")
    assert (
        len(ask("GET", records + "?offset=earliest&limit=5&wait=0", name="spare")["records"]) == 2
    )
    ask("GET", records, status=404, name="nothing")
    ask("POST", "/api/v1/groups/{group}/reset", {"topic": "spare", "to": "latest"}, group="g")
    ask("GET", "/api/v1/groups")
    ask("GET", "/api/v1/topics/{name}", name="spare")
    ask("DELETE", "/api/v1/groups/{group}", group="g")
    ask("DELETE", "/api/v1/groups/{group}", status=400, group="g")
    ask("POST", "/api/v1/topics/{name}/compact", status=400, name="spare")
    ask("POST", "/api/v1/topics", {"name": "latest", "compacted": True})
    ask("POST", "/api/v1/topics/{name}/compact", name="latest")
    ask("POST", "/api/v1/topics/{name}/move", {"folder": str(folder)}, status=400, name="spare")
    ask("DELETE", "/api/v1/topics/{name}", name="spare")


def _jobs(ask: Checker, user: User) -> None:
    ask("POST", "/api/v1/jobs?name=tables", TABLES.encode(), status=201)
    put = "/api/v1/jobs/{name}"
    ask("PUT", put + "?dry-run=true&file=r.sql", rule("r").encode(), name="r")
    ask("PUT", put, rule("r").encode(), status=201, name="r")
    ask("PUT", put, rule("r", "amount > 1").encode(), name="r")
    ask("PUT", put, b"SELEKT", status=400, name="r")
    many = {"jobs": {"a": rule("a"), "b": "INSERT INTO alerts SELECT nothing"}}
    ask("POST", "/api/v1/jobs", many, status=207)
    ask("GET", "/api/v1/jobs")
    ask("GET", put, name="r")
    ask("GET", put, status=404, name="nothing")
    ask("GET", put + "/history", name="r")
    ask("GET", put + "/explain", name="r")
    ask("GET", put + "/explain?format=json", name="r")
    ask("GET", put + "/cost", name="r")
    ask("GET", put + "/cost", status=404, name="nothing")
    ask("GET", "/api/v1/costs?limit=5")
    ask("GET", "/api/v1/live?at=2020-01-01")
    ask("GET", "/api/v1/live")
    ask("GET", "/api/v1/live?at=yesterday", status=400)
    ask("GET", "/api/v1/audit?since=2020-01-01&after=0&limit=50")
    ask("GET", "/api/v1/audit?job=r&until=2020-01-01")
    ask("POST", put + "/promote", status=409, name="r")
    canary = b"-- @rule\n-- canary: 1h, max-rate 2x\n"
    ask("PUT", put, canary + rule("r", "amount > 2").encode(), name="r")
    ask("GET", put + "/diff", name="r")
    ask("GET", put, name="r@shadow")
    ask("POST", put + "/promote", name="r")
    ask("GET", put + "/history", name="r")
    ask("POST", put + "/rollback?version=1", name="r")
    ask("POST", put + "/rollback", status=400, name="r")
    ask("POST", put + "/isolate", name="a")
    ask("POST", put + "/merge", name="a")
    ask("POST", put + "/reload-lookups", name="a")
    ask("POST", put + "/move?to=embedded", name="a")
    ask("POST", put + "/move?to=the-moon", status=400, name="a")
    ask("POST", "/api/v1/statements", b"SHOW JOBS")
    ask("POST", put + "/stop", name="a")
    ask("POST", put + "/start", name="a")
    user.write("events", b"broken")
    letters = "/api/v1/dead-letters?after=-1&limit=5"
    (letter,) = eventually(lambda: ask("GET", letters)["letters"], "a dead letter")
    ask("GET", put + "/dead-letters?table=events&since=0", name="r")
    ask("POST", put + "/dead-letters/replay?limit=1", {"ids": [letter["id"]]}, name="r")
    ask("DELETE", put, name="a")
    ask("DELETE", put, status=404, name="a")


def _pushes(ask: Checker) -> None:
    job = b"CREATE TEMPORARY TABLE gone (a STRING) WITH ('connector' = 'blackhole');"
    for name, more in (("pushed", b"http-push', 'format' = 'json"), ("logs", b"otlp")):
        job += b"CREATE TABLE %s (body STRING) WITH ('connector' = '%s');" % (name.encode(), more)
        job += b"INSERT INTO gone SELECT body FROM %s;" % name.encode()
    rows = "/api/v1/tables/{name}/rows"
    ask("POST", rows, b"{}", status=404, name="pushed")
    ask("POST", "/v1/logs", {}, status=503)
    ask("PUT", "/api/v1/jobs/{name}", job, status=201, name="pushes")
    ask("POST", rows, {"body": "x"}, name="pushed")
    ask("POST", "/v1/logs", {"resourceLogs": []})
    ask("POST", "/v1/logs", {"resourceLogs": 1}, status=400)


def _definitions(ask: Checker) -> None:
    ask("GET", "/api/v1/tables?limit=1&after=alerts")
    ask("GET", "/api/v1/tables/{name}", name="events")
    ask("GET", "/api/v1/tables/{name}", status=404, name="nothing")
    ask("GET", "/api/v1/functions?limit=3")
    ask("GET", "/api/v1/functions/{name}", name="upper")
    ask("GET", "/api/v1/functions/{name}", status=404, name="nothing")
    head = b"-- @rule\n-- title: All\n-- severity: low\n-- tags: [t]\n"
    ask("PUT", "/api/v1/jobs/{name}", head + rule("headed").encode(), status=201, name="headed")
    (found,) = ask("GET", "/api/v1/rules?status=live&severity=low&tag=t")["rules"]
    assert ask("GET", "/api/v1/rules/{name}", name=found["name"])["rule"]["title"] == "All"
    ask("GET", "/api/v1/rules/{name}", status=404, name="tables")


def _state(ask: Checker) -> None:
    count = b"CREATE TEMPORARY TABLE n (w STRING, n BIGINT) WITH ('connector' = 'blackhole');"
    count += b" INSERT INTO n SELECT word, COUNT(*) FROM events GROUP BY word"
    ask("PUT", "/api/v1/jobs/{name}", count, status=201, name="n")
    ask("POST", "/api/v1/topics/{name}/records", b'{"id": 1, "word": "w"}', name="events")
    state = "/api/v1/jobs/{name}/state"
    eventually(lambda: ask("GET", state, name="n")["operations"][0]["rows"] == 1, "a row of state")
    ask("GET", state + "/{operation}?limit=5", name="n", operation=1)
    path = ask("POST", "/api/v1/jobs/{name}/savepoints", name="n")["savepoint"]
    (found,) = ask("GET", "/api/v1/savepoints")["savepoints"]
    assert found["path"] == path
    saved = "/api/v1/savepoints/{name}"
    ask("GET", saved, name=Path(path).name)
    ask("DELETE", saved, name=Path(path).name)
    ask("GET", saved, status=404, name="nothing")


def _queries(ask: Checker) -> None:
    queries, one = "/api/v1/queries", "/api/v1/queries/{query}"
    session = ask("POST", "/api/v1/sessions")["session"]
    ask(
        "POST", queries + f"?session={session}", b"CREATE TEMPORARY VIEW v AS SELECT id FROM events"
    )
    page = ask("POST", queries + f"?session={session}", {"sql": "SELECT * FROM v"})
    assert page["rows"]
    # A quick query is over with its first page, which may be asked for again.
    following = page["page"] if page["next"] is None else page["next"]
    ask("GET", one + f"?page={following}&wait=1", query=page["query"])
    ask("GET", one + "?page=77", status=400, query=page["query"])
    ask("GET", "/api/v1/catalog?session=" + session)
    ask("DELETE", "/api/v1/sessions/{session}", session=session)
    ask("POST", queries, b"SELECT nothing FROM events", status=400)
    ask("POST", queries, b"INSERT INTO alerts SELECT 'a', 1", status=422)
    ask(
        "POST",
        queries + "?follow=true&timeout=0.01",
        b"SELECT id FROM events WHERE id < 0",
        status=408,
    )
    page = ask("POST", queries + "?follow=true&wait=0", b"SELECT id FROM events WHERE id < 0")
    ask("GET", queries)
    ask("DELETE", one, query=page["query"])
    ask("DELETE", one, status=404, query=page["query"])


def _gateway(ask: Checker) -> None:
    def in_v2(
        method: str, path: str, body: Any = b"", *, status: int = 200, **names: object
    ) -> Any:
        return ask(method, "/{version}" + path, body, status=status, version="v2", **names)

    in_v2("GET", "/info")
    in_v2("GET", "/api_versions")
    one = {"session": in_v2("POST", "/sessions", {"properties": {"a": "b"}})["sessionHandle"]}
    session, operation = "/sessions/{session}", "/sessions/{session}/operations/{handle}"
    in_v2("GET", session, **one)
    in_v2("GET", session, status=404, session="nobody")
    in_v2("POST", session + "/heartbeat", **one)
    in_v2("POST", session + "/configure-session", {"statement": "SET 'a' = 'b'"}, **one)
    in_v2("POST", session + "/configure-session", {"statement": "SELEKT"}, status=500, **one)
    in_v2("POST", session + "/statements", {}, status=400, **one)
    body = {"statement": "SELECT 1 AS a"}
    one["handle"] = in_v2("POST", session + "/statements", body, **one)["operationHandle"]
    result = operation + "/result/{token}?rowFormat=JSON"
    done = {"PAYLOAD"}
    eventually(lambda: in_v2("GET", result, token=0, **one)["resultType"] in done, "a page")
    in_v2("GET", result, token=7, status=500, **one)
    in_v2("GET", operation + "/status", **one)
    in_v2("POST", operation + "/cancel", **one)
    in_v2("DELETE", operation + "/close", **one)
    in_v2("GET", session + "/complete-statement", {"statement": "SEL", "position": 3}, **one)
    refresh = session + "/materialized-tables/{name}/refresh"
    in_v2("POST", refresh, {}, status=500, name="m", **one)
    in_v2("DELETE", session, **one)


def _rsqldb(ask: Checker) -> None:
    ask("POST", "/rsqldb/submit?jobId=q&startJob=true", rule("q").encode())
    for prefix in ("/rsqldb", "/command/task"):
        for path in ("queryAll", "queryById?jobId=q", "terminate?jobId=q", "restart?jobId=q"):
            ask("POST", f"{prefix}/{path}")
        ask("POST", f"{prefix}/remove?jobId=q")
    ask("POST", "/command/task/submit?taskName=q&sql=" + quote(rule("q")))
    ask("POST", "/command/task/submit/file", status=422)
    ask("POST", "/command/task/list?namespace=default")
    ask("POST", "/command/task/start?taskName=q")
    ask("POST", "/command/task/stop?taskName=q")


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    commands = re.findall(r"^curl .*?(?=^curl |\Z)", "\n".join(blocks), re.DOTALL | re.MULTILINE)
    assert len(commands) > 10
    with running(tmp_path / "data", auto_create=AutoCreate(True, True)) as (_, user):
        for command in commands:
            local = command.replace("http://127.0.0.1:8083", user.client.server)
            done = subprocess.run([*shlex.split(local), "-sS"], capture_output=True, text=True)
            assert done.returncode == 0, (command, done.stderr)
        assert user.job("big")["rows"] == 1
