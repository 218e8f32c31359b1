"""The format 'ogg-json': {"before": row, "after": row, "op_type": "I | U | D", …}, as Oracle GoldenGate writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np

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
    Record,
    field_of,
    json_decoder,
    json_encoder,
    skips_nulls,
)
from sqlengine.formats.registry import format_

_NULL = msgspec.Raw(NULL)


class _Change(msgspec.Struct):
    op_type: str | None = None
    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL


_decoder = msgspec.json.Decoder(_Change | None)


@format_("ogg-json")
class OggJsonFormat:
    """Flink's."""

    name: ClassVar[str] = "ogg-json"
    line_separated: ClassVar[bool] = True
    kinds: ClassVar[frozenset[RowKind]] = ALL_KINDS
    options: ClassVar[Mapping[str, Option]] = OPTIONS
    metadata: ClassVar[Mapping[str, DataType]] = {
        "table": STRING,
        "primary-keys": array(STRING),
        "event-timestamp": timestamp_ltz(6),
        "ingestion-timestamp": timestamp_ltz(6),
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
        places = {
            "table": field_of("table"),
            "primary-keys": field_of("primary_keys"),
            "event-timestamp": lambda record: _moment(record, "op_ts"),
            "ingestion-timestamp": lambda record: _moment(record, "current_ts"),
        }
        wanted = [Metadata(self.metadata[key], places[key]) for key in metadata]
        return ChangeDecoder(inner, _read, wanted, lenient=bool(values["ignore-parse-errors"]))

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        inner = json_encoder(self.name, self.options, schema, options)
        before, after = ("", "") if skips_nulls(options) else ('"before":null,', '"after":null,')
        added, taken = (f'{{{before}"after":', ',"op_type":"I"}'), ('{"before":', f',{after}"op_type":"D"}}')
        return ChangeEncoder(inner, Envelope(added, taken))


def _moment(record: Record, name: str) -> object:
    """Microseconds of a text such as 2020-05-13 15:40:06.000000."""
    text = record.get(name)
    try:
        return None if text is None else int(np.datetime64(str(text), "us").astype(np.int64))
    except ValueError:
        return None


def _read(record: bytes) -> Images:
    change = _decoder.decode(record)
    if change is None:
        return []
    before, after = bytes(change.before), bytes(change.after)
    match change.op_type:
        case "I":
            return [(after, INSERT)]
        case "U":
            if before == NULL:
                raise BadChange("field 'before' of an update is null")
            return [(before, BEFORE), (after, AFTER)]
        case "D":
            if before == NULL:
                raise BadChange("field 'before' of a deletion is null")
            return [(before, DELETE)]
    raise BadChange(f"unknown op_type {change.op_type!r}")
