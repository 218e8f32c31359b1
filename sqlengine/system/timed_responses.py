"""Answers over HTTP that have a deadline as a whole. The library bounds each wait for bytes alone,
of which an answer that comes byte by byte has any number."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from http.client import HTTPResponse
from typing import Any, cast


def responses_until(deadline: Callable[[], float]) -> type[HTTPResponse]:
    """Returns the class of answers that raise TimeoutError from an instant of the monotonic clock
    (s) on, which `deadline` is asked for when an answer begins."""

    class InTime(HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **named: Any) -> None:
            super().__init__(sock, *args, **named)
            raw = cast("socket.SocketIO", self.fp.detach())
            self.fp = io.BufferedReader(_Bounded(raw, sock, deadline()))

    return InTime


class _Bounded(io.RawIOBase):
    """What a socket receives until a deadline."""

    def __init__(self, raw: socket.SocketIO, connected: socket.socket, until: float) -> None:
        self._raw, self._connected, self._until = raw, connected, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        before, left = self._connected.gettimeout(), self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._connected.settimeout(left if before is None else min(left, before))
        try:
            return self._raw.readinto(buffer)
        finally:
            self._connected.settimeout(before)  # the next request goes over it, too

    def close(self) -> None:
        self._raw.close()
        super().close()
