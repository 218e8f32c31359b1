"""The format 'avro-confluent': a record is a zero, the id of a schema in a registry in four bytes,
and a datum of that schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import OptionError
from parser.types import Schema
from sqlengine.batch import Batch
from sqlengine.formats.avro.cursor import IntArray
from sqlengine.formats.avro.decoder import BinaryDecoder
from sqlengine.formats.avro.derived import schema_of
from sqlengine.formats.avro.encoder import BinaryEncoder
from sqlengine.formats.avro.format import LEGACY
from sqlengine.formats.avro.kept_answers import KeptAnswers
from sqlengine.formats.avro.schema_registry import Access, SchemaRegistry, urls_of
from sqlengine.formats.avro.schemas import BadSchema
from sqlengine.formats.base import (
    BadRecord,
    Decoded,
    Decoder,
    Encoder,
    Format,
    FormatCapabilities,
    Option,
    selected,
)
from sqlengine.formats.options import boolean, choice, parse_options
from sqlengine.formats.times import text_buffers
from sqlengine.system.file_access import FileAccess

_HEAD: Final = 5
_OTHER_HEAD: Final = "it does not begin with a zero and the id of a schema"
_PROPERTIES: Final = {
    "properties.auto.register.schemas": Option(
        boolean, default="true", doc="'false': the subject must have the schema already"
    ),
    "properties.basic.auth.credentials.source": Option(),
    "properties.basic.auth.user.info": Option(secret=True),
    "properties.bearer.auth.credentials.source": Option(),
    "properties.bearer.auth.token": Option(secret=True),
}
OPTIONS: Final[Mapping[str, Option]] = {
    "url": Option(urls_of, required=True, doc="of the schema registry; several with commas"),
    "subject": Option(doc="under which the schema is registered; with a topic TOPIC-value"),
    "schema": Option(doc="the schema (JSON) that is written, instead of that of the table"),
    "timestamp_mapping.legacy": LEGACY,
    "basic-auth.credentials-source": Option(choice("USER_INFO", "URL"), doc="without effect"),
    "basic-auth.user-info": Option(secret=True, doc="user:password"),
    "bearer-auth.credentials-source": Option(choice("STATIC_TOKEN"), doc="without effect"),
    "bearer-auth.token": Option(secret=True),
    "ssl.keystore.location": Option(doc="our certificate and its key, in PEM"),
    "ssl.keystore.password": Option(secret=True, doc="of the key"),
    "ssl.truststore.location": Option(doc="certificates that sign that of the registry, in PEM"),
    "ssl.truststore.password": Option(secret=True, doc="without effect: PEM has none"),
    **_PROPERTIES,
}

# Who asks a registry, in texts without secrets: what it tells one is not for others.
_WHO: Final = tuple(name for name, option in OPTIONS.items() if option.secret or "location" in name)
_FILES: Final = ("ssl.keystore.location", "ssl.truststore.location")

# The registries that tables have opened in this process, by their options as connectors have them,
# and as texts of jobs do: decoders find them without the secrets.
_opened: dict[tuple[tuple[str, str], ...], SchemaRegistry] = {}


class AvroConfluentFormat(Format):
    """Flink's. Schemas of writers are fetched by id, where records are read."""

    name: ClassVar[str] = "avro-confluent"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(line_separated=False)
    options: ClassVar[Mapping[str, Option]] = OPTIONS

    def decoder(
        self,
        schema: Schema,
        options: Mapping[str, str],
        columns: Sequence[str] | None = None,
        metadata: Sequence[str] = (),
    ) -> Decoder:
        """See `Format`."""
        text = checked_schema(self.name, schema, options)
        return ConfluentDecoder(selected(schema, columns), _registry(self.name, options), text)

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        """PlanError for a bad option, and without a subject."""
        text = checked_schema(self.name, schema, options)
        if "subject" not in options:
            raise OptionError(
                f"format '{self.name}' needs the option 'subject' to write",
                hint=f"'{self.name}.subject' = 'TOPIC-value'",
                subject="subject",
            )
        register = boolean(options.get("properties.auto.register.schemas", "true"))
        subject = Subject(_registry(self.name, options), options["subject"], register)
        return ConfluentEncoder(schema, text, subject)

    def connect(
        self, options: Mapping[str, str], filled: Mapping[str, str], files: FileAccess
    ) -> None:
        """See `Format`."""
        for name in _FILES:
            if name in options:
                files.check_file(Path(options[name]))
        who = [options["url"], *(options.get(name, "") for name in _WHO)]
        made = _made(self.name, filled, KeptAnswers.of(files.data, *who))
        _opened[_key(options)] = _opened[_key(filled)] = made

    def prepare(self, records: pa.Array, options: Mapping[str, str]) -> None:
        """See `Format`: fetches the schemas of records."""
        registry = _registry(self.name, options)
        for number in np.unique(ids_of(records)).tolist():
            if number >= 0:
                registry.schema(number)


def checked_schema(name: str, schema: Schema, options: Mapping[str, str]) -> str:
    """Returns the schema that is written. PlanError for a bad option, or a schema that cannot hold
    rows of the table."""
    values = parse_options(options, OPTIONS, f"format '{name}'")
    derived = schema_of(schema, legacy=bool(values["timestamp_mapping.legacy"]))
    text = options.get("schema", derived)
    try:
        BinaryEncoder(schema, text)
    except BadSchema as error:
        message = f"option 'schema' of format '{name}' does not fit the table"
        raise OptionError(message, detail=str(error), subject="schema") from None
    return text


def _key(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(options.items()))


