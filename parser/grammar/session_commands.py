"""Statements about the session and the catalog: SHOW, DESCRIBE, USE, SET, modules, jars, jobs,
CALL, ANALYZE."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot.tokenizer_core import TokenType

from parser.definitions import Kind
from parser.grammar.properties import partition, with_options
from parser.grammar.queries import QueryParser
from parser.statements import (
    AddJar,
    Analyze,
    Call,
    Describe,
    LoadModule,
    RemoveJar,
    Reset,
    Set,
    Show,
    ShowCreate,
    Statement,
    StopJob,
    UnloadModule,
    Use,
    UseModules,
)

# First words after SHOW -> `Show.what`, and whether ILIKE can follow.
_LISTS: dict[tuple[str, ...], tuple[str, bool]] = {
    ("TABLES",): ("TABLES", False),
    ("VIEWS",): ("VIEWS", False),
    ("MATERIALIZED", "TABLES"): ("MATERIALIZED_TABLES", False),
    ("FUNCTIONS",): ("FUNCTIONS", True),
    ("USER", "FUNCTIONS"): ("USER_FUNCTIONS", True),
    ("PROCEDURES",): ("PROCEDURES", True),
    ("CATALOGS",): ("CATALOGS", True),
    ("DATABASES",): ("DATABASES", True),
    ("MODELS",): ("MODELS", False),
    ("CONNECTIONS",): ("CONNECTIONS", False),
}
_PLAIN: dict[tuple[str, ...], str] = {
    ("JOBS",): "JOBS",
    ("JARS",): "JARS",
    ("MODULES",): "MODULES",
    ("FULL", "MODULES"): "FULL_MODULES",
    ("CURRENT", "CATALOG"): "CURRENT_CATALOG",
    ("CURRENT", "DATABASE"): "CURRENT_DATABASE",
}
_SHOWN = "TABLES, VIEWS, FUNCTIONS, CATALOGS, DATABASES, JOBS, CURRENT, COLUMNS, CREATE"


def _show(cursor: QueryParser) -> Statement:
    first = cursor.advance()
    if cursor.take("CREATE"):
        kind = _kind(cursor) or Kind(cursor.one_of("TABLE", "VIEW"))
        named = cursor.token
        return ShowCreate(
            kind, cursor.path("a name"), position=first.position, subject=cursor.span(named)
        )
    for words, what in _PLAIN.items():
        if cursor.take(*words):
            return Show(what, position=first.position)
    if cursor.take("PARTITIONS"):
        name = cursor.path("the name of a table")
        values = partition(cursor) if cursor.take("PARTITION") else ()
        return Show("PARTITIONS", name, partition=values, position=first.position)
    if cursor.take("COLUMNS"):
        cursor.one_of("FROM", "IN")
        named = cursor.token
        name = cursor.path("the name of a table")
        subject = cursor.span(named)
        return Show(
            "COLUMNS", name, *_pattern(cursor, False), position=first.position, subject=subject
        )
    for words, (what, ignoring) in _LISTS.items():
        if cursor.take(*words):
            database = (
                cursor.path("the name of a database") if cursor.take_any("FROM", "IN") else None
            )
            return Show(what, database, *_pattern(cursor, ignoring), position=first.position)
    raise cursor.unexpected(f"expected {_SHOWN}")


def _pattern(cursor: QueryParser, ignoring: bool) -> tuple[str | None, bool, bool]:
    """[[NOT] LIKE | ILIKE pattern]: the pattern, whether it is negated, whether case is ignored."""
    negated = cursor.take("NOT")
    ignore = ignoring and cursor.take("ILIKE")
    if not ignore and not cursor.take("LIKE"):
        if negated:
            raise cursor.unexpected("expected LIKE")
        return None, False, False
    return cursor.string("a pattern"), negated, ignore


def _kind(cursor: QueryParser) -> Kind | None:
    """The kind of object whose name follows, if a word says it; such a word may also be the name of
    a table."""
    if cursor.take("MATERIALIZED", "TABLE"):
        return Kind.MATERIALIZED_TABLE
    kinds = (
        Kind.CATALOG,
        Kind.DATABASE,
        Kind.FUNCTION,
        Kind.MODEL,
        Kind.CONNECTION,
        Kind.JOB,
        Kind.VIEW,
    )
    for kind in kinds:
        following = cursor.peek()
        if (
            cursor.at(kind.value)
            and following.word != "."
            and following.token_type is not TokenType.SENTINEL
        ):
            cursor.advance()
            return kind
    return None


def _describe(cursor: QueryParser) -> Describe:
    first = cursor.advance()
    kind = Kind.TABLE if cursor.at("VIEW") else _kind(cursor) or Kind.TABLE
    if kind is Kind.JOB:
        return Describe((cursor.string("the id of a job"),), kind, position=first.position)
    extended = cursor.take("EXTENDED")
    named = cursor.token
    name = cursor.path(f"the name of a {kind.words.lower()}")
    return Describe(name, kind, extended, position=first.position, subject=cursor.span(named))


def _use(cursor: QueryParser) -> Statement:
    first = cursor.advance()
    if cursor.take("MODULES"):
        names = cursor.list_of(lambda: cursor.name("the name of a module").text)
        return UseModules(tuple(names), position=first.position)
    catalog = cursor.at("CATALOG") and cursor.peek().is_name
    if catalog:
        cursor.advance()
    name = cursor.path("the name of a catalog" if catalog else "the name of a database")
    return Use(name, catalog, position=first.position)


def _set(cursor: QueryParser) -> Set:
    """SET, SET 'key' = 'value', and SET key = value as Flink's SQL client once had it."""
    first = cursor.advance()
    key = value = subject = None
    if not cursor.at_end:
        named = cursor.token
        key = _key(cursor)
        subject = cursor.span(named)
        cursor.expect("=")
        is_bare = cursor.token.word or cursor.token.token_type is TokenType.NUMBER
        value = _raw(cursor) if is_bare else cursor.string("a value")
    return Set(key, value, position=first.position, subject=subject)


