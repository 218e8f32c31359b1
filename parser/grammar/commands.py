"""Statements that change rows or run others, and the way from a statement's first word to its
grammar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.errors import ParseError, Position
from parser.grammar.alter import alter, drop
from parser.grammar.cursor import mark, near
from parser.grammar.ddl import create, replace_table
from parser.grammar.lexer import Token
from parser.grammar.literals import interval
from parser.grammar.properties import if_not_exists, names, partition
from parser.grammar.queries import QueryParser
from parser.grammar.session_commands import SESSION
from parser.statements import (
    Assignment,
    CompilePlan,
    CreateTable,
    Delete,
    Emit,
    ExecutePlan,
    Explain,
    Insert,
    Merge,
    Name,
    Query,
    Statement,
    StatementSet,
    Truncate,
    Update,
)

_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")


def statement(cursor: QueryParser) -> Statement:
    """The statement that the whole text is."""
    if cursor.token.word in _QUERY_WORDS:
        parsed: Statement = _query(cursor)
    else:
        parse = _STATEMENTS.get(cursor.token.word)
        if parse is None:
            hint = near(cursor.token.word, ("SELECT", "WITH", "VALUES", *_STATEMENTS))
            raise cursor.unexpected(
                "expected a statement, such as SELECT, INSERT INTO or CREATE TABLE", hint
            )
        parsed = parse(cursor)
    cursor.end()
    return parsed


_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "VALUE", "TABLE", "(")


def _query(cursor: QueryParser) -> Query:
    first = cursor.token
    query = cursor.query()
    return Query(query, _emit(cursor), position=first.position)


def insert(cursor: QueryParser) -> Insert:
    """INSERT INTO | OVERWRITE table [PARTITION (…)] [(columns)] query [ON CONFLICT DO …] [EMIT
    …]."""
    first = cursor.advance()
    upsert = first.word == "UPSERT"
    overwrite = not upsert and cursor.take("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    named = cursor.token
    target = cursor.path("the name of a table")
    subject = cursor.span(named)
    hints, extend = _modifiers(cursor)
    values = partition(cursor) if cursor.take("PARTITION") else ()
    columns = (
        cursor.wrapped(lambda: _target(cursor))
        if cursor.token.word == "(" and not cursor.at_query()
        else ()
    )
    names, places = tuple(c[0] for c in columns), tuple(c[1] for c in columns)
    query = cursor.query()
    conflict = _on_conflict(cursor) if cursor.token.word == "ON" else None
    parsed = Insert(
        target,
        names,
        query,
        values,
        hints,
        extend,
        overwrite,
        upsert,
        conflict,
        position=first.position,
    )
    return replace(parsed, emit=_emit(cursor), places=places, subject=subject)


def _target(cursor: QueryParser) -> tuple[Name, Position]:
    first = cursor.token
    return cursor.field_path("a column"), cursor.span(first)


def _modifiers(
    cursor: QueryParser,
) -> tuple[tuple[exp.Expression, ...], tuple[exp.Expression, ...]]:
    """Hints and additional columns of the table that is written."""
    hint = cursor.hint()
    return tuple(hint.expressions) if hint is not None else (), tuple(cursor.extension())


def _on_conflict(cursor: QueryParser) -> str:
    cursor.expect("ON", "CONFLICT", "DO")
    return cursor.one_of("ERROR", "NOTHING", "DEDUPLICATE")


def _emit(cursor: QueryParser) -> tuple[Emit, ...]:
    """RSQLDB's EMIT WITH DELAY … | WITHOUT DELAY [BEFORE | AFTER WATERMARK], …."""
    first = cursor.token
    if not cursor.take("EMIT"):
        return ()
    return tuple(cursor.list_of(lambda: _emission(cursor, first)))


def _emission(cursor: QueryParser, first: Token) -> Emit:
    delay: exp.Expression | None = None
    if cursor.take("WITHOUT"):
        cursor.expect("DELAY")
    else:
        begin = cursor.expect("WITH", "DELAY")
        if not cursor.at("INTERVAL") and cursor.token.token_type not in (
            TokenType.STRING,
            TokenType.NUMBER,
        ):
            raise cursor.unexpected("expected an interval, such as '1' MINUTE")
        delay = mark(interval(cursor, named=cursor.at("INTERVAL")), begin, cursor.previous)
    when = cursor.take_any("BEFORE", "AFTER")
    if when:
        cursor.expect("WATERMARK")
    return Emit(delay, when, first.position)


def _execute(cursor: QueryParser) -> Statement:
    """EXECUTE STATEMENT SET BEGIN … END, EXECUTE PLAN, or EXECUTE before an INSERT or a query,
    where it says nothing."""
    first = cursor.advance()
    if cursor.at("STATEMENT"):
        return _statement_set(cursor, first)
    if cursor.take("PLAN"):
        return ExecutePlan(cursor.string("the path of a plan"), position=first.position)
    return insert(cursor) if _at_insert(cursor) else _query(cursor)


def _at_insert(cursor: QueryParser) -> bool:
    return cursor.token.word in ("INSERT", "UPSERT")


