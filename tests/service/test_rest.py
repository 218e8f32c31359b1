"""What holds for all of REST: pages of lists, entity tags, keys of requests, dry runs, events."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sqlengine.api.openapi.paths import GROUPS
from sqlengine.client import Client
from tests.service.harness import TABLES, User, rule, running
from tests.support import ROOT, eventually


class Answer:
    """An answer with its headers."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Caller:
    """Asks a server."""

    def __init__(self, user: User) -> None:
        self.server = user.client.server.removeprefix("http://")

    def __call__(self, method: str, path: str, body: Any = b"", **headers: str) -> Answer:
        """`headers`: with _ in the place of -."""
        kind = "text/plain" if isinstance(body, bytes) else "application/json"
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self.server, timeout=60)
        connection.request(method, path, data, {"Content-Type": kind, **given})
        answer = Answer(connection.getresponse())
        connection.close()
        return answer


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    with running(tmp_path_factory.mktemp("rest") / "data") as (_, user):
        user.topic("events")
        user.topic("alerts")
        user.submit("tables", TABLES)
        for name in ("a", "b", "c"):
            user.submit(name, rule(name))
        yield Caller(user)


LISTS = {
    "/api/v1/jobs": ("jobs", "name"),
    "/api/v1/topics": ("topics", "name"),
    "/api/v1/tables": ("tables", "name"),
    "/api/v1/functions": ("functions", "name"),
    "/api/v1/live": ("jobs", "name"),
    "/api/v1/costs": ("jobs", "name"),
    "/api/v1/jobs/a/history": ("versions", "version"),
}