def _registry(name: str, options: Mapping[str, str]) -> SchemaRegistry:
    """Returns the registry that a table with these options has opened, else a new one."""
    found = _opened.get(_key(options))
    return _made(name, options) if found is None else found


def _made(name: str, options: Mapping[str, str], kept: KeptAnswers | None = None) -> SchemaRegistry:
    values = parse_options(options, OPTIONS, f"format '{name}'")
    given = {k: v for k, v in values.items() if isinstance(v, str)}
    user = given.get("basic-auth.user-info", given.get("properties.basic.auth.user.info"))
    token = given.get("bearer-auth.token", given.get("properties.bearer.auth.token"))
    keystore = given.get("ssl.keystore.location")
    access = Access(
        urls_of(options["url"]),
        user,
        token,
        None if keystore is None else (keystore, given.get("ssl.keystore.password")),
        given.get("ssl.truststore.location"),
    )
    return SchemaRegistry(access, kept or KeptAnswers())


def ids_of(records: pa.Array) -> IntArray:
    """Returns the id of the schema of each record, -1 where it does not begin as it should."""
    offsets, data = text_buffers(records)
    start, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    there = ends - start >= _HEAD
    found = np.full(len(records), -1, np.int64)
    heads = data[start[there][:, None] + np.arange(_HEAD)].astype(np.int64)
    numbers = heads[:, 1:] @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
    found[there] = np.where(heads[:, 0] == 0, numbers, -1)
    return found


class ConfluentDecoder:
    """Reads records of many schemas; those of each by a decoder of its own."""

    def __init__(self, schema: Schema, registry: SchemaRegistry, text: str) -> None:
        self._schema, self._registry = schema, registry
        self._decoders: dict[int, BinaryDecoder | str] = {}
        BinaryDecoder(schema, text)  # raises where what it needs is missing

    def decode(self, records: pa.Array) -> Decoded:
        """See `Decoder`. OutOfReach where a schema is not known yet and the registry does not
        answer."""
        ids = ids_of(records)
        found = np.unique(ids)
        if len(found) == 1 and not isinstance(decoder := self._decoder(int(found[0])), str):
            return decoder.decode(_bodies(records))
        parts: list[tuple[IntArray, tuple[pa.Array, ...]]] = []
        bad: list[BadRecord] = []
        for number in found.tolist():
            rows = np.flatnonzero(ids == number)
            decoder = self._decoder(number)
            if isinstance(decoder, str):
                bad += [BadRecord(row, decoder) for row in rows.tolist()]
                continue
            part = decoder.decode(_bodies(records.take(pa.array(rows))))
            bad += [BadRecord(int(rows[b.row]), b.reason) for b in part.bad]
            parts.append((rows if part.rows is None else rows[part.rows], part.columns))
        return self._merged(parts, tuple(sorted(bad, key=lambda b: b.row)))

    def _merged(
        self, parts: list[tuple[IntArray, tuple[pa.Array, ...]]], bad: tuple[BadRecord, ...]
    ) -> Decoded:
        if not parts:
            columns = tuple(pa.array([], c.type.arrow) for c in self._schema)
            return Decoded(columns, 0, np.zeros(0, np.int64), bad)
        rows = np.concatenate([r for r, _ in parts])
        order = np.argsort(rows)
        columns = tuple(
            pa.concat_arrays(group).take(pa.array(order))
            for group in zip(*(c for _, c in parts), strict=True)
        )
        return Decoded(columns, len(rows), rows[order], bad)

    def _decoder(self, number: int) -> BinaryDecoder | str:
        """Returns the decoder for records of a schema, or why there is none."""
        if number < 0:
            return _OTHER_HEAD
        if number in self._decoders:
            return self._decoders[number]
        text = self._registry.schema(number)
        if text is None:  # it may be there later
            return f"the schema registry has no Avro schema {number}"
        try:
            self._decoders[number] = BinaryDecoder(self._schema, text)
        except BadSchema as error:
            self._decoders[number] = f"schema {number}: {error}"
        return self._decoders[number]


def _bodies(records: pa.Array) -> pa.Array:
    """Returns records, each of which has it, without what stands before their data."""
    # Arrow's own slice fails for records of few bytes.
    offsets, _ = text_buffers(records)
    parts = np.empty(2 * len(records), np.int32)
    parts[0::2], parts[1::2] = offsets[:-1] + _HEAD, offsets[1:]
    buffers = [None, pa.py_buffer(parts), records.buffers()[2]]
    whole = pa.Array.from_buffers(pa.binary(), len(parts) - 1, buffers)
    return whole.take(pa.array(np.arange(0, len(parts), 2)))


@dataclass(frozen=True)
class Subject:
    """A subject of a registry, under which a schema stands or gets `register`ed."""

    registry: SchemaRegistry
    name: str
    register: bool

    def head(self, schema: str) -> bytes:
        """Returns what stands before records of a schema. Raises as `SchemaRegistry.id_of`."""
        number = self.registry.id_of(self.name, schema, register=self.register)
        return b"\0" + number.to_bytes(4, "big")


class ConfluentEncoder:
    """Writes records; registers their schema before the first one."""

    def __init__(self, schema: Schema, text: str, subject: Subject) -> None:
        self._inner, self._text, self._subject = BinaryEncoder(schema, text), text, subject

    def encode(self, batch: Batch) -> pa.Array:
        """See `Encoder`. Raises as `Subject.head`."""
        data = self._inner.encode(batch)
        head = pa.scalar(self._subject.head(self._text))
        return pc.binary_join_element_wise(head, data, pa.scalar(b""))
