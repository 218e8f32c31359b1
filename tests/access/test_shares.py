"""One principal never has all of what a server has so many of: sessions and what they keep,
queries, turns of planning, requests that wait, streams of rows, prepared statements."""

from __future__ import annotations

import ctypes
import json
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyarrow import flight

from parser.limits import using
from sqlengine.access.tokens import hash_of
from sqlengine.api import events
from sqlengine.api.flight import prepared
from sqlengine.api.flight.wire import field
from sqlengine.client import Client, Refused
from sqlengine.config import QueryLimits
from sqlengine.queries import room
from sqlengine.service import Service
from tests.access.conftest import TOKENS, access_text, table
from tests.clients.flight_client import Client as FlightClient
from tests.gateway.client import Failed, Session
from tests.hostile.raw_http import Raw
from tests.service.harness import User, running
from tests.support import eventually

ENDLESS = "CREATE TABLE endless (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10')"


COUNTING = f"{ENDLESS.replace('TABLE', 'TEMPORARY TABLE')}; SELECT n FROM endless"


class Shared:
    """A server with room for little, and its access file."""

    def __init__(self, service: Service, file: Path) -> None:
        assert service.flight is not None
        self.file = file
        self.service = service
        self.port, self._flight_port = service.port, service.flight.port

    def session(self, name: str) -> Session:
        return Session(f"127.0.0.1:{self.port}", token=TOKENS[name])

    def user(self, name: str) -> User:
        return User(Client(f"http://127.0.0.1:{self.port}", TOKENS[name], "rest"))

    def flight(self, name: str) -> FlightClient:
        return FlightClient(self._flight_port, TOKENS[name])


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shares")
    file = folder / "access.toml"
    file.write_text(access_text())
    limits = using(waiting_requests=8)
    options: dict[str, Any] = {"queries": QueryLimits(at_once=4), "flight_port": 0, "access": file}
    with limits, running(folder / "data", **options) as (service, _):
        yield Shared(service, file)


