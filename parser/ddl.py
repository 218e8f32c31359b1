"""CREATE and DROP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from parser.cursor import Cursor, near
from parser.datatypes import data_type
from parser.errors import ParseError, Position
from parser.lexer import Token
from parser.queries import Queries
from parser.statements import (
    ColumnDefinition,
    ColumnKind,
    CreateFunction,
    CreateTable,
    CreateView,
    Drop,
    Statement,
    WatermarkDefinition,
)

_REFUSED = {
    "CATALOG": "use the catalog that is there: default_catalog",
    "DATABASE": "use the database that is there: default_database",
    "MODEL": "call a Python function: CREATE FUNCTION … LANGUAGE PYTHON",
    "CONNECTION": "write the options into the WITH clause of each table",
    "MATERIALIZED": "write CREATE TABLE and an INSERT INTO that fills it",
}


def create(cursor: Queries) -> Statement:
    """CREATE [TEMPORARY [SYSTEM]] TABLE | VIEW | FUNCTION."""
    first = cursor.advance()
    if cursor.at("OR"):
        raise cursor.unsupported(f"CREATE OR {cursor.peek().word}", "drop the object first, or submit the job again")
    temporary = cursor.take("TEMPORARY")
    system = temporary and cursor.take("SYSTEM")
    kind = cursor.token.word
    if kind in _REFUSED:
        raise cursor.unsupported(f"CREATE {kind}", _REFUSED[kind])
    if system and kind != "FUNCTION":
        raise cursor.unexpected("expected FUNCTION")
    if kind == "TABLE":
        return _create_table(cursor, first, temporary)
    if kind == "VIEW":
        return _create_view(cursor, first, temporary)
    if kind == "FUNCTION":
        return _create_function(cursor, first, temporary, system)
    hint = near(cursor.token.word, ("TABLE", "VIEW", "FUNCTION"))
    raise cursor.unexpected("expected TABLE, VIEW or FUNCTION", hint)


def drop(cursor: Queries) -> Drop:
    """DROP [TEMPORARY [SYSTEM]] TABLE | VIEW | FUNCTION [IF EXISTS] name."""
    first = cursor.advance()
    temporary = cursor.take("TEMPORARY")
    system = temporary and cursor.take("SYSTEM")
    if cursor.token.word in _REFUSED:
        raise cursor.unsupported(f"DROP {cursor.token.word}", _REFUSED[cursor.token.word])
    kind = cursor.one_of("FUNCTION") if system else cursor.one_of("TABLE", "VIEW", "FUNCTION")
    if_exists = cursor.take("IF", "EXISTS")
    named = cursor.token
    name = cursor.path(f"the name of a {kind.lower()}")
    sql, subject = cursor.sql_from(first), cursor.span(named)
    return Drop(kind, name, temporary, if_exists, system, position=first.position, sql=sql, subject=subject)


def _if_not_exists(cursor: Cursor) -> bool:
    return cursor.take("IF", "NOT", "EXISTS")


def _create_view(cursor: Queries, first: Token, temporary: bool) -> CreateView:
    cursor.advance()
    if_not_exists = _if_not_exists(cursor)
    name = cursor.path("the name of a view")
    columns = cursor.wrapped(lambda: cursor.name("a column").text) if cursor.at("(") else []
    if cursor.take("COMMENT"):
        cursor.string("a comment")
    cursor.expect("AS")
    query = cursor.query()
    sql = cursor.sql_from(first)
    return CreateView(name, tuple(columns), query, temporary, if_not_exists, position=first.position, sql=sql)


def _create_function(cursor: Queries, first: Token, temporary: bool, system: bool) -> CreateFunction:
    cursor.advance()
    if_not_exists = _if_not_exists(cursor)
    name = cursor.path("the name of a function")
    cursor.expect("AS")
    class_name = cursor.string("the function's place, such as module.function,")
    language = "JAVA"
    if cursor.take("LANGUAGE"):
        language = cursor.one_of("PYTHON", "JAVA", "SCALA")
    file = None
    if cursor.at("USING", "JAR"):
        raise cursor.unsupported("USING JAR", "there is no JVM here: write the function in Python")
    if cursor.take("USING"):
        cursor.expect("FILE")
        file = cursor.string("the path of a Python file")
    return CreateFunction(
        name,
        class_name,
        language,
        temporary,
        if_not_exists,
        system,
        file,
        position=first.position,
        sql=cursor.sql_from(first),
    )


class _Elements:
    """What has been read between the parentheses of CREATE TABLE."""

    def __init__(self) -> None:
        self.columns: list[ColumnDefinition] = []
        self.watermark: WatermarkDefinition | None = None
        self.primary_key: tuple[str, ...] = ()
        self.key_position: Position | None = None
        self._places: dict[str, tuple[int, int]] = {}

    def expression(self, cursor: Queries, column: str) -> exp.Expression:
        """The expression of a computed column, or of the watermark ('')."""
        start = cursor.index
        found = cursor.expression()
        self._places[column] = start, cursor.index
        return found

    def add_texts(self, cursor: Queries) -> None:
        """Texts of expressions, once all columns are known."""
        names = {c.name for c in self.columns}
        texts = {n: cursor.text_of(*place, names) for n, place in self._places.items()}
        self.columns = [replace(c, text=texts.get(c.name, "")) for c in self.columns]
        if self.watermark is not None:
            self.watermark = replace(self.watermark, text=texts[""])


def _create_table(cursor: Queries, first: Token, temporary: bool) -> CreateTable:
    cursor.advance()
    if_not_exists = _if_not_exists(cursor)
    named = cursor.token
    name = cursor.path("the name of a table")
    subject = cursor.span(named)
    elements = _Elements()
    if cursor.at("("):
        cursor.wrapped(lambda: _element(cursor, elements))
    comment = cursor.string("a comment") if cursor.take("COMMENT") else None
    _refuse_clauses(cursor)
    options = options_of(cursor) if cursor.take("WITH") else {}
    _refuse_clauses(cursor)
    if not elements.columns:
        raise cursor.unexpected("expected the columns in parentheses")
    elements.add_texts(cursor)
    return CreateTable(
        name,
        tuple(elements.columns),
        elements.watermark,
        elements.primary_key,
        options,
        temporary,
        if_not_exists,
        comment,
        elements.key_position,
        position=first.position,
        sql=cursor.sql_from(first),
        subject=subject,
    )


def _refuse_clauses(cursor: Queries) -> None:
    match cursor.token.word:
        case "PARTITIONED":
            raise cursor.unsupported("PARTITIONED BY", "leave it out: files are written to one folder")
        case "DISTRIBUTED":
            raise cursor.unsupported("DISTRIBUTED", "set 'key.fields' of a topic to choose the shard of a row")
        case "LIKE":
            raise cursor.unsupported("CREATE TABLE … LIKE", "write the columns and options out")
        case "AS":
            raise cursor.unsupported("CREATE TABLE … AS", "write CREATE TABLE with its columns, then INSERT INTO")


def options_of(cursor: Cursor) -> Mapping[str, str]:
    """('key' = 'value', …), in the order of the text."""
    options: dict[str, str] = {}

    def option() -> None:
        token = cursor.token
        key = cursor.string("the name of an option")
        if key in options:
            raise ParseError(f"option '{key}' is given twice", position=token.position)
        cursor.expect("=")
        options[key] = cursor.string(f"the value of option '{key}'")

    cursor.expect("(")
    if not cursor.take(")"):
        cursor.list_of(option)
        cursor.expect(")")
    return options


def _element(cursor: Queries, elements: _Elements) -> None:
    """A column, a watermark or a constraint of the table."""
    if cursor.at("WATERMARK"):
        _watermark(cursor, elements)
    elif cursor.token.word in ("CONSTRAINT", "PRIMARY", "UNIQUE"):
        first = cursor.token
        _constraint_name(cursor)
        cursor.expect("PRIMARY", "KEY")
        _set_key(elements, cursor.wrapped(lambda: cursor.name("a column").text), first)
        _not_enforced(cursor)
    else:
        _column(cursor, elements)


def _watermark(cursor: Queries, elements: _Elements) -> None:
    first = cursor.advance()
    if elements.watermark is not None:
        raise ParseError("the table has its watermark already", position=first.position)
    cursor.expect("FOR")
    column = cursor.path("a column")
    cursor.expect("AS")
    elements.watermark = WatermarkDefinition(column, elements.expression(cursor, ""), first.position)


def _constraint_name(cursor: Queries) -> None:
    if cursor.take("CONSTRAINT"):
        cursor.name("the name of a constraint")
    if cursor.at("UNIQUE"):
        raise cursor.unsupported("UNIQUE", "declare a PRIMARY KEY … NOT ENFORCED")


def _not_enforced(cursor: Queries) -> None:
    if not cursor.take("NOT", "ENFORCED"):
        raise cursor.unsupported(
            "PRIMARY KEY without NOT ENFORCED", "write PRIMARY KEY … NOT ENFORCED: data is not checked"
        )


def _set_key(elements: _Elements, columns: Iterable[str], token: Token) -> None:
    if elements.primary_key:
        raise ParseError("the table has its primary key already", position=token.position)
    elements.primary_key, elements.key_position = tuple(columns), token.position


def _column(cursor: Queries, elements: _Elements) -> None:
    token = cursor.name("a column, WATERMARK or PRIMARY KEY")
    if any(c.name == token.text for c in elements.columns):
        raise ParseError(f"column '{token.text}' is declared twice", position=token.position)
    if cursor.take("AS"):
        expression = elements.expression(cursor, token.text)
        comment = cursor.string("a comment") if cursor.take("COMMENT") else None
        column = ColumnDefinition(
            token.text, ColumnKind.COMPUTED, expression=expression, comment=comment, position=token.position
        )
    else:
        column = _typed_column(cursor, elements, token)
    elements.columns.append(column)


def _typed_column(cursor: Queries, elements: _Elements, token: Token) -> ColumnDefinition:
    found = data_type(cursor)
    kind, key, virtual = ColumnKind.PHYSICAL, None, False
    if cursor.take("METADATA"):
        kind = ColumnKind.METADATA
        key = cursor.string("the key of the metadata") if cursor.take("FROM") else token.text
        virtual = cursor.take("VIRTUAL")
    elif cursor.token.word in ("CONSTRAINT", "PRIMARY", "UNIQUE"):
        first = cursor.token
        _constraint_name(cursor)
        cursor.expect("PRIMARY", "KEY")
        _not_enforced(cursor)
        _set_key(elements, (token.text,), first)
    if cursor.at("DEFAULT"):
        raise cursor.unsupported("DEFAULT", "use COALESCE in the INSERT")
    comment = cursor.string("a comment") if cursor.take("COMMENT") else None
    return ColumnDefinition(token.text, kind, found, None, key, virtual, comment, token.position)
