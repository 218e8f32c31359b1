"""Reading a table of a database: all its rows as they are when the job begins, in the order of the
primary key or, without one, of all columns.

A database keeps no history, so what was read cannot be read again once the table has changed. The
shard's name tells which rows they were: a job that was killed while it still read goes on where it
was if the rows are the same, and fails loudly if not. A table that was read to its end is not read
again."""

from __future__ import annotations

import pyarrow as pa

from planner.scalar import Scalar
from sqlengine.connectors.base import Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.jdbc.reading import TableReader


class JdbcSource(Source):
    """A source with one shard, named after a hash of its rows; an offset counts them. With
    `queried` they are read by `apply_query`."""

    bounded = True

    def __init__(self, reader: TableReader, *, queried: bool = False) -> None:
        self._reader = reader
        self.health = reader.health
        if not queried:
            self.apply_query(None, 0)

    def apply_query(self, where: Scalar | None, limit: int) -> None:
        self._reader.ask(where, limit)
        self._columns, self._count, self._shard = self._reader.load()

    def shards(self) -> list[str]:
        return [self._shard]

    def start(self, shard: str) -> int:
        return 0

    def end(self, shard: str) -> int | None:
        return self._count

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`. ExecutionError where the rows of `shard` are no longer there."""
        if shard != self._shard:
            raise self._reader.changed()
        end = min(offset + max_rows, self._count) if until is None else until
        if end <= offset:
            return None
        columns: dict[str, pa.Array] = {
            n: c.slice(offset, end - offset) for n, c in self._columns.items()
        }
        return Chunk(shard, offset, end, end - offset, columns=columns)

    def close(self) -> None: ...
