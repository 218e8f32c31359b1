"""A small HTTP client of the server, for the command line and the demo."""

from __future__ import annotations

import http.client
import json
import os
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from parser.errors import JobError, Position, ServiceError, SqlError
from sqlengine.config import LOOPBACK, token_from
from sqlengine.jobs.job import check_name
from sqlengine.system.addresses import not_an_address, server_url

Json = dict[str, object]
DEFAULT_SERVER = "http://127.0.0.1:8083"
PATIENCE_S = 300


class Unreachable(ServiceError):
    """No sqlengine server answers at the URL."""


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

    `server`: its URL, or HOST:PORT; `token`: sent if there is one; `origin`: of the jobs that are
    submitted, `cli` or `rest`; `waiting` surrounds each request but those that the server holds
    until there is something to tell. Methods raise Unreachable, or Refused with the server's
    message; it raises ServiceError where `server` is no address.
    """

    server: str = DEFAULT_SERVER
    token: str | None = None
    origin: str = "cli"
    waiting: Callable[[], AbstractContextManager[object]] = nullcontext

    def __post_init__(self) -> None:
        object.__setattr__(self, "server", server_url(self.server))

    def get(self, path: str, **query: object) -> Json:
        return self.request("GET", path, query=query)

    def get_text(self, path: str, **query: object) -> str:
        return self._send("GET", path, b"", "text/plain", query).decode()

    def post(self, path: str, body: bytes | Json = b"", **query: object) -> Json:
        return self.request("POST", path, body, query)

    def put(self, path: str, body: bytes | Json, **query: object) -> Json:
        return self.request("PUT", path, body, query)

    def delete(self, path: str, **query: object) -> Json:
        return self.request("DELETE", path, query=query)

    def request(
        self, method: str, path: str, body: bytes | Json = b"", query: Json | None = None
    ) -> Json:
        """Sends a request and returns the JSON of the answer."""
        kind = "text/plain"
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

    def _send(self, method: str, path: str, body: bytes, kind: str, query: Json) -> bytes:
        try:
            request = self._request(method, path, body, kind, query)
            held = method == "GET" and not query.keys().isdisjoint(("wait", "page"))
            with (
                nullcontext() if held else self.waiting(),
                _opener(request.full_url).open(request, timeout=PATIENCE_S) as response,
            ):
                data: bytes = response.read()
                return data
        except urllib.error.HTTPError as error:
            raise Refused(_problem(error)) from None
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            raise self._unreachable(getattr(error, "reason", error)) from None
        except http.client.HTTPException as error:
            raise self._foreign(repr(error)) from None
        except ValueError as error:  # a host that cannot be one, such as a label of 64 letters
            raise not_an_address(self.server, str(error)) from None

    def _request(
        self, method: str, path: str, body: bytes, kind: str, query: Json
    ) -> urllib.request.Request:
        parameters = {k.replace("_", "-"): v for k, v in query.items() if v is not None}
        query_text = "?" + urllib.parse.urlencode(parameters) if parameters else ""
        url = self.server + path + query_text
        headers = {"Content-Type": kind, "X-Origin": self.origin}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return urllib.request.Request(url, data=body or None, method=method, headers=headers)

    def _unreachable(self, reason: object) -> Unreachable:
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


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Returns an opener without a proxy for this machine, whatever no_proxy says."""
    local = urllib.parse.urlsplit(url).hostname in LOOPBACK
    return urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))


def _problem(error: urllib.error.HTTPError) -> Json:
    data = error.read()
    try:
        body = json.loads(data)
    except ValueError:
        body = {"detail": data[:200].decode("utf-8", "replace")}
    return (body if isinstance(body, dict) else {"detail": str(body)}) | {"status": error.code}


def default_client(server: str | None, token_file: str | None = None) -> Client:
    """Returns a client of --server, else SQLENGINE_SERVER, else this machine's server, with the
    token from a file or SQLENGINE_TOKEN."""
    return Client(
        server or os.environ.get("SQLENGINE_SERVER") or DEFAULT_SERVER, token_from(token_file)
    )


def quote(name: str) -> str:
    """Returns a name, quoted as part of a path."""
    return urllib.parse.quote(name, safe="")


def job_url(name: str) -> str:
    """Returns the path of a job on the server. Raises JobError for what is no job name."""
    return f"/api/v1/jobs/{quote(check_name(name))}"
