"""CREATE and REPLACE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from parser.definitions import (
    CreateCatalog,
    CreateConnection,
    CreateDatabase,
    CreateFunction,
    CreateMaterializedTable,
    CreateModel,
    CreateTable,
    CreateView,
    Resource,
    StartMode,
    Statement,
)
from parser.grammar.lexer import Token
from parser.grammar.literals import interval
from parser.grammar.properties import comment, if_not_exists, names, with_options
from parser.grammar.queries import QueryParser
from parser.grammar.tables import Elements, create_table, element, storage, table_elements

_START_MODES = tuple(
    f"{r}FROM_{w}" for r in ("", "RESUME_OR_") for w in ("BEGINNING", "NOW", "TIMESTAMP")
)


def create(cursor: QueryParser) -> Statement:
    """CREATE [OR REPLACE | OR ALTER] [TEMPORARY [SYSTEM]] object."""
    first = cursor.advance()
    if cursor.at("OR", "ALTER"):
        cursor.advance()
        cursor.advance()
        return _materialized_table(cursor, first, or_alter=True)
    replaced = cursor.take("OR", "REPLACE")
    temporary = cursor.take("TEMPORARY")
    system = cursor.take("SYSTEM")
    kind = cursor.token.word
    if system and (not temporary or kind not in ("FUNCTION", "CONNECTION")):
        raise cursor.unexpected("only functions and connections are TEMPORARY SYSTEM")
    if kind in ("TABLE", "VIEW"):
        return (create_table if kind == "TABLE" else _view)(cursor, first, temporary, replaced)
    if kind in ("FUNCTION", "CONNECTION"):
        return (_function if kind == "FUNCTION" else _connection)(cursor, first, temporary, system)
    if kind == "MODEL":
        return _model(cursor, first, temporary)
    plain = None if temporary or replaced else _PLAIN.get(kind)
    if plain is None:
        raise cursor.unexpected(
            "expected TABLE, VIEW, FUNCTION, MODEL, CONNECTION, CATALOG or DATABASE"
        )
    return plain(cursor, first)


def replace_table(cursor: QueryParser) -> CreateTable:
    """REPLACE [TEMPORARY] TABLE … AS query."""
    first = cursor.advance()
    return create_table(cursor, first, cursor.take("TEMPORARY"), True, created=False)


def _view(cursor: QueryParser, first: Token, temporary: bool, replaced: bool) -> CreateView:
    cursor.advance()
    if_missing = if_not_exists(cursor)
    name = cursor.path("the name of a view")
    columns = names(cursor, "a column") if cursor.at("(") else ()
    text = comment(cursor)
    cursor.expect("AS")
    query = cursor.query()
    return CreateView(
        name, columns, query, temporary, if_missing, text, replaced, position=first.position
    )


def _function(cursor: QueryParser, first: Token, temporary: bool, system: bool) -> CreateFunction:
    cursor.advance()
    if_missing = if_not_exists(cursor)
    name = cursor.path("the name of a function")
    cursor.expect("AS")
    class_name = cursor.string("the function's place, such as module.function,")
    language = (
        cursor.one_of("PYTHON", "JAVA", "SCALA", "SQL") if cursor.take("LANGUAGE") else "JAVA"
    )
    file: str | None = None
    resources: tuple[Resource, ...] = ()
    if cursor.take("USING", "FILE"):
        file = cursor.string("the path of a Python file")
    elif cursor.take("USING"):
        resources = tuple(cursor.list_of(lambda: _resource(cursor)))
    return CreateFunction(
        name,
        class_name,
        language,
        temporary,
        if_missing,
        system,
        file,
        resources,
        with_options(cursor),
        position=first.position,
    )


def _resource(cursor: QueryParser) -> Resource:
    return Resource(cursor.one_of("JAR", "ARTIFACT"), cursor.string("a path"))


def _catalog(cursor: QueryParser, first: Token) -> CreateCatalog:
    cursor.advance()
    if_missing = if_not_exists(cursor)
    name = cursor.path("the name of a catalog")
    text = comment(cursor)
    return CreateCatalog(name, with_options(cursor), text, if_missing, position=first.position)


def _database(cursor: QueryParser, first: Token) -> CreateDatabase:
    cursor.advance()
    if_missing = if_not_exists(cursor)
    name = cursor.path("the name of a database")
    text = comment(cursor)
    return CreateDatabase(name, with_options(cursor), text, if_missing, position=first.position)


def _connection(
    cursor: QueryParser, first: Token, temporary: bool, system: bool
) -> CreateConnection:
    cursor.advance()
    if_missing = if_not_exists(cursor)
    name = cursor.path("the name of a connection")
    text = comment(cursor)
    options = with_options(cursor)
    return CreateConnection(
        name, options, text, if_missing, temporary, system, position=first.position
    )


def _model(cursor: QueryParser, first: Token, temporary: bool) -> CreateModel:
    cursor.advance()
    if_missing = if_not_exists(cursor)
    name = cursor.path("the name of a model")
    inputs = _model_columns(cursor, "INPUT")
    outputs = _model_columns(cursor, "OUTPUT")
    text = comment(cursor)
    options = with_options(cursor)
    query = cursor.query() if cursor.take("AS") else None
    return CreateModel(
        name,
        tuple(inputs.columns),
        tuple(outputs.columns),
        text,
        options,
        query,
        temporary,
        if_missing,
        position=first.position,
    )


def _model_columns(cursor: QueryParser, word: str) -> Elements:
    elements = Elements()
    if cursor.take(word):
        cursor.wrapped(lambda: element(cursor, elements))
    return elements


def _materialized_table(
    cursor: QueryParser, first: Token, or_alter: bool = False
) -> CreateMaterializedTable:
    cursor.expect("MATERIALIZED", "TABLE")
    name = cursor.path("the name of a table")
    elements = table_elements(cursor)
    text = comment(cursor)
    divided, keys = storage(cursor)
    options = with_options(cursor)
    start = _start_mode(cursor) if cursor.take("START_MODE", "=") else None
    fresh = freshness(cursor) if cursor.take("FRESHNESS", "=") else None
    mode = cursor.one_of("FULL", "CONTINUOUS") if cursor.take("REFRESH_MODE", "=") else None
    cursor.expect("AS")
    query, position = cursor.query(), first.position
    statement = CreateMaterializedTable(
        name, query, tuple(elements.columns), elements.watermark, position=position
    )
    statement = replace(
        statement, constraints=tuple(elements.constraints), column_order=elements.column_order
    )
    statement = replace(
        statement, comment=text, distribution=divided, partition_keys=keys, options=options
    )
    return replace(
        statement, start_mode=start, freshness=fresh, refresh_mode=mode, or_alter=or_alter
    )


def _start_mode(cursor: QueryParser) -> StartMode:
    """FROM_NOW [(interval)], FROM_TIMESTAMP (time), FROM_BEGINNING, or one of them behind
    RESUME_OR_."""
    mode = cursor.one_of(*_START_MODES)
    value: exp.Expression | None = None
    if cursor.take("("):
        value = cursor.expression()
        cursor.expect(")")
    return StartMode(mode, value)


def freshness(cursor: QueryParser) -> exp.Expression:
    if not cursor.at("INTERVAL"):
        raise cursor.unexpected("expected INTERVAL")
    return interval(cursor)


_PLAIN: dict[str, Callable[[QueryParser, Token], Statement]] = {
    "CATALOG": _catalog,
    "DATABASE": _database,
    "MATERIALIZED": _materialized_table,
}
