"""The format 'csv': a record is a line of fields by position, as Flink reads and writes it (RFC
4180)."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from parser.errors import OptionError
from parser.types import Column, Schema
from sqlengine.formats.base import (
    BadRecord,
    Decoded,
    Decoder,
    Encoder,
    Format,
    Option,
    of_column,
    selected,
)
from sqlengine.formats.csv_encode import CsvEncoder
from sqlengine.formats.csv_lines import CsvFraming
from sqlengine.formats.csv_values import Dialect, FromText, columns_at_once, from_text
from sqlengine.formats.java import TRIM
from sqlengine.formats.json_values import Unreadable
from sqlengine.formats.lines import Framing
from sqlengine.formats.options import boolean, character, parse_options

_BOM = b"\xef\xbb\xbf"
# What stands for another character behind an escape.
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


def delimiter(text: str) -> str:
    """A single character; a tab or a line break may be written as an escape."""
    return character(text.replace("\\t", "\t").replace("\\n", "\n").replace("\\r", "\r"))


class CsvFormat(Format):
    """Flink's CSV format."""

    name: ClassVar[str] = "csv"
    options: ClassVar[Mapping[str, Option]] = {
        "field-delimiter": Option(delimiter, default=","),
        "quote-character": Option(character, default='"'),
        "disable-quote-character": Option(boolean, default="false"),
        "allow-comments": Option(
            boolean, default="false", doc="records that begin with # give nothing"
        ),
        "ignore-parse-errors": Option(
            boolean, default="false", doc="bad values are NULL, bad records are skipped"
        ),
        "array-element-delimiter": Option(character, default=";"),
        "escape-character": Option(character),
        "null-literal": Option(doc="the text that stands for NULL"),
        "write-bigdecimal-in-scientific-notation": Option(
            boolean, default="true", doc="100 as 1E+2"
        ),
    }

    def decoder(
        self,
        schema: Schema,
        options: Mapping[str, str],
        columns: Sequence[str] | None = None,
        metadata: Sequence[str] = (),
    ) -> Decoder:
        return CsvDecoder(schema, selected(schema, columns), self._dialect(options))

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        return CsvEncoder(schema, self._dialect(options))

    def framing(self, options: Mapping[str, str]) -> Framing:
        return CsvFraming(self._dialect(options))

    def _dialect(self, options: Mapping[str, str]) -> Dialect:
        values = parse_options(options, self.options, "format 'csv'")
        if values["disable-quote-character"] and "quote-character" in options:
            raise OptionError(
                "'quote-character' and 'disable-quote-character' of format 'csv' exclude each"
                " other",
                hint="leave one of them out",
                subject="disable-quote-character",
            )
        escape, null = values["escape-character"], values["null-literal"]
        return Dialect(
            delimiter=str(values["field-delimiter"]),
            quote="" if values["disable-quote-character"] else str(values["quote-character"]),
            escape="" if escape is None else str(escape),
            null=None if null is None else str(null),
            elements=str(values["array-element-delimiter"]),
            comments=bool(values["allow-comments"]),
            lenient=bool(values["ignore-parse-errors"]),
            scientific=bool(values["write-bigdecimal-in-scientific-notation"]),
        )


class Malformed(Exception):
    """A record is no line of the right number of fields."""


@dataclass(frozen=True)
class _Place:
    """A column to read: where it stands in a record, and how its text becomes a value."""

    name: str
    index: int
    convert: FromText


