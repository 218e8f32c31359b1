"""Starts the instance processes of a server, and defines what they are sent."""

from __future__ import annotations

import os
import pickle  # noqa: TID251  between this process and its own child, never stored
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sqlengine.config import Config
from sqlengine.system.addresses import host_and_port


@dataclass(frozen=True)
class Place:
    """The identity of an instance: its name, unique among those of `graph`, and the session timeout
    after which it counts as dead (ms)."""

    name: str
    graph: str
    session_ms: int


@dataclass(frozen=True)
class NetworkAddress:
    """The address at which the server's broker answers one instance over the network: that of this
    `identity`, who knows the `secret`. `certificate`: the digest of the one with which the door
    speaks TLS; b'' where it does not."""

    host: str
    port: int
    identity: bytes
    secret: bytes = field(repr=False)
    certificate: bytes = b""

    @property
    def name(self) -> str:
        """The host and the port, as people write them."""
        return host_and_port(self.host, self.port)


@dataclass(frozen=True)
class Work:
    """The message to a new process. `socket`: the address of the server's broker, a path on this
    machine or one in the network; `parent`: the id of the process that starts it."""

    place: Place
    config: Config
    socket: Path | NetworkAddress
    parent: int


class Process(Protocol):
    """A child process, as `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end and returns the exit code. subprocess.TimeoutExpired after `timeout`
        seconds."""

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Door(Protocol):
    """The socket at `path` on which the server's broker answers its processes, until `close`."""

    path: Path

    def close(self) -> None: ...


def spawn(work: Work) -> Process:
    """Starts an interpreter that runs an instance; its log goes where the server's goes. It is
    killed when the thread that called this ends."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    program = (
        "from sqlengine.system.memory import importing\n"
        "with importing():\n    from sqlengine.cluster.process import main\nmain()"
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
    except BrokenPipeError:  # it died at once, which `Process.poll` shows
        pass
    return process
