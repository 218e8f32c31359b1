"""Rows that PostgreSQL takes by COPY, in the form that it calls text: made column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root, Schema
from planner.catalog import Table
from sqlengine.batch import Batch, RowKind
from sqlengine.connectors.jdbc.dialect import Writer
from sqlengine.connectors.jdbc.driver import Cursor
from sqlengine.connectors.jdbc.statements import Statements
from sqlengine.connectors.jdbc.values import TIMES
from sqlengine.formats.texts import plain_texts
from sqlengine.formats.times import SQL, format_times

# Tables of the connection that hold an epoch's rows of a table with a key until they are merged.
_KEPT, _GONE = "sqlengine_kept", "sqlengine_gone"
_ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_PIECE: Final = 65_536  # rows that are made lines at a time
_GOING: Final = np.array([RowKind.DELETE, RowKind.UPDATE_BEFORE], np.int8)


class _Copy(Protocol):
    def write(self, data: bytes, /) -> None: ...


class _CopyCursor(Protocol):
    def copy(self, statement: str, /) -> AbstractContextManager[_Copy]: ...


class CopyWriter(Writer):
    """Adds rows by COPY. With a key the last row of each is copied to a table of the connection,
    and from there merged: the server makes values of its own types of them."""

    def __init__(self, table: Table, statements: Statements) -> None:
        self._schema = table.physical
        self._key = table.primary_key
        self._statements = statements
        self._batches: list[Batch] = []

    def add(self, batch: Batch) -> None:
        self._batches.append(batch)

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self._batches)

    def clear(self) -> None:
        self._batches = []

    def apply(self, cursor: Cursor) -> None:
        columns = {
            c.name: pa.chunked_array([b.column(c.name) for b in self._batches], c.type.arrow)
            for c in self._schema
        }
        if not self._key:
            self._copy(cursor, self._statements.target, columns, self._schema)
            return
        last, goes = self._last_of_each(columns)
        self._delete(cursor, {n: columns[n].take(pa.array(last[goes])) for n in self._key})
        self._merge(cursor, {n: c.take(pa.array(last[~goes])) for n, c in columns.items()})

    def _last_of_each(
        self, columns: Mapping[str, pa.ChunkedArray]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Returns the place of the last row of each key, and whether it goes."""
        keys = [columns[name].to_pylist() for name in self._key]
        named = keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))
        last = np.fromiter(dict(zip(named, range(len(named)), strict=True)).values(), np.int64)
        none = np.int8(RowKind.INSERT)
        kinds = np.concatenate(
            [np.full(b.num_rows, none) if b.kinds is None else b.kinds for b in self._batches]
        )
        return last, np.isin(kinds[last], _GOING)

    def _delete(self, cursor: Cursor, keys: Mapping[str, pa.ChunkedArray]) -> None:
        if len(next(iter(keys.values()))):
            self._fill(cursor, _GONE, keys)
            same = " AND ".join(f"t.{k} = g.{k}" for k in self._statements.key)
            target = self._statements.target
            cursor.execute(f"DELETE FROM {target} AS t USING {_GONE} AS g WHERE {same}")

    def _merge(self, cursor: Cursor, rows: Mapping[str, pa.ChunkedArray]) -> None:
        if len(next(iter(rows.values()))):
            self._fill(cursor, _KEPT, rows)
            said = self._statements
            names = ", ".join(said.columns)
            cursor.execute(
                f"INSERT INTO {said.target} ({names}) SELECT {names} FROM {_KEPT}{said.conflict}"
            )

    def _fill(self, cursor: Cursor, table: str, rows: Mapping[str, pa.ChunkedArray]) -> None:
        """Copies rows to a table of this transaction whose columns are those of the target."""
        quoted = self._statements.quoted
        names = ", ".join(map(quoted, rows))
        cursor.execute(
            f"CREATE TEMPORARY TABLE {table} ON COMMIT DROP AS"
            f" SELECT {names} FROM {self._statements.target} WITH NO DATA"
        )
        kept = Schema(tuple(c for c in self._schema if c.name in rows))
        self._copy(cursor, table, {c.name: rows[c.name] for c in kept}, kept)

    def _copy(
        self, cursor: Cursor, table: str, rows: Mapping[str, pa.ChunkedArray], schema: Schema
    ) -> None:
        names = ", ".join(self._statements.quoted(c.name) for c in schema)
        found = cast("_CopyCursor", cursor)
        with found.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
            whole = pa.table([rows[c.name] for c in schema], names=[c.name for c in schema])
            for piece in whole.to_batches(max_chunksize=_PIECE):
                pairs = zip(piece.columns, schema, strict=True)
                copy.write(lines([texts(array, c.type) for array, c in pairs]))


def lines(columns: Sequence[pa.StringArray]) -> bytes:
    """Returns rows as COPY takes them: values with a tab in between, and a line for each."""
    with_ends = pc.binary_join_element_wise(
        *columns, "\t", null_handling="replace", null_replacement="\\N"
    )
    joined = pc.binary_join_element_wise(with_ends, "", "\n")
    _, offsets, data = joined.buffers()
    ends = np.frombuffer(offsets, np.int32, len(joined) + 1, joined.offset * 4)
    return memoryview(data)[ends[0] : ends[-1]].tobytes() if data is not None else b""


def texts(column: pa.Array, kind: DataType) -> pa.StringArray:
    """Returns values as PostgreSQL reads them, escaped for COPY."""
    found = plain(column, kind)
    if not (kind.is_string or kind.is_binary or kind.root is Root.ARRAY):
        return found
    if pc.any(pc.match_substring_regex(found, r"[\\\t\n\r]")).as_py():
        for character, escaped in _ESCAPES:
            found = pc.replace_substring(found, character, escaped)
    return found


def plain(column: pa.Array, kind: DataType) -> pa.StringArray:
    """Returns values as PostgreSQL reads them."""
    if kind.root is Root.DECIMAL:
        return plain_texts(column)
    if kind.root in TIMES:
        return format_times(column, kind, SQL)
    if kind.is_binary:
        return pa.array(
            [None if v is None else f"\\x{v.hex()}" for v in column.to_pylist()], pa.string()
        )
    if kind.root is Root.ARRAY:
        return _arrays(column, kind)
    return column.cast(pa.string())


def _arrays(column: pa.ListArray, kind: DataType) -> pa.StringArray:
    """Writes arrays as {"a",NULL,{…}}."""
    element = kind.children[0]
    written = plain(column.flatten(), element).to_pylist()
    if element.root is not Root.ARRAY:
        written = ["NULL" if v is None else _quoted(v) for v in written]
    lengths = pc.list_value_length(column).to_pylist()
    found: list[str | None] = []
    at = 0
    for length in lengths:
        if length is None:
            found.append(None)
            continue
        found.append(
            "{" + ",".join("NULL" if v is None else v for v in written[at : at + length]) + "}"
        )
        at += length
    return pa.array(found, pa.string())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