class CsvDecoder:
    def __init__(self, schema: Schema, columns: Schema, dialect: Dialect) -> None:
        self._columns = columns
        self._width = len(schema)
        self._dialect = dialect
        self._places = [_Place(c.name, schema.index(c.name), _reader(c, dialect)) for c in columns]
        self._needed = max((p.index + 1 for p in self._places), default=0)

    def decode(self, records: pa.Array) -> Decoded:
        """See `Decoder`. Where comments are allowed, they and empty records give nothing."""
        lines: list[list[str | None]] = []
        rows: list[int] = []
        bad: list[BadRecord] = []
        for i, record in enumerate(records.to_pylist()):
            try:
                fields = self._fields(record)
            except Malformed as error:
                if not self._dialect.lenient:
                    bad.append(BadRecord(i, str(error)))
                continue
            if fields is not None:
                lines.append(fields)
                rows.append(i)
        return self._typed(lines, rows, bad, len(records))

    def _typed(
        self, lines: list[list[str | None]], rows: list[int], bad: list[BadRecord], total: int
    ) -> Decoded:
        texts = [[line[p.index] for line in lines] for p in self._places]
        if self._dialect.null is not None:  # of arrays and rows it stands for elements
            texts = [
                t if c.type.children else self._with_nulls(t)
                for t, c in zip(texts, self._columns, strict=True)
            ]
        columns = columns_at_once(texts, [c.type for c in self._columns])
        if columns is None:
            columns, rows = self._one_by_one(texts, rows, bad)
        index = None if len(rows) == total else np.array(rows, np.int64)
        return Decoded(columns, len(rows), index, tuple(sorted(bad, key=lambda b: b.row)))

    def _with_nulls(self, texts: list[str | None]) -> list[str | None]:
        return [None if t == self._dialect.null else t for t in texts]

    def _one_by_one(
        self, texts: list[list[str | None]], rows: list[int], bad: list[BadRecord]
    ) -> tuple[tuple[pa.Array, ...], list[int]]:
        kept: list[int] = []
        values: list[list[object]] = [[] for _ in self._places]
        for k, row in enumerate(rows):
            try:
                one = [
                    self._value(place, column[k])
                    for place, column in zip(self._places, texts, strict=True)
                ]
            except Unreadable as error:
                bad.append(BadRecord(row, str(error)))
                continue
            kept.append(row)
            for column, value in zip(values, one, strict=True):
                column.append(value)
        arrays = tuple(
            pa.array(v, c.type.arrow) for v, c in zip(values, self._columns, strict=True)
        )
        return arrays, kept

    def _value(self, place: _Place, text: str | None) -> object:
        if text is None:
            return None
        try:
            return place.convert(text)
        except Unreadable as error:
            if self._dialect.lenient:
                return None
            raise Unreadable(f"column '{place.name}': {error}") from None

    def _fields(self, record: bytes) -> list[str | None] | None:
        """Splits a record into the fields that the table has columns for; None for a record that
        gives nothing.

        NULL stands where lenient reading misses a field. Fields may be missing after those that are
        read, and one delimiter more may end the record."""
        text = _text(record)
        if self._dialect.comments and (not text.strip(TRIM) or text.lstrip(TRIM).startswith("#")):
            return None
        fields = self._split(text)
        if len(fields) == self._width + 1 and text.endswith(self._dialect.delimiter):
            del fields[-1]
        if len(fields) > self._width or (len(fields) < self._needed and not self._dialect.lenient):
            raise Malformed(
                f"malformed CSV: {len(fields)} fields, the table has {self._width} columns"
            )
        fields += [None] * (self._width - len(fields))
        return fields

    def _split(self, text: str) -> list[str | None]:
        dialect = self._dialect
        if (not dialect.quote or dialect.quote not in text) and (
            not dialect.escape or dialect.escape not in text
        ):
            return [*text.split(dialect.delimiter)]
        return [*split_quoted(text, dialect)]


def _text(record: bytes) -> str:
    """The record without a byte order mark; a lone surrogate is a ?, as Java writes it."""
    try:
        return record.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        reason = str(error)
    try:
        return record.decode("utf-8", "surrogatepass").encode("utf-8", "replace").decode()
    except UnicodeDecodeError:
        raise Malformed(f"malformed CSV: {reason}") from None


def split_quoted(text: str, dialect: Dialect) -> list[str]:
    """Fields of a record that has quotes or escapes. Python's reader is eight times faster, but
    knows no reasons, and takes no raw line breaks, no long fields, and n behind an escape for an
    n."""
    if "\n" in text or "\r" in text or (dialect.escape and dialect.escape in text):
        return split_carefully(text, dialect)
    reader = csv.reader(
        [text],
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        strict=True,
    )
    try:
        return next(reader)
    except (csv.Error, StopIteration):
        return split_carefully(text, dialect)


def split_carefully(text: str, dialect: Dialect) -> list[str]:
    """Fields of a record that has quotes or escapes. A quote counts at the beginning of a field
    only."""
    fields: list[str] = []
    at = 0
    while True:
        if dialect.quote and text.startswith(dialect.quote, at):
            field, at = _quoted(text, at + 1, dialect)
        else:
            field, at = _bare(text, at, dialect)
        fields.append(field)
        if at >= len(text):
            return fields
        at += 1  # the delimiter
        if at == len(text):
            return [*fields, ""]


def _bare(text: str, at: int, dialect: Dialect) -> tuple[str, int]:
    """The field from `at` to the next delimiter, and where that is."""
    parts: list[str] = []
    while at < len(text) and text[at] != dialect.delimiter:
        if text[at] == dialect.escape and at + 1 < len(text):
            at += 1
            parts.append(_ESCAPED.get(text[at], text[at]))
        else:
            parts.append(text[at])
        at += 1
    return "".join(parts), at


def _quoted(text: str, at: int, dialect: Dialect) -> tuple[str, int]:
    """The field whose opening quote is before `at`, and where the delimiter behind it is."""
    parts: list[str] = []
    while at < len(text):
        if text[at] == dialect.escape and at + 1 < len(text):
            parts.append(_ESCAPED.get(text[at + 1], text[at + 1]))
            at += 2
        elif text[at] != dialect.quote:
            parts.append(text[at])
            at += 1
        elif text.startswith(dialect.quote, at + 1):
            parts.append(dialect.quote)
            at += 2
        else:
            return "".join(parts), _behind(text, at + 1, dialect)
    raise Malformed("malformed CSV: a quote is not closed")


def _behind(text: str, at: int, dialect: Dialect) -> int:
    """Returns the place of the delimiter after a quoted field: only space may come before it."""
    while at < len(text) and text[at] in TRIM and text[at] != dialect.delimiter:
        at += 1
    if at < len(text) and text[at] != dialect.delimiter:
        raise Malformed(f"malformed CSV: a quoted field goes on at character {at + 1}")
    return at


def _reader(column: Column, dialect: Dialect) -> FromText:
    with of_column(column.name):
        return from_text(column.type, dialect)
