"""Rows that a database gives, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
from xxhash import xxh64

from planner.catalog import Table
from sqlengine.connectors.jdbc.driver import Cursor
from sqlengine.connectors.jdbc.values import columns_of

_PIECE: Final = 10_000  # rows that are values of Python at a time


class Loaded(NamedTuple):
    """Rows by columns, their number, and a hash by which they are known again."""

    columns: Mapping[str, pa.Array]
    rows: int
    digest: str


def load_rows(cursor: Cursor, table: Table, fetch: int) -> Loaded:
    """Fetches the rows of a query, so many at a time (0: as many as are good), and makes columns of
    them. ExecutionError for a value that its column cannot hold."""
    pieces: list[Mapping[str, pa.Array]] = []
    hashed, count = xxh64(b"["), 0
    for rows in _fetched(cursor, fetch or _PIECE):
        hashed.update(((", " if count else "") + repr(rows)[1:-1]).encode())
        pieces.append(columns_of(rows, table, table.options["table-name"]))
        count += len(rows)
    hashed.update(b"]")
    return Loaded(joined(pieces, table), count, hashed.hexdigest())


def _fetched(cursor: Cursor, size: int) -> Iterator[list[tuple[object, ...]]]:
    while rows := cursor.fetchmany(size):
        yield [tuple(row) for row in rows]


def joined(pieces: Sequence[Mapping[str, pa.Array]], table: Table) -> dict[str, pa.Array]:
    """Returns the columns of pieces of a table as one."""
    return {
        c.name: pa.concat_arrays([piece[c.name] for piece in pieces])
        if pieces
        else pa.nulls(0, c.type.arrow)
        for c in table.physical
    }
