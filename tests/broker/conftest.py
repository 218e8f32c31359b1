from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from sqlengine.api.broker import broker_blueprint
from sqlengine.api.server import HttpServer
from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.remote.client import RemoteBroker, connect
from sqlengine.broker.remote.request_handler import handle_request
from sqlengine.system.threads import MachineThreads


class Clock(MachineThreads):
    """Milliseconds that pass when a test says so; by `set` the clock of the wall is wrong."""

    def __init__(self) -> None:
        self.up = 1_000_000
        self.set = 0

    def __call__(self) -> int:
        return self.up + self.set

    def now(self) -> float:
        return self.up / 1000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "broker"


@pytest.fixture
def broker(folder: Path) -> Iterator[EmbeddedBroker]:
    opened = EmbeddedBroker(folder)
    yield opened
    opened.close()


@pytest.fixture
def http_broker(folder: Path, clock: Clock) -> Iterator[RemoteBroker]:
    """A broker behind a real HTTP server."""
    opened = EmbeddedBroker(folder, clock=clock, threads=clock)
    app = Flask("broker")
    app.register_blueprint(broker_blueprint(opened))
    server = HttpServer(app, "127.0.0.1", 0)
    server.start()
    remote = connect(f"http://127.0.0.1:{server.port}")
    yield remote
    remote.close()
    server.stop()
    opened.close()


@pytest.fixture(params=["embedded", "carried", "http"])
def any_broker(request: pytest.FixtureRequest, folder: Path, clock: Clock) -> Iterator[Broker]:
    """In this process, behind questions and answers, and behind an HTTP server: callers see no
    difference."""
    if request.param == "http":
        yield request.getfixturevalue("http_broker")
        return
    opened = EmbeddedBroker(folder, clock=clock, threads=clock)
    yield (
        opened
        if request.param == "embedded"
        else RemoteBroker(lambda question, _: handle_request(opened, question))
    )
    opened.close()
