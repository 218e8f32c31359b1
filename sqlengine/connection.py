"""Jobs and topics from Python: `connect` to a server, or to an engine in this process.

with connect("http://127.0.0.1:8083") as connection:
    connection.submit("errors", "INSERT INTO alerts SELECT * FROM events WHERE level > 3")
    for record in connection.read("alerts"):
        print(record.value)
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from parser.errors import ServiceError
from sqlengine.client import Client, Json, job_url
from sqlengine.config import Config, token_from
from sqlengine.system.client_tls import ClientTls

if TYPE_CHECKING:
    from sqlengine.broker.base import Broker
    from sqlengine.engine.requests import Outcome


@dataclass(frozen=True)
class JobInfo:
    """A job as it is now.

    `state` is one of running, stopped, defined, waiting, failed; `reason` says why it waits or
    failed. `origin`: the interface that it came from. `graph`: the graph that runs it. `rows`: rows
    written, over all its versions and restarts.
    """

    name: str
    version: int
    state: str
    origin: str
    graph: str
    reason: str | None
    rows: int


@dataclass(frozen=True)
class JobResult:
    """The result of a request for a job: `status` is one of added, replaced, unchanged, waiting,
    valid, removed. `version` is 0 where none is left."""

    name: str
    status: str
    version: int


@dataclass(frozen=True)
class TopicRecord:
    """A record of a topic. `value` is None for a tombstone; `timestamp_ms` counts from 1970."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Connection(ABC):
    """Jobs and topics of one engine. All methods may be called from any thread.

    A context manager: leaving it closes the connection. Methods raise a SqlError that says what was
    refused: ParseError, PlanError or JobError in this process, Refused with the same text from a
    server, Unreachable where none answers; a BrokerError where a topic is at fault.
    """

    @property
    @abstractmethod
    def broker(self) -> Broker:
        """The topics with all that a broker does: options, groups of consumers, idempotent appends.

        Loads pyarrow, which its records are in.
        """

    @abstractmethod
    def jobs(self) -> list[JobInfo]:
        """Returns all jobs by name."""

    @abstractmethod
    def submit(self, name: str, sql: str) -> JobResult:
        """Adds the job, or replaces its text while it runs.

        When the text is refused, the version before runs on.
        """

    @abstractmethod
    def validate(self, name: str, sql: str) -> JobResult:
        """Plans the job as `submit` does, and changes nothing."""

    @abstractmethod
    def remove(self, name: str) -> JobResult:
        """Removes the job and its state; its versions stay in the history."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection. May be called twice."""

    def topics(self) -> list[str]:
        """Returns the names of all topics, sorted; those of the system begin with '_'."""
        return sorted(topic.name for topic in self.broker.topics())

    def create_topic(self, name: str, shards: int = 1, *, if_not_exists: bool = False) -> None:
        """Creates a topic. Raises TopicExists if there is one, unless `if_not_exists`."""
        from sqlengine.broker.topic_access import refuse_system

        refuse_system(name)
        self.broker.create_topic(name, shards, if_not_exists=if_not_exists)

    def write(
        self,
        topic: str,
        records: Iterable[bytes | str | Mapping[str, object]],
        *,
        shard: int = 0,
        key: bytes | None = None,
    ) -> int:
        """Appends records in one batch, and returns the offset of the first.

        A mapping is written as JSON, text as UTF-8. All get the same `key`.
        """
        from sqlengine.broker.topic_access import refuse_system

        refuse_system(topic)
        values = [_record_bytes(record) for record in records]
        keys = None if key is None else [key] * len(values)
        now_ms = time.time_ns() // 1_000_000
        return self.broker.append(topic, shard, values, keys=keys, timestamp_ms=now_ms).first_offset

    def read(
        self, topic: str, *, shard: int = 0, offset: int | str = "earliest", limit: int = 1000
    ) -> list[TopicRecord]:
        """Returns at most `limit` records of a shard from `offset` on, without waiting for more.

        `offset` is a number, 'earliest', 'latest' or a time such as '2026-01-31T12:00' (UTC). The
        next read begins behind the last record: `records[-1].offset + 1`.
        """
        from sqlengine.broker.topic_access import find_offset

        start = find_offset(self.broker, topic, shard, str(offset))
        records = self.broker.read(topic, shard, start, max_records=limit)
        if records is None:
            return []
        count = records.num_rows
        keys = [None] * count if records.keys is None else records.keys.to_pylist()
        columns = (records.offsets.tolist(), records.timestamps.tolist(), keys)
        return [TopicRecord(*row) for row in zip(*columns, records.values.to_pylist(), strict=True)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    data: str | Path | None = None,
    ca_file: str | None = None,
    client_cert: str | None = None,
    client_key: str | None = None,
) -> Connection:
    """Connects to the server at `url` (or HOST:PORT, or unix:PATH); without one, opens an engine in
    this process.

    `token`: what the server asks for (default: SQLENGINE_TOKEN). `ca_file`: authorities that are
    trusted besides those of the system (SQLENGINE_CA_FILE); `client_cert`, `client_key`: what a
    server is shown that asks for a certificate (SQLENGINE_CLIENT_CERT, SQLENGINE_CLIENT_KEY). No
    request is made before the first call. `data`: the data folder of an engine in this process,
    which no other process may use meanwhile (DataFolderLocked); default is a temporary folder,
    deleted by `close`. Such an engine runs jobs until `close`, and has no HTTP, watched folder or
    command topic.
    """
    if url is None:
        return LocalConnection(None if data is None else Path(data))
    if data is not None:
        raise ServiceError(
            "'data' is the folder of an engine in this process, a URL is that of a server",
            hint="give one of them",
        )
    tls = ClientTls(ca_file, client_cert, client_key)
    return ServerConnection(Client(url, token or token_from(None), origin="rest", tls=tls))


