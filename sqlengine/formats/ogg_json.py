"""The format 'ogg-json': {"before": row, "after": row, "op_type": "I | U | D", …}, as Oracle
GoldenGate writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec
import numpy as np

from parser.types import STRING, DataType, array, timestamp_ltz
from sqlengine.formats.changes import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    NULL,
    RAW_NULL,
    BadChange,
    ChangeFormat,
    Envelope,
    Images,
    Record,
    field_of,
    skips_nulls,
)


class _Change(msgspec.Struct):
    op_type: str | None = None
    before: msgspec.Raw = RAW_NULL
    after: msgspec.Raw = RAW_NULL


_decoder = msgspec.json.Decoder(_Change | None)


class OggJsonFormat(ChangeFormat):
    """Flink's."""

    name: ClassVar[str] = "ogg-json"
    metadata: ClassVar[Mapping[str, DataType]] = {
        "table": STRING,
        "primary-keys": array(STRING),
        "event-timestamp": timestamp_ltz(6),
        "ingestion-timestamp": timestamp_ltz(6),
    }

    def places(self, values: Mapping[str, object]) -> Mapping[str, Callable[[Record], object]]:
        return {
            "table": field_of("table"),
            "primary-keys": field_of("primary_keys"),
            "event-timestamp": lambda record: _moment(record, "op_ts"),
            "ingestion-timestamp": lambda record: _moment(record, "current_ts"),
        }

    def record_reader(self, values: Mapping[str, object]) -> Callable[[bytes], Images]:
        return _read

    def envelope(self, options: Mapping[str, str]) -> Envelope:
        before, after = ("", "") if skips_nulls(options) else ('"before":null,', '"after":null,')
        return Envelope(
            (f'{{{before}"after":', ',"op_type":"I"}'), ('{"before":', f',{after}"op_type":"D"}}')
        )


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
