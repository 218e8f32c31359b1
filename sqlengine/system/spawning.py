"""Processes that a server starts for its instances: what they are sent, and how they come to
run."""

from __future__ import annotations

import os
import pickle  # noqa: TID251  between this process and its own child, never stored
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sqlengine.config import Config


@dataclass(frozen=True)
class Place:
    """What an instance is told when it is made: its name, which is its own among the instances of
    `graph`, and how long it may be silent."""

    name: str
    graph: str
    session_ms: int


@dataclass(frozen=True)
class Work:
    """What the child is sent. `socket`: where the server's broker answers; `parent`: the server's
    process."""

    place: Place
    config: Config
    socket: Path
    parent: int


class Process(Protocol):
    """See `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int:
        """subprocess.TimeoutExpired when it does not end in time."""

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Door(Protocol):
    """Where the server's broker answers its processes, at `path`, until `close`."""

    path: Path

    def close(self) -> None: ...


def spawn(work: Work) -> Process:
    """An interpreter of its own, killed when the thread that called this ends. What it logs goes
    where the server's log goes."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    program = (
        "from sqlengine.system.memory import forget_pandas, importing\n"
        "forget_pandas()\nwith importing():\n    from sqlengine.cluster.process import main\nmain()"
    )
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", program],
        stdin=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        with process.stdin as stdin:
            stdin.write(pickle.dumps(work))
    except BrokenPipeError:  # it died at once: whoever looks finds that out
        pass
    return process
