"""Asking a database for the rows of keys."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final, TypeAlias

import pyarrow as pa

from parser.errors import UnsupportedError
from parser.types import BOOLEAN, DataType, Root
from planner.catalog import Table
from planner.rewrite import conjunction
from planner.scalar import Call, ColumnRef, Literal, Scalar
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.jdbc.loading import Loaded
from sqlengine.connectors.jdbc.reading import TableReader
from sqlengine.connectors.row_lookup import Found, RowLookup
from sqlengine.state.columns import to_numpy

_SHARD: Final = "asked"
# Keys of one statement: SQLite takes no condition of a thousand parts.
_AT_ONCE: Final = 500
# The values of a key, one for each column.
_Key: TypeAlias = Sequence[Literal]
_Values: TypeAlias = tuple[object, ...]


class JdbcLookup(RowLookup):
    """Asks for all keys in one statement. Which rows are those of a key the database says: its
    collations may find texts equal that differ, for which it is asked once more, key by key."""

    def __init__(self, table: Table, columns: Sequence[str], reader: TableReader) -> None:
        self._reader = reader
        self._columns = [ColumnRef(c, table.physical.type(c)) for c in columns]
        try:
            self._check(table)
        except BaseException:
            reader.close()
            raise
        kinds = [c.type for c in self._columns]
        # Times and numbers are compared as they are read, which may be less exact than there.
        self._likens = all(k.is_string or k.is_integer for k in kinds) and any(
            k.is_string and reader.likens(c) for c, k in zip(columns, kinds, strict=True)
        )

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
        starts = range(0, len(asked), _AT_ONCE)
        return [f for s in starts for f in self._found(asked[s : s + _AT_ONCE], s)]

    def _found(self, keys: Sequence[_Key], start: int) -> Iterator[Found]:
        """Yields the rows of some keys, whose numbers begin at `start`."""
        loaded = self._loaded(keys)
        alone = self._alike(keys, self._texts(loaded)) if self._likens else []
        if alone:
            asked = {_values(keys[number]) for number in alone}
            others = [i for i, v in enumerate(self._texts(loaded)) if v not in asked]
            taken = {name: column.take(others) for name, column in loaded.columns.items()}
            loaded = loaded._replace(columns=taken, rows=len(others))
        yield Found(_chunk(loaded))
        for number in alone:
            yield Found(_chunk(self._loaded([keys[number]])), start + number, has_key=True)

    def _alike(self, keys: Sequence[_Key], found: Sequence[_Values]) -> list[int]:
        """Returns the numbers of keys that may have rows with other texts than theirs."""
        asked = [_values(key) for key in keys]
        kinds = Counter(map(_folded, {*asked, *found}))
        alike = {i for i, values in enumerate(asked) if kinds[_folded(values)] > 1}
        missing = {*range(len(keys))} - {i for i, v in enumerate(asked) if v in set(found)}
        if missing - alike:
            left = [keys[i] for i in sorted(missing)]
            if {*found} - {*asked} or self._loaded(left).rows:
                alike |= missing
        return sorted(alike)

    def _texts(self, loaded: Loaded) -> list[_Values]:
        columns = (loaded.columns[c.name].to_pylist() for c in self._columns)
        return list(zip(*columns, strict=True))

    def _loaded(self, keys: Sequence[_Key]) -> Loaded:
        where = _condition(self._columns, keys)
        if not self._reader.judges(where):
            # Values that no column there has, such as a text with NUL. Without a condition the
            # whole table would come.
            keys = [k for k in keys if self._reader.judges(_condition(self._columns, [k]))]
            where = _condition(self._columns, keys or [[_sample(c.type) for c in self._columns]])
        self._reader.ask(where, 0)
        return self._reader.load()

    def close(self) -> None:
        """See `RowLookup`."""
        self._reader.close()


def _chunk(loaded: Loaded) -> Chunk:
    return Chunk(_SHARD, 0, loaded.rows, loaded.rows, columns=loaded.columns)


def _values(key: _Key) -> _Values:
    return tuple(literal.value for literal in key)


def _folded(values: _Values) -> _Values:
    """Returns a key without what most collations do not look at: case, accents, blanks behind."""
    return tuple(_plain(v) if isinstance(v, str) else v for v in values)


def _plain(text: str) -> str:
    folded = text.casefold().rstrip(" ")
    if folded.isascii():
        return folded
    return "".join(c for c in unicodedata.normalize("NFKD", folded) if not unicodedata.combining(c))


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
