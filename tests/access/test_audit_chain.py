"""The chain of the audit log: whatever is done to its lines is found, and what a crash leaves is
repaired and told."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlengine.access.access_file import AuditSettings
from sqlengine.access.audit.chain import FIRST, Fault, Link, sealed, verify
from sqlengine.access.audit.log import AuditLog, Event, files_in
from tests.support import ROOT, eventually

LINES = 6


def chain(number: int) -> list[bytes]:
    lines, link = [], FIRST
    for n in range(number):
        line, link = sealed(
            {"by": "alice", "what": "PUT", "object": f"a.{n}", "text": 'ä"\n,'}, link
        )
        lines.append(line)
    return lines


def verified(lines: Sequence[bytes], expected: Link | None = None) -> Link | Fault:
    return verify([("f", b"".join(lines))], expected)


GOOD = chain(LINES)


def test_a_chain_that_nobody_touched() -> None:
    assert verified(GOOD) == sealed(json.loads(b"{}"), FIRST)[1] or isinstance(verified(GOOD), Link)
    link = verified(GOOD)
    assert isinstance(link, Link)
    assert link.number == LINES
    assert verified(GOOD, link) == link
    assert verified(GOOD[2:], link) == link  # older files are gone
    assert verified([]) == FIRST


@given(st.integers(0, len(b"".join(GOOD)) - 1), st.integers(1, 255))
def test_any_byte_that_is_changed(at: int, difference: int) -> None:
    data = bytearray(b"".join(GOOD))
    line = data[:at].count(b"\n") + 1
    data[at] ^= difference
    found = verify([("f", bytes(data))])
    if at == len(data) - 1:  # the last line end
        assert isinstance(found, Fault) or found.number == LINES
        return
    assert isinstance(found, Fault)
    assert found.line == line


@given(st.integers(0, LINES - 1), st.integers(1, LINES))
def test_lines_that_are_taken_out(first: int, number: int) -> None:
    """Those at the end alone need a hash that is kept elsewhere."""
    last = verified(GOOD)
    assert isinstance(last, Link)
    left = GOOD[:first] + GOOD[first + number :]
    found = verified(left)
    if first + number < LINES and first > 0:
        assert isinstance(found, Fault)
        assert found.line == first + 1
    else:
        assert isinstance(verified(left, last), Fault) == (first + number >= LINES)


@given(st.integers(0, LINES - 1), st.integers(0, LINES - 1))
def test_lines_that_are_put_in_or_moved(which: int, where: int) -> None:
    assert isinstance(verified([*GOOD[:where], GOOD[which], *GOOD[where:]]), Fault)
    moved = GOOD[:which] + GOOD[which + 1 :]
    moved.insert(where, GOOD[which])
    assert isinstance(verified(moved), Fault) == (which != where)
    forged, _ = sealed({"by": "mallory"}, Link(where, "0" * 64 if where == 0 else "1" * 64))
    assert isinstance(verified([*GOOD[:where], forged, *GOOD[where:]]), Fault)


@pytest.mark.parametrize("line", [b"", b"{}", b"text", b"\xff", b"[" * 2000, GOOD[0][:-1] * 2])
def test_what_is_no_line(line: bytes) -> None:
    found = verified([GOOD[0], line + b"\n", *GOOD[1:]])
    assert isinstance(found, Fault)
    assert found.line == 2


# ---- files -------------------------------------------------------------------------------------


def opened(folder: Path, file_bytes: int = 1 << 20, files: int = 16) -> AuditLog:
    return AuditLog(
        folder, AuditSettings(file_bytes, files), lambda: 1_700_000_000_000, sync=False
    ).open()


def told(folder: Path) -> list[dict[str, object]]:
    return [
        json.loads(line) for path in files_in(folder) for line in path.read_bytes().splitlines()
    ]


def is_whole(folder: Path) -> Link:
    found = verify((p.name, p.read_bytes()) for p in files_in(folder))
    assert isinstance(found, Link), found
    return found


def event(name: str) -> Event:
    return Event("alice", "127.0.0.1", "PUT /api/v1/jobs/<name>", name, 1)


def test_rotation_and_restarts(tmp_path: Path) -> None:
    """The chain goes on over files and restarts; old files go, and that is told."""
    for life in range(3):
        log = opened(tmp_path, 2000, 4)
        for n in range(10):
            log.write([event(f"j{life}.{n}")])
        log.close()
        is_whole(tmp_path)
    assert len(files_in(tmp_path)) == 4
    assert {"remove audit file", "PUT /api/v1/jobs/<name>"} == {t["what"] for t in told(tmp_path)}
    assert all(p.stat().st_size <= 2000 for p in files_in(tmp_path))
    assert all(p.stat().st_mode & 0o077 == 0 for p in files_in(tmp_path))


@pytest.mark.parametrize("left", [1, 50, 120])
def test_a_torn_line_is_cut_off_and_told(tmp_path: Path, left: int) -> None:
    log = opened(tmp_path)
    log.write([event("a"), event("b")])
    log.close()
    (path,) = files_in(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + chain(1)[0][:left])
    log = opened(tmp_path)
    log.write([event("c")])
    log.close()
    is_whole(tmp_path)
    assert [t["what"] for t in told(tmp_path)][2] == "repair audit log"
    assert f"{left} bytes" in str(told(tmp_path)[2])
    assert path.read_bytes().startswith(whole)


WRITER = """
import sys
from pathlib import Path
from tests.access.test_audit_chain import event, opened
log = opened(Path(sys.argv[1]), 20_000, 1000)
print("ready", flush=True)
n = 0
while True:
    log.write([event(f"j{n}") for n in range(n, n + 7)])
    n += 7
"""


def has_lines(folder: Path, most: int) -> bool:
    return sum(p.read_bytes().count(b"\n") for p in files_in(folder)) > most


def test_kills_while_it_is_written(tmp_path: Path) -> None:
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE
        ) as writer:
            before = len(told(tmp_path)) if files_in(tmp_path) else 0
            eventually(partial(has_lines, tmp_path, before + 500))
            writer.send_signal(signal.SIGKILL)
        log = opened(tmp_path, 20_000, 1000)
        log.write([event("after")])
        log.close()
        is_whole(tmp_path)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is half written; what waits is written when there is space, and the gap is told."""
    log = opened(tmp_path)
    log.write([event("before")])
    write = os.write

    def half(file: int, data: bytes) -> int:
        return write(file, data[: len(data) // 2])

    def none(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "no space")

    for full in (half, none):
        monkeypatch.setattr(os, "write", full)
        log.write([event("during")])
        assert not log.ready()
        assert is_whole(tmp_path).number == len(told(tmp_path))
        monkeypatch.setattr(os, "write", write)
        assert log.ready()
        assert [t["what"] for t in told(tmp_path)][-1] == "write audit log again"
        assert [t.get("object") for t in told(tmp_path)][-2] == "during"
    log.close()
    is_whole(tmp_path)


def test_what_comes_often_is_one_line_a_minute(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for n in range(10_000):
        log.count(event(f"topic{n % 2}"), size=10)
    assert files_in(tmp_path) == []
    log.close()
    assert [(t["object"], t["times"], t["bytes"]) for t in told(tmp_path)] == [
        ("topic0", 5000, 50_000),
        ("topic1", 5000, 50_000),
    ]
