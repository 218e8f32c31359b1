"""Watching this machine: real processes, real connections, and a /proc that falls apart while it is
read."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from demo.hosts import FIELDS, Event
from demo.machine import Machine, parse_address, read_connections, watch
from tests.support import eventually

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="there is no /proc")


def look_until(machine: Machine, event_type: str, pid: int) -> Event:
    def seen() -> Event | None:
        mine = (e for e in machine.look() if e["event_type"] == event_type and e["pid"] == pid)
        return next(mine, None)

    found = eventually(seen, f"{event_type} of {pid}")
    assert found is not None
    return found


def test_a_process_and_its_parent() -> None:
    machine = Machine()
    machine.look()
    command = [sys.executable, "-c", "import time; time.sleep(1000)"]
    with subprocess.Popen(command) as child:
        time.sleep(0.2)
        try:
            event = look_until(machine, "process_creation", child.pid)
        finally:
            child.kill()
    assert tuple(event) == FIELDS
    assert event["ppid"] == os.getpid()
    assert event["command_line"] == " ".join(command)
    assert str(event["image"]).endswith(os.path.realpath(sys.executable).rsplit("/", 1)[-1])
    mine = Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode().split("\0")
    assert event["parent_command_line"] == " ".join(mine)


def test_a_connection_both_ways() -> None:
    machine = Machine()
    machine.look()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
    ):
        port = server.getsockname()[1]
        accepted, _ = server.accept()
        with accepted:
            found = [event for event in machine.look() if event["dst_port"] == port]
    assert sorted(str(event["initiated"]) for event in found) == ["False", "True"]
    assert {event["pid"] for event in found} == {os.getpid()}
    assert {event["dst_ip"] for event in found} == {"127.0.0.1"}


def test_watch_ends_when_asked() -> None:
    looks = iter([False, False, True])
    assert all(tuple(event) == FIELDS for event in watch(lambda: next(looks), interval_s=0.01))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0100007F:1F90", ("127.0.0.1", 8080)),
        ("00000000000000000000000001000000:0016", ("::1", 22)),
        ("0000000000000000FFFF00000100000A:01BB", ("10.0.0.1", 443)),
    ],
)
@pytest.mark.skipif(sys.byteorder != "little", reason="the examples are of a little-endian machine")
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


def make_process(proc: Path, pid: int, name: str) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} ({name}) S 1 1 1 0 -1")
    (folder / "cmdline").write_bytes(b"prog\0--text\0\xff\0")


def test_what_is_gone_or_hidden_is_left_out(tmp_path: Path) -> None:
    make_process(tmp_path, 10, "odd) name (x")
    (tmp_path / "11").mkdir()  # gone between listing and reading
    (tmp_path / "version").write_text("")
    machine = Machine(tmp_path, "box")
    (event,) = machine.look()
    assert (event["pid"], event["ppid"], event["image"]) == (10, 1, "odd) name (x")
    assert event["command_line"] == "prog --text \ufffd"
    assert read_connections(tmp_path) == set()
    assert machine.look() == []


def test_a_look_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.machine.MAX_EVENTS_PER_LOOK", 5)
    for pid in range(10, 20):
        make_process(tmp_path, pid, "many")
    assert len(Machine(tmp_path).look()) == 5
