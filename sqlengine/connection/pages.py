"""Pages of a result, from a server or from an engine in this process."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from parser.errors import SqlError
from sqlengine.client import Client, Refused, quote

if TYPE_CHECKING:
    from sqlengine.queries.query import Query

QUERIES: Final = "/api/v1/queries"
# Seconds for which an engine in this process is waited for at once, and a server that had no
# thread to wait is left in peace.
_TURN_S: Final = 0.2
_POLL_S: Final = 0.1
# Seconds for which a statement is tried again that is one too many.
_PATIENCE_S: Final = 30.0
_TOO_MANY: Final = 429


@dataclass(frozen=True)
class ArrowPage:
    """Some rows of a result, perhaps none. `about`: what else is known of it by now, as in the
    REST API; `last`: no page follows."""

    schema: pa.Schema
    batches: tuple[pa.RecordBatch, ...]
    about: Mapping[str, object]
    last: bool


class Pages(ABC):
    """The pages of one result, in order. `close` may be called from any thread."""

    @abstractmethod
    def turn(self) -> ArrowPage:
        """Returns the next page, which has no rows where none came for about a second.

        Raises the statement's error behind the pages before it."""

    @abstractmethod
    def close(self) -> None:
        """Ends the statement, if it runs."""


class ServerPages(Pages):
    """Fetches the pages of a statement that a server runs."""

    def __init__(self, client: Client, body: bytes, kind: str, **query: object) -> None:
        self._client = client
        self._page: ArrowPage | None = _read(_begin(client, body, kind, query))
        self._about = self._page.about
        self._place = f"{QUERIES}/{quote(str(self._about['query']))}"

    def turn(self) -> ArrowPage:
        """See `Pages`."""
        page, self._page = self._page, None
        if page is not None:
            return page
        began, before = time.monotonic(), self._about["page"]
        page = _read(self._client.arrow("GET", self._place, page=self._about["next"]))
        self._about = page.about
        if page.about["page"] == before and time.monotonic() - began < _POLL_S:
            time.sleep(_POLL_S)
        return page

    def close(self) -> None:
        """See `Pages`."""
        with suppress(SqlError):  # it has ended, or the server has
            self._client.delete(self._place)


def with_rows(statement: str | bytes, rows: pa.RecordBatch) -> bytes:
    """Returns a statement and the rows that it reads as the body of a request."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema.with_metadata({"sql": statement})) as stream:
        stream.write_batch(rows)
    body: bytes = out.getvalue().to_pybytes()
    return body


def _begin(client: Client, body: bytes, kind: str, query: Mapping[str, object]) -> bytes:
    """Starts a statement, and returns its first page. Where as many run as may at once it is tried
    again for a while."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return client.arrow("POST", QUERIES, body, kind, **query)
        except Refused as error:
            if error.status != _TOO_MANY or time.monotonic() > until:
                raise
        time.sleep(_POLL_S)


def _read(data: bytes) -> ArrowPage:
    with pa.ipc.open_stream(data) as stream:
        about = json.loads(stream.schema.metadata[b"page"])
        schema = stream.schema.remove_metadata()
        batches = tuple(b.replace_schema_metadata() for b in stream)
    return ArrowPage(schema, batches, about, about["next"] is None)


class LocalPages(Pages):
    """Takes the rows of a query that an engine in this process runs."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._next = 0

    def turn(self) -> ArrowPage:
        """See `Pages`."""
        from sqlengine.queries.arrow_pages import ARROW_ROWS, arrow_schema, to_record_batch
        from sqlengine.queries.page import about_page

        query, buffer = self._query, self._query.buffer
        buffer.wait_ready(_TURN_S)
        try:
            page = buffer.page(self._next, _TURN_S, ARROW_ROWS)
        except SqlError as error:  # how the other thread came to it is of no use here
            raise error.with_traceback(None) from None
        about = about_page(query, page)
        if page.next is not None:
            self._next = page.next
        if buffer.schema is None:
            return ArrowPage(pa.schema([]), (), about, page.next is None)
        schema = arrow_schema(buffer.schema, changes=buffer.changes)
        batches = (to_record_batch(b, schema, changes=buffer.changes) for b in page.batches)
        return ArrowPage(schema, tuple(batches), about, page.next is None)

    def close(self) -> None:
        """See `Pages`."""
        self._query.stop()