class ServerConnection(Connection):
    """The jobs and topics of a server, over HTTP."""

    def __init__(self, client: Client) -> None:
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

    def close(self) -> None:
        self._resources.close()


class LocalConnection(Connection):
    """The jobs and topics of an engine in this process, which ends with the connection."""

    def __init__(self, data: Path | None) -> None:
        from sqlengine.engine import Engine

        self._resources = ExitStack()
        if data is None:
            scratch = tempfile.TemporaryDirectory(prefix="sqlengine-")
            data = Path(self._resources.enter_context(scratch))
        try:
            self._engine = Engine(Config(data=data))
            self._resources.callback(self._engine.close)
            self._engine.start()
        except BaseException:
            self._resources.close()
            raise

    @property
    def broker(self) -> Broker:
        return self._engine.broker

    def jobs(self) -> list[JobInfo]:
        rows = self._engine.rows_by_job()
        return [
            JobInfo(j.name, j.version, j.state, j.origin, j.graph, j.reason, rows[j.name])
            for j in self._engine.jobs()
        ]

    def submit(self, name: str, sql: str) -> JobResult:
        return _local_result(self._engine.submit(name, sql))

    def validate(self, name: str, sql: str) -> JobResult:
        return _local_result(self._engine.validate(name, sql))

    def remove(self, name: str) -> JobResult:
        return _local_result(self._engine.remove(name))

    def close(self) -> None:
        self._resources.close()


def _record_bytes(record: bytes | str | Mapping[str, object]) -> bytes:
    if isinstance(record, bytes):
        return record
    text = record if isinstance(record, str) else json.dumps(record, ensure_ascii=False)
    return text.encode()


def _result(body: Json) -> JobResult:
    version = body["version"]
    assert isinstance(version, int)
    return JobResult(str(body["name"]), str(body["status"]), version)


def _local_result(outcome: Outcome) -> JobResult:
    return JobResult(outcome.name, outcome.status, outcome.version)
