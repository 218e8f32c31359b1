"""The base of change data capture formats: a record is a JSON object with the rows before and after
a change in it.

The rows are cut out of the record as they stand and read together by the format 'json', so that
their values follow its rules, in its speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Schema
from planner.logical.change_kinds import ALL_CHANGES
from sqlengine.batch import Batch, RowKind
from sqlengine.formats.base import (
    BadRecord,
    Decoded,
    Decoder,
    Encoder,
    Format,
    FormatCapabilities,
    Option,
)
from sqlengine.formats.json_ import JsonFormat
from sqlengine.formats.options import boolean, parse_options

NULL: Final = b"null"
RAW_NULL: Final = msgspec.Raw(NULL)

INSERT, BEFORE, AFTER, DELETE = (int(k) for k in RowKind)

# The rows of a record as JSON, each with its kind.
Images: TypeAlias = list[tuple[bytes, int]]
# A record as Python has it, for its metadata.
Record: TypeAlias = Mapping[str, object]

_JSON = JsonFormat()
# The options of 'json' that a format of change data has, too, under the same names.
_PASSED_ON = (
    "ignore-parse-errors",
    "timestamp-format.standard",
    "map-null-key.mode",
    "map-null-key.literal",
    "encode.decimal-as-plain-number",
    "encode.ignore-null-fields",
)
OPTIONS: Final[Mapping[str, Option]] = {name: JsonFormat.options[name] for name in _PASSED_ON}


class BadChange(Exception):
    """A record that is no change, with the reason in words."""


@dataclass(frozen=True)
class Metadata:
    """A metadata column: its type, and how it is read from a record (None where it is missing)."""

    type: DataType
    read: Callable[[Record], object]


def field_of(*path: str) -> Callable[[Record], object]:
    """The value at a path of names."""

    def read(record: Record) -> object:
        value: object = record
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    return read


def text_of(*path: str) -> Callable[[Record], object]:
    """Returns a reader of the value at a path of names as text: an object as its JSON."""
    read = field_of(*path)

    def as_text(record: Record) -> object:
        value = read(record)
        return (
            value
            if value is None or isinstance(value, str)
            else msgspec.json.encode(value).decode()
        )

    return as_text


class ChangeDecoder:
    """Reads records with `read`; the rows in them have the columns of `inner`."""

    def __init__(
        self,
        inner: Decoder,
        read: Callable[[bytes], Images],
        metadata: Sequence[Metadata],
        *,
        lenient: bool,
    ) -> None:
        self._inner = inner
        self._read = read
        self._metadata = metadata
        self._lenient = lenient

    def decode(self, records: pa.Array) -> Decoded:
        """See `Decoder`. A record one of whose rows is bad gives none."""
        rows: list[bytes] = []
        kinds: list[int] = []
        owners: list[int] = []
        bad: list[BadRecord] = []
        texts = records.to_pylist()
        for i, text in enumerate(texts):
            try:
                images = self._read(text) if text.strip() else []
            except (BadChange, msgspec.MsgspecError, UnicodeDecodeError) as error:
                bad += [] if self._lenient else [BadRecord(i, str(error))]
                continue
            except RecursionError:
                bad += [] if self._lenient else [BadRecord(i, "it is nested too deeply")]
                continue
            for row, kind in images:
                rows.append(row)
                kinds.append(kind)
                owners.append(i)
        decoded = self._inner.decode(pa.array(rows, pa.binary()))
        return self._owned(
            decoded, np.array(owners, np.int64), np.array(kinds, np.int8), bad, texts
        )

    def _owned(
        self,
        decoded: Decoded,
        owners: np.ndarray[tuple[int], np.dtype[np.int64]],
        kinds: np.ndarray[tuple[int], np.dtype[np.int8]],
        bad: list[BadRecord],
        texts: list[bytes],
    ) -> Decoded:
        """Assigns decoded rows to their records, and drops those of bad records."""
        at = np.arange(decoded.num_rows) if decoded.rows is None else decoded.rows
        bad += [BadRecord(int(owners[b.row]), b.reason) for b in decoded.bad]
        spoiled = {b.row for b in bad}
        keep = np.array([int(owners[a]) not in spoiled for a in at.tolist()], np.bool_)
        columns = (
            decoded.columns
            if keep.all()
            else tuple(c.filter(pa.array(keep)) for c in decoded.columns)
        )
        rows = owners[at[keep]]
        objects = [msgspec.json.decode(texts[i]) for i in rows.tolist()] if self._metadata else []
        metadata = tuple(
            pa.array([_as(m.read(o), m.type) for o in objects], m.type.arrow)
            for m in self._metadata
        )
        distinct = {b.row: b for b in reversed(bad)}
        ordered = tuple(distinct[row] for row in sorted(distinct))
        return Decoded(columns, len(rows), rows, ordered, kinds[at[keep]], metadata)


def _as(value: object, kind: DataType) -> object:
    """A JSON value for a column of metadata; what does not fit is NULL."""
    if kind.is_string:
        return (
            value
            if value is None or isinstance(value, str)
            else msgspec.json.encode(value).decode()
        )
    if isinstance(value, Mapping):
        return [(k, _as(v, kind.children[1])) for k, v in value.items()]
    return value


@dataclass(frozen=True)
class Envelope:
    """The JSON before and after a row that is added, and one that is removed."""

    added: tuple[str, str]
    taken: tuple[str, str]


class ChangeEncoder:
    """Writes a record per row: an update is a row that is removed and one that is added."""

    def __init__(self, inner: Encoder, envelope: Envelope) -> None:
        self._inner = inner
        self._added, self._taken = envelope.added, envelope.taken

    def encode(self, batch: Batch) -> pa.Array:
        rows = self._inner.encode(batch)
        if batch.kinds is None:
            return self._wrapped(rows, np.zeros(batch.num_rows, np.bool_))
        return self._wrapped(rows, (batch.kinds == BEFORE) | (batch.kinds == DELETE))

    def _wrapped(
        self, rows: pa.Array, back: np.ndarray[tuple[int], np.dtype[np.bool_]]
    ) -> pa.Array:
        sides = [
            pc.if_else(pa.array(back), pa.scalar(taken.encode()), pa.scalar(added.encode()))
            for added, taken in zip(self._added, self._taken, strict=True)
        ]
        return pc.binary_join_element_wise(sides[0], rows, sides[1], pa.scalar(b""))


class ChangeFormat(Format):
    """A format whose records are JSON objects that tell of rows that come and go. A subclass says
    how they do; the rows themselves are read and written as those of 'json'."""

    name: ClassVar[str]
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(ALL_CHANGES)
    options: ClassVar[Mapping[str, Option]] = OPTIONS
    metadata: ClassVar[Mapping[str, DataType]]

    def decoder(
        self,
        schema: Schema,
        options: Mapping[str, str],
        columns: Sequence[str] | None = None,
        metadata: Sequence[str] = (),
    ) -> Decoder:
        """See `Format`."""
        values = parse_options(options, self.options, f"format '{self.name}'")
        inner = _JSON.decoder(schema, _passed_on(options), columns)
        places = self.places(values)
        readers = [Metadata(self.metadata[key], places[key]) for key in metadata]
        return ChangeDecoder(
            inner, self.record_reader(values), readers, lenient=bool(values["ignore-parse-errors"])
        )

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        """PlanError for a bad option."""
        parse_options(options, self.options, f"format '{self.name}'")
        return ChangeEncoder(_JSON.encoder(schema, _passed_on(options)), self.envelope(options))

    def places(self, values: Mapping[str, object]) -> Mapping[str, Callable[[Record], object]]:
        """Returns readers of metadata columns from a record, by the values of the options."""
        raise NotImplementedError

    def record_reader(self, values: Mapping[str, object]) -> Callable[[bytes], Images]:
        """Returns a function from a record to its rows before and after the change."""
        raise NotImplementedError

    def envelope(self, options: Mapping[str, str]) -> Envelope:
        """Returns the JSON that is written around rows."""
        raise NotImplementedError


def skips_nulls(options: Mapping[str, str]) -> bool:
    return boolean(options.get("encode.ignore-null-fields", "false"))


def _passed_on(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of the inner 'json' format. Flink reads rows of change data without its
    streaming parser."""
    return {
        **{k: v for k, v in options.items() if k in _PASSED_ON},
        "decode.json-parser.enabled": "false",
    }


def with_old(row: bytes, old: bytes) -> bytes:
    """The row as it was: `old` has only what has changed."""
    raw = dict[str, msgspec.Raw]
    return msgspec.json.encode(
        {**msgspec.json.decode(row, type=raw), **msgspec.json.decode(old, type=raw)}
    )
