"""The base of formats of logs: fields that a line has, by name, as the columns of a table.

A column gets the field of its name, read as its type; a column of type MAP with the name that an
option says gets all fields that are no columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

import numpy as np
import pyarrow as pa

from parser.errors import UnsupportedColumn, UnsupportedError
from parser.types import Column, DataType, Root, Schema
from sqlengine.formats.base import (
    BadRecord,
    Decoded,
    Decoder,
    Encoder,
    Format,
    Option,
    selected,
)
from sqlengine.formats.logs.texts import TextColumn
from sqlengine.formats.options import boolean, parse_options

LENIENT: Final = Option(
    boolean, default="false", doc="bad values are NULL, bad records are skipped"
)


class BadLine(Exception):
    """A record that is no line of the format; the text says why."""


class Parsed(Protocol):
    """The fields of a batch of records. `bad`: the reason for each record that has none."""

    bad: dict[int, str]

    def column(self, name: str, kind: DataType) -> pa.Array | None:
        """Returns the field of that name: texts, or values of `kind` already. None: no record has
        it."""

    def rest(self, known: frozenset[str]) -> list[list[tuple[str, str]]]:
        """Returns the fields of each record that are not `known`."""


Parse = Callable[[pa.Array], Parsed]


@dataclass
class Dicts:
    """Fields of each record as a mapping (an empty one for a bad record)."""

    fields: list[Mapping[str, str]]
    bad: dict[int, str] = field(default_factory=dict)

    def column(self, name: str, kind: DataType) -> pa.Array | None:
        """See `Parsed`."""
        return pa.array([f.get(name) for f in self.fields], pa.string())

    def rest(self, known: frozenset[str]) -> list[list[tuple[str, str]]]:
        """See `Parsed`."""
        return [[(k, v) for k, v in f.items() if k not in known] for f in self.fields]


def each_line(parse: Callable[[str], Mapping[str, str]]) -> Parse:
    """Returns what parses records one by one, with a function that raises BadLine."""

    def parsed(texts: pa.Array) -> Parsed:
        found = Dicts([])
        for row, text in enumerate(texts.to_pylist()):
            try:
                found.fields.append(parse(text))
            except BadLine as error:
                found.fields.append({})
                found.bad[row] = str(error)
        return found

    return parsed


class LogFormat(Format):
    """A format of lines that can be read, and not be written. A subclass gives its options, and
    what parses records with them."""

    # The name of the column with the fields that are no columns.
    rest: ClassVar[str]
    # True if records are parsed as bytes, and not as texts.
    binary: ClassVar[bool] = False

    def decoder(
        self,
        schema: Schema,
        options: Mapping[str, str],
        columns: Sequence[str] | None = None,
        metadata: Sequence[str] = (),
    ) -> Decoder:
        """See `Format`."""
        values = parse_options(options, self.options, f"format '{self.name}'")
        rest = str(values.get("rest-column", self.rest))
        for column in schema:
            self._check(column, rest)
        lenient = bool(values["ignore-parse-errors"])
        parse = self.parse(values)
        if not self.binary:
            return LogDecoder(schema, columns, lambda r: parse(as_texts(r)), rest, lenient=lenient)
        return LogDecoder(schema, columns, parse, rest, lenient=lenient)

    def _check(self, column: Column, rest: str) -> None:
        kind = column.type
        pairs = column.name == rest and _is_text_map(kind)
        if TextColumn.holds(kind) or pairs or self.holds(column):
            return
        raise UnsupportedColumn(
            f"format '{self.name}' cannot hold {kind}, in column '{column.name}'",
            hint=f"'{rest}' MAP<STRING, STRING> has the fields that are no columns",
            subject=column.name,
        )

    def holds(self, column: Column) -> bool:
        """True for a column that is no text and that the format has all the same."""
        return False

    def parse(self, values: Mapping[str, object]) -> Parse:
        """Returns what parses records, by the values of the options."""
        raise NotImplementedError

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        """UnsupportedError: it can only be read."""
        raise UnsupportedError(
            f"format '{self.name}' can be read, and not be written", hint="write 'json' or 'csv'"
        )

    def check(self, schema: Schema, options: Mapping[str, str]) -> None:
        self.decoder(schema, options)


class LogDecoder:
    """Reads fields of lines as columns."""

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[str] | None,
        parse: Parse,
        rest: str,
        *,
        lenient: bool,
    ) -> None:
        self._columns = selected(schema, columns).columns
        self._known = frozenset(schema.names)
        self._parse, self._rest, self._lenient = parse, rest, lenient
        held = [c for c in self._columns if TextColumn.holds(c.type)]
        self._read = {c.name: TextColumn(c.name, c.type) for c in held}

    def decode(self, records: pa.Array) -> Decoded:
        """See `Decoder`."""
        parsed = self._parse(records)
        bad = dict(parsed.bad)
        columns = [self._column(c, parsed, len(records), bad) for c in self._columns]
        if not bad:
            return Decoded(tuple(columns), len(records))
        good = np.setdiff1d(np.arange(len(records)), list(bad))
        index = pa.array(good)
        told = () if self._lenient else tuple(BadRecord(r, bad[r]) for r in sorted(bad))
        return Decoded(tuple(c.take(index) for c in columns), len(good), good, told)

    def _column(self, column: Column, parsed: Parsed, rows: int, bad: dict[int, str]) -> pa.Array:
        kind = column.type
        if column.name == self._rest and _is_text_map(kind):
            return pa.array(parsed.rest(self._known), kind.arrow)
        values = parsed.column(column.name, kind)
        if values is None:
            return pa.nulls(rows, kind.arrow)
        if values.type == kind.arrow or column.name not in self._read:
            return values
        found, wrong = self._read[column.name](values)
        if not self._lenient:
            for row, reason in wrong.items():
                bad.setdefault(row, reason)
        return found


def _is_text_map(kind: DataType) -> bool:
    return kind.root is Root.MAP and all(c.is_string for c in kind.children)


def as_texts(records: pa.Array) -> pa.Array:
    """Returns records as texts; what is no UTF-8 becomes U+FFFD."""
    try:
        return records.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [r.decode("utf-8", "replace") for r in records.to_pylist()]
        return pa.array(texts, pa.string())
