"""Asking a host for the rows of keys: a request for each."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.http.client import HttpClient, site
from sqlengine.connectors.http.column_values import ColumnValues
from sqlengine.connectors.http.reading import Asked, BadAnswer, Reader, Refused, with_parameters
from sqlengine.connectors.http.templates import (
    Template,
    Values,
    as_text,
    json_template,
    relative_parts,
    url_template,
)
from sqlengine.connectors.lookup_options import DEAD_LETTER, ON_ERROR
from sqlengine.connectors.row_lookup import Found, RowLookup
from sqlengine.system.lanes import get_on

_SHARD: Final = "asked"
_REMEDY: Final = f"'{ON_ERROR}' = '{DEAD_LETTER}' sets the rows of such keys aside"


class HttpLookup(RowLookup):
    """Asks for each key, `at_once` of them at a time.

    `{{column}}` in the address or the body stands for the value of a column that is asked by; those
    that stand nowhere are parameters of the query. A host that answers 404 or 410 has no rows of a
    key; nor has a key that makes the address one of another place: an empty text, '.' or '..'.
    `lenient`: a bad answer is a problem of its key alone. PlanError for a template that names
    another column."""

    def __init__(
        self,
        table: Table,
        columns: Sequence[str],
        asked: Asked,
        client: HttpClient,
        at_once: int,
        *,
        lenient: bool = False,
    ) -> None:
        self._asked, self._client = replace(asked, may_miss=True), client
        self._lenient = lenient
        self._url = url_template(asked.url, columns, "url")
        some = dict.fromkeys(self._url.columns, msgspec.Raw(b'"x"'))
        self._relative = relative_parts(self._url.filled(some))
        self._body: Template | None = None
        if asked.body is not None:
            self._body = json_template(asked.body.decode(), columns, "body")
        named = {*self._url.columns, *(() if self._body is None else self._body.columns)}
        self._parameters = [c for c in columns if c not in named]
        self._schema = table.physical.select(tuple(columns))
        self._values = ColumnValues(table, columns)
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix=f"http {site(asked.url)}")

    def rows_of(self, keys: Sequence[pa.Array]) -> Sequence[Found]:
        """See `RowLookup`. NoAnswer where the host is away, BadAnswer for what it should not
        answer; requests that have not begun then are left."""
        rows = self._values.of(Batch(self._schema, tuple(keys), len(keys[0])))
        waiting = [self._pool.submit(self._records, row) for row in rows]
        found = []
        try:
            for number, request in enumerate(waiting):
                found.append(self._found(request, number))
                get_on()
        finally:
            for request in waiting:
                request.cancel()
        return found

    def _found(self, request: Future[list[bytes]], number: int) -> Found:
        try:
            return Found(_chunk(request.result()), number)
        except BadAnswer as error:
            if isinstance(error, Refused):
                raise
            if not self._lenient:
                error.hint = error.hint or _REMEDY
                raise
            return Found(_chunk([]), number, problem=error.reason)

    def _records(self, row: Values) -> list[bytes]:
        if not all(as_text(row[name]) for name in self._url.columns):
            return []
        if relative_parts(self._url.filled(row)) > self._relative:
            return []
        url = with_parameters(self._url.filled(row), {c: as_text(row[c]) for c in self._parameters})
        body = None if self._body is None else self._body.filled(row).encode()
        reader = Reader(replace(self._asked, url=url, body=body), self._client)
        return [record for _, page in reader.pages({}, {}) for record in page]

    def close(self) -> None:
        """See `RowLookup`."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()


def _chunk(records: Sequence[bytes]) -> Chunk:
    count = len(records)
    return Chunk(_SHARD, 0, count, count, pa.array(records, pa.binary()), offsets=np.arange(count))
