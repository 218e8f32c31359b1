"""Flink's type names to `parser.types.DataType`."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from parser.cursor import Cursor, mark, near
from parser.errors import ParseError
from parser.lexer import Token, tokenize
from parser.types import (
    BIGINT,
    BITMAP,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL_DAY_TIME,
    INTERVAL_YEAR_MONTH,
    MAX_LENGTH,
    NULL,
    SMALLINT,
    STRING,
    TINYINT,
    VARIANT,
    DataType,
    Root,
    array,
    decimal,
    map_of,
    row,
    time,
    timestamp,
    timestamp_ltz,
)

_PLAIN = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": SMALLINT,
    "INT": INT,
    "INTEGER": INT,
    "BIGINT": BIGINT,
    "FLOAT": FLOAT,
    "REAL": FLOAT,
    "STRING": STRING,
    "BYTES": BYTES,
    "DATE": DATE,
    "NULL": NULL,
    "VARIANT": VARIANT,
    "BITMAP": BITMAP,
}
_UNSUPPORTED = ("RAW", "STRUCTURED", "ANY", "JSON", "DESCRIPTOR")


def parse_type(text: str) -> DataType:
    """The type that `text` names, such as `DECIMAL(10, 2) NOT NULL`. SqlError where it names none."""
    cursor = Cursor(tokenize(text), text)
    found = data_type(cursor)
    cursor.end()
    return found


def type_of(node: exp.Expression) -> DataType:
    """The type in the `to` of a CAST or TRY_CAST."""
    found = node.meta["type"]
    assert isinstance(found, DataType)
    return found


def cast_target(cursor: Cursor) -> exp.DataType:
    """The type after CAST(x AS: an `exp.DataType` whose `type_of` is the typed one."""
    first, start = cursor.token, cursor.index
    node = type_node(data_type(cursor, constraint=False), first, cursor.previous)
    words = [t.word for t in cursor.tokens[start : cursor.index]]
    if words[0] == "INTERVAL" and "TO" not in words:  # an integer is cast to so many of the unit
        node.meta["unit"] = words[1]
    return node


def type_node(found: DataType, first: Token, last: Token | None = None) -> exp.DataType:
    node = exp.DataType(this=exp.DType.USERDEFINED, kind=str(found))
    node.meta["type"] = found
    return mark(node, first, last)


def data_type(cursor: Cursor, constraint: bool = True) -> DataType:
    """A type, with NOT NULL or NULL after it where `constraint` allows one."""
    depth = cursor.depth
    cursor.deeper()
    found = _root(cursor)
    while collection := cursor.take_any("ARRAY", "MULTISET"):
        found = array(found) if collection == "ARRAY" else DataType(Root.MULTISET, children=(found,))
    if constraint and cursor.take("NOT", "NULL"):
        found = found.with_nullable(False)
    elif constraint:
        cursor.take("NULL")
    cursor.depth = depth
    return found


def _root(cursor: Cursor) -> DataType:
    token = cursor.token
    if token.word in _UNSUPPORTED:
        raise cursor.unsupported(f"type {token.word}", "use STRING or BYTES")
    if token.word in _PLAIN:
        return _PLAIN[cursor.advance().word]
    parse = _PARAMETERISED.get(token.word)
    if parse is None:
        if token.is_name:
            hint = near(token.word, [*_PLAIN, *_PARAMETERISED])
            raise ParseError(f"unknown type {token}", hint=hint, position=token.position)
        raise cursor.unexpected("expected a type")
    cursor.advance()
    return parse(cursor)


def _length(cursor: Cursor, what: str) -> int:
    """The length in parentheses. Where there is none it is 1, and no bound for what varies, as in Flink."""
    if not cursor.take("("):
        return MAX_LENGTH if what.startswith("VAR") else 1
    token = cursor.token
    length = cursor.integer(f"the length of {what}")
    if not 1 <= length <= MAX_LENGTH:
        raise ParseError(f"the length of {what} is 1 to {MAX_LENGTH}", position=token.position)
    cursor.expect(")")
    return length


def _precision(cursor: Cursor, default: int) -> int:
    if not cursor.take("("):
        return default
    token = cursor.token
    precision = cursor.integer("the number of fractional digits")
    if precision > 9:
        raise ParseError("a time has at most 9 fractional digits", position=token.position)
    cursor.expect(")")
    return precision


def _character(cursor: Cursor) -> DataType:
    root = Root.VARCHAR if cursor.take("VARYING") else Root.CHAR
    return DataType(root, length=_length(cursor, root.value))


def _binary(cursor: Cursor) -> DataType:
    root = Root.VARBINARY if cursor.take("VARYING") else Root.BINARY
    return DataType(root, length=_length(cursor, root.value))


def _decimal(cursor: Cursor) -> DataType:
    if not cursor.take("("):
        return decimal()
    token = cursor.token
    precision = cursor.integer("the number of digits")
    scale = cursor.integer("the number of digits after the point") if cursor.take(",") else 0
    cursor.expect(")")
    if not 1 <= precision <= 38 or scale > precision:
        message = "DECIMAL has 1 to 38 digits, and no more after the point than in all"
        raise ParseError(message, position=token.position)
    return decimal(precision, scale)


def _double(cursor: Cursor) -> DataType:
    cursor.take("PRECISION")
    return DOUBLE


def _time(cursor: Cursor) -> DataType:
    precision = _precision(cursor, 0)
    cursor.take("WITHOUT", "TIME", "ZONE")
    return time(precision)


def _timestamp(cursor: Cursor) -> DataType:
    precision = _precision(cursor, 6)
    if cursor.take("WITH", "LOCAL", "TIME", "ZONE"):
        return timestamp_ltz(precision)
    if cursor.at("WITH", "TIME", "ZONE"):
        raise cursor.unsupported("TIMESTAMP WITH TIME ZONE", "use TIMESTAMP_LTZ")
    cursor.take("WITHOUT", "TIME", "ZONE")
    return timestamp(precision)


def _interval(cursor: Cursor) -> DataType:
    units = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
    unit = cursor.one_of(*units)
    _precision(cursor, 0)
    if cursor.take("TO"):
        cursor.one_of(*units[units.index(unit) + 1 :])
        _precision(cursor, 0)
    return INTERVAL_YEAR_MONTH if unit in ("YEAR", "MONTH") else INTERVAL_DAY_TIME


def _element(cursor: Cursor) -> DataType:
    cursor.expect("<")
    element = data_type(cursor)
    cursor.expect(">")
    return element


def _map(cursor: Cursor) -> DataType:
    cursor.expect("<")
    key = data_type(cursor)
    cursor.expect(",")
    value = data_type(cursor)
    cursor.expect(">")
    return map_of(key, value)


def _row(cursor: Cursor) -> DataType:
    close = {"<": ">", "(": ")"}.get(cursor.token.word)
    if close is None:
        raise cursor.unexpected("expected the fields of the row: ROW<name type, …>")
    cursor.advance()
    if cursor.take(close):
        return row((), ())
    fields = cursor.list_of(lambda: _field(cursor))
    cursor.expect(close)
    return row(tuple(n for n, _ in fields), tuple(t for _, t in fields))


def _field(cursor: Cursor) -> tuple[str, DataType]:
    token = cursor.name("the name of a field")
    found = data_type(cursor)
    if not cursor.at("COMMENT"):
        return token.text, found
    cursor.advance()
    cursor.string("a comment")
    return token.text, found


_PARAMETERISED: dict[str, Callable[[Cursor], DataType]] = {
    "CHAR": _character,
    "CHARACTER": _character,
    "VARCHAR": lambda c: DataType(Root.VARCHAR, length=_length(c, "VARCHAR")),
    "BINARY": _binary,
    "VARBINARY": lambda c: DataType(Root.VARBINARY, length=_length(c, "VARBINARY")),
    "DECIMAL": _decimal,
    "DEC": _decimal,
    "NUMERIC": _decimal,
    "DOUBLE": _double,
    "TIME": _time,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP_LTZ": lambda c: timestamp_ltz(_precision(c, 6)),
    "INTERVAL": _interval,
    "ARRAY": lambda c: array(_element(c)),
    "MULTISET": lambda c: DataType(Root.MULTISET, children=(_element(c),)),
    "MAP": _map,
    "ROW": _row,
}
