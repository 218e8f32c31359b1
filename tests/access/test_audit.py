"""What a server tells its audit log, and what becomes of it on a full disk."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyarrow import flight

from parser.errors import SqlError
from sqlengine.access.audit.log import files_in
from sqlengine.cli import main
from sqlengine.client import Client
from sqlengine.config import Config
from sqlengine.service import Service
from tests.access.conftest import TOKENS, Guarded, access_text, temporary
from tests.access.test_audit_chain import told
from tests.access.test_routes import ask
from tests.clients.flight_client import Client as FlightClient
from tests.service.harness import User, running
from tests.support import eventually

JOB = (
    "CREATE TEMPORARY TABLE i (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'a.in', 'format' = 'json');"
    "CREATE TEMPORARY TABLE o (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'a.out', 'format' = 'json');"
    "INSERT INTO o SELECT id FROM i"
)


@pytest.fixture
def audited(tmp_path: Path) -> Iterator[tuple[Guarded, Path]]:
    file = tmp_path / "access.toml"
    file.write_text(access_text())
    with running(tmp_path / "data", access=file) as (service, _):
        server = Guarded(file, f"http://127.0.0.1:{service.port}")
        for topic in ("a.in", "a.out", "shared"):
            server.user("root").topic(topic)
        yield server, tmp_path / "data"


def lines(data: Path) -> list[tuple[Any, ...]]:
    return [
        (t["by"], t["what"], t.get("object", ""), t.get("version", 0), t["outcome"])
        for t in told(data / "audit")
    ]


def test_what_is_told(
    audited: tuple[Guarded, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each change with its version, reads of data, refusals and the access file; lists are not."""
    server, data = audited
    alice, root = server.user("alice"), server.user("root")
    alice.submit("a.x", JOB)
    alice.submit("a.x", JOB + " WHERE id > 1")
    alice.refused(lambda: alice.submit("a.x", JOB.replace("a.in", "secret")))
    alice.refused(lambda: alice.submit("b.x", JOB))
    many: dict[str, object] = {"jobs": {"a.y": JOB, "a.z": "SELEKT"}}
    alice.client.post("/api/v1/jobs", many)
    alice.jobs()
    alice.client.post("/api/v1/jobs/a.x/stop")
    alice.client.post("/api/v1/jobs/a.x/rollback", version=1)
    alice.client.delete("/api/v1/jobs/a.y")
    alice.client.post("/api/v1/statements", b"STOP JOB 'a.x'")
    alice.client.post("/api/v1/queries", b"SELECT 'what alice asks'")
    alice.client.get("/api/v1/jobs/a.x/dead-letters")
    root.command(op="start", name="a.x")
    (data / "jobs" / "f.sql").write_text(JOB.replace("a.in", "shared"))
    eventually(lambda: root.states().get("f") == "running")
    server.file.write_text(access_text() + "\n")

    def was_read() -> bool:
        ask(server, "-", "GET", "/readyz")
        return ("", "read access file") in [line[:2] for line in lines(data)]

    eventually(was_read)
    job = "/api/v1/jobs/<name>"
    wanted = [
        ("", "start server", "", 0, "done"),
        ("root", "POST /api/v1/topics", "a.in", 0, "done"),
        ("alice", f"PUT {job}", "a.x", 1, "done"),
        ("alice", f"PUT {job}", "a.x", 2, "done"),
        ("alice", "POST /api/v1/jobs", "a.y", 1, "done"),
        ("alice", "POST /api/v1/jobs", "a.z", 0, "refused"),
        ("alice", f"POST {job}/stop", "a.x", 2, "done"),
        ("alice", f"POST {job}/rollback", "a.x", 3, "done"),
        ("alice", f"DELETE {job}", "a.y", 0, "done"),
        ("alice", "POST /api/v1/statements", "", 0, "done"),
        ("alice", "POST /api/v1/queries", "", 0, "done"),
        ("alice", f"GET {job}/dead-letters", "a.x", 0, "done"),
        ("root", "POST /api/v1/topics/<name>/records", "_commands", 0, "done"),
        ("", "command start (c1)", "a.x", 3, "done"),
        ("", "file added", "f", 1, "done"),
    ]
    found = lines(data)
    assert [line for line in found if line in wanted] == wanted
    assert "what alice asks" in str(told(data / "audit"))
    assert not any(what == "GET /api/v1/jobs" for _, what, *_ in found)
    shown = ran(capsys, "show", "--data", str(data), "--by", "alice", "--object", "a.x")
    assert "version 3" in shown
    assert "root" not in shown
    assert json.loads(ran(capsys, "show", "--data", str(data), "--output", "json").splitlines()[0])


