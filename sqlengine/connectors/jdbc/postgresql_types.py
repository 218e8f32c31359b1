"""The types of PostgreSQL, and which columns hold their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from parser.errors import ExecutionError
from parser.types import DataType, Root
from planner.catalog import Table
from sqlengine.connectors.jdbc.dialect import Shape
from sqlengine.connectors.jdbc.driver import Cursor

_WHOLE: Final = frozenset(("smallint", "integer", "bigint", "numeric", "oid"))
_REAL: Final = _WHOLE | {"real", "double precision"}
_MOMENTS: Final = frozenset(("timestamp without time zone", "timestamp with time zone"))
# What a column may be in the database by what it is declared as: a STRING may be anything.
_FITTING: Final[Mapping[Root, frozenset[str]]] = {
    Root.BOOLEAN: frozenset(("boolean",)),
    **dict.fromkeys((Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT), _WHOLE),
    **dict.fromkeys((Root.FLOAT, Root.DOUBLE), _REAL),
    Root.DECIMAL: _REAL | {"money"},
    Root.DATE: frozenset(("date",)),
    Root.TIME: frozenset(("time without time zone",)),
    Root.TIMESTAMP: _MOMENTS,
    Root.TIMESTAMP_LTZ: _MOMENTS,
}
# What a column that fits best would be declared as, for people.
_BEST: Final[Mapping[str, str]] = {
    "boolean": "BOOLEAN", "smallint": "SMALLINT", "integer": "INT", "bigint": "BIGINT",
    "numeric": "DECIMAL", "money": "DECIMAL(19, 2)", "real": "FLOAT", "double precision": "DOUBLE",
    "date": "DATE", "time without time zone": "TIME", "bytea": "BYTES",
    "timestamp without time zone": "TIMESTAMP", "timestamp with time zone": "TIMESTAMP_LTZ",
}  # fmt: skip
_WITHOUT_ORDER: Final = ("json", "xml", "point", "line", "lseg", "box", "path", "polygon", "circle")
_ARRAY: Final = "[]"
_NAMES: Final[Mapping[Root, str]] = {
    Root.TINYINT: "SMALLINT",
    Root.FLOAT: "REAL",
    Root.DOUBLE: "DOUBLE PRECISION",
    Root.TIME: "TIME",
}
_COLUMNS: Final = """
SELECT a.attname::text, format_type(COALESCE(NULLIF(t.typbasetype, 0), t.oid), NULL)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped"""


def type_name(kind: DataType) -> str:
    """A type of PostgreSQL that holds the values of `kind`."""
    if kind.root is Root.ARRAY:
        return type_name(kind.children[0]) + _ARRAY
    if kind.is_binary:
        return "BYTEA"
    if kind.is_string:
        return "TEXT"
    if kind.is_timestamp:
        zone = "TZ" if kind.root is Root.TIMESTAMP_LTZ else ""
        return f"TIMESTAMP{zone}({min(kind.precision, 6)})"
    return _NAMES.get(kind.root, str(kind.plain))


def declared_types(cursor: Cursor, table: str) -> dict[str, str]:
    """Returns the types of a table's columns in the database, by name; those of a domain for it.
    Nothing of a table that is not there."""
    cursor.execute(_COLUMNS, (table,))
    return {str(name): str(kind) for name, kind in cursor.fetchall()}


def shape_of(
    table: Table, name: str, found: Mapping[str, str], quoted: Callable[[str], str]
) -> Shape:
    """Returns how columns of these types are asked for. ExecutionError for one that does not fit;
    what is missing the database names itself."""
    for column in table.physical:
        kind = found.get(column.name)
        if kind is not None and not fits(column.type, kind):
            better = _BEST.get(kind, "STRING")
            raise ExecutionError(
                f"column '{column.name}' of table '{name}' is {kind} in the PostgreSQL database,"
                f" not {column.type.plain}",
                hint=f"declare it as {better}" + ("" if better == "STRING" else " or STRING"),
            )
    columns = (_asked(quoted(c.name), c.type, found.get(c.name, "")) for c in table.physical)
    ordering = table.primary_key or table.physical.names
    order = (_ordered(quoted(n), found.get(n, "")) for n in ordering)
    return Shape(tuple(columns), tuple(order), found)


def fits(kind: DataType, found: str) -> bool:
    """True if values of a type of the database, but for odd ones, are values of `kind`."""
    if kind.is_string:
        return True
    if kind.is_binary:
        return found == "bytea"
    if kind.root is Root.ARRAY:
        element = innermost(kind)
        return (
            found.endswith(_ARRAY)
            and not element.is_binary
            and fits(element, found.removesuffix(_ARRAY))
        )
    return found in _FITTING.get(kind.root, frozenset())


def innermost(kind: DataType) -> DataType:
    """The type of the elements of an array, through all its dimensions."""
    while kind.root is Root.ARRAY:
        kind = kind.children[0]
    return kind


def _asked(name: str, kind: DataType, found: str) -> str:
    if kind.root is Root.ARRAY:
        return f"array_to_json({name}{'::text[]' if innermost(kind).is_string else ''})"
    return f"{name}::numeric" if found == "money" and not kind.is_string else name


def _ordered(name: str, found: str) -> str:
    return f"{name}::text" if found.removesuffix(_ARRAY) in _WITHOUT_ORDER else name
