"""The Avro schema of a table, as Flink derives it."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import msgspec

from parser.errors import UnsupportedError
from parser.types import INT, DataType, Root, Schema
from sqlengine.formats.base import of_column

Json: TypeAlias = str | int | None | list["Json"] | dict[str, "Json"]

# Flink's name of the record of a table.
RECORD: Final = "org.apache.flink.avro.generated.record"

_SIMPLE: Final = {
    Root.BOOLEAN: "boolean",
    Root.TINYINT: "int",
    Root.SMALLINT: "int",
    Root.INT: "int",
    Root.BIGINT: "long",
    Root.FLOAT: "float",
    Root.DOUBLE: "double",
    Root.CHAR: "string",
    Root.VARCHAR: "string",
    Root.BINARY: "bytes",
    Root.VARBINARY: "bytes",
}
_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_NAMES: Final = "names of Avro have letters from A to Z, digits and _, and begin with no digit"
_UNITS: Final = {"ms": "millis", "us": "micros", "ns": "nanos"}


def schema_of(schema: Schema, *, legacy: bool) -> str:
    """Returns the schema of rows as JSON. `legacy`: a TIMESTAMP is an instant, as before Flink
    1.19. UnsupportedError for a type that Avro cannot hold."""
    for column in schema:
        with of_column(column.name):
            _record((column.name,), (column.type,), RECORD, legacy)
    types = tuple(c.type for c in schema)
    return msgspec.json.encode(_record(schema.names, types, RECORD, legacy)).decode()


def _record(
    names: tuple[str, ...], types: tuple[DataType, ...], name: str, legacy: bool
) -> dict[str, Json]:
    fields: list[Json] = []
    for field, kind in zip(names, types, strict=True):
        if not _NAME.fullmatch(field):
            raise UnsupportedError(f"format 'avro' cannot have a field '{field}'", hint=_NAMES)
        told: dict[str, Json] = {"name": field, "type": _type(kind, f"{name}_{field}", legacy)}
        fields.append(told | {"default": None} if kind.nullable else told)
    space, _, own = name.rpartition(".")
    return {"type": "record", "name": own, "namespace": space, "fields": fields}


def _type(kind: DataType, name: str, legacy: bool) -> Json:
    plain = _not_null(kind, name, legacy)
    return ["null", plain] if kind.nullable else plain


def _not_null(kind: DataType, name: str, legacy: bool) -> Json:
    if kind.root in _SIMPLE:
        return _SIMPLE[kind.root]
    match kind.root:
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return {"type": "long", "logicalType": _timestamp(kind, legacy)}
        case Root.DATE:
            return {"type": "int", "logicalType": "date"}
        case Root.TIME if kind.precision <= 3:
            return {"type": "int", "logicalType": "time-millis"}
        case Root.DECIMAL:
            digits: dict[str, Json] = {"precision": kind.precision, "scale": kind.scale}
            return {"type": "bytes", "logicalType": "decimal", **digits}
        case Root.ROW:
            return _record(kind.names, kind.children, name, legacy)
        case Root.ARRAY:
            return {"type": "array", "items": _type(kind.children[0], name, legacy)}
        case Root.MAP | Root.MULTISET if kind.children[0].is_string:
            value = kind.children[1] if kind.root is Root.MAP else INT
            return {"type": "map", "values": _type(value, name, legacy)}
    raise UnsupportedError(f"format 'avro' cannot hold {kind}", hint=_HINTS.get(kind.root))


def _timestamp(kind: DataType, legacy: bool) -> str:
    if legacy and (kind.root is Root.TIMESTAMP_LTZ or kind.precision > 3):
        raise UnsupportedError(
            f"format 'avro' cannot hold {kind}",
            hint="'avro.timestamp_mapping.legacy' = 'false' holds it, and maps TIMESTAMP to"
            " local-timestamp",
        )
    unit = _UNITS[str(kind.arrow.unit)]
    return (
        f"timestamp-{unit}"
        if legacy or kind.root is Root.TIMESTAMP_LTZ
        else f"local-timestamp-{unit}"
    )


_HINTS: Final = {
    Root.TIME: "a TIME has at most three fractional digits here",
    Root.MAP: "the keys of a map are texts",
    Root.MULTISET: "the elements of a multiset are texts",
}