def _statement_set(cursor: QueryParser, first: Token) -> StatementSet:
    """STATEMENT SET BEGIN insert; … END, also as BEGIN STATEMENT SET; insert; … END."""
    opened = cursor.take("BEGIN")
    cursor.expect("STATEMENT", "SET")
    cursor.expect(";" if opened else "BEGIN")
    inserts = []
    while not cursor.at("END"):
        if not _at_insert(cursor):
            raise cursor.unexpected("expected INSERT INTO or END")
        inserts.append(insert(cursor))
        cursor.expect(";")
    if not inserts:
        raise cursor.unexpected("a statement set has one INSERT INTO at least")
    cursor.advance()
    return StatementSet(tuple(inserts), position=first.position)


def _explain(cursor: QueryParser) -> Explain:
    first = cursor.advance()
    details: list[str] = []
    if not cursor.take("PLAN", "FOR") and cursor.token.word in _DETAILS:
        details = cursor.list_of(lambda: cursor.one_of(*_DETAILS))
    if len(set(details)) < len(details):
        raise cursor.unexpected("a detail is named twice")
    return Explain(_explained(cursor), tuple(details), position=first.position)


def _explained(cursor: QueryParser) -> Query | Insert | StatementSet | CreateTable:
    word = cursor.token.word
    if word == "EXECUTE":
        cursor.advance()
        word = cursor.token.word
    if word in ("STATEMENT", "BEGIN"):
        return _statement_set(cursor, cursor.token)
    if word in ("CREATE", "REPLACE"):
        return _explained_table(cursor)
    return insert(cursor) if _at_insert(cursor) else _query(cursor)


def _explained_table(cursor: QueryParser) -> CreateTable:
    first = cursor.token
    parsed = create(cursor) if first.word == "CREATE" else replace_table(cursor)
    if not isinstance(parsed, CreateTable) or parsed.query is None:
        message = "of CREATE statements, only CREATE TABLE … AS has a plan"
        raise ParseError(message, position=first.position)
    return parsed


def _compile(cursor: QueryParser) -> CompilePlan:
    """COMPILE PLAN 'path' [IF NOT EXISTS] FOR …, COMPILE AND EXECUTE PLAN 'path' FOR …."""
    first = cursor.advance()
    execute = cursor.take("AND", "EXECUTE")
    cursor.expect("PLAN")
    path = cursor.string("the path of a plan")
    if_missing = not execute and if_not_exists(cursor)
    cursor.expect("FOR")
    inner = _statement_set(cursor, cursor.token) if cursor.at("STATEMENT") else None
    if inner is None and not _at_insert(cursor):
        raise cursor.unexpected("expected INSERT INTO or STATEMENT SET")
    return CompilePlan(path, inner or insert(cursor), if_missing, execute, position=first.position)


def _update(cursor: QueryParser) -> Update:
    first = cursor.advance()
    table = cursor.changed_table()
    cursor.expect("SET")
    assignments = cursor.list_of(lambda: _assignment(cursor))
    return Update(table, tuple(assignments), _where(cursor), position=first.position)


def _assignment(cursor: QueryParser) -> Assignment:
    column = cursor.field_path("a column")
    cursor.expect("=")
    return Assignment(column, cursor.expression())


def _where(cursor: QueryParser) -> exp.Expression | None:
    return cursor.expression() if cursor.take("WHERE") else None


def _delete(cursor: QueryParser) -> Delete:
    first = cursor.advance()
    cursor.expect("FROM")
    return Delete(cursor.changed_table(), _where(cursor), position=first.position)


def _merge(cursor: QueryParser) -> Merge:
    """MERGE INTO … USING … ON … WHEN [NOT] MATCHED THEN …."""
    first = cursor.advance()
    cursor.expect("INTO")
    table = cursor.changed_table()
    cursor.expect("USING")
    source = cursor.relation()
    cursor.expect("ON")
    condition = cursor.expression()
    assignments: list[Assignment] = []
    if cursor.take("WHEN", "MATCHED"):
        cursor.expect("THEN", "UPDATE", "SET")
        assignments = cursor.list_of(lambda: _assignment(cursor))
    columns, values = _merged(cursor) if cursor.at("WHEN") or not assignments else ((), None)
    return Merge(
        table, source, condition, tuple(assignments), columns, values, position=first.position
    )


def _merged(cursor: QueryParser) -> tuple[tuple[str, ...], exp.Expression]:
    """WHEN NOT MATCHED THEN INSERT [(columns)] VALUES (…)."""
    cursor.expect("WHEN", "NOT", "MATCHED", "THEN", "INSERT")
    columns = names(cursor, "a column") if cursor.at("(") and not cursor.at_query() else ()
    wrapped = cursor.take("(")
    cursor.expect("VALUES")
    row = cursor.row()
    if wrapped:
        cursor.expect(")")
    return columns, row


def _truncate(cursor: QueryParser) -> Truncate:
    first = cursor.advance()
    cursor.expect("TABLE")
    return Truncate(cursor.path("the name of a table"), position=first.position)


_STATEMENTS: dict[str, Callable[[QueryParser], Statement]] = {
    "CREATE": create,
    "REPLACE": replace_table,
    "DROP": drop,
    "ALTER": alter,
    "INSERT": insert,
    "UPSERT": insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "MERGE": _merge,
    "TRUNCATE": _truncate,
    "EXECUTE": _execute,
    "COMPILE": _compile,
    "BEGIN": lambda cursor: _statement_set(cursor, cursor.token),
    "EXPLAIN": _explain,
    **SESSION,
}
