"""Reads on the short way: answered as by the application, for whom it would, and told to the audit
log as it tells them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import pytest

from sqlengine.access.audit.log import Event
from sqlengine.access.identity import AccessFile
from sqlengine.api.app import create_app
from sqlengine.api.serving.admission import ADMITTED
from sqlengine.api.short_reads import ShortReads
from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.access.conftest import TOKENS, access_text
from tests.service.test_short_appends import ask

QUERIES = [
    "",
    "offset=1",
    "offset=1&limit=1",
    "offset=latest&limit=100",
    "offset=earliest&shard=0",
    "offset=2026-01-31T12:00&limit=5",
    "offset=3&wait=0.01",
    "limit=0",
    # What is out of the ordinary.
    "offset=1&offset=2",
    "offset=9",
    "offset=-1",
    "offset=%31",
    "offset=soon",
    "limit=-1",
    "limit=1_0",
    "limit=1e3",
    "shard=7",
    "shard=9999999999999999999",
    "wait=inf",
    "wait=-1",
    "key=a",
    "other=1",
    "&&offset=1&",
    "offset",
    "offset=\N{ARABIC-INDIC DIGIT ONE}".encode().decode("latin-1"),
]
PATHS = ["events", "missing", "_epochs", "keyed", "events/", "%65vents"]


@dataclass
class Told:
    """An audit log in memory."""

    events: list[Event] = field(default_factory=list)

    def write(self, events: Sequence[Event]) -> None:
        self.events += events

    def count(self, event: Event, size: int = 0) -> None:
        self.events.append(event)

    def ready(self) -> bool:
        return True

    def close(self, last: Sequence[Event] = ()) -> None: ...


@dataclass
class Ways:
    """The same server by the short way and by the long one, and what either tells."""

    short: Any
    told: Told

    def both(self, path: str, query: str = "offset=0", token: str = "", **more: Any) -> Any:
        """Returns the answer of each way, and what it told the audit log."""
        found = []
        for app in (self.short, self.short.app):
            self.told.events.clear()
            asked = {"path": f"/api/v1/topics/{path}/records", "query": query, "body": b""}
            bearer = f"Bearer {token or TOKENS['root']}"
            headers = {"REQUEST_METHOD": "GET", "HTTP_AUTHORIZATION": bearer}
            found.append((ask(app, {**asked, **headers, **more}), list(self.told.events)))
        return found


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    folder = tmp_path_factory.mktemp("reads")
    file = folder / "access.toml"
    file.write_text(access_text())
    engine = Engine(Config(data=folder / "data", access=file), access=AccessFile(file))
    for topic in ("events", "keyed", "a.in"):
        engine.broker.create_topic(topic)
    engine.broker.append("events", 0, [b"1", b"\xff", b""], timestamp_ms=5)
    engine.broker.append("keyed", 0, [b"x", b"y"], keys=[b"a", b"b"], timestamp_ms=6)
    told = Told()
    short = create_app(engine, audit=told).wsgi_app
    assert isinstance(short, ShortReads)
    yield Ways(short, told)
    engine.close()


@pytest.mark.parametrize("query", QUERIES)
def test_the_short_way_is_seen_by_nobody(ways: Ways, query: str) -> None:
    short, long = ways.both("events", query)
    assert short == long


@pytest.mark.parametrize("path", PATHS)
def test_neither_by_who_names_another_topic(ways: Ways, path: str) -> None:
    short, long = ways.both(path)
    assert short == long


@pytest.mark.parametrize(
    "more",
    [
        {"REQUEST_METHOD": "HEAD"},
        {"REQUEST_METHOD": "OPTIONS"},
        {"REQUEST_METHOD": "PUT"},
        {"HTTP_CONTENT_ENCODING": "br"},
        {"HTTP_CONTENT_ENCODING": "gzip"},
        {"body": b"a body"},
        {ADMITTED: False, "HTTP_HOST": "localhost"},
    ],
)
def test_neither_by_who_asks_in_another_way(ways: Ways, more: dict[str, Any]) -> None:
    short, long = ways.both("events", **more)
    assert short == long


@pytest.mark.parametrize("token", [*TOKENS.values(), "of-nobody"])
@pytest.mark.parametrize("topic", ["a.in", "events"])
def test_neither_by_who_may_not_read(ways: Ways, token: str, topic: str) -> None:
    short, long = ways.both(topic, token=token)
    assert short == long
    assert len(short[1]) == 1


def test_a_read_takes_the_short_way(ways: Ways) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("it went the long way")

    short = copy(ways.short)
    short.app = refuse
    asked = {"path": "/api/v1/topics/events/records", "query": "offset=1&limit=1", "body": b""}
    headers = {"REQUEST_METHOD": "GET", "HTTP_AUTHORIZATION": f"Bearer {TOKENS['root']}"}
    assert ask(short, {**asked, **headers})[0] == "200 OK"
