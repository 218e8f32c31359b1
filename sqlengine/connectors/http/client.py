"""A client of HTTP for tables: it follows no redirection, asks no proxy, and connects to no host
that SQL may not reach."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from parser.errors import ExecutionError, PlanError
from sqlengine.connectors.tls.errors import tls_words
from sqlengine.system.hidden import hidden
from sqlengine.system.http_connections import responses_until
from sqlengine.system.network_access import NetworkAccess

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, HTTPConnectionPool, PoolManager

REMEDY: Final = "pip install 'sqlengine[http]'"
_MOST_SHOWN: Final = 200  # characters of an answer in an error
_MOST_READ: Final = 4096  # bytes of an answer that these are of
_AGENT: Final = "sqlengine"


class NoAnswer(ExecutionError):
    """A request has no answer: the host is away, or too slow."""


@dataclass(frozen=True)
class Answer:
    """The answer to a request. `headers` by their names in lower case; `complete`: the body is all
    of it."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    complete: bool = True

    @property
    def shown(self) -> str:
        """The status and the beginning of the body, for people; a secret in it is hidden before
        the text is cut."""
        text = hidden(" ".join(self.body[:_MOST_READ].decode("utf-8", "replace").split()))
        text = "".join(c if c.isprintable() else "�" for c in text)
        cut = text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"
        return f"{self.status} {cut}".rstrip()


def site(url: str) -> str:
    """Returns scheme and host of a URL: its path may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def http_url(text: str) -> str:
    """Parses the option 'url'. ValueError where it is none of HTTP, or has a password in it."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected http://host/path or https://host/path")
    if parts.username is not None:
        raise ValueError("write who connects as 'username' and 'password'")
    if parts.fragment:
        raise ValueError("a part behind # never leaves a client")
    if "{" in parts.netloc:
        raise ValueError("a host is no template")
    _ = parts.port  # ValueError where it is none
    return text


class HttpClient:
    """Sends requests over connections that stay open, at most `connections` a host. Any thread.

    `timeout_s`: for connecting, and for the whole of an answer. PlanError where the library is not
    installed."""

    def __init__(
        self,
        context: ssl.SSLContext,
        network: NetworkAccess,
        timeout_s: float,
        connections: int = 1,
    ) -> None:
        self._pool = _pool(context, network, timeout_s, connections)

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, most: int
    ) -> Answer:
        """Sends a request and returns its answer, with at most `most` bytes of the body. NoAnswer
        where none comes, HostRefused where SQL may not connect."""
        from urllib3.exceptions import HTTPError

        try:
            response = self._pool.request(
                method,
                url,
                body=body,
                headers={"User-Agent": _AGENT, **headers},
                preload_content=False,
                redirect=False,
                retries=False,
            )
            return _taken(response, most)
        except HTTPError as error:
            raise NoAnswer(f"{site(url)} does not answer", detail=_words(error)) from None

    def close(self) -> None:
        """Closes its connections."""
        self._pool.clear()


def _taken(response: BaseHTTPResponse, most: int) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    body = bytearray()
    # One byte more tells whether the answer ends there.
    while len(body) <= most and (part := response.read(most + 1 - len(body))):
        body += part
    complete = len(body) <= most
    if complete:
        response.release_conn()
    else:
        response.close()
    return Answer(response.status, headers, bytes(body[:most]), complete)


def _words(error: Exception) -> str:
    """Returns what an error of the library says, in one line, without names of its objects."""
    from urllib3 import exceptions

    # To the library a refused connection is one that took too long.
    late = isinstance(error, exceptions.TimeoutError)
    if late and not isinstance(error, exceptions.NewConnectionError):
        return "no answer in time"
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    if (told := tls_words(cause, "http://")) is not None:
        return told[:_MOST_SHOWN]
    text = getattr(cause, "strerror", None) or str(cause)
    return " ".join(text.rpartition(">: ")[2].split())[:_MOST_SHOWN]


def _pool(
    context: ssl.SSLContext, network: NetworkAccess, timeout_s: float, connections: int
) -> PoolManager:
    """Returns the library's pool, whose connections `network` judges. PlanError where the library
    is not installed."""
    try:
        from urllib3 import PoolManager, Timeout
    except ImportError:
        raise PlanError("tables over HTTP need the library urllib3", hint=REMEDY) from None
    pool = PoolManager(
        num_pools=8,
        maxsize=connections,
        timeout=Timeout(connect=timeout_s, read=timeout_s),
        ssl_context=context,
    )
    pool.pool_classes_by_scheme = _judging_pools(network, timeout_s)
    return pool


def _judging_pools(network: NetworkAccess, timeout_s: float) -> dict[str, type[HTTPConnectionPool]]:
    """Returns the classes of pools by scheme. They are made as the library's documentation has it:
    a connection is judged by the address that has answered, before anything is sent."""
    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
    from urllib3.connection import HTTPConnection, HTTPSConnection

    in_time = responses_until(lambda: time.monotonic() + timeout_s)

    class Plain(HTTPConnection):
        response_class = in_time

        def _new_conn(self) -> socket.socket:
            return _judged(super()._new_conn(), self.host, network)

    class Encrypted(HTTPSConnection):
        response_class = in_time

        def _new_conn(self) -> socket.socket:
            return _judged(super()._new_conn(), self.host, network)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class EncryptedPool(HTTPSConnectionPool):
        ConnectionCls = Encrypted

    return {"http": PlainPool, "https": EncryptedPool}


def _judged(connected: socket.socket, host: str, network: NetworkAccess) -> socket.socket:
    try:
        network.check(host, connected.getpeername()[0])
    except BaseException:
        connected.close()
        raise
    return connected