@pytest.mark.parametrize("path", LISTS)
def test_pages_of_a_list_have_all_of_it_once(ask: Caller, path: str) -> None:
    member, key = LISTS[path]
    whole = [item[key] for item in ask("GET", path).json[member]]
    assert whole
    size = max(1, len(whole) // 2)
    found, after = list[object](), ""
    while True:
        page = ask("GET", f"{path}?limit={size}&after={after}").json
        found += [item[key] for item in page[member]]
        assert len(page[member]) <= size
        after = page["next"]
        if after is None:
            break
    assert sorted(found, key=str) == sorted(whole, key=str)
    assert ask("GET", f"{path}?limit=0").status == 400


def test_definitions_have_entity_tags(ask: Caller) -> None:
    first = ask("GET", "/api/v1/tables/events")
    tag = first.headers["ETag"]
    assert ask("GET", "/api/v1/tables/events", If_None_Match=tag).status == 304
    assert ask("GET", "/api/v1/functions/UPPER", If_None_Match=tag).status == 200
    assert first.json["defined_by"] == ["tables"]
    assert {"a", "b", "c"} <= set(first.json["used_by"])
    assert [c["type"] for c in first.json["columns"]] == ["BIGINT", "STRING", "INT"]


def test_a_change_is_made_for_the_version_that_was_read(ask: Caller) -> None:
    path = "/api/v1/jobs/tagged"
    made = ask("PUT", path, rule("tagged").encode(), If_None_Match="*")
    assert made.status == 201
    assert ask("PUT", path, rule("tagged").encode(), If_None_Match="*").status == 412
    tag = ask("GET", path).headers["ETag"]
    assert tag == made.headers["ETag"]
    changed = ask("PUT", path, rule("tagged", "id > 1").encode(), If_Match=tag)
    assert changed.status == 200
    assert changed.headers["ETag"] != tag
    late = ask("PUT", path, rule("tagged", "id > 2").encode(), If_Match=tag)
    assert late.status == 412
    assert late.json["title"] == "version mismatch"
    for method, action in (
        ("DELETE", ""),
        ("POST", "/stop"),
        ("POST", "/start"),
        ("POST", "/rollback?version=1"),
    ):
        assert ask(method, path + action, If_Match=tag).status == 412, action
    assert ask("POST", "/api/v1/jobs?name=tagged", rule("x").encode(), If_Match=tag).status == 412
    assert ask("DELETE", path, If_Match=f'"7", {changed.headers["ETag"]}').status == 200
    assert ask("DELETE", path, If_Match="*").status == 412


def test_dry_runs_change_nothing(ask: Caller) -> None:
    path = "/api/v1/jobs/tried"
    ask("PUT", path, rule("tried").encode())
    ask("PUT", path, rule("tried", "id > 1").encode())
    before = ask("GET", path).json["version"]
    assert ask("POST", path + "/rollback?version=1&dry-run=true").json["status"] == "valid"
    assert ask("POST", path + "/stop?dry-run=true").json["status"] == "valid"
    assert ask("POST", path + "/start?dry-run=true").json["status"] == "unchanged"
    assert ask("DELETE", path + "?dry-run=true").json["status"] == "removed"
    assert ask("DELETE", "/api/v1/jobs/tables?dry-run=true").status == 409
    assert ask("GET", path).json["version"] == before
    assert ask("GET", path).json["state"] == "running"
    ask("POST", path + "/stop")
    assert ask("POST", path + "/start?dry-run=true").json["status"] == "valid"
    assert ask("GET", path).json["state"] == "stopped"
    ask("DELETE", path)


TOPICS = "/api/v1/topics"


def test_dry_runs_of_topics(ask: Caller) -> None:
    made = ask("POST", TOPICS + "?dry-run=true", {"name": "dry", "shards": 2})
    assert (made.status, made.json["end"], made.headers["ETag"]) == (200, [0, 0], None)
    assert ask("GET", f"{TOPICS}/dry").status == 404
    for body, status in (({"name": "dry", "shards": 0}, 400), ({"name": "events"}, 409)):
        assert ask("POST", TOPICS + "?dry-run=true", body).status == status
        assert ask("POST", TOPICS, body).status == status
    ask("POST", TOPICS, {"name": "dry", "shards": 2})
    changed = ask("PATCH", f"{TOPICS}/dry?dry-run=true", {"retention_ms": 5})
    assert changed.json["retention_ms"] == 5
    assert ask("PATCH", f"{TOPICS}/dry?dry-run=true", {"retention_ms": -5}).status == 400
    assert ask("GET", f"{TOPICS}/dry").json["retention_ms"] is None
    assert ask("DELETE", f"{TOPICS}/dry?dry-run=true").json == {"deleted": "dry"}
    assert ask("DELETE", f"{TOPICS}/nothing?dry-run=true").status == 404
    assert ask("DELETE", f"{TOPICS}/events?dry-run=true").status == 409
    assert ask("DELETE", f"{TOPICS}/dry").status == 200


def test_dry_runs_of_groups(ask: Caller) -> None:
    ask("POST", f"{TOPICS}/events/records", b'{"id": 1}')
    reset = "/api/v1/groups/g/reset"
    told = ask("POST", reset + "?dry-run=true", {"topic": "events", "to": "latest"})
    assert told.json["offsets"] == {"0": 1}
    assert ask("GET", "/api/v1/groups").json["groups"] == []
    assert ask("DELETE", "/api/v1/groups/g?dry-run=true").status == 400
    ask("POST", reset, {"topic": "events", "to": "latest"})
    assert ask("DELETE", "/api/v1/groups/g?dry-run=true").json == {"deleted": "g"}
    assert ask("DELETE", "/api/v1/groups/g").status == 200


def test_dry_runs_of_savepoints_and_letters(ask: Caller) -> None:
    told = ask("POST", "/api/v1/jobs/a/savepoints?dry-run=true").json
    assert (told["status"], "savepoint" in told) == ("valid", False)
    assert ask("POST", "/api/v1/jobs/a/stop?savepoint=true&dry-run=true").json["status"] == "valid"
    assert ask("GET", "/api/v1/jobs/a").json["state"] == "running"
    assert ask("POST", "/api/v1/jobs/tables/savepoints?dry-run=true").status == 409
    name = Path(ask("POST", "/api/v1/jobs/a/savepoints").json["savepoint"]).name
    assert ask("DELETE", f"/api/v1/savepoints/{name}?dry-run=true").json["job"] == "a"
    assert ask("DELETE", f"/api/v1/savepoints/{name}").status == 200
    assert ask("DELETE", f"/api/v1/savepoints/{name}?dry-run=true").status == 404
    ask("POST", f"{TOPICS}/events/records", b"no JSON")
    letters = "/api/v1/jobs/a/dead-letters"
    (letter,) = eventually(lambda: ask("GET", letters).json["letters"])
    told = ask("POST", f"{letters}/replay?dry-run=true").json
    assert (told["epoch"], told["replayed"] + [r["id"] for r in told["refused"]]) == (
        0,
        [letter["id"]],
    )
    assert ask("GET", letters).json["letters"] == [letter]


def test_a_topic_changes_only_as_it_was_known(ask: Caller) -> None:
    path, none = f"{TOPICS}/known", {"If_None_Match": "*"}
    made = ask("POST", TOPICS, {"name": "known"}, **none)
    tag = made.headers["ETag"]
    assert ask("POST", TOPICS, {"name": "known", "if_not_exists": True}, **none).status == 412
    ask("POST", f"{path}/records", b"1")
    assert ask("GET", path).headers["ETag"] == tag  # of its options alone
    changed = ask("PATCH", path, {"retention_ms": 5000}, If_Match=tag)
    assert changed.headers["ETag"] not in (tag, None)
    refused = ask("PATCH", path, {"retention_ms": 6000}, If_Match=tag)
    assert (refused.status, "has the tag" in refused.json["message"]) == (412, True)
    assert ask("DELETE", path, If_Match=tag).status == 412
    assert ask("DELETE", path + "?dry-run=true", If_Match=changed.headers["ETag"]).status == 200
    assert ask("DELETE", path, If_Match="*").status == 200
    assert ask("DELETE", path, If_Match="*").status == 412


def test_figures_as_json(ask: Caller) -> None:
    found = ask("GET", "/api/v1/metrics").json["metrics"]
    names = [family["name"] for family in found]
    assert names == sorted(set(names))
    (jobs,) = [f for f in found if f["name"] == "sqlengine_jobs"]
    assert jobs["type"] == "gauge"
    running = {"name": "sqlengine_jobs", "labels": {"state": "running"}, "value": 3.0}
    assert running in jobs["samples"]
    first = ask("GET", "/api/v1/metrics?limit=1").json
    assert ([f["name"] for f in first["metrics"]], first["next"]) == (names[:1], names[0])


def test_requests_without_a_dry_run_are_named() -> None:
    page = (ROOT / "docs" / "rest.md").read_text().partition("| without a dry run |")[2]
    reasons = page.partition("\n\n")[0]
    words = ("isolate", "merge", "move", "compact", "reload-lookups", "records", "rows", "broker")
    groups = ("statements", "queries", "sessions", "rsqldb", "command", "logs", "materialized")
    for endpoint in (e for endpoints in GROUPS.values() for e in endpoints):
        if endpoint.method == "GET" or any(q.name == "dry-run" for q in endpoint.query):
            continue
        assert any(w in endpoint.path for w in (*words, *groups)), endpoint.path
    assert all(word in reasons for word in words)


def test_what_has_no_dry_run_is_not_done_for_one(ask: Caller) -> None:
    refused = ask("POST", "/api/v1/jobs/a/isolate?dry-run=true")
    assert refused.status == 400
    assert "dry run" in refused.json["message"]
    assert ask("GET", "/api/v1/topics/never").status == 404


def test_a_request_that_is_sent_again_is_carried_out_once(ask: Caller) -> None:
    path = "/api/v1/topics/events/records"
    first = ask("POST", path, {"id": 1}, Idempotency_Key="k1")
    again = ask("POST", path, {"id": 1}, Idempotency_Key="k1")
    assert again.json == first.json
    assert again.headers["Idempotent-Replayed"] == "true"
    assert ask("POST", path, {"id": 2}, Idempotency_Key="k1").status == 422
    assert ask("POST", path, {"id": 2}, Idempotency_Key="k" * 257).status == 400
    assert ask("POST", path, {"id": 2}).json["first_offset"] == first.json["next_offset"]
    # What was refused is asked again.
    missing = "/api/v1/jobs/later/start"
    assert ask("POST", missing, Idempotency_Key="k2").status == 404
    ask("PUT", "/api/v1/jobs/later", rule("later").encode())
    assert ask("POST", missing, Idempotency_Key="k2").status == 200
    ask("DELETE", "/api/v1/jobs/later")


def test_keys_of_requests_outlive_the_server(tmp_path: Path) -> None:
    body = {"name": "kept"}
    with running(tmp_path / "data") as (_, user):
        first = Caller(user)("POST", "/api/v1/topics", body, Idempotency_Key="k")
    with running(tmp_path / "data") as (_, user):
        again = Caller(user)("POST", "/api/v1/topics", body, Idempotency_Key="k")
        assert Caller(user)("POST", "/api/v1/topics", body).status == 409
    assert first.status == again.status == 200
    assert again.json == first.json


@contextmanager
def events(ask: Caller, method: str, path: str, body: bytes = b"", **headers: str) -> Iterator[Any]:
    """The events of a stream, each as its name and its data, as they come."""
    connection = http.client.HTTPConnection(ask.server, timeout=30)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, {"Accept": "text/event-stream", **given})
    answer = connection.getresponse()
    assert answer.headers.get_content_type() == "text/event-stream"

    def read() -> Iterator[tuple[str, Any]]:
        found: dict[str, str] = {}
        for line in answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                found[name] = value
            elif "data" in found:
                yield found["event"], json.loads(found["data"])
                found.clear()

    yield read()
    connection.close()


