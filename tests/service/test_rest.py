"""What holds for all of REST: pages of lists, entity tags, keys of requests, dry runs, events."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.service.harness import TABLES, User, rule, running


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
