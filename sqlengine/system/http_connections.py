"""HTTP connections to a server by its address: http://, https:// or unix:PATH."""

from __future__ import annotations

import base64
import http.client
import io
import os
import select
import socket
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from sqlengine.config import LOOPBACK
from sqlengine.system.addresses import LOCAL
from sqlengine.system.client_tls import ClientTls
from sqlengine.system.local_sockets import connect_local

# Servers close connections that are idle for longer.
_IDLE_S: Final = 60.0
_PORT_OF_PROXIES: Final = 80


@dataclass(frozen=True)
class Answer:
    """The answer to a request, whole."""

    status: int
    headers: http.client.HTTPMessage
    data: bytes


class ConnectionPool:
    """Connections to one server, as many as threads use at once, each kept for its next request."""

    def __init__(self, server: str, timeout_s: float, tls: ClientTls) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._process = os.getpid()
        self._server, self._timeout_s, self._tls = server, timeout_s, tls
        at_root = local_path(server) is not None
        self._base = "" if at_root else urllib.parse.urlsplit(server).path.rstrip("/")

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        *,
        retryable: bool,
    ) -> Answer:
        """Sends a request over a kept connection, or a new one; `path` begins where the server's
        address ends. A `retryable` one is sent once more where a kept connection breaks.

        Raises OSError or HTTPException where there is no answer: the request may have been served;
        ServiceError for a file of certificates that cannot be used."""
        kept = self._take()
        if kept is not None:
            try:
                return self._send(kept, method, path, body, headers)
            except ConnectionError:  # the server closed it in this moment
                if not retryable:
                    raise
        new = open_connection(self._server, self._timeout_s, self._tls)
        return self._send(new, method, path, body, headers)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
    ) -> Answer:
        try:
            connection.request(method, self._base + path, body, headers)
            with connection.getresponse() as response:
                answer = Answer(response.status, response.headers, response.read())
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:  # the server has not closed it with its answer
            with self._lock:
                self._idle.append((time.monotonic(), connection))
        return answer

    def close(self) -> None:
        """Closes the idle connections; requests open new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    __del__ = close  # clients are many, and nobody closes them

    def _take(self) -> http.client.HTTPConnection | None:
        if self._process != os.getpid():  # after a fork, what is idle is the parent's
            self._process, self._lock, self._idle = os.getpid(), threading.Lock(), []
        while True:
            with self._lock:
                since, connection = self._idle.pop() if self._idle else (0.0, None)
            if connection is None:
                return None
            if time.monotonic() - since < _IDLE_S and _lives(connection.sock):
                return connection
            connection.close()


def _lives(sock: socket.socket | None) -> bool:
    """True unless the server has closed an idle connection, which can be read from then."""
    if sock is None:
        return False
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return not poll.poll(0)


class LocalHttpConnection(http.client.HTTPConnection):
    """HTTP over the local socket at `path`."""

    def __init__(self, path: Path, timeout_s: float | None) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path
        self._timeout_s = timeout_s

    def connect(self) -> None:
        self.sock = connect_local(self._path, self._timeout_s)


class _ThroughProxy(http.client.HTTPConnection):
    """HTTP to a server, sent to a proxy, which is told the whole address."""

    def __init__(self, proxy: urllib.parse.SplitResult, server: str, timeout_s: float) -> None:
        super().__init__(proxy.hostname or "", proxy.port or _PORT_OF_PROXIES, timeout=timeout_s)
        self._server = server
        self._account = _account(proxy)

    def putrequest(self, method: str, url: str, *_: bool) -> None:
        super().putrequest(method, self._server + url)
        for name, value in self._account.items():
            self.putheader(name, value)


def open_connection(server: str, timeout_s: float, tls: ClientTls) -> http.client.HTTPConnection:
    """Returns a connection to `server`, which is made with its first request: through the proxy
    that the environment names, unless the server is on this machine. Raises ServiceError for a file
    of `tls` that cannot be used."""
    if (path := local_path(server)) is not None:
        return LocalHttpConnection(path, timeout_s)
    parts = urllib.parse.urlsplit(server)
    host, proxy = parts.hostname or "", _proxy_for(parts)
    if parts.scheme == "https":
        to, port = (proxy.hostname or "", proxy.port) if proxy else (host, parts.port)
        secure = http.client.HTTPSConnection(to, port, timeout=timeout_s, context=tls.context())
        if proxy is not None:
            secure.set_tunnel(host, parts.port, _account(proxy))
        return secure
    if proxy is not None:
        return _ThroughProxy(proxy, f"http://{parts.netloc}", timeout_s)
    return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)


def _proxy_for(server: urllib.parse.SplitResult) -> urllib.parse.SplitResult | None:
    proxy = urllib.request.getproxies().get(server.scheme)
    if not proxy or server.hostname in LOOPBACK or urllib.request.proxy_bypass(server.netloc):
        return None
    return urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")


def _account(proxy: urllib.parse.SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    account = f"{proxy.username}:{proxy.password or ''}"
    text = base64.b64encode(urllib.parse.unquote(account).encode()).decode()
    return {"Proxy-Authorization": f"Basic {text}"}


def local_path(server: str) -> Path | None:
    """Returns the path of a local socket; None for another address."""
    return Path(server.removeprefix(LOCAL)) if server.startswith(LOCAL) else None


def responses_until(deadline: Callable[[], float]) -> type[http.client.HTTPResponse]:
    """Returns the class of answers that raise TimeoutError from an instant of the monotonic clock
    (s) on, which `deadline` is asked for when an answer begins. The library bounds each wait for
    bytes alone, of which an answer that comes byte by byte has any number."""

    class InTime(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **named: Any) -> None:
            super().__init__(sock, *args, **named)
            raw = cast("socket.SocketIO", self.fp.detach())
            self.fp = io.BufferedReader(_Bounded(raw, sock, deadline()))

    return InTime


class _Bounded(io.RawIOBase):
    """The bytes that a socket receives until a deadline."""

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
