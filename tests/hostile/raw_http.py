"""Clients that do as they like with a connection."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

PATIENCE_S = 30.0


@dataclass
class Answer:
    """What came back. `took_s`: seconds since it was asked for; status 0 if nothing came."""

    status: int
    text: str
    took_s: float


class Raw:
    """A connection over which a test sends bytes. `close_all` ends those of a test."""

    _made: ClassVar[list[Raw]] = []

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        self.socket = connection
        self._made.append(self)

    @classmethod
    def close_all(cls) -> None:
        while cls._made:
            cls._made.pop().close()

    @classmethod
    def to(cls, port: int, source: str = "127.0.0.1") -> Self:
        return cls(socket.create_connection(("127.0.0.1", port), PATIENCE_S, (source, 0)))

    def send(self, *parts: str | bytes) -> Self:
        for part in parts:
            self.socket.sendall(part.encode() if isinstance(part, str) else part)
        return self

    def head(self, method: str, path: str, *headers: str, end: str = "\r\n\r\n") -> Self:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
        return self.send("\r\n".join(lines) + end)

    def answer(self) -> Answer:
        """Reads until the connection ends, or an answer with a length is complete."""
        began, data = time.monotonic(), b""
        with contextlib.suppress(ConnectionError):
            while not _complete(data) and (part := self.socket.recv(1 << 16)):
                data += part
        status = int(data.split(b" ", 2)[1]) if data else 0
        return Answer(status, data.decode("utf-8", "replace"), time.monotonic() - began)

    def drip(self) -> int:
        """Sends a byte now and then until there is an answer, and returns its status."""
        while not select.select([self.socket], [], [], 0.1)[0]:
            self.send("a")
        return self.answer().status

    def is_closed(self) -> bool:
        """True once the server has closed it."""
        self.socket.setblocking(False)
        try:
            while self.socket.recv(1 << 16):
                pass
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        finally:
            self.socket.settimeout(PATIENCE_S)
        return True

    def close(self) -> None:
        self.socket.close()


@contextlib.contextmanager
def many(number: int, port: int, source: str = "127.0.0.1") -> Iterator[list[Raw]]:
    """So many connections; those that the server does not take are among them."""
    made: list[Raw] = []
    try:
        made.extend(Raw.to(port, source) for _ in range(number))
        yield made
    finally:
        for one in made:
            one.close()


def get(port: int, path: str, source: str = "127.0.0.1") -> Answer:
    """The answer over a connection of its own."""
    connection = Raw.to(port, source)
    try:
        return connection.head("GET", path, "Connection: close").answer()
    finally:
        connection.close()


def _complete(data: bytes) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return False
    lengths = [h for h in head.lower().split(b"\r\n") if h.startswith(b"content-length:")]
    return bool(lengths) and len(body) >= int(lengths[0].split(b":")[1])
