"""Reading a table of a database: all its rows as they are when the job begins, in the order of the
primary key or, without one, of all columns.

A database keeps no history, so what was read cannot be read again once the table has changed. The
shard's name tells which rows they were: a job that was killed while it still read goes on where it
was if the rows are the same, and fails loudly if not. A table that was read to its end is not read
again."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from xxhash import xxh64_hexdigest

from parser.errors import ExecutionError
from planner.catalog import Table
from sqlengine.connectors.base import Chunk, Source
from sqlengine.connectors.jdbc.dialects import Account, dialect_of
from sqlengine.connectors.jdbc.values import read


class JdbcSource(Source):
    """A source with one shard, named after a hash of its rows; an offset counts them."""

    bounded = True

    def __init__(self, table: Table, account: Account) -> None:
        self._name = table.options["table-name"]
        rows = _rows(table, self._name, account)
        self._shard = xxh64_hexdigest(repr(rows).encode())
        self._count = len(rows)
        columns: Sequence[Sequence[object]] = list(zip(*rows, strict=True)) or [()] * len(
            table.physical
        )
        self._columns = {
            c.name: read(v, c, self._name) for c, v in zip(table.physical, columns, strict=True)
        }

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
            raise ExecutionError(
                f"table '{self._name}' has changed while it was read",
                detail=(
                    "the job was stopped in between, and the rows that were left are not those of"
                    " then"
                ),
                hint="remove the job and submit it again: it reads the table as it is now",
            )
        end = min(offset + max_rows, self._count) if until is None else until
        if end <= offset:
            return None
        columns: dict[str, pa.Array] = {
            n: c.slice(offset, end - offset) for n, c in self._columns.items()
        }
        return Chunk(shard, offset, end, end - offset, columns=columns)

    def close(self) -> None: ...


def _rows(table: Table, name: str, account: Account) -> list[tuple[object, ...]]:
    url = table.options["url"]
    dialect = dialect_of(url)
    columns = [dialect.quoted(c.name) for c in table.physical]
    order = [dialect.quoted(k) for k in table.primary_key] or columns
    connection = dialect.open(url, account)
    try:
        cursor = connection.cursor()
        cursor.execute(
            f"SELECT {', '.join(columns)} FROM {dialect.quoted(name)} ORDER BY {', '.join(order)}"
        )
        return [tuple(row) for row in cursor.fetchall()]
    except dialect.errors() as error:
        raise ExecutionError(
            f"table '{name}' of the {dialect.name} database cannot be read",
            detail=str(error.args[-1]) if error.args else None,
        ) from None
    finally:
        connection.close()
