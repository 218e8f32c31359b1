"""Asking a database for the rows of keys."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final, TypeAlias

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
# Keys of one statement: SQLite takes no condition of a thousand parts.
_AT_ONCE: Final = 500
# The values of a key, one for each column.
_Key: TypeAlias = Sequence[Literal]


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
        asked = list(zip(*literals, strict=True))
        return [
            self._found(asked[start : start + _AT_ONCE]) for start in range(0, len(asked), _AT_ONCE)
        ]

    def _found(self, keys: Sequence[_Key]) -> Found:
        where = _condition(self._columns, keys)
        if not self._reader.judges(where):
            # Values that no column there has, such as a text with NUL. Without a condition the
            # whole table would come.
            keys = [k for k in keys if self._reader.judges(_condition(self._columns, [k]))]
            where = _condition(self._columns, keys or [[_sample(c.type) for c in self._columns]])
        self._reader.ask(where, 0)
        loaded = self._reader.load()
        return Found(Chunk(_SHARD, 0, loaded.rows, loaded.rows, columns=loaded.columns))

    def close(self) -> None:
        """See `RowLookup`."""
        self._reader.close()


def _condition(columns: Sequence[ColumnRef], keys: Sequence[_Key]) -> Scalar:
    """Returns the condition that a row has one of these keys."""
    if len(columns) == 1:
        return Call("IN", (columns[0], *(value for (value,) in keys)), BOOLEAN)
    equal = [conjunction([_equal(c, v) for c, v in zip(columns, key, strict=True)]) for key in keys]
    return equal[0] if len(equal) == 1 else Call("OR", tuple(equal), BOOLEAN)


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
