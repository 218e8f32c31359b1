"""Types as Flink's gateway writes them (`LogicalTypeJsonSerializer`)."""

from __future__ import annotations

from typing import Final

from parser.types import DataType, Root

# Flink's names of types for which ours are shorter.
_ROOTS: Final = {
    Root.INT: "INTEGER",
    Root.TIME: "TIME_WITHOUT_TIME_ZONE",
    Root.TIMESTAMP: "TIMESTAMP_WITHOUT_TIME_ZONE",
    Root.TIMESTAMP_LTZ: "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
    Root.STRUCTURED: "ROW",
    # Clients of older versions know no more of it than its text.
    Root.VARIANT: "VARCHAR",
}
_MAX: Final = 2147483647


def type_json(kind: DataType) -> dict[str, object]:
    """Returns a type as JSON.

    >>> from parser.types import STRING, array
    >>> type_json(array(STRING))["elementType"]
    {'type': 'VARCHAR', 'nullable': True, 'length': 2147483647}
    """
    name = _ROOTS.get(kind.root, kind.root.value)
    if kind.root is Root.NULL:
        return {"type": name}
    return {"type": name, "nullable": kind.nullable, **_details(kind)}


def _details(kind: DataType) -> dict[str, object]:
    match kind.root:
        case Root.CHAR | Root.VARCHAR | Root.BINARY | Root.VARBINARY:
            return {"length": kind.length}
        case Root.VARIANT:
            return {"length": _MAX}
        case Root.DECIMAL:
            return {"precision": kind.precision, "scale": kind.scale}
        case Root.TIME | Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return {"precision": kind.precision}
        case Root.INTERVAL_YEAR_MONTH:
            return {"precision": 2, "resolution": "MONTH"}
        case Root.INTERVAL_DAY_TIME:
            return {"precision": 2, "fractionalPrecision": 3, "resolution": "SECOND"}
        case Root.ARRAY | Root.MULTISET:
            return {"elementType": type_json(kind.children[0])}
        case Root.MAP:
            key, value = kind.children
            return {"keyType": type_json(key), "valueType": type_json(value)}
        case Root.ROW | Root.STRUCTURED:
            fields = zip(kind.names, kind.children, strict=True)
            return {"fields": [{"name": n, "fieldType": type_json(t)} for n, t in fields]}
    return {}
