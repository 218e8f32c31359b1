"""The format 'debezium-json': {"before": row, "after": row, "op": "c | r | u | d", "source": {…},
"ts_ms": 1}."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec

from parser.errors import OptionError
from parser.types import STRING, DataType, Schema, map_of, timestamp_ltz
from sqlengine.formats.base import Encoder, Option
from sqlengine.formats.changes import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    NULL,
    OPTIONS,
    RAW_NULL,
    BadChange,
    ChangeFormat,
    Envelope,
    Images,
    Record,
    field_of,
    skips_nulls,
    text_of,
)
from sqlengine.formats.options import boolean


class _Change(msgspec.Struct):
    op: str | None = None
    before: msgspec.Raw = RAW_NULL
    after: msgspec.Raw = RAW_NULL


class _WithSchema(msgspec.Struct):
    payload: _Change | None = None


_plain = msgspec.json.Decoder(_Change | None)
_with_schema = msgspec.json.Decoder(_WithSchema | None)


class DebeziumJsonFormat(ChangeFormat):
    """Flink's. A record that is null, as behind a deletion, gives nothing."""

    name: ClassVar[str] = "debezium-json"
    options: ClassVar[Mapping[str, Option]] = {
        "schema-include": Option(boolean, default="false", doc="records are {schema, payload}"),
        **OPTIONS,
    }
    metadata: ClassVar[Mapping[str, DataType]] = {
        "schema": STRING,
        "ingestion-timestamp": timestamp_ltz(3),
        "source.timestamp": timestamp_ltz(3),
        "source.database": STRING,
        "source.schema": STRING,
        "source.table": STRING,
        "source.properties": map_of(STRING, STRING),
    }

    def places(self, values: Mapping[str, object]) -> Mapping[str, Callable[[Record], object]]:
        path = ("payload",) if values["schema-include"] else ()
        return {
            "schema": text_of("schema"),
            "ingestion-timestamp": field_of(*path, "ts_ms"),
            "source.timestamp": field_of(*path, "source", "ts_ms"),
            "source.database": field_of(*path, "source", "db"),
            "source.schema": field_of(*path, "source", "schema"),
            "source.table": field_of(*path, "source", "table"),
            "source.properties": field_of(*path, "source"),
        }

    def record_reader(self, values: Mapping[str, object]) -> Callable[[bytes], Images]:
        return _read_with_schema if values["schema-include"] else _read

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        """PlanError with 'schema-include': records are written without their schema."""
        if boolean(options.get("schema-include", "false")):
            raise OptionError(
                "format 'debezium-json' cannot write with 'schema-include'",
                hint="leave the option out",
                subject="schema-include",
            )
        return super().encoder(schema, options)

    def envelope(self, options: Mapping[str, str]) -> Envelope:
        before, after = ("", "") if skips_nulls(options) else ('"before":null,', '"after":null,')
        return Envelope(
            (f'{{{before}"after":', ',"op":"c"}'), ('{"before":', f',{after}"op":"d"}}')
        )


def _read_with_schema(record: bytes) -> Images:
    decoded = _with_schema.decode(record)
    return [] if decoded is None or decoded.payload is None else _images(decoded.payload)


def _read(record: bytes) -> Images:
    change = _plain.decode(record)
    return [] if change is None else _images(change)


def _images(change: _Change) -> Images:
    before, after = bytes(change.before), bytes(change.after)
    match change.op:
        case "c" | "r":
            return [(_present(after, "after", change.op), INSERT)]
        case "u":
            return [
                (_present(before, "before", "u"), BEFORE),
                (_present(after, "after", "u"), AFTER),
            ]
        case "d":
            return [(_present(before, "before", "d"), DELETE)]
    raise BadChange(f"unknown op {change.op!r}")


def _present(row: bytes, name: str, op: str) -> bytes:
    if row != NULL:
        return row
    hint = "; a table of PostgreSQL needs REPLICA IDENTITY FULL for it" if name == "before" else ""
    raise BadChange(f"field '{name}' of a change with op '{op}' is null{hint}")
