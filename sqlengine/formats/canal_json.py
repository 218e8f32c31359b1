"""The format 'canal-json': {"data": [row, …], "old": [what has changed, …], "type": "INSERT |
UPDATE | DELETE", …}."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec

from parser.types import INT, STRING, DataType, array, map_of, timestamp_ltz
from sqlengine.formats.base import Option
from sqlengine.formats.changes import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    NULL,
    OPTIONS,
    BadChange,
    ChangeFormat,
    Envelope,
    Images,
    Record,
    field_of,
    with_old,
)
from udf.java.regex import JavaRegex, translate


class _Change(msgspec.Struct):
    type: str | None = None
    data: list[msgspec.Raw] | None = None
    old: list[msgspec.Raw] | None = None
    database: str | None = None
    table: str | None = None


_decoder = msgspec.json.Decoder(_Change | None)


class CanalJsonFormat(ChangeFormat):
    """Flink's. 'database.include' and 'table.include' are regular expressions for the whole
    name."""

    name: ClassVar[str] = "canal-json"
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

    def places(self, values: Mapping[str, object]) -> Mapping[str, Callable[[Record], object]]:
        return _PLACES

    def record_reader(self, values: Mapping[str, object]) -> Callable[[bytes], Images]:
        database, table = (_pattern(values[f"{name}.include"]) for name in ("database", "table"))

        def read(record: bytes) -> Images:
            change = _decoder.decode(record)
            if change is None or not (
                _matches(database, change.database) and _matches(table, change.table)
            ):
                return []
            return _images(change)

        return read

    def envelope(self, options: Mapping[str, str]) -> Envelope:
        return Envelope(('{"data":[', '],"type":"INSERT"}'), ('{"data":[', '],"type":"DELETE"}'))


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
    return pattern is None or (
        name is not None and pattern.exact.fullmatch(name, timeout=1) is not None
    )


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
