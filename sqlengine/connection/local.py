"""A connection to an engine in this process."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from parser.errors import ServiceError
from sqlengine.broker.base import Broker
from sqlengine.config import Config, QueryLimits
from sqlengine.connection.base import Connection
from sqlengine.connection.columns import batch_of
from sqlengine.connection.jobs import JobAccess, JobResult
from sqlengine.connection.local_jobs import LocalJobs, local_result
from sqlengine.connection.pages import LocalPages, Pages
from sqlengine.connection.tables import Held
from sqlengine.connectors.memory.tables import Memory
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from sqlengine.queries.ingest import IngestExecution
from sqlengine.queries.service import QueryService
from sqlengine.queries.writing import WritingExecution
from sqlengine.system.memory import usable_bytes

# Queries of this program do not disturb the jobs of others, and wait for it as long as it likes.
_ANY_QUERY: Final = QueryLimits(
    at_once=100,
    timeout_s=math.inf,
    rows_per_second=1 << 40,
    rows_per_read=16_384,
    memory=usable_bytes() * 8 // 10,
    silence_s=math.inf,
    pause_s=math.inf,
    session_s=math.inf,
)


class LocalConnection(Connection):
    """The jobs and topics of an engine in this process, which ends with the connection."""

    def __init__(self, data: Path | None) -> None:
        super().__init__()
        self._process = os.getpid()
        self._resources = ExitStack()
        self._memory = Memory()
        self._callables: dict[str, Callable[[pa.RecordBatch], object]] = {}
        if data is None:
            data = Path(tempfile.mkdtemp(prefix="sqlengine-"))
            # Also where nobody closes the connection; a child that was forked deletes nothing.
            self._resources.callback(weakref.finalize(self, _delete, data, self._process))
        try:
            config = Config(data=data, queries=_ANY_QUERY)
            self._engine = Engine(config, callables=self._callables, memory=self._memory)
            self._resources.callback(self._engine.close)
            self._engine.start()
            self._queries = QueryService(self._engine)
            self._resources.callback(self._queries.close)
            self._session = self._queries.open_session()
        except BaseException:
            self._resources.close()
            raise

    def __repr__(self) -> str:
        return f"connect(data={str(self._engine.config.data)!r})"

    @property
    def broker(self) -> Broker:
        self._require_open()
        return self._engine.broker

    def _ask(
        self, statement: str, *, follow: bool, timeout_s: float | None, job: str | None
    ) -> Pages:
        self._require_open()
        query = self._queries.submit(
            statement,
            session=self._session,
            follow=follow,
            timeout_s=timeout_s,
            execution=partial(WritingExecution, job=job),
        )
        return LocalPages(query)

    def _ask_with_rows(self, statement: str, rows: pa.RecordBatch) -> Pages:
        self._require_open()
        execution = partial(IngestExecution, rows=batch_of(rows))
        return LocalPages(
            self._queries.submit(statement, session=self._session, execution=execution)
        )

    @property
    def _held(self) -> Held:
        return Held(self._memory, self._callables)

    def submit_with_modules(self, name: str, sql: str, modules: Mapping[str, str]) -> JobResult:
        """See `Connection`."""
        self._require_open()
        text = JobText(name, sql, uploads=modules)
        outcome = self._engine.change(Request(Origin.SDK, {name: text}))[name]
        if outcome.error is not None:
            raise outcome.error
        return local_result(outcome)

    @property
    def _job_access(self) -> JobAccess:
        self._require_open()
        return LocalJobs(self._engine)

    def _require_open(self) -> None:
        """See `Connection`. ServiceError in a process that was forked: the engine's threads are
        not there."""
        super()._require_open()
        if os.getpid() != self._process:
            raise ServiceError(
                f"the engine runs in process {self._process}, of which this is a fork",
                hint="call connect() in this process, or use a server",
            )

    def _close(self) -> None:
        if os.getpid() == self._process:
            self._resources.close()


def _delete(folder: Path, process: int) -> None:
    """Deletes a temporary data folder, if this is the process that has made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
