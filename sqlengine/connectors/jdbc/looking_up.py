"""Asking a database for the rows of keys."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from decimal import Decimal
from queue import SimpleQueue
from typing import Final, TypeAlias

import pyarrow as pa

from parser.errors import UnsupportedColumn
from parser.types import BOOLEAN, DataType, Root
from planner.catalog import Table
from planner.rewrite import conjunction
from planner.scalar import Call, ColumnRef, Literal, Scalar
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.jdbc.loading import Loaded
from sqlengine.connectors.jdbc.reading import TableReader
from sqlengine.connectors.row_lookup import Found, RowLookup
from sqlengine.state.columns import to_numpy
from sqlengine.system.lanes import get_on

_SHARD: Final = "asked"
# Keys of one statement: SQLite takes no condition of a thousand parts. Fewer than so many are not
# divided, since each statement has its price.
_AT_ONCE: Final = 500
_FEW: Final = 100
# The values of a key, one for each column.
_Key: TypeAlias = Sequence[Literal]
_Values: TypeAlias = tuple[object, ...]


class JdbcLookup(RowLookup):
    """Asks for many keys in one statement, and for more than a few over several connections at a
    time, one for each of the `readers`: what a database, or the way to it, takes for an answer is
    taken at once then. Connections are made when they are needed."""

    def __init__(
        self, table: Table, columns: Sequence[str], readers: Sequence[TableReader]
    ) -> None:
        self._columns = [ColumnRef(c, table.physical.type(c)) for c in columns]
        self._pool: ThreadPoolExecutor | None = None
        first, self._readers = readers[0], readers
        try:
            self._check(table, first)
            kinds = [c.type for c in self._columns]
            # Times and numbers are compared as they are read, which may be less exact than there.
            likens = all(k.is_string or k.is_integer for k in kinds) and any(
                k.is_string and first.likens(c) for c, k in zip(columns, kinds, strict=True)
            )
        except BaseException:
            first.close()
            raise
        self._idle: SimpleQueue[_KeyReader] = SimpleQueue()
        for reader in readers:
            self._idle.put(_KeyReader(reader, self._columns, likens=likens))

    def _check(self, table: Table, reader: TableReader) -> None:
        reader.probe()
        for column in self._columns:
            if not reader.judges(_equal(column, _sample(column.type))):
                raise UnsupportedColumn(
                    f"table '{table.display}' cannot be asked by column '{column.name}'",
                    detail=f"it is {column.type} here, and of another kind in the database",
                    hint="declare it as the database has it, or 'lookup.cache' = 'FULL'",
                    subject=column.name,
                )

    def rows_of(self, keys: Sequence[pa.Array]) -> Sequence[Found]:
        """See `RowLookup`."""
        literals = [_literals(k, c.type) for k, c in zip(keys, self._columns, strict=True)]
        asked = list(zip(*literals, strict=True))
        share = -(-len(asked) // len(self._readers))
        size = min(_AT_ONCE, max(_FEW, share))
        parts = [(asked[s : s + size], s) for s in range(0, len(asked), size)]
        if len(parts) == 1:
            return self._part(*parts[0])
        return self._together(parts)

    def _together(self, parts: Sequence[tuple[Sequence[_Key], int]]) -> list[Found]:
        """Returns the rows of all parts, in order. Whatever fails, no connection is in use then."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(len(self._readers), thread_name_prefix="jdbc look-up")
        waiting = [self._pool.submit(self._part, keys, start) for keys, start in parts]
        found: list[Found] = []
        try:
            for part in waiting:
                found += part.result()
                get_on()
        finally:
            for part in waiting:
                part.cancel()
            wait(waiting)
        return found

    def _part(self, keys: Sequence[_Key], start: int) -> list[Found]:
        reader = self._idle.get()
        try:
            return list(reader.found(keys, start))
        finally:
            self._idle.put(reader)

    def close(self) -> None:
        """See `RowLookup`."""
        if self._pool is not None:
            self._pool.shutdown()
        for reader in self._readers:
            reader.close()


class _KeyReader:
    """Asks for keys over one connection. Which rows are those of a key the database says: its
    collations may find texts equal that differ (`likens`), for which it is asked once more, key by
    key."""

    def __init__(self, reader: TableReader, columns: Sequence[ColumnRef], *, likens: bool) -> None:
        self._reader, self._columns, self._likens = reader, columns, likens

    def found(self, keys: Sequence[_Key], start: int) -> Iterator[Found]:
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
