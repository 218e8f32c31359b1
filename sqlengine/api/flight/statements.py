"""Statements of Flight SQL: each is a query of `QueryService`, in the session of who calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from parser.errors import JobError, SqlError
from parser.types import STRING, Column, Schema
from sqlengine.access.audit.log import Audit, Event
from sqlengine.access.policy import Forbidden
from sqlengine.access.principals import Principal
from sqlengine.access.shares import Shares, share_of
from sqlengine.api.flight.callers import MIDDLEWARE, CallHeaders, Sessions, refusal
from sqlengine.api.flight.prepared import Update
from sqlengine.batch import Batch, from_pydict
from sqlengine.connection.columns import batch_of
from sqlengine.queries.arrow_pages import ARROW_ROWS, arrow_schema, to_record_batch
from sqlengine.queries.execution import Execution
from sqlengine.queries.ingest import IngestExecution, insert_text
from sqlengine.queries.query import Query, TooManyQueries
from sqlengine.queries.service import QueryService
from sqlengine.queries.writing import PlanningExecution, WritingExecution

# The longest that is waited for the columns of a statement, and at once for its rows.
START_S: Final = 60.0
_TURN_S: Final = 0.2
# Streams of rows, either way, at the same time: each has a thread, also while its client pauses.
_STREAMS: Final = 64
_STATEMENT: Final = "Flight statement"
_RESULT: Final = Schema((Column("result", STRING),))


class Statements:
    """Runs statements for callers. Any thread."""

    def __init__(self, queries: QueryService, sessions: Sessions, audit: Audit) -> None:
        self._queries = queries
        self._sessions = sessions
        self._audit = audit
        self._streams = Shares(_STREAMS)

    def begin(
        self, context: Any, sql: str, execution: Callable[..., Execution] = WritingExecution
    ) -> Query:
        """Starts a statement, and waits until its columns are known. Raises its error."""
        by = principal_of(context)
        session = self._sessions.of(context)
        query = self._queries.submit(
            sql, session=session, client=context.peer(), by=by, execution=execution
        )
        query.buffer.wait_ready(START_S)
        error = query.buffer.error if query.buffer.schema is None else None
        self._tell(context, query, error, told=execution is not PlanningExecution)
        if error is not None:
            raise error
        return query

    def _tell(self, context: Any, query: Query, error: SqlError | None, *, told: bool) -> None:
        """Tells the audit log of a statement; of one that is only planned where it is refused."""
        if isinstance(error, Forbidden):
            refused = refusal(query.by.name, context.peer(), _STATEMENT, error)
            self._audit.count(replace(refused, detail=f"{error}: {query.shown}"))
        elif told:
            outcome = "done" if error is None else "failed"
            event = Event(query.by.name, context.peer(), _STATEMENT, "", 0, outcome, query.shown)
            self._audit.count(event)

    def columns(self, context: Any, sql: str) -> pa.Schema:
        """Returns the columns of a statement that is not run; none for one without rows."""
        query = self.begin(context, sql, PlanningExecution)
        try:
            return pa.schema([]) if query.buffer.schema is None else shape_of(query)
        finally:
            self._queries.stop(query.identity, query.by)

    def run(self, context: Any, sql: str) -> int:
        """Runs a statement to its end; returns the rows that it has written, 0 for a job: of -1,
        which says that they are not known, JDBC takes it for a query, and runs it again."""
        return self._finished(context, self.begin(context, sql))

    def update(self, context: Any, update: Update) -> int:
        """Runs one of the statements of a prepared one; returns the rows that it has written."""
        if isinstance(update, str):
            return self.run(context, update)
        text, rows = update
        return self._ingest(context, text, batch_of(rows))

    def ingest(self, context: Any, table: tuple[str, ...], rows: Batch) -> int:
        """Writes rows into a table; returns their number."""
        return self._ingest(context, insert_text(table, rows.schema.names), rows)

    def _ingest(self, context: Any, text: str, rows: Batch) -> int:
        execution = partial(IngestExecution, rows=rows)
        return self._finished(context, self.begin(context, text, execution))

    def _finished(self, context: Any, query: Query) -> int:
        try:
            for _ in self._batches(context, query):  # of SHOW, say
                pass
            return query.buffer.written or 0
        finally:
            self._forget(query)

    def stream(self, context: Any, identity: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Returns the columns of a statement, and its rows as they come. It ends with the iterator,
        or when the client goes. JobError for one that the caller has not."""
        query = self._queries.query(identity, principal_of(context))
        return shape_of(query), self._sent(context, query)

    def _sent(self, context: Any, query: Query) -> Iterator[pa.RecordBatch]:
        with self.streaming(context):
            try:
                yield from self._batches(context, query)
            finally:
                self._forget(query)

    @contextmanager
    def streaming(self, context: Any) -> Iterator[None]:
        """Counts a stream of rows. TooManyQueries where the caller has too many, or all have."""
        by, most = principal_of(context), self._streams.places
        if not self._streams.take(by):
            raise TooManyQueries(
                f"{self._streams.taken()} streams of rows are open already",
                detail=f"{most} may be, and {share_of(most, by)} of {by.shown}",
                hint="read or write one to its end",
            )
        try:
            yield
        finally:
            self._streams.leave(by)

    def _batches(self, context: Any, query: Query) -> Iterator[pa.RecordBatch]:
        schema, buffer = shape_of(query), query.buffer
        token: int | None = 0
        while token is not None and not context.is_cancelled():
            principal_of(context)
            page = buffer.page(token, _TURN_S, ARROW_ROWS)
            for batch in page.batches:
                yield to_record_batch(batch, schema, changes=buffer.changes)
            token = page.next
        if buffer.schema is None and buffer.ended:
            told = from_pydict(_RESULT, {"result": [buffer.message or "OK"]})
            yield to_record_batch(told, schema, changes=False)

    def cancel(self, context: Any, identity: str) -> None:
        """Ends a statement of the caller."""
        self._queries.stop(identity, principal_of(context))

    def _forget(self, query: Query) -> None:
        with suppress(JobError):  # it was cancelled
            self._queries.stop(query.identity, query.by)


def principal_of(context: Any) -> Principal:
    """Returns who calls. Raises Unauthorised, or Forbidden, for who no longer may."""
    caller: CallHeaders = context.get_middleware(MIDDLEWARE)
    return caller.present()


def shape_of(query: Query) -> pa.Schema:
    """Returns the columns of a statement; `result` for one without rows."""
    buffer = query.buffer
    return arrow_schema(buffer.schema or _RESULT, changes=buffer.changes)
