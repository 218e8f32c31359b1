"""A server as a child process: started on a free port of loopback in a folder of its own, stopped or
killed, and started again in the same place."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

import pytest

# Only a server that does not come up, or does not go, takes so long.
PATIENCE_S = 120
_TAIL = 2000  # characters of the log that an error shows
# Linux gives connections ports from 32,768 on; well-known servers are below 10,000.
_PORTS = range(10_000, 32_000)


Server = TypeVar("Server", bound="ServerProcess")


class Missing(Exception):
    """Says why a server cannot run here: a program or package is missing, with the remedy."""


class ServerProcess(ABC):
    """A real server for tests.

    `port` is free when the server is made, and stays the same over `kill` and `start`. Processes are
    children of the test: they end with `stop`, at the latest as a context ends."""

    name: str
    more_ports: int = 0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, *self.other_ports = free_ports(1 + self.more_ports)
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Returns the command that runs the server in the foreground."""

    def prepare(self) -> None:  # noqa: B027
        """Writes what the server needs in its folder; called once, before the first start. `Missing`
        where it cannot run here."""

    def environment(self) -> Mapping[str, str]:
        """Returns what the process's environment has besides that of the test."""
        return {}

    def ready(self) -> bool:
        """True once the server answers; asked until then. By default it is an open port."""
        return is_open(self.port)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What the server has printed, over all its starts."""
        path = self.folder / f"{self.name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> Self:
        """Starts the server and waits until it is ready; its data stay what they were."""
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            self.prepare()
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                env={**os.environ, **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise
        return self

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{self.name} does not start:\n{self.log[-_TAIL:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Ends the server as its operator would."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE_S)
            finally:
                self.kill()

    def kill(self) -> None:
        """Ends the server at once (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Holds the server up until `go_on`, as a disk or a machine that hangs does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Lets a paused server run again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


@contextmanager
def started(server: Server) -> Iterator[Server]:
    """Runs a server for a fixture, whose tests are skipped where it cannot run."""
    try:
        server.start()
    except Missing as error:
        pytest.skip(str(error))
    try:
        yield server
    finally:
        server.kill()


def free_ports(count: int) -> list[int]:
    """Returns different ports of loopback that nobody listens on.

    They lie below those that the system gives to connections and to port 0: one of these may be
    taken between its choice and the server's start, and while a killed server is away."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(_PORTS)
        if port not in found and is_free(port):
            found.append(port)
    return found


def is_free(port: int) -> bool:
    """True if a server can listen on this port of loopback."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def is_open(port: int) -> bool:
    """True if somebody listens on this port of loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
