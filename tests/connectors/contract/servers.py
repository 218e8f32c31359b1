"""The servers of the contract: each is started when a test needs it, and then serves all tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar


class Server(Protocol):
    def start(self) -> Self: ...
    def kill(self) -> None: ...
    @property
    def running(self) -> bool: ...


S = TypeVar("S", bound=Server)


class Servers:
    """Servers by their class, in folders below one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: dict[type[Any], Any] = {}

    def get(self, kind: Callable[[Path], S], prepare: Callable[[S], object] = lambda _: None) -> S:
        """Returns the server of that class, running; `prepare` is called after its first start.
        `Missing` where it cannot run here."""
        assert isinstance(kind, type)
        if kind not in self._started:
            made = kind(self._folder / kind.__name__).start()
            self._started[kind] = made
            prepare(made)
        server: S = self._started[kind]
        if not server.running:  # a test that failed has left it so
            server.start()
        return server

    def folder(self, name: str) -> Path:
        """Returns a new folder."""
        made = self._folder / name
        made.mkdir()
        return made

    def close(self) -> None:
        for server in self._started.values():
            server.kill()
