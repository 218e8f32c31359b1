"""Rows that PostgreSQL takes by COPY, in the form that it calls text: made column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root, Schema
from sqlengine.connectors.jdbc.driver import Cursor
from sqlengine.connectors.jdbc.values import TIMES
from sqlengine.connectors.jdbc.writer import Columns, Writer
from sqlengine.formats.texts import plain_texts
from sqlengine.formats.times import SQL, format_times

# Tables of the connection that hold an epoch's rows of a table with a key until they are merged.
_KEPT, _GONE = "sqlengine_kept", "sqlengine_gone"
_ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_PIECE: Final = 65_536  # rows that are made lines at a time


class _Copy(Protocol):
    def write(self, data: bytes, /) -> None: ...


class _CopyCursor(Protocol):
    def copy(self, statement: str, /) -> AbstractContextManager[_Copy]: ...


class CopyWriter(Writer):
    """Adds rows by COPY. With a key the last row of each is copied to a table of the connection,
    and from there merged: the server makes values of its own types of them."""

    def _delete(self, cursor: Cursor, keys: Columns) -> None:
        same = " AND ".join(f"t.{k} = g.{k}" for k in self._statements.key)
        with self._filled(cursor, _GONE, keys):
            target = self._statements.target
            cursor.execute(f"DELETE FROM {target} AS t USING {_GONE} AS g WHERE {same}")

    def _insert(self, cursor: Cursor, rows: Columns) -> None:
        said = self._statements
        if not self._key:
            self._copy(cursor, said.target, rows, self._schema)
            return
        names = ", ".join(said.columns)
        with self._filled(cursor, _KEPT, rows):
            cursor.execute(
                f"INSERT INTO {said.target} ({names}) SELECT {names} FROM {_KEPT}{said.conflict}"
            )

    @contextmanager
    def _filled(self, cursor: Cursor, table: str, rows: Columns) -> Iterator[None]:
        """Copies rows to a table of the connection whose columns are those of the target, and which
        is gone then: behind an error, with the transaction."""
        quoted = self._statements.quoted
        names = ", ".join(map(quoted, rows))
        cursor.execute(
            f"CREATE TEMPORARY TABLE {table} AS"
            f" SELECT {names} FROM {self._statements.target} WITH NO DATA"
        )
        kept = Schema(tuple(c for c in self._schema if c.name in rows))
        self._copy(cursor, table, rows, kept)
        yield
        cursor.execute(f"DROP TABLE {table}")

    def _copy(self, cursor: Cursor, table: str, rows: Columns, schema: Schema) -> None:
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
