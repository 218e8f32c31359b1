"""A connection to a server."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

from parser.errors import SqlError
from sqlengine.client import ARROW_STREAM, PLAIN_TEXT, Client, Json, Refused, quote
from sqlengine.connection.base import Connection
from sqlengine.connection.jobs import JobAccess, JobResult
from sqlengine.connection.server_jobs import ServerJobs, result_of

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlengine.broker.base import Broker
    from sqlengine.connection.pages import Pages

_SESSIONS: Final = "/api/v1/sessions"


class ServerConnection(Connection):
    """The jobs and topics of a server, over HTTP."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._session: str | None = None
        self._client = client
        self._resources = ExitStack()
        self._lock = threading.Lock()
        self._broker: Broker | None = None

    def __repr__(self) -> str:
        return f"connect({self._client.server!r})"

    @property
    def broker(self) -> Broker:
        self._require_open()
        from sqlengine.broker.remote.client import connect as connect_broker

        with self._lock:
            if self._broker is None:
                self._broker = connect_broker(
                    self._client.server, self._client.token, self._client.tls
                )
                self._resources.callback(self._broker.close)
            return self._broker

    def _ask(
        self, statement: str, *, follow: bool, timeout_s: float | None, job: str | None
    ) -> Pages:
        query: Json = {"follow": "true" if follow else None, "job": job, "timeout": timeout_s}
        # The server says what is wrong with half a character.
        return self._pages(statement.encode("utf-8", "surrogatepass"), PLAIN_TEXT, query)

    def _ask_with_rows(self, statement: str, rows: pa.RecordBatch) -> Pages:
        from sqlengine.connection.pages import with_rows

        return self._pages(with_rows(statement, rows), ARROW_STREAM, {})

    def _pages(self, body: bytes, kind: str, query: Json) -> Pages:
        self._require_open()
        from sqlengine.connection.pages import ServerPages

        with self._lock:
            if self._session is None:
                self._session = str(self._client.post(_SESSIONS)["session"])
            session = self._session
        try:
            return ServerPages(self._client, body, kind, session=session, write="true", **query)
        except Refused as error:
            if error.status == 404 and session in error.message:
                self._session = None  # the next statement has another one
            raise

    @property
    def _held(self) -> None:
        return None

    def submit_with_modules(self, name: str, sql: str, modules: Mapping[str, str]) -> JobResult:
        """See `Connection`."""
        self._require_open()
        body: Json = {"name": name, "sql": sql, "modules": dict(modules)}
        return result_of(self._client.post("/api/v1/jobs", body))

    @property
    def _job_access(self) -> JobAccess:
        self._require_open()
        return ServerJobs(self._client)

    def _close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            with suppress(SqlError):  # it is gone, or the server is
                self._client.delete(f"{_SESSIONS}/{quote(session)}")
        self._resources.close()
        self._client.close()