def ran(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as end:
        main(["audit", *arguments])
    out = capsys.readouterr()
    assert end.value.code == code, out.err
    return out.out + out.err


def test_refusals_of_flight(tmp_path: Path) -> None:
    """Who is not known, who may ask nothing, and what a principal may not read."""
    file, data = tmp_path / "access.toml", tmp_path / "data"
    file.write_text(access_text())
    with running(data, access=file, flight_port=0) as (service, _):
        assert service.flight is not None
        for token in ("nobody", TOKENS["sender"], TOKENS["alice"]):
            with FlightClient(service.flight.port, token) as client:
                for sql in ("SELECT 1", temporary("t", "secret")):
                    with suppress(flight.FlightError):
                        client.query(sql)
    found = {
        (t["by"], t["what"], t.get("object", ""), t["outcome"]): str(t["detail"])
        for t in told(data / "audit")
        if str(t["what"]).startswith("Flight")
    }
    assert found.keys() == {
        ("", "Flight GetFlightInfo", "", "refused"),
        ("sender", "Flight GetFlightInfo", "", "refused"),
        ("alice", "Flight statement", "", "done"),
        ("alice", "Flight statement", "secret", "refused"),
    }
    assert "may not see topic 'secret'" in found["alice", "Flight statement", "secret", "refused"]
    assert "CREATE TEMPORARY" in found["alice", "Flight statement", "secret", "refused"]


def test_what_comes_often_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Appends, reads and refusals are told by their numbers when the server stops, at the latest.
    `sql audit verify` finds what is done to the file then."""
    file, data = tmp_path / "access.toml", tmp_path / "data"
    file.write_text(access_text())
    with running(data, access=file) as (service, _):
        server = Guarded(file, f"http://127.0.0.1:{service.port}")
        root, alice = server.user("root"), server.user("alice")
        root.topic("a.in")
        for n in range(50):
            alice.write("a.in", {"id": n})
        alice.read("a.in")
        for _ in range(5):
            assert ask(server, "reader", "DELETE", "/api/v1/topics/a.in")[0] == 403
            assert ask(server, "-", "GET", "/api/v1/jobs")[0] == 401
        assert ask(server, "reader", "DELETE", "/api/v1/jobs/a.x")[0] == 403
        assert len(told(data / "audit")) == 3
    counted = {(t["by"], t["what"], t["outcome"]): t.get("times", 1) for t in told(data / "audit")}
    records = "/api/v1/topics/<name>/records"
    assert counted["alice", f"POST {records}", "done"] == 50
    assert counted["alice", f"GET {records}", "done"] == 2
    refused = {key[:2]: n for key, n in counted.items() if key[2] == "refused"}
    assert refused == {
        ("reader", "DELETE /api/v1/topics/a.in"): 5,
        ("", "GET /api/v1/jobs"): 5,
        ("reader", "DELETE /api/v1/jobs/a.x"): 1,
    }
    shown = ran(capsys, "show", "--data", str(data), "--object", "a.x")
    assert "once, principal 'reader' may not change job 'a.x'" in shown
    shown = ran(capsys, "show", "--data", str(data), "--object", "a.in")
    assert "5 times, principal 'reader' may not write topic 'a.in'" in shown
    whole = ran(capsys, "verify", "--data", str(data)).split()[-1]
    assert "whole" in ran(capsys, "verify", "--data", str(data), "--expect", whole)
    (path,) = files_in(data / "audit")
    path.write_bytes(path.read_bytes().replace(b"alice", b"bobby", 1))
    said = ran(capsys, "verify", str(path), code=1)
    assert f"{path.name}, line 4: it was changed" in said


def test_a_full_disk_stops_changes_and_nothing_else(
    audited: tuple[Guarded, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs run on and what they write is read; a change is refused and says why, until there is
    space again."""
    server, data = audited
    alice = server.user("alice")
    alice.submit("a.x", JOB)
    write, (path,) = os.write, files_in(data / "audit")

    def full(file: int, content: bytes) -> int:
        if os.path.realpath(f"/proc/self/fd/{file}") == os.path.realpath(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, content)

    alice.write("a.in", {"id": 1})
    monkeypatch.setattr(os, "write", full)
    alice.submit("a.x", JOB + " WHERE id > 0")  # the first that is not told at once
    refusal = alice.refused(lambda: alice.submit("a.x", JOB + " WHERE id > 1"))
    assert refusal.status == 507
    assert "the audit log cannot be written" in str(refusal)
    assert alice.refused(lambda: alice.write("a.in", {"id": 2})).status == 507
    assert alice.refused(lambda: alice.client.delete("/api/v1/jobs/a.x")).status == 507
    status, said = ask(server, "-", "GET", "/readyz")
    assert (status, said["status"]) == (503, "not ready")
    assert "the audit log cannot be written" in str(said["problem"])
    eventually(lambda: alice.read("a.out") == [{"id": 1}])
    assert alice.client.post("/api/v1/queries", b"SELECT 1")["rows"]
    monkeypatch.setattr(os, "write", write)
    alice.write("a.in", {"id": 3})
    eventually(lambda: alice.read("a.out") == [{"id": 1}, {"id": 3}])
    assert ask(server, "-", "GET", "/readyz")[0] == 200
    assert ("alice", "PUT /api/v1/jobs/<name>", "a.x", 2, "done") in lines(data)
    assert ("", "write audit log again", "", 0, "done") in lines(data)


def test_the_log_goes_on_after_a_kill(tmp_path: Path) -> None:
    """`kill -9` of a server that tells: the next one goes on behind the last whole line."""
    from tests.service.harness import Process

    file, data = tmp_path / "access.toml", tmp_path / "data"
    file.write_text(access_text())
    with Process(data, options=f"access=Path({str(file)!r})") as process:
        url = process.user().client.server
        alice = User(Client(url, TOKENS["root"], "rest"))
        for n in range(20):
            alice.topic(f"a.{n}")
        process.process.kill()
        process.process.wait()
    assert [line[2] for line in lines(data)][-1] == "a.19"
    (path,) = files_in(data / "audit")
    with path.open("ab") as log:
        log.write(b'{"n":22,"prev":"12')
    with running(data, access=file) as (service, _):
        User(Client(f"http://127.0.0.1:{service.port}", TOKENS["root"], "rest")).topic("a.20")
    assert [line[1:3] for line in lines(data)][-4:] == [
        ("repair audit log", ""),
        ("start server", ""),
        ("POST /api/v1/topics", "a.20"),
        ("stop server", ""),
    ]
    with pytest.raises(SystemExit) as end:
        main(["audit", "verify", "--data", str(data)])
    assert end.value.code == 0


def test_a_second_server_leaves_the_log_of_the_first_alone(
    audited: tuple[Guarded, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused for the lock of the folder, and has not touched the chain by then."""
    server, data = audited
    server.user("alice").submit("a.x", JOB)
    before = lines(data)
    with pytest.raises(SqlError, match="is in use by"):
        Service(Config(data=data, port=0, access=server.file))
    assert lines(data) == before
    server.user("alice").submit("a.x", JOB + " WHERE id > 1")
    assert "whole up to" in ran(capsys, "verify", "--data", str(data))