def test_rows_of_a_query_come_as_events(ask: Caller) -> None:
    user = User(Client(f"http://{ask.server}", origin="rest"))
    user.topic("streamed")
    user.submit(
        "streamed", TABLES.replace("events", "streamed").partition("CREATE TABLE alerts")[0]
    )
    sql = b"SELECT id FROM streamed"
    with events(ask, "POST", "/api/v1/queries?follow=true", sql) as found:
        user.write("streamed", {"id": 1})
        kind, page = next(found)
        assert (kind, page["rows"]) == ("rows", [["+I", [1]]])
        user.write("streamed", {"id": 2})
        assert next(found)[1]["rows"] == [["+I", [2]]]
    # A stream that broke goes on behind the event that the client has.
    one = f"/api/v1/queries/{page['query']}"
    with events(ask, "GET", one, Last_Event_ID=str(page["page"])) as found:
        assert next(found)[1]["rows"] == [["+I", [2]]]
        ask("DELETE", one)
        assert next(found)[0] == "end"
    bounded = b"SELECT * FROM (VALUES (1), (2)) AS v(a)"
    with events(ask, "POST", "/api/v1/queries", bounded) as found:
        kinds = [(kind, len(page["rows"])) for kind, page in found]
    assert sum(rows for _, rows in kinds) == 2
    assert kinds[-1][0] == "end"
    with events(ask, "POST", "/api/v1/queries", b"SELECT nothing FROM streamed") as found:
        kind, problem = next(found)
    assert (kind, problem["status"], problem["line"]) == ("error", 400, 1)


def test_changes_of_jobs_come_as_events(ask: Caller) -> None:
    with events(ask, "GET", "/api/v1/jobs") as found:
        first = {next(found)[1]["name"] for _ in ask("GET", "/api/v1/jobs").json["jobs"]}
        assert {"a", "tables"} <= first
        ask("PUT", "/api/v1/jobs/seen", rule("seen").encode())
        kind, job = next(found)
        assert (kind, job["name"], job["state"]) == ("job", "seen", "running")
        ask("POST", "/api/v1/jobs/seen/stop")
        assert next(found)[1]["state"] == "stopped"
        ask("DELETE", "/api/v1/jobs/seen")
        assert next(found) == ("removed", {"name": "seen"})
