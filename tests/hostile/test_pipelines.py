"""Requests that come before the answer to the one before, and what a connection costs that says
nothing."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sqlengine.api.serving.connection import Connection
from tests.hostile.raw_http import Raw, get, many
from tests.service.harness import User, running

RECORDS = "/api/v1/topics/events/records"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, User]]:
    data: Path = tmp_path_factory.mktemp("pipelines") / "data"
    with running(data) as (service, user):
        user.topic("events")
        user.write("events", *[{"id": n, "word": "x" * 2000} for n in range(5_000)])
        yield service.port, user


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    Raw.close_all()


def answers(connection: Raw, number: int) -> list[Any]:
    """Returns the next bodies that come over a connection."""
    with connection.socket.makefile("rb") as file:
        return [json.loads(_body(file)) for _ in range(number)]


def _body(file: BinaryIO) -> bytes:
    length = 0
    while line := file.readline().strip():
        name, _, value = line.lower().partition(b": ")
        length = int(value) if name == b"content-length" else length
    return file.read(length)


def test_requests_in_a_row_are_answered_in_their_order(served: tuple[int, User]) -> None:
    port, _ = served
    connection = Raw.to(port)
    for n in range(40):
        connection.head("GET", f"{RECORDS}?offset={n}&limit=1")
    assert [a["next_offset"] for a in answers(connection, 40)] == [*range(1, 41)]


def test_who_asks_again_at_once_is_answered_each_time(served: tuple[int, User]) -> None:
    port, _ = served
    connection = Raw.to(port)
    with connection.socket.makefile("rb") as file:
        for n in range(500):
            connection.head("GET", f"{RECORDS}?offset={n}&limit=1")
            assert json.loads(_body(file))["next_offset"] == n + 1


def test_a_request_behind_one_that_waits(served: tuple[int, User]) -> None:
    port, user = served
    end = answers(Raw.to(port).head("GET", f"{RECORDS}?offset=latest&limit=0"), 1)[0]
    connection = Raw.to(port).head("GET", f"{RECORDS}?offset={end['next_offset']}&wait=1")
    for n in range(5):
        time.sleep(0.02)
        connection.head("GET", f"{RECORDS}?offset={n}&limit=1")
    user.write("events", {"id": 0})
    _, *others = answers(connection, 6)
    assert [a["next_offset"] for a in others] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("requests", [1, 3])
def test_who_says_that_nothing_more_comes_is_answered(
    served: tuple[int, User], requests: int
) -> None:
    port, _ = served
    connection = Raw.to(port)
    for _ in range(requests):
        connection.head("GET", f"{RECORDS}?offset=latest&wait=0.2")
    connection.socket.shutdown(socket.SHUT_WR)
    assert len(answers(connection, requests)) == requests
    assert connection.socket.recv(1) == b""


def test_large_answers_in_a_row_to_a_slow_reader(served: tuple[int, User]) -> None:
    port, _ = served
    connection = Raw.to(port)
    for _ in range(4):
        connection.head("GET", f"{RECORDS}?offset=0&limit=2000")
    time.sleep(0.3)
    assert [a["next_offset"] for a in answers(connection, 4)] == [2_000] * 4


def test_connections_that_say_nothing_cost_nothing(
    served: tuple[int, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked of them for each call of another would be most of the call."""
    port, _ = served
    asked, readable = [0], Connection.readable

    def counted(connection: Connection) -> bool:
        asked[0] += 1
        return readable(connection)

    with many(100, port) as idle:
        for connection in idle:
            assert connection.head("GET", "/healthz").answer().status == 200
        monkeypatch.setattr(Connection, "readable", counted)
        began = time.monotonic()
        caller = threading.Thread(target=lambda: [get(port, "/healthz") for _ in range(100)])
        caller.start()
        caller.join()
        sweeps = time.monotonic() - began + 2
        assert asked[0] < 100 * 10 + sweeps * 110
