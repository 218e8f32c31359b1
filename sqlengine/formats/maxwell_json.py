"""The format 'maxwell-json': {"data": row, "old": what has changed, "type": "insert | update |
delete", …}."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec

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
    with_old,
)


class _Change(msgspec.Struct):
    type: str | None = None
    data: msgspec.Raw = RAW_NULL
    old: msgspec.Raw = RAW_NULL


_decoder = msgspec.json.Decoder(_Change | None)


class MaxwellJsonFormat(ChangeFormat):
    """Flink's."""

    name: ClassVar[str] = "maxwell-json"
    metadata: ClassVar[Mapping[str, DataType]] = {
        "database": STRING,
        "table": STRING,
        "primary-key-columns": array(STRING),
        "ingestion-timestamp": timestamp_ltz(3),
    }

    def places(self, values: Mapping[str, object]) -> Mapping[str, Callable[[Record], object]]:
        names = {"primary-key-columns": "primary_key_columns", "ingestion-timestamp": "ts"}
        return {key: field_of(names.get(key, key)) for key in self.metadata}

    def record_reader(self, values: Mapping[str, object]) -> Callable[[bytes], Images]:
        return _read

    def envelope(self, options: Mapping[str, str]) -> Envelope:
        return Envelope(('{"data":', ',"type":"insert"}'), ('{"data":', ',"type":"delete"}'))


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