def test_sessions(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_KEPT", 4)
    with shared.session("alice"), shared.session("alice"), shared.session("alice"):
        with pytest.raises(Failed) as failed:
            shared.session("alice").__enter__()
        assert "as many as principal 'alice' may have" in failed.value.texts[1]
        with shared.session("bob") as session:
            assert session.rows("SELECT 1") == [[1]]
            with pytest.raises(Failed) as failed:
                shared.session("reader").__enter__()
            assert "4 sessions are open already" in failed.value.texts[1]


def test_what_sessions_keep(shared: Shared) -> None:
    """The bound is one of all sessions of a principal; what is dropped makes room."""
    view = f"CREATE TEMPORARY VIEW {{0}} AS SELECT '{'x' * 3_000}' AS a"
    with using(session_size=9_000), shared.session("alice") as one, shared.session("bob") as bobs:
        one.run(view.format("va"))
        one.run(view.format("vb"))
        with shared.session("alice") as two:
            told = two.failure(view.format("vc")).texts[-1]
            assert (
                "1:1: invalid statement: view 'vc' has no room in the session: at most 9,000 "
                in told
            )
            assert "('session-size')" in told
            assert "and 6," in told, "what the other session has"
            assert two.rows("SHOW VIEWS") == []
            bobs.run(view.format("vc"))
            one.run("DROP TEMPORARY VIEW va")
            two.run(view.format("vc"))
            with pytest.raises(Failed, match=r"setting 'sql-client\.x' has no room"):
                one.run(f"SET 'sql-client.x' = '{'x' * 5_000}'")
            with pytest.raises(Failed, match=r"setting 'sql-client\.y' has no room"):
                Session(
                    one.address,
                    token=TOKENS["alice"],
                    properties={"sql-client.y": "y" * 9_000},
                ).__enter__()
            two.run("BEGIN STATEMENT SET")
            insert = f"INSERT INTO t SELECT '{'x' * 3_000}'"
            assert "the statement set has no room" in two.failure(insert).texts[-1]


def test_what_sessions_of_other_clients_keep(shared: Shared) -> None:
    view = f"CREATE TEMPORARY VIEW v AS SELECT '{'x' * 3_000}' AS a"
    with using(session_size=3_000), shared.flight("alice") as alice:
        with pytest.raises(flight.FlightServerError, match="view 'v' has no room"):
            alice.update(view)
        user = shared.user("alice")
        session = user.client.post("/api/v1/sessions")["session"]
        where = f"/api/v1/queries?session={session}"
        refusal = user.refused(lambda: user.client.post(where, f"{view}; SELECT 1".encode()))
        assert refusal.status == 400
        assert refusal.position is not None
        assert "'session-size'" in refusal.message


def test_texts_that_are_too_long(shared: Shared) -> None:
    alice = shared.user("alice")
    with using(text_size=1_000), shared.session("alice") as session:
        bodies: tuple[bytes | dict[str, object], ...] = (
            b"SELECT 1" + b" " * 1_000,
            {"sql": "x" * 2_000},
        )
        for body in bodies:
            refusal = alice.refused(partial(alice.client.post, "/api/v1/queries", body))
            assert (refusal.status, "'text-size'" in str(refusal)) == (400, True)
        assert "'text-size'" in session.failure(f"SELECT 1{' ' * 1_000}").texts[-1]
        assert "'text-size'" in session.failure(f"SELECT 1{' ' * 2_000}").texts[-1]
    shown = alice.client.post("/api/v1/queries", f"SELECT '{'x' * 20_000}' AS a".encode())["sql"]
    assert (len(str(shown)), str(shown)[-2:]) == (16_386, " …")


def test_turns_of_planning(shared: Shared) -> None:
    """Long texts are ended at their time; meanwhile others are planned."""
    alice, bob = shared.user("alice"), shared.user("bob").client
    numbers = " OR ".join(f"a = {n}" for n in range(60_000))
    text = f"EXPLAIN SELECT 1 FROM (VALUES (1)) AS t(a) WHERE {numbers}".encode()
    turns = shared.service._queries._planning._turns

    def ask() -> Refused:
        return alice.refused(lambda: alice.client.post("/api/v1/queries", text))

    with using(planning_time=1), ThreadPoolExecutor(5) as threads:
        asked = [threads.submit(ask) for _ in range(5)]
        eventually(lambda: turns.taken() == 1)
        assert bob.post("/api/v1/queries", b"SELECT 1")["rows"]
        assert turns.taken() == 1
        told = {(a.result().status, a.result().message) for a in asked}
    assert {status for status, _ in told} <= {400, 429}
    assert (400, "planning took more than 1 s ('planning-time')") in told
    with shared.session("alice") as session:
        session.begin(text.decode())
        eventually(turns.taken)
    eventually(lambda: not turns.taken())  # long before 'planning-time'


def test_queries_that_run(shared: Shared) -> None:
    with shared.session("alice") as session:
        session.run(ENDLESS)
        running = [session.begin("SELECT n FROM endless") for _ in range(4)]
        eventually(lambda: sum(_has_rows(session, operation) for operation in running) == 3)
        assert shared.user("bob").client.post("/api/v1/queries", b"SELECT 1")["rows"]
        refusal = shared.user("alice").refused(
            lambda: shared.user("alice").client.post("/api/v1/queries", b"SELECT 1")
        )
        assert refusal.status == 429
        assert "3 queries of principal 'alice' run already" in refusal.message


def _has_rows(session: Session, operation: str) -> bool:
    return bool(
        session.call("GET", f"{session.place}/operations/{operation}/status")["status"]
        == "FINISHED"
    )


def test_statements(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_KEPT", 8)
    with shared.session("alice") as session:
        session.run(ENDLESS)
        for _ in range(6):
            session.begin("SELECT n FROM endless")
        with pytest.raises(Failed) as failed:
            session.begin("SELECT n FROM endless")
        assert "ad-hoc statements of principal 'alice' run already" in failed.value.texts[1]
        assert shared.user("bob").client.post("/api/v1/queries", b"SELECT 1")["rows"]


def test_results_that_nobody_reads_make_way(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of who has the most go first."""
    slots = shared.service._queries._slots
    eventually(lambda: not slots.taken())
    reader, alice = shared.user("reader").client, shared.user("alice").client
    large = "SELECT REPEAT('x', {0}) AS v FROM (VALUES (1), (2)) AS t(n)"
    kept = reader.post("/api/v1/queries?wait=0", large.format(100).encode())["query"]
    with monkeypatch.context() as patched:
        patched.setattr("sqlengine.queries.results.PAGE_BYTES", 1)
        first = alice.post("/api/v1/queries", large.format(200_000).encode())["query"]
        for _ in range(3):
            alice.post("/api/v1/queries", large.format(200_000).encode())
            eventually(lambda: not slots.taken())
    monkeypatch.setattr(shared.service._queries, "_most_held", 300_000)
    alice.post("/api/v1/queries", b"SELECT 1")
    assert reader.get(f"/api/v1/queries/{kept}", page=0)["rows"]
    refusal = shared.user("alice").refused(lambda: alice.get(f"/api/v1/queries/{first}", page=0))
    assert refusal.status == 404


def test_requests_that_wait(shared: Shared) -> None:
    """Who holds streams of events open leaves places to others, and has them again soon after one
    has hung up."""
    held = [_events(shared.port, "monitor") for _ in range(8)]
    try:
        statuses = sorted(_status(raw) for raw in held)
        assert statuses == [200] * 6 + [503] * 2
        assert shared.user("bob").client.post("/api/v1/queries", b"SELECT 1")["rows"]
    finally:
        Raw.close_all()
    again: list[int] = []

    def free() -> bool:
        again.append(_status(_events(shared.port, "monitor")))
        return again[-1] == 200

    eventually(free)
    Raw.close_all()


def test_a_reader_that_vanishes(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more comes of it, no end and no answer to what is sent: its place is free after
    'body-time'."""
    monkeypatch.setattr(events, "_SILENT_S", 0.1)
    with using(body_time=1):
        held: list[Raw] = []

        def hold() -> bool:
            raw = _events(shared.port, "monitor")
            held.extend([raw] * (_status(raw) == 200))
            return len(held) == 6

        eventually(hold)
        assert _status(_events(shared.port, "monitor")) == 503
        for raw in held:
            raw.socket.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, _NOTHING_COMES)
        began = time.monotonic()
        eventually(lambda: _status(_events(shared.port, "monitor")) == 200)
        assert time.monotonic() - began < 10
        Raw.close_all()


# A filter of packets with one instruction: take none.
_ATTACH_FILTER: Final = 26
_INSTRUCTION: Final = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
_NOTHING_COMES: Final = struct.pack("HL", 1, ctypes.addressof(_INSTRUCTION))


def test_a_token_that_is_withdrawn(shared: Shared) -> None:
    """Streams that have begun end with it, as events and as rows of Flight."""
    user = shared.user("reader")
    told = Raw.to(shared.port).head(
        "POST",
        "/api/v1/queries?follow=true",
        f"Authorization: Bearer {TOKENS['reader']}",
        "Accept: text/event-stream",
        f"Content-Length: {len(COUNTING)}",
    )
    told.send(COUNTING)
    with shared.flight("reader") as client:
        client.update("SET 'execution.runtime-mode' = 'streaming'")
        rows = client.reader(client.begin(COUNTING))
        assert rows.read_chunk().data.num_rows
        assert told.socket.recv(1 << 16)
        file = shared.file.read_text()
        shared.file.write_text(file.replace(hash_of(TOKENS["reader"]), hash_of("another" * 9)))
        try:
            with pytest.raises(flight.FlightUnauthenticatedError):
                rows.read_all()
            events_left = b""
            while part := told.socket.recv(1 << 16):
                events_left += part
            assert b'"status": 401' in events_left
        finally:
            shared.file.write_text(file)
            eventually(lambda: user.try_to(lambda: user.client.get("/api/v1/queries")) is None)
    Raw.close_all()


def test_statements_of_a_session_whose_token_is_withdrawn(shared: Shared) -> None:
    """They end though nobody asks for them, with the reason; whoever has got another token, and
    asks with that, keeps his."""
    file = shared.file.read_text()
    old, new = TOKENS["alice"], "another" * 9
    both = file.replace(f'"{hash_of(old)}"', f'["{hash_of(old)}", "{hash_of(new)}"]')
    shared.file.write_text(both.replace("token = [", "tokens = ["))
    eventually(lambda: _is_known(shared, new))
    session, kept = shared.session("alice").__enter__(), shared.session("alice").__enter__()
    for each in (session, kept):
        each.run(ENDLESS)
    ended, going_on = session.begin("SELECT n FROM endless"), kept.begin("SELECT n FROM endless")
    queries = shared.service._queries._queries
    kept.token = new
    kept.page(going_on, 0)
    shared.file.write_text(file.replace(hash_of(old), hash_of(new)))
    try:
        eventually(lambda: queries[ended].buffer.error is not None)
        error = queries[ended].buffer.error
        assert str(error).startswith("the query was ended, its client may not ask any more")
        assert "the token is not the server's" in str(error)
        audit = [
            json.loads(line)
            for path in (shared.file.parent / "data" / "audit").glob("*.jsonl")
            for line in path.read_text().splitlines()
        ]
        (told,) = [line for line in audit if line.get("what") == "end query"]
        assert (told["by"], told["object"]) == ("alice", ended)
        assert "the token is not the server's): SELECT n FROM endless" in told["detail"]
        assert queries[going_on].buffer.error is None
        session.token = new
        with pytest.raises(Failed) as failed:
            list(session.pages(ended))
        assert "may not ask any more" in str(failed.value.texts)
    finally:
        for each in (session, kept):
            each.token = new
            each.__exit__()
        shared.file.write_text(file)
        eventually(lambda: _is_known(shared, old))


def _is_known(shared: Shared, token: str) -> bool:
    user = User(Client(f"http://127.0.0.1:{shared.port}", token, "rest"))
    return user.try_to(lambda: user.client.get("/api/v1/queries")) is None


def _events(port: int, name: str) -> Raw:
    token = f"Authorization: Bearer {TOKENS[name]}"
    return Raw.to(port).head("GET", "/api/v1/jobs", token, "Accept: text/event-stream")


def _status(raw: Raw) -> int:
    return int(raw.socket.recv(64).split(b" ")[1])


def test_streams_of_flight(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared.service.flight is not None
    monkeypatch.setattr(shared.service.flight._statements._streams, "places", 4)
    place, schema = flight.FlightDescriptor.for_path("held"), pa.schema([("id", pa.int64())])
    root = shared.user("root")
    root.topic("a.held")
    root.submit("held", table("held", "a.held"))
    with shared.flight("alice") as alice, shared.flight("bob") as bob:
        writers = [alice.client.do_put(place, schema, alice.options)[0] for _ in range(3)]
        eventually(lambda: "3 of principal 'alice'" in _refusal(alice))
        assert bob.query("SELECT 1 AS a") == [{"a": 1}]
        for writer in writers:
            writer.close()
        eventually(lambda: not _refusal(alice))


def _refusal(client: FlightClient) -> str:
    try:
        client.query("SELECT 1 AS a")
    except flight.FlightError as error:
        return str(error)
    return ""


def test_prepared_statements(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of who has the most makes way for another, and none is longer than a statement."""
    monkeypatch.setattr(prepared, "_MOST", 5)
    with shared.flight("alice") as alice, shared.flight("bob") as bob:
        kept = bob.prepare("SELECT 1 AS a").data(1)
        first = alice.prepare("SELECT 1 AS a").data(1)
        for _ in range(6):
            last = alice.prepare("SELECT 1 AS a").data(1)
        assert _run(bob, kept) == _run(alice, last) == [{"a": 1}]
        with pytest.raises(flight.FlightServerError, match="does not exist"):
            _run(alice, first)
        with pytest.raises(flight.FlightServerError, match="'statement-size'"):
            alice.prepare(f"SELECT ? || '{'x' * 1_100_000}'")
        statement = alice.prepare("SELECT ? AS a").data(1)
        with pytest.raises(flight.FlightServerError, match="'statement-size'"):
            alice.put(
                "CommandPreparedStatementQuery",
                field(1, statement or b""),
                pa.table({"a": ["x" * 1_100_000]}),
            )


def _run(client: FlightClient, handle: bytes | None) -> list[dict[str, Any]]:
    return client.asked("CommandPreparedStatementQuery", field(1, handle or b""))
