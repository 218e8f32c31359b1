"""A small HTTP client of the server, for the command line and the demo."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
import urllib.parse
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from parser.errors import JobError, Position, SqlError
from sqlengine.access.shadow_names import rule_of
from sqlengine.broker.errors import Unreachable
from sqlengine.config import LOCAL_SOCKET, data_folder, token_from
from sqlengine.jobs.job import check_name
from sqlengine.system.addresses import LOCAL, not_an_address, server_url
from sqlengine.system.client_tls import NO_FILES, ClientTls, explained
from sqlengine.system.http_connections import Answer, ConnectionPool
from sqlengine.system.local_sockets import connect_local

Json = dict[str, object]
DEFAULT_SERVER = "http://127.0.0.1:8083"
PATIENCE_S = 300
ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
PLAIN_TEXT: Final = "text/plain"
# A request that the server holds is sent so often where it has no room for it, seconds apart.
_TRIES: Final = 30
_AGAIN_S = 1.0
_NOT_DONE: Final = 300
_BUSY: Final = 503
# So long a server may take to accept a connection on its local socket.
_LOCAL_S = 2.0


class Refused(SqlError):
    """A refusal by the server, with its message, hint and position. `status` is the HTTP status."""

    def __init__(self, body: Json) -> None:
        line, column = body.get("line"), body.get("column")
        position = None
        if isinstance(line, int) and isinstance(column, int):
            length = body.get("length")
            file = body.get("file")
            position = Position(
                line,
                column,
                length if isinstance(length, int) else 1,
                file if isinstance(file, str) else None,
            )
        super().__init__(
            str(
                body.get("message")
                or body.get("detail")
                or body.get("problem")
                or "the server refused"
            ),
            detail=_text(body.get("cause")),
            hint=_text(body.get("hint")),
            position=position,
        )
        self.status = body.get("status")
        title = str(body.get("title", "refused"))
        # Whoever asks for a job that there is not wanted no change.
        self.title = "not found" if self.status == 404 and title == JobError.title else title
        self.body = body


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


@dataclass(frozen=True)
class Client:
    """Sends requests to a server.

    `server`: its URL, HOST:PORT or unix:PATH; `token`: sent if there is one; `origin`: of the jobs
    that are submitted, `cli` or `rest`; `waiting` surrounds each request but those that the server
    holds until there is something to tell; `tls`: certificates for https. Methods raise
    Unreachable, or Refused with the server's message; it raises ServiceError where `server` is no
    address, and for files of certificates that cannot be used.
    """

    server: str = DEFAULT_SERVER
    token: str | None = None
    origin: str = "cli"
    waiting: Callable[[], AbstractContextManager[object]] = nullcontext
    tls: ClientTls = NO_FILES
    _pool: ConnectionPool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        server = server_url(self.server)
        object.__setattr__(self, "server", server)
        object.__setattr__(self, "_pool", ConnectionPool(server, PATIENCE_S, self.tls))

    def close(self) -> None:
        """Closes the connections to the server; requests open new ones."""
        self._pool.close()

    def get(self, path: str, **query: object) -> Json:
        return self.request("GET", path, query=query)

    def get_text(self, path: str, **query: object) -> str:
        return self._send("GET", path, b"", PLAIN_TEXT, query).decode()

    def post(self, path: str, body: bytes | Json = b"", **query: object) -> Json:
        return self.request("POST", path, body, query)

    def put(self, path: str, body: bytes | Json, **query: object) -> Json:
        return self.request("PUT", path, body, query)

    def delete(self, path: str, **query: object) -> Json:
        return self.request("DELETE", path, query=query)

    def arrow(
        self, method: str, path: str, body: bytes = b"", kind: str = PLAIN_TEXT, **query: object
    ) -> bytes:
        """Sends a request and returns the Arrow stream of the answer."""
        return self._send(method, path, body, kind, query, accept=ARROW_STREAM)

    def request(
        self, method: str, path: str, body: bytes | Json = b"", query: Json | None = None
    ) -> Json:
        """Sends a request and returns the JSON of the answer."""
        kind = PLAIN_TEXT
        if isinstance(body, dict):
            body, kind = json.dumps(body).encode(), "application/json"
        data = self._send(method, path, body, kind, query or {})
        try:
            answer = json.loads(data)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._foreign(data[:80].decode("utf-8", "replace"))
        return answer

    def _foreign(self, what: str) -> Unreachable:
        hint = "is the port right? --server, or SQLENGINE_SERVER, names the server"
        return Unreachable(
            f"what answers at {self.server} is no sqlengine server", detail=what, hint=hint
        )

    def _send(
        self,
        method: str,
        path: str,
        body: bytes,
        kind: str,
        query: Json,
        accept: str | None = None,
    ) -> bytes:
        held = method == "GET" and not query.keys().isdisjoint(("wait", "page"))
        path += _text_of(query)
        headers = self._headers(kind, accept)
        for tries_left in reversed(range(_TRIES if held else 1)):
            with nullcontext() if held else self.waiting():
                answer = self._ask(method, path, body, headers)
            if answer.status < _NOT_DONE:
                return answer.data
            if answer.status != _BUSY or "Retry-After" not in answer.headers:
                break
            if tries_left:  # too many requests wait, or the server starts
                time.sleep(_AGAIN_S)
        raise self._refused(answer)

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        retryable = method == "GET"
        try:
            return self._pool.request(method, path, body or None, headers, retryable=retryable)
        except OSError as error:
            raise self._unreachable(error) from None
        except http.client.HTTPException as error:
            raise self._foreign(repr(error)) from None
        except ValueError as error:  # a host that cannot be one, such as a label of 64 letters
            raise not_an_address(self.server, str(error)) from None

    def _headers(self, kind: str, accept: str | None) -> dict[str, str]:
        headers = {"Content-Type": kind, "X-Origin": self.origin}
        if accept is not None:
            headers["Accept"] = accept
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    def _refused(self, answer: Answer) -> SqlError:
        if place := answer.headers.get("Location"):
            return self._foreign(f"it sends its clients to {place}")
        try:
            body = json.loads(answer.data)
        except ValueError:
            body = {"detail": answer.data[:200].decode("utf-8", "replace")}
        problem: Json = body if isinstance(body, dict) else {"detail": str(body)}
        return Refused(problem | {"status": answer.status})

    def _unreachable(self, reason: object) -> Unreachable:
        if (problem := explained(self.server, reason)) is not None:
            return Unreachable(problem.message, detail=problem.detail, hint=problem.hint)
        if isinstance(reason, TimeoutError):
            return Unreachable(
                f"{self.server} has not answered for {PATIENCE_S} s",
                hint="it may still be at work: 'sql jobs' shows what came of it",
            )
        unknown = isinstance(reason, socket.gaierror)
        return Unreachable(
            f"no server answers at {self.server}",
            detail=getattr(reason, "strerror", None) or str(reason),
            hint="is the name right? --server, or SQLENGINE_SERVER, names the server"
            if unknown
            else "start one with 'sql serve', or name another with --server",
        )


def _text_of(query: Json) -> str:
    """Returns the query of an address, with its question mark; "" without parameters."""
    parameters = {k.replace("_", "-"): v for k, v in query.items() if v is not None}
    return "?" + urllib.parse.urlencode(parameters) if parameters else ""


def default_client(
    server: str | None, token_file: str | None = None, tls: ClientTls | None = None
) -> Client:
    """Returns a client of --server, else SQLENGINE_SERVER, else of the server whose data folder is
    SQLENGINE_DATA or ./data if its local socket answers, else of this machine's port 8083; with the
    token from a file or SQLENGINE_TOKEN."""
    named = server or os.environ.get("SQLENGINE_SERVER") or local_server(data_folder(None))
    return Client(named or DEFAULT_SERVER, token_from(token_file), tls=tls or NO_FILES)


def local_server(data: Path) -> str | None:
    """Returns the address of the server whose data folder this is, if its local socket takes a
    connection of this user."""
    path = data.absolute() / LOCAL_SOCKET
    try:
        connect_local(path, _LOCAL_S).close()
    except OSError:
        return None
    return f"{LOCAL}{path}"


def quote(name: str) -> str:
    """Returns a name, quoted as part of a path."""
    return urllib.parse.quote(name, safe="")


def job_url(name: str) -> str:
    """Returns the path of a job on the server. Raises JobError for what is no job name."""
    check_name(rule_of(name))
    return f"/api/v1/jobs/{quote(name)}"
