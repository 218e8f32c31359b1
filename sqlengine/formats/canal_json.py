"""The format 'canal-json': {"data": [row, …], "old": [what has changed, …], "type": "INSERT | UPDATE | DELETE", …}."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import msgspec

from parser.types import INT, STRING, DataType, Schema, array, map_of, timestamp_ltz
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
from udf.java_regex import JavaRegex, translate


class _Change(msgspec.Struct):
    type: str | None = None
    data: list[msgspec.Raw] | None = None
    old: list[msgspec.Raw] | None = None
    database: str | None = None
    table: str | None = None


_decoder = msgspec.json.Decoder(_Change | None)


@format_("canal-json")
class CanalJsonFormat:
    """Flink's. 'database.include' and 'table.include' are regular expressions for the whole name."""

    name: ClassVar[str] = "canal-json"
    line_separated: ClassVar[bool] = True
    kinds: ClassVar[frozenset[RowKind]] = ALL_KINDS
    options: ClassVar[Mapping[str, Option]] = {
        "database.include": Option(doc="records of these databases only, a regular expression"),
        "table.include": Option(doc="records of these tables only, a regular expression"),
        **OPTIONS,
    }
    metadata: ClassVar[Mapping[str, DataType]] = {
        "database": STRING,
        "table": STRING,
        "sql-type": map_of(STRING, INT),
        "pk-names": array(STRING),
        "ingestion-timestamp": timestamp_ltz(3),
        "event-timestamp": timestamp_ltz(3),
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
        database, table = (_pattern(values[f"{name}.include"]) for name in ("database", "table"))

        def read(record: bytes) -> Images:
            change = _decoder.decode(record)
            if change is None or not (_matches(database, change.database) and _matches(table, change.table)):
                return []
            return _images(change)

        wanted = [Metadata(self.metadata[key], _PLACES[key]) for key in metadata]
        return ChangeDecoder(inner, read, wanted, lenient=bool(values["ignore-parse-errors"]))

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        inner = json_encoder(self.name, self.options, schema, options)
        return ChangeEncoder(inner, Envelope(('{"data":[', '],"type":"INSERT"}'), ('{"data":[', '],"type":"DELETE"}')))


_PLACES: Mapping[str, Callable[[Mapping[str, object]], object]] = {
    "database": field_of("database"),
    "table": field_of("table"),
    "sql-type": field_of("sqlType"),
    "pk-names": field_of("pkNames"),
    "ingestion-timestamp": field_of("ts"),
    "event-timestamp": field_of("es"),
}


def _pattern(text: object) -> JavaRegex | None:
    return translate(text) if isinstance(text, str) else None


def _matches(pattern: JavaRegex | None, name: str | None) -> bool:
    return pattern is None or (name is not None and pattern.exact.fullmatch(name, timeout=1) is not None)


def _images(change: _Change) -> Images:
    data = [bytes(row) for row in change.data or ()]
    match change.type:
        case "INSERT":
            return [(row, INSERT) for row in data]
        case "DELETE":
            return [(row, DELETE) for row in data]
        case "UPDATE":
            old = change.old or []
            if len(old) != len(data):
                raise BadChange("an update has not as many old rows as new ones")
            pairs = zip(data, old, strict=True)
            both = [(row if bytes(o) == NULL else with_old(row, bytes(o)), row) for row, o in pairs]
            return [image for before, after in both for image in ((before, BEFORE), (after, AFTER))]
        case "CREATE":
            return []
    raise BadChange(f"unknown type {change.type!r}")
