"""What the command prints on a terminal is shown there, never obeyed; a pipe gets every byte."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from tests.support import PATIENCE_S

EVIL = b"\x1b]0;owned\x07\x1b[2J\xc2\x9b31mred\r\xe2\x80\xaetxt.exe"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    broker = EmbeddedBroker(tmp_path / "data")
    broker.create_topic("t")
    broker.append("t", 0, [EVIL], timestamp_ms=0)
    broker.close()
    return tmp_path / "data"


def on_terminal(*command: str) -> bytes:
    """Runs `sql` with a terminal for its output; returns what the terminal got."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "sqlengine.cli", *command],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "200"},
    ) as child:
        os.close(theirs)
        printed = bytearray()
        try:
            while part := os.read(ours, 1 << 16):
                printed += part
        except OSError:  # the child has ended
            pass
        child.wait(PATIENCE_S)
    os.close(ours)
    return bytes(printed)


def test_a_record_is_shown_on_a_terminal_and_whole_in_a_pipe(data: Path) -> None:
    shown = on_terminal("topic", "read", "t", "--data", str(data))
    assert rb"\x1b]0;owned\x07\x1b[2J\x9b31mred\x0d\u202etxt.exe" in shown
    assert b"\x1b" not in shown
    command = [sys.executable, "-m", "sqlengine.cli", "topic", "read", "t", "--data", str(data)]
    piped = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
    assert piped.stdout == EVIL + b"\n"


def test_cells_and_errors_are_shown(tmp_path: Path) -> None:
    statement = f"SELECT '{EVIL.decode()}' AS v"
    shown = on_terminal("run", "-e", statement)
    assert rb"\x1b]0;owned\x07\x1b[2J\x9b31mred\x0d\u202etxt.exe" in shown
    assert b"owned\x07" not in shown
    refused = on_terminal("run", "-e", "SELECT `\x1b[2J`")
    assert rb"\x1b[2J" in refused
    assert b"\x1b[2J" not in refused