def _reset(cursor: QueryParser) -> Reset:
    first = cursor.advance()
    if cursor.at_end:
        return Reset(position=first.position)
    named = cursor.token
    return Reset(_key(cursor), position=first.position, subject=cursor.span(named))


def _key(cursor: QueryParser) -> str:
    if not cursor.token.word or cursor.at("="):
        return cursor.string("the name of a setting")
    return _raw(cursor)


def _raw(cursor: QueryParser) -> str:
    """The text up to the next space, equals sign or end: a name with dots and hyphens."""
    first = cursor.advance()
    while (
        not cursor.at_end and not cursor.at("=") and cursor.token.start == cursor.previous.end + 1
    ):
        cursor.advance()
    return cursor.text_from(first)


def _load(cursor: QueryParser) -> LoadModule:
    first = cursor.advance()
    cursor.expect("MODULE")
    name = cursor.name("the name of a module").text
    return LoadModule(name, with_options(cursor), position=first.position)


def _unload(cursor: QueryParser) -> UnloadModule:
    first = cursor.advance()
    cursor.expect("MODULE")
    return UnloadModule(cursor.name("the name of a module").text, position=first.position)


def _jar(cursor: QueryParser) -> Statement:
    first = cursor.advance()
    cursor.expect("JAR")
    kind = AddJar if first.word == "ADD" else RemoveJar
    return kind(cursor.string("the path of a jar"), position=first.position)


def _call(cursor: QueryParser) -> Call:
    first = cursor.advance()
    if not cursor.token.is_name:
        raise cursor.unexpected("expected the name of a procedure")
    return Call(cursor.routine(), position=first.position)


def _stop(cursor: QueryParser) -> StopJob:
    first = cursor.advance()
    cursor.expect("JOB")
    job = cursor.string("the id of a job")
    savepoint = cursor.take("WITH", "SAVEPOINT")
    drain = savepoint and cursor.take("WITH", "DRAIN")
    return StopJob(job, savepoint, drain, position=first.position)


def _analyze(cursor: QueryParser) -> Analyze:
    first = cursor.advance()
    cursor.expect("TABLE")
    name = cursor.path("the name of a table")
    values = partition(cursor, values=False) if cursor.take("PARTITION") else ()
    cursor.expect("COMPUTE", "STATISTICS")
    columns: list[str] = []
    everything = False
    if cursor.take("FOR"):
        everything = cursor.take("ALL")
        cursor.expect("COLUMNS")
        columns = [] if everything else cursor.list_of(lambda: cursor.name("a column").text)
    return Analyze(name, values, tuple(columns), everything, position=first.position)


SESSION: dict[str, Callable[[QueryParser], Statement]] = {
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "USE": _use,
    "SET": _set,
    "RESET": _reset,
    "LOAD": _load,
    "UNLOAD": _unload,
    "ADD": _jar,
    "REMOVE": _jar,
    "CALL": _call,
    "STOP": _stop,
    "ANALYZE": _analyze,
}
