"""A connection to a server."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

from parser.errors import SqlError
from sqlengine.client import Client, Json, Refused, job_url, quote
from sqlengine.connection.base import Connection, JobInfo, JobResult

if TYPE_CHECKING:
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

    @property
    def broker(self) -> Broker:
        from sqlengine.broker.remote.client import connect as connect_broker

        with self._lock:
            if self._broker is None:
                self._broker = connect_broker(
                    self._client.server, self._client.token, self._client.tls
                )
                self._resources.callback(self._broker.close)
            return self._broker

    def _ask(self, statement: str, *, follow: bool, timeout_s: float | None) -> Pages:
        from sqlengine.connection.pages import ServerPages

        with self._lock:
            if self._session is None:
                self._session = str(self._client.post(_SESSIONS)["session"])
            session = self._session
        try:
            return ServerPages(
                self._client,
                statement,
                session=session,
                follow="true" if follow else None,
                timeout=timeout_s,
            )
        except Refused as error:
            if error.status == 404 and session in error.message:
                self._session = None  # the next statement has another one
            raise

    @property
    def _held(self) -> None:
        return None

    def submit_with_modules(self, name: str, sql: str, modules: Mapping[str, str]) -> JobResult:
        """See `Connection`."""
        body: Json = {"name": name, "sql": sql, "modules": dict(modules)}
        return _result(self._client.post("/api/v1/jobs", body))

    def jobs(self) -> list[JobInfo]:
        jobs = self._client.get("/api/v1/jobs")["jobs"]
        assert isinstance(jobs, list)
        return [JobInfo(**{field: job[field] for field in JobInfo.__match_args__}) for job in jobs]

    def submit(self, name: str, sql: str) -> JobResult:
        return self._put(name, sql)

    def validate(self, name: str, sql: str) -> JobResult:
        return self._put(name, sql, dry_run="true")

    def _put(self, name: str, sql: str, **query: object) -> JobResult:
        return _result(self._client.put(job_url(name), sql.encode(), **query))

    def remove(self, name: str) -> JobResult:
        return _result(self._client.delete(job_url(name)))

    def _close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            with suppress(SqlError):  # it is gone, or the server is
                self._client.delete(f"{_SESSIONS}/{quote(session)}")
        self._resources.close()


def _result(body: Json) -> JobResult:
    version = body["version"]
    assert isinstance(version, int)
    return JobResult(str(body["name"]), str(body["status"]), version)
