"""External forms of data types: in JSON and on Spark."""

from __future__ import annotations

from parser.types import DataType, Root

# SQL root -> (what it is in JSON, as `sqlengine.formats` writes it; the type of a Spark column that
# carries it).
_SIMPLE: dict[Root, tuple[str, str]] = {
    Root.BOOLEAN: ("boolean", "boolean"),
    Root.TINYINT: ("number", "tinyint"),
    Root.SMALLINT: ("number", "smallint"),
    Root.INT: ("number", "int"),
    Root.BIGINT: ("number", "bigint"),
    Root.FLOAT: ("number", "float"),
    Root.DOUBLE: ("number", "double"),
    Root.CHAR: ("string", "string"),
    Root.VARCHAR: ("string", "string"),
    Root.BINARY: ("string of Base64", "binary"),
    Root.VARBINARY: ("string of Base64", "binary"),
    Root.DATE: ("string yyyy-MM-dd", "date"),
    Root.INTERVAL_YEAR_MONTH: ("number of months", "bigint"),
    Root.INTERVAL_DAY_TIME: ("number of milliseconds", "bigint"),
    Root.NULL: ("null", "void"),
    Root.VARIANT: ("any", "string"),
    Root.BITMAP: ("string", "string"),
}
_TEMPORAL_JSON = {
    Root.TIME: "string HH:mm:ss",
    Root.TIMESTAMP: "string yyyy-MM-dd HH:mm:ss.SSS",
    Root.TIMESTAMP_LTZ: "string yyyy-MM-dd HH:mm:ss.SSSZ",
}


def to_json_form(t: DataType) -> str:
    """Describes the JSON form of a type's values in words."""
    if t.root in _SIMPLE:
        return _SIMPLE[t.root][0]
    match t.root:
        case Root.DECIMAL:
            return "number"
        case Root.ARRAY:
            return f"array of {to_json_form(t.children[0])}"
        case Root.MAP:
            return f"object of {to_json_form(t.children[1])}"
        case Root.MULTISET:
            return "object of number"
        case Root.ROW:
            return "object"
    return _TEMPORAL_JSON[t.root]


def to_spark(t: DataType) -> str:
    """The type's name in a Spark DDL string. Times travel as BIGINT in their Arrow unit, since
    Spark's have microseconds only."""
    if t.root in _SIMPLE:
        return _SIMPLE[t.root][1]
    match t.root:
        case Root.DECIMAL:
            return f"decimal({t.precision},{t.scale})"
        case Root.ARRAY:
            return f"array<{to_spark(t.children[0])}>"
        case Root.MAP:
            return f"map<{to_spark(t.children[0])},{to_spark(t.children[1])}>"
        case Root.MULTISET:
            return f"map<{to_spark(t.children[0])},int>"
        case Root.ROW:
            return (
                "struct<"
                + ",".join(f"`{n}`:{to_spark(c)}" for n, c in zip(t.names, t.children, strict=True))
                + ">"
            )
    return "bigint"
