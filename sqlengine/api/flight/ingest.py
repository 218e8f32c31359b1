"""Rows that are put into a table: CommandStatementIngest, and DoPut under the path of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from parser.errors import PlanError, UnsupportedError
from parser.limits import present
from parser.writer.names import backticked, quoted
from planner.catalog import Catalog, Table
from sqlengine.api.flight.messages import Ingest
from sqlengine.api.flight.statements import Statements
from sqlengine.api.flight.wire import BadMessage
from sqlengine.connection.columns import batch_of, sql_types
from sqlengine.queries.owned_topics import OWNED, owned_topic
from sqlengine.system.untrusted.arrow_values import decoded_size

# Rows, and bytes, that are written at once.
_ROWS: Final = 65_536
_SIZE: Final = 16 << 20


def ingest(
    statements: Statements, context: Any, wanted: Ingest, reader: Any, catalog: Catalog
) -> int:
    """Writes all rows of a stream into a table, part by part while they come; returns their
    number. Parts before one that is refused stay written."""
    types = sql_types(reader.schema)
    _prepare(statements, context, wanted, types, catalog)
    rows = 0
    for part in _parts(reader):
        statements.ingest(context, wanted.name, batch_of(part))
        rows += part.num_rows
    return rows


def _prepare(
    statements: Statements,
    context: Any,
    wanted: Ingest,
    types: dict[str, str],
    catalog: Catalog,
) -> None:
    """Makes the table, if it is to be made; one whose rows are replaced is dropped before."""
    shown, path = ".".join(wanted.name), ".".join(map(backticked, wanted.name))
    if wanted.temporary:
        raise UnsupportedError(
            f"'{shown}' cannot be a temporary table",
            detail="rows go to the topic of the table",
            hint="choose another name, and drop it",
        )
    table = catalog.get(wanted.name)
    if isinstance(table, Table) and wanted.replaces:
        if owned_topic(table) is None:
            raise UnsupportedError(
                f"the rows of '{shown}' cannot be replaced",
                detail=f"its topic is not its own ('{OWNED}')",
                hint="append the rows, or choose another name",
            )
        statements.run(context, f"DROP TABLE {path}")
    elif isinstance(table, Table):
        if not wanted.appends:
            raise PlanError(f"table '{shown}' exists already", hint="append the rows to it")
        return
    if not wanted.creates:
        raise PlanError(f"table '{shown}' does not exist", hint="create it, or let it be created")
    columns = ", ".join(f"{backticked(name)} {kind}" for name, kind in types.items())
    topic = f"'connector' = 'topic', 'topic' = {quoted(wanted.name[-1])}, '{OWNED}' = 'true'"
    statements.run(context, f"CREATE TABLE {path} ({columns}) WITH ({topic}, 'format' = 'json')")


def batches(reader: Any) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a stream that comes, large ones in parts. BadMessage for one whose
    values, each for itself, have more bytes than a request may, or that is damaged."""
    for chunk in reader:
        if chunk.data is not None:
            _check(chunk.data)
            yield from _slices(chunk.data)


def _check(batch: pa.RecordBatch) -> None:
    most = present().request_size
    try:
        batch.validate(full=True)  # a column that is not what it says could end this process
        size = max(batch.nbytes, batch.num_rows, decoded_size(batch))
    except pa.ArrowException as error:
        raise BadMessage("a batch cannot be taken", detail=str(error)[:300]) from None
    if size > most:
        raise BadMessage(
            f"a batch has {size:,} bytes, and {most:,} are the most",
            detail="what has no value, and each that stands for others, is counted",
            hint="send smaller ones",
        )


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows <= _ROWS:
        yield batch
        return
    for start in range(0, batch.num_rows, _ROWS):
        yield batch.slice(start, _ROWS)


def _parts(reader: Any) -> Iterator[pa.Table]:
    """Yields the batches of a stream, small ones together."""
    waiting: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches(reader):
        waiting.append(batch)
        size, rows = size + batch.nbytes, rows + batch.num_rows
        if rows >= _ROWS or size >= _SIZE:
            yield pa.Table.from_batches(waiting)
            waiting, size, rows = [], 0, 0
    if rows:
        yield pa.Table.from_batches(waiting)
