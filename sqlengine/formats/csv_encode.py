"""Rows to CSV records as Flink writes them."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import UnsupportedError
from parser.types import DataType, Root, Schema
from sqlengine.batch import Batch
from sqlengine.formats.base import of_column
from sqlengine.formats.csv_values import Dialect
from sqlengine.formats.texts import java_texts, trimmed_texts

# Flink does not look into longer texts: it quotes them.
_LONGEST_BARE = 24
_NUMBERS = (
    Root.BOOLEAN,
    Root.TINYINT,
    Root.SMALLINT,
    Root.INT,
    Root.BIGINT,
    Root.FLOAT,
    Root.DOUBLE,
    Root.DECIMAL,
)


class CsvEncoder:
    def __init__(self, schema: Schema, dialect: Dialect) -> None:
        self._schema = schema
        self._dialect = dialect
        special = max([dialect.delimiter, dialect.quote or "\0", "\r"])
        # Flink quotes what holds any character up to the greatest of the special ones, or a
        # backslash.
        self._unsafe = f"[\\x{{0}}-\\x{{{ord(special):x}}}{_in_class(dialect.escape)}\\\\]"
        for column in schema:
            with of_column(column.name):
                _check(column.type)

    def encode(self, batch: Batch) -> pa.Array:
        """See `Encoder`. Row kinds are not written."""
        columns = [
            self._column(c, f.type) for c, f in zip(batch.columns, self._schema, strict=True)
        ]
        if not columns:
            return pa.array([b""] * batch.num_rows, pa.binary())
        return pc.binary_join_element_wise(*columns, self._dialect.delimiter).cast(pa.binary())

    def _column(self, column: pa.Array, kind: DataType) -> pa.Array:
        texts = self._texts(column, kind)
        if kind.root not in _NUMBERS and self._dialect.quote:
            texts = self._quoted(texts)
        return texts.fill_null(self._dialect.null or "")

    def _texts(self, column: pa.Array, kind: DataType) -> pa.Array:
        if kind.root in (Root.ARRAY, Root.ROW):
            return pa.array(
                [self._nested(v, kind) for v in self._elements(column, kind)], pa.string()
            )
        if kind.root is Root.DECIMAL and not self._dialect.scientific:
            return trimmed_texts(column)
        return java_texts(column, kind)

    def _elements(self, column: pa.Array, kind: DataType) -> list[list[str | None] | None]:
        """The elements' texts by row, None for a row that is NULL."""
        present = column.is_valid().to_pylist()
        if kind.root is Root.ROW:
            fields = [
                self._texts(column.field(i), child).to_pylist()
                for i, child in enumerate(kind.children)
            ]
            rows: list[list[str | None]] = [list(r) for r in zip(*fields, strict=True)]
        else:
            texts, ends = (
                self._texts(column.values, kind.children[0]).to_pylist(),
                column.offsets.to_pylist(),
            )
            rows = [texts[a:b] for a, b in pairwise(ends)]
        return [row if there else None for row, there in zip(rows, present, strict=True)]

    def _nested(self, items: list[str | None] | None, kind: DataType) -> str | None:
        if items is None:
            return None
        return self._dialect.elements.join(
            self._dialect.null or "" if i is None else i for i in items
        )

    def _quoted(self, texts: pa.StringArray) -> pa.StringArray:
        """Texts with quotes around those that need them."""
        quote, escape = self._dialect.quote, self._dialect.escape
        needed = pc.or_(
            pc.match_substring_regex(texts, self._unsafe),
            pc.greater(pc.utf8_length(texts), _LONGEST_BARE),
        )
        if pc.any(needed).as_py() is not True:
            return texts
        inner = pc.replace_substring(texts, escape, escape * 2) if escape else texts
        inner = pc.replace_substring(inner, quote, quote * 2)
        return pc.if_else(needed, pc.binary_join_element_wise(quote, inner, quote, ""), texts)


def _in_class(character: str) -> str:
    return f"\\x{{{ord(character):x}}}" if character else ""


def _check(kind: DataType) -> None:
    if kind.root in (Root.MAP, Root.MULTISET):
        raise UnsupportedError(f"CSV cannot hold {kind}")
    for child in kind.children:
        _check(child)
