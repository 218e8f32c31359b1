"""Clients that hold connections, send slowly, send too much or wait in crowds: others get in."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from parser.limits import using
from tests.hostile.raw_http import Raw, get, many
from tests.service.harness import Process, running
from tests.support import eventually

TOKEN = "a-token-of-tests"
BEARER = f"Authorization: Bearer {TOKEN}"
JOBS, HEALTH, READY = "/api/v1/jobs", "/healthz", "/readyz"
RECORDS = "/api/v1/topics/events/records"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server with small limits, for whose port no token is needed."""
    limits = using(head_time=1, body_time=1, connections=60, connections_by_address=40)
    with limits, running(tmp_path_factory.mktemp("server") / "data") as (service, user):
        user.topic("events")
        user.write("events", *[{"id": n, "word": "x" * 1000} for n in range(20_000)])
        yield service.port


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server with a token, and bodies of at most 1 MB."""
    data: Path = tmp_path_factory.mktemp("guarded") / "data"
    limits = using(request_size=1 << 20, connections=600, connections_by_address=200)
    with limits, running(data, token=TOKEN) as (service, user):
        user.topic("events")
        yield service.port


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    Raw.close_all()


# ---- heads and bodies that do not come ---------------------------------------------------------


def test_heads_that_come_byte_by_byte_do_not_keep_others_out(port: int) -> None:
    with many(150, port) as slow:
        for connection in slow:
            with suppress(ConnectionError):  # it has given way to a later one
                connection.send("GET / HTTP/1.1\r\nHost: lo")
        assert get(port, HEALTH).status == 200
        time.sleep(0.6)
        for _ in range(3):
            assert get(port, JOBS).status == 200
            assert get(port, HEALTH).took_s < 3.0
        began = time.monotonic()
        eventually(lambda: all(c.is_closed() for c in slow), "the end of all slow heads")
        assert time.monotonic() - began < 20


def test_a_head_that_is_not_complete_in_time_is_told(port: int) -> None:
    answer = Raw.to(port).head("GET", JOBS, end="\r\n").answer()
    assert answer.status == 408
    assert 0.5 < answer.took_s < 20
    silent = Raw.to(port)
    eventually(silent.is_closed, "the end of a connection that says nothing")


def test_a_byte_now_and_then_does_not_keep_a_request_open(port: int) -> None:
    head = Raw.to(port).send("GET / HTTP/1.1\r\n")
    assert head.drip() == 408
    body = Raw.to(port).head("POST", RECORDS, "Content-Length: 100000")
    assert body.drip() == 408


def test_a_body_that_stops_is_told(port: int) -> None:
    connection = Raw.to(port).head("POST", RECORDS, "Content-Length: 1000").send("{}\n")
    answer = connection.answer()
    assert answer.status == 408
    assert "body takes too long" in answer.text
    assert 0.5 < answer.took_s < 20


def test_an_answer_that_nobody_reads_ends(port: int) -> None:
    """20 MB for each of those who do not read: their threads are free again."""
    with many(3, port) as deaf:
        for connection in deaf:
            connection.head("GET", f"{RECORDS}?limit=20000")
        eventually(lambda: get(port, JOBS).took_s < 5.0, "an answer to others")
        time.sleep(4)
        assert all(len(c.answer().text) < 19_000_000 for c in deaf)


# ---- who gives way -------------------------------------------------------------------------------


def test_a_flood_from_one_address_leaves_room_for_others(port: int) -> None:
    """Each sends a body, slowly: none of them can be closed for it."""
    with many(60, port) as flood:
        for connection in flood:
            with suppress(ConnectionError):
                connection.head("POST", RECORDS, "Content-Length: 100000", end="\r\n\r\n{}")
        assert get(port, JOBS, source="127.0.0.2").status == 200
        assert get(port, HEALTH).status == 200
        assert get(port, READY).status == 200
        refused = get(port, JOBS)
        assert refused.status == 503
        assert "Retry-After: 1" in refused.text
        assert "too many connections" in refused.text
    eventually(lambda: get(port, JOBS).status == 200, "room")


def test_floods_from_some_addresses_leave_room_for_others(port: int) -> None:
    """All are new, so that none has had its moment; who has few connections gets in."""
    with ExitStack() as floods:
        for host in (10, 11, 12):
            floods.enter_context(many(30, port, f"127.0.0.{host}"))
        for _ in range(3):
            assert get(port, JOBS, source="127.0.0.2").status == 200


def test_idle_connections_give_way(port: int) -> None:
    with many(40, port) as idle:
        for connection in idle:
            assert connection.head("GET", HEALTH).answer().status == 200
        assert get(port, JOBS).status == 200
        assert idle[0].is_closed()
        assert not idle[-1].is_closed()


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="the command prlimit is not there")
def test_connections_that_take_all_descriptors(tmp_path: Path) -> None:
    """Those that do least give way; the server neither ends nor spins."""
    with Process(tmp_path / "data", wrapper=["prlimit", "--nofile=150:150"]) as process:
        user = process.user()
        port = int(user.client.server.rsplit(":", 1)[1])
        with many(180, port) as crowd:
            for connection in crowd:
                with suppress(ConnectionError):
                    connection.send("GET / HTTP/1.1")
            eventually(lambda: "no connection can be accepted" in process.said(), process.said)
            eventually(lambda: get(port, JOBS).status == 200, process.said)
            assert process.said().count("no connection can be accepted") < 60
            assert "Traceback" not in process.said()
        eventually(lambda: get(port, JOBS).status == 200, process.said)


# ---- bodies that nobody asked for ------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Length: 1073741824"],
        ["Content-Length: 1073741824", "Expect: 100-continue"],
        ["Transfer-Encoding: chunked"],
        ["Content-Length: 10", "Authorization: Bearer wrong"],
    ],
    ids=str,
)
def test_who_is_not_in_is_told_before_the_body(guarded: int, headers: list[str]) -> None:
    answer = Raw.to(guarded).head("PUT", f"{JOBS}/a", *headers).answer()
    assert answer.status == 401
    assert "Connection: close" in answer.text
    assert answer.took_s < 2


def test_a_body_that_is_too_large_is_told_before_it_comes(guarded: int) -> None:
    length = f"Content-Length: {(1 << 20) + 1}"
    for headers in ([length], [length, "Expect: 100-continue"]):
        answer = Raw.to(guarded).head("PUT", f"{JOBS}/a", BEARER, *headers).answer()
        assert (answer.status, "larger than 1 MiB" in answer.text) == (413, True)
    fits = Raw.to(guarded).head("POST", RECORDS, BEARER, f"Content-Length: {1 << 20}")
    assert fits.send(b"\n" * (1 << 20)).answer().status == 200


def test_chunks_that_are_too_much_are_told(guarded: int) -> None:
    head = ("POST", RECORDS, BEARER, "Transfer-Encoding: chunked")
    assert Raw.to(guarded).head(*head).send("40000000\r\n").answer().status == 413
    connection = Raw.to(guarded).head(*head)
    for _ in range(9):
        connection.send("20000\r\n", b"\n" * 0x20000, "\r\n")
    assert connection.answer().status == 413
    fits = Raw.to(guarded).head(*head)
    for _ in range(8):
        fits.send("20000\r\n", b"\n" * 0x20000, "\r\n")
    assert fits.send("0\r\n\r\n").answer().status == 200


def test_a_client_that_sends_first_and_reads_then_sees_the_answer(guarded: int) -> None:
    size = 16 << 20
    connection = Raw.to(guarded).head("PUT", f"{JOBS}/a", f"Content-Length: {size}")
    assert connection.send(bytes(size)).answer().status == 401


def test_a_refused_body_is_no_request(guarded: int) -> None:
    """What stands behind a head that is refused is not read as the next request."""
    inner = f"DELETE {JOBS}/a HTTP/1.1\r\nHost: localhost\r\n{BEARER}\r\n\r\n"
    length = f"Content-Length: {len(inner)}"
    connection = Raw.to(guarded).head("PUT", f"{JOBS}/a", length, end="\r\n\r\n" + inner)
    answer = connection.answer()
    assert (answer.status, answer.text.count("HTTP/1.1")) == (401, 1)


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        (["Content-Length: " + "9" * 5000], ""),
        (["Content-Length: -1"], ""),
        (["Content-Length: 3", "Content-Length: 3"], "abc"),
        (["Content-Length: 3", "Transfer-Encoding: chunked"], "0\r\n\r\n"),
        (["Transfer-Encoding: chunked"], "1;" + "x" * 5000),
        (["Transfer-Encoding: chunked"], "f" * 5000),
        (["Transfer-Encoding: chunked"], "0\r\n" + "a: b\r\n" * 5000),
        (["X: " + "x" * (65 << 10)], ""),
        (["X: y"] * 20_000, ""),
    ],
    ids=[
        "digits", "negative", "twice", "both", "long extension", "long length", "long trailer",
        "long header", "many headers",
    ],
)  # fmt: skip
def test_odd_requests_are_refused(guarded: int, lines: list[str], body: str) -> None:
    connection = Raw.to(guarded).head("POST", RECORDS, BEARER, *lines, end="\r\n\r\n" + body)
    assert 400 <= connection.answer().status < 500
    assert get(guarded, HEALTH).status == 200


# ---- those who wait ------------------------------------------------------------------------------


def test_those_who_wait_do_not_hold_up_others(guarded: int) -> None:
    path = f"{RECORDS}?offset=latest&wait=1"
    over = threading.Event()

    def poll() -> None:
        while not over.is_set():
            connection = Raw.to(guarded).head("GET", path, BEARER, "Connection: close")
            assert connection.answer().status == 200
            connection.close()

    pollers = [threading.Thread(target=poll) for _ in range(90)]
    for poller in pollers:
        poller.start()
    try:
        time.sleep(1.5)
        for _ in range(3):
            assert get(guarded, HEALTH).took_s < 1.0
            ordinary = Raw.to(guarded).head("GET", JOBS, BEARER, "Connection: close").answer()
            assert (ordinary.status, ordinary.took_s < 1.0) == (200, True)
    finally:
        over.set()
        for poller in pollers:
            poller.join()


def test_only_so_many_wait(tmp_path: Path) -> None:
    with using(waiting_requests=3), running(tmp_path / "data") as (service, user):
        user.topic("events")
        path = f"{RECORDS}?offset=latest&wait=1"
        with many(30, service.port) as clients:
            for client in clients:
                client.head("GET", path)
            answers = [c.answer() for c in clients]
        assert {a.status for a in answers} == {200, 503}
        full = next(a for a in answers if a.status == 503)
        assert "Retry-After: 1" in full.text
        assert "waiting-requests" in full.text
        assert get(service.port, f"{RECORDS}?offset=0").status == 200
