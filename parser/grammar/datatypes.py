"""Flink's type names to `parser.types.DataType`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.errors import ParseError, PlanError, Position, UnsupportedError
from parser.grammar.cursor import Cursor, mark, near
from parser.grammar.lexer import Token, tokenize
from parser.grammar.reserved import RESERVED
from parser.grammar.time_types import interval_type, precision, time_type, timestamp_type
from parser.types import (
    BIGINT,
    BITMAP,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MAX_LENGTH,
    NULL,
    SMALLINT,
    STRING,
    TINYINT,
    VARIANT,
    DataType,
    Root,
    Written,
    array,
    decimal,
    map_of,
    row,
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


def parse_type(text: str) -> DataType:
    """The type that `text` names, such as `DECIMAL(10, 2) NOT NULL`. SqlError where it names none
    that plans can have."""
    cursor = Cursor(tokenize(text), text)
    parsed = data_type(cursor)
    cursor.end()
    check_type(parsed, Position(1, 1, len(text)))
    return parsed


def type_of(node: exp.Expression) -> DataType:
    """The type that a node made by `cast_target` or `type_node` stands for."""
    kind = node.args["kind"]
    assert isinstance(kind, DataType)
    return kind


def cast_target(cursor: Cursor) -> exp.DataType:
    """The type after AS in CAST: NOT NULL can stand inside of it, but not behind it."""
    first = cursor.token
    target = data_type(cursor, constraint=False)
    node = type_node(target, first, cursor.previous)
    written = target.written
    # An integer is cast to so many of it.
    if written is not None and written.start and written.start == written.end:
        node.meta["unit"] = written.start
    return node


def type_node(kind: DataType, first: Token, last: Token | None = None) -> exp.DataType:
    return mark(exp.DataType(this=exp.DType.USERDEFINED, kind=kind), first, last)


def data_type(cursor: Cursor, constraint: bool = True) -> DataType:
    """A type, with NOT NULL or NULL after it where `constraint` allows one."""
    depth = cursor.depth
    cursor.deeper()
    parsed = _root(cursor)
    while collection := _collection(cursor):
        parsed = parsed.with_nullable(not cursor.take("NOT", "NULL"))
        cursor.take("NULL")
        cursor.advance()
        parsed = (
            array(parsed) if collection == "ARRAY" else DataType(Root.MULTISET, children=(parsed,))
        )
    if constraint and cursor.take("NOT", "NULL"):
        parsed = parsed.with_nullable(False)
    elif constraint:
        cursor.take("NULL")
    cursor.depth = depth
    return parsed


def _collection(cursor: Cursor) -> str | None:
    """ARRAY or MULTISET, if one of them follows, perhaps behind NULL or NOT NULL."""
    word = cursor.token.word
    ahead = 2 if word == "NOT" else 1 if word == "NULL" else 0
    word = cursor.peek(ahead).word
    return word if word in ("ARRAY", "MULTISET") else None


def _root(cursor: Cursor) -> DataType:
    token = cursor.token
    plain = _PLAIN.get(token.word)
    if plain is not None:
        cursor.advance()
        return plain
    parse = _PARAMETERISED.get(token.word)
    if parse is not None:
        cursor.advance()
        return parse(cursor)
    if not token.is_name or token.word in RESERVED:
        raise cursor.unexpected("expected a type")
    return DataType(Root.NAMED, names=cursor.path("the name of a type"))


def begins_type(word: str) -> bool:
    """True if a type can begin with the word (in upper case; empty for a name in backticks)."""
    return word not in RESERVED or word in _PLAIN or word in _PARAMETERISED


def _length(cursor: Cursor, what: str) -> int:
    """The length in parentheses; where there is none, a text of varying length is unbounded, and a
    fixed one has 1."""
    if not cursor.take("("):
        return MAX_LENGTH if what.startswith("VAR") else 1
    token = cursor.token
    length = cursor.integer(f"the length of {what}")
    if length > MAX_LENGTH:
        raise ParseError(f"the length of {what} is 0 to {MAX_LENGTH}", position=token.position)
    cursor.expect(")")
    return length


def _text(cursor: Cursor, root: Root) -> DataType:
    """CHAR or VARCHAR with its length, and perhaps a character set."""
    if root is Root.CHAR and cursor.take("VARYING"):
        root = Root.VARCHAR
    parsed = DataType(root, length=_length(cursor, root.value))
    if not cursor.take("CHARACTER", "SET"):
        return parsed
    return replace(parsed, written=Written(charset=cursor.name("a character set").text))


def _bytes(cursor: Cursor, root: Root) -> DataType:
    if root is Root.BINARY and cursor.take("VARYING"):
        root = Root.VARBINARY
    return DataType(root, length=_length(cursor, root.value))


def _decimal(cursor: Cursor) -> DataType:
    if not cursor.take("("):
        return decimal()
    token = cursor.token
    precision = cursor.integer("the number of digits")
    scale = cursor.integer("the number of digits after the point") if cursor.take(",") else 0
    cursor.expect(")")
    if precision < 1 or scale > min(precision, 38):
        message = "DECIMAL has 1 to 38 digits, and no more after the point than in all"
        raise ParseError(message, position=token.position)
    return decimal(min(precision, 38), scale)


def _double(cursor: Cursor) -> DataType:
    cursor.take("PRECISION")
    return DOUBLE


def _any(cursor: Cursor) -> DataType:
    parsed = _decimal(cursor) if cursor.at("(") else decimal()
    return DataType(Root.ANY, precision=parsed.precision, scale=parsed.scale)


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
    if cursor.take("<>"):
        return row((), ())
    close = {"<": ">", "(": ")"}.get(cursor.token.word)
    if close is None:
        raise cursor.unexpected("expected the fields of the row: ROW<name type, …>")
    cursor.advance()
    return _fields(cursor, Root.ROW, "", close)


def _structured(cursor: Cursor) -> DataType:
    cursor.expect("<")
    class_name = cursor.string("the name of a class")
    if not cursor.take(","):
        cursor.expect(">")
        return DataType(Root.STRUCTURED, class_name=class_name)
    return _fields(cursor, Root.STRUCTURED, class_name, ">")


def _fields(cursor: Cursor, root: Root, class_name: str, close: str) -> DataType:
    """name type ['comment'], … up to `close`."""
    fields = [] if cursor.at(close) else cursor.list_of(lambda: _field(cursor))
    cursor.expect(close)
    names, types, comments = (
        (tuple(column) for column in zip(*fields, strict=True)) if fields else ((), (), ())
    )
    written = Written(comments=comments) if any(c is not None for c in comments) else None
    return DataType(root, children=types, names=names, class_name=class_name, written=written)


def _field(cursor: Cursor) -> tuple[str, DataType, str | None]:
    token = cursor.name("the name of a field")
    parsed = data_type(cursor)
    if cursor.take("COMMENT") or cursor.token.token_type is TokenType.STRING:
        return token.text, parsed, cursor.string("a comment")
    return token.text, parsed, None


def _raw(cursor: Cursor) -> DataType:
    cursor.expect("(")
    class_name = cursor.string("the name of a class")
    cursor.expect(",")
    serializer = cursor.string("a serializer")
    cursor.expect(")")
    return DataType(Root.RAW, class_name=class_name, names=(serializer,))


_PARAMETERISED: dict[str, Callable[[Cursor], DataType]] = {
    "CHAR": lambda c: _text(c, Root.CHAR),
    "CHARACTER": lambda c: _text(c, Root.CHAR),
    "VARCHAR": lambda c: _text(c, Root.VARCHAR),
    "BINARY": lambda c: _bytes(c, Root.BINARY),
    "VARBINARY": lambda c: _bytes(c, Root.VARBINARY),
    "DECIMAL": _decimal,
    "DEC": _decimal,
    "NUMERIC": _decimal,
    "ANY": _any,
    "DOUBLE": _double,
    "TIME": time_type,
    "TIMESTAMP": timestamp_type,
    "TIMESTAMP_LTZ": lambda c: timestamp_ltz(precision(c, 6)),
    "INTERVAL": interval_type,
    "ARRAY": lambda c: array(_element(c)),
    "MULTISET": lambda c: DataType(Root.MULTISET, children=(_element(c),)),
    "MAP": _map,
    "ROW": _row,
    "STRUCTURED": _structured,
    "RAW": _raw,
}

# The words that types begin with.
KNOWN = (*_PLAIN, *_PARAMETERISED)

_UNPLANNED = {
    Root.RAW: "RAW",
    Root.STRUCTURED: "STRUCTURED",
    Root.ANY: "ANY",
    Root.TIME_LTZ: "TIME WITH LOCAL TIME ZONE",
}


def check_type(kind: DataType, position: Position | None) -> None:
    """Refuses a type, or a part of one, that no plan can have."""
    if kind.root is Root.NAMED:
        hint = near(kind.names[-1].upper(), KNOWN)
        raise PlanError(f"unknown type '{'.'.join(kind.names)}'", hint=hint, position=position)
    if kind.root in _UNPLANNED:
        raise UnsupportedError(
            f"type {_UNPLANNED[kind.root]} is not supported",
            hint="use STRING or BYTES",
            position=position,
        )
    if kind.written is not None and kind.written.charset:
        raise UnsupportedError(
            "CHARACTER SET is not supported", hint="all texts are Unicode", position=position
        )
    for child in kind.children:
        check_type(child, position)
