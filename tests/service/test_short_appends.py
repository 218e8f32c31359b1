"""Appends on the short way: answered as by the application, and stored as it stores them."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from sqlengine.api.app import create_app
from sqlengine.api.serving.admission import ADMITTED, PEER, Peer
from sqlengine.api.short_appends import ShortAppends
from sqlengine.broker.topic_access import read_records
from sqlengine.config import Config
from sqlengine.engine import Engine

REQUESTS: dict[str, dict[str, Any]] = {
    "one record": {},
    "several, and an empty line": {"body": b'{"a": 1}\n\n{"a": 2}\n'},
    "no line": {"body": b"\n"},
    "no body": {"body": b""},
    "another topic": {"path": "/api/v1/topics/missing/records"},
    "the system's topic": {"path": "/api/v1/topics/_epochs/records"},
    "an odd path": {"path": "/api/v1/topics/events/records/"},
    "a key": {"query": "key=k1"},
    "a shard": {"query": "shard=7"},
    "a packed body": {"HTTP_CONTENT_ENCODING": "br"},
    "a compacted topic": {"path": "/api/v1/topics/latest/records"},
    "a large body": {"body": b"x" * 100_000},
    "a record that is too long": {"body": b"x" * (11 << 20)},
    "another method": {"REQUEST_METHOD": "PUT"},
}


def ask(app: Any, asked: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
    """Returns the status, headers and body of the answer to a request that was admitted."""
    body, answers = asked.get("body", b'{"a": 1}'), []
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": asked.get("path", "/api/v1/topics/events/records"),
        "QUERY_STRING": asked.get("query", ""),
        "CONTENT_LENGTH": str(len(body)),
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        ADMITTED: True,
        PEER: Peer("127.0.0.1"),
        **{n: v for n, v in asked.items() if n.isupper() or n == ADMITTED},
    }
    parts = app(environ, lambda status, headers, *_: answers.append((status, headers)))
    return *answers[0], b"".join(parts)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_short_way_is_seen_by_nobody(tmp_path: Path, name: str) -> None:
    found = []
    for way in ("short", "long"):
        engine = Engine(Config(data=tmp_path / way))
        engine.broker.create_topic("events")
        engine.broker.create_topic("latest", compacted=True)
        short = create_app(engine).wsgi_app
        assert isinstance(short, ShortAppends)
        app = short if way == "short" else short.app
        answers = [ask(app, REQUESTS[name]) for _ in range(2)]
        records = read_records(engine.broker, "events")["records"]
        assert isinstance(records, list)
        kept = [{n: v for n, v in record.items() if n != "timestamp"} for record in records]
        found.append((answers, kept))
        engine.close()
    assert found[0] == found[1]


def test_whoever_is_told_apart_goes_the_long_way(tmp_path: Path) -> None:
    engine = Engine(Config(data=tmp_path, client_rate=1_000))
    assert not isinstance(create_app(engine).wsgi_app, ShortAppends)
    engine.close()
