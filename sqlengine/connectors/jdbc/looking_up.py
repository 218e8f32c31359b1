"""Asking a database for the rows of keys."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import pyarrow as pa

from parser.errors import UnsupportedError
from parser.types import BOOLEAN, DataType, Root
from planner.catalog import Table
from planner.rewrite import conjunction
from planner.scalar import Call, ColumnRef, Literal, Scalar
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.jdbc.reading import TableReader
from sqlengine.connectors.row_lookup import Found, RowLookup
from sqlengine.state.columns import to_numpy

_SHARD: Final = "asked"


class JdbcLookup(RowLookup):
    """Asks for all keys in one statement. The database may find rows of other keys, too, such as
    texts that its collation finds equal."""

    def __init__(self, table: Table, columns: Sequence[str], reader: TableReader) -> None:
        self._reader = reader
        self._columns = [ColumnRef(c, table.physical.type(c)) for c in columns]
        try:
            self._check(table)
        except BaseException:
            reader.close()
            raise

    def _check(self, table: Table) -> None:
        self._reader.probe()
        for column in self._columns:
            if not self._reader.judges(_equal(column, _sample(column.type))):
                raise UnsupportedError(
                    f"table '{table.display}' cannot be asked by column '{column.name}'",
                    detail=f"it is {column.type} here, and of another kind in the database",
                    hint="declare it as the database has it, or 'lookup.cache' = 'FULL'",
                )

    def rows_of(self, keys: Sequence[pa.Array]) -> Sequence[Found]:
        """See `RowLookup`."""
        literals = [_literals(k, c.type) for k, c in zip(keys, self._columns, strict=True)]
        self._reader.ask(_condition(self._columns, literals), 0)
        loaded = self._reader.load()
        return [Found(Chunk(_SHARD, 0, loaded.rows, loaded.rows, columns=loaded.columns))]

    def close(self) -> None:
        """See `RowLookup`."""
        self._reader.close()


def _condition(columns: Sequence[ColumnRef], literals: Sequence[Sequence[Literal]]) -> Scalar:
    """Returns the condition that a row has one of these keys."""
    if len(columns) == 1:
        return Call("IN", (columns[0], *literals[0]), BOOLEAN)
    keys = [
        conjunction([_equal(c, v) for c, v in zip(columns, key, strict=True)])
        for key in zip(*literals, strict=True)
    ]
    return keys[0] if len(keys) == 1 else Call("OR", tuple(keys), BOOLEAN)


def _equal(column: ColumnRef, value: Literal) -> Call:
    return Call("=", (column, value), BOOLEAN)


def _literals(array: pa.Array, kind: DataType) -> list[Literal]:
    values, _ = to_numpy(kind, array)
    return [Literal(v, kind) for v in values.tolist()]


def _sample(kind: DataType) -> Literal:
    """Returns some value of a type."""
    if kind.root is Root.DECIMAL:
        return Literal(Decimal(0), kind)
    return Literal("" if kind.is_string else 0.0 if kind.root is Root.DOUBLE else 0, kind)
