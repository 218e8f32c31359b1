"""The format 'maxwell-json': {"data": row, "old": what has changed, "type": "insert | update | delete", …}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from parser.types import STRING, DataType, Schema, array, timestamp_ltz
from sqlengine.batch import RowKind
from sqlengine.formats.base import Decoder, Encoder, Option
from sqlengine.formats.changes import (
    AFTER,
    ALL_KINDS,
    BEFORE,
    DELETE,
    INSERT,
    NULL,
    OPTIONS,
    BadChange,
    ChangeDecoder,
    ChangeEncoder,
    Envelope,
    Images,
    Metadata,
    field_of,
    json_decoder,
    json_encoder,
    with_old,
)
from sqlengine.formats.registry import format_

_NULL = msgspec.Raw(NULL)


class _Change(msgspec.Struct):
    type: str | None = None
    data: msgspec.Raw = _NULL
    old: msgspec.Raw = _NULL


_decoder = msgspec.json.Decoder(_Change | None)


@format_("maxwell-json")
class MaxwellJsonFormat:
    """Flink's."""

    name: ClassVar[str] = "maxwell-json"
    line_separated: ClassVar[bool] = True
    kinds: ClassVar[frozenset[RowKind]] = ALL_KINDS
    options: ClassVar[Mapping[str, Option]] = OPTIONS
    metadata: ClassVar[Mapping[str, DataType]] = {
        "database": STRING,
        "table": STRING,
        "primary-key-columns": array(STRING),
        "ingestion-timestamp": timestamp_ltz(3),
    }

    def decoder(self, schema: Schema, options: Mapping[str, str], columns: Sequence[str] | None = None) -> Decoder:
        return self.decoder_with((), schema, options, columns)

    def decoder_with(
        self,
        metadata: Sequence[str],
        schema: Schema,
        options: Mapping[str, str],
        columns: Sequence[str] | None = None,
    ) -> Decoder:
        inner, values = json_decoder(self.name, self.options, schema, options, columns)
        names = {"primary-key-columns": "primary_key_columns", "ingestion-timestamp": "ts"}
        wanted = [Metadata(self.metadata[key], field_of(names.get(key, key))) for key in metadata]
        return ChangeDecoder(inner, _read, wanted, lenient=bool(values["ignore-parse-errors"]))

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        inner = json_encoder(self.name, self.options, schema, options)
        return ChangeEncoder(inner, Envelope(('{"data":', ',"type":"insert"}'), ('{"data":', ',"type":"delete"}')))


def _read(record: bytes) -> Images:
    change = _decoder.decode(record)
    if change is None:
        return []
    row, old = bytes(change.data), bytes(change.old)
    match change.type:
        case "insert":
            return [(row, INSERT)]
        case "delete":
            return [(row, DELETE)]
        case "update":
            if old == NULL:
                raise BadChange("an update has no old row")
            return [(with_old(row, old), BEFORE), (row, AFTER)]
    raise BadChange(f"unknown type {change.type!r}")
