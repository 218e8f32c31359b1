"""All statements that are not queries, CREATE or DROP, and the way from a statement's first word to its grammar."""

from __future__ import annotations

from collections.abc import Callable

from parser.cursor import near
from parser.ddl import create, drop
from parser.lexer import Token
from parser.queries import Queries
from parser.refused import refuse
from parser.statements import Describe, Explain, Insert, Query, Reset, Set, Show, Statement, StatementSet, Use

_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
_LISTS = ("TABLES", "VIEWS", "FUNCTIONS", "CATALOGS", "DATABASES", "JOBS")


def statement(cursor: Queries) -> Statement:
    """The statement that the whole text is."""
    if cursor.token.word in ("SELECT", "WITH", "VALUES", "TABLE", "("):
        found: Statement = _query(cursor)
    else:
        refuse(cursor)
        parse = _STATEMENTS.get(cursor.token.word)
        if parse is None:
            known = ("SELECT", "WITH", "VALUES", *_STATEMENTS)
            hint = near(cursor.token.word, known)
            raise cursor.unexpected("expected a statement, such as SELECT, INSERT INTO or CREATE TABLE", hint)
        found = parse(cursor)
    cursor.end()
    return found


def _query(cursor: Queries) -> Query:
    first = cursor.token
    query = cursor.query()
    return Query(query, position=first.position, sql=cursor.sql_from(first))


def insert(cursor: Queries) -> Insert:
    """INSERT INTO table [(columns)] query."""
    first = cursor.advance()
    if cursor.at("OVERWRITE"):
        raise cursor.unsupported("INSERT OVERWRITE", "use INSERT INTO: streams only append")
    cursor.expect("INTO")
    named = cursor.token
    target = cursor.path("the name of a table")
    subject = cursor.span(named)
    if cursor.at("/*+"):
        raise cursor.unsupported("a hint at the target of INSERT", "write the options into CREATE TABLE")
    if cursor.at("PARTITION"):
        raise cursor.unsupported("INSERT INTO … PARTITION", "select the values of the partition's columns")
    columns = cursor.wrapped(lambda: cursor.name("a column")) if cursor.at("(") and not cursor.at_query() else []
    query = cursor.query()
    if cursor.at("ON", "CONFLICT"):
        raise cursor.unsupported("ON CONFLICT", "the last row of a primary key wins")
    names, places = tuple(c.text for c in columns), tuple(c.position for c in columns)
    return Insert(target, names, query, places, position=first.position, sql=cursor.sql_from(first), subject=subject)


def _execute(cursor: Queries) -> Statement:
    """EXECUTE STATEMENT SET BEGIN … END, or EXECUTE before an INSERT or a query, where it says nothing."""
    first = cursor.advance()
    if cursor.at("STATEMENT"):
        return _statement_set(cursor, first)
    return insert(cursor) if cursor.at("INSERT") else _query(cursor)


def _statement_set(cursor: Queries, first: Token) -> StatementSet:
    """STATEMENT SET BEGIN insert; … END, also as BEGIN STATEMENT SET; insert; … END."""
    opened = cursor.take("BEGIN")
    cursor.expect("STATEMENT", "SET")
    cursor.expect(";" if opened else "BEGIN")
    inserts = []
    while not cursor.at("END"):
        if not cursor.at("INSERT"):
            raise cursor.unexpected("expected INSERT INTO or END")
        inserts.append(insert(cursor))
        cursor.expect(";")
    if not inserts:
        raise cursor.unexpected("a statement set has one INSERT INTO at least")
    cursor.advance()
    return StatementSet(tuple(inserts), position=first.position, sql=cursor.sql_from(first))


def _explain(cursor: Queries) -> Explain:
    first = cursor.advance()
    details: list[str] = []
    if not cursor.take("PLAN", "FOR") and cursor.token.word in _DETAILS:
        details = cursor.list_of(lambda: cursor.one_of(*_DETAILS))
    inner: Query | Insert | StatementSet
    if cursor.token.word in ("STATEMENT", "BEGIN"):
        inner = _statement_set(cursor, cursor.token)
    else:
        inner = insert(cursor) if cursor.at("INSERT") else _query(cursor)
    return Explain(inner, tuple(details), position=first.position, sql=cursor.sql_from(first))


def _show(cursor: Queries) -> Show:
    first = cursor.advance()
    name: tuple[str, ...] | None = None
    if cursor.take("CREATE"):
        what = "CREATE " + cursor.one_of("TABLE", "VIEW")
        name = cursor.path("a name")
    elif cursor.take("CURRENT"):
        what = "CURRENT " + cursor.one_of("CATALOG", "DATABASE")
    elif cursor.take("COLUMNS"):
        cursor.one_of("FROM", "IN")
        what, name = "COLUMNS", cursor.path("the name of a table")
    else:
        what = "USER FUNCTIONS" if cursor.take("USER", "FUNCTIONS") else ""
        what = what or cursor.one_of(*_LISTS, "CURRENT", "COLUMNS", "CREATE")
        name = cursor.path("the name of a database") if cursor.take_any("FROM", "IN") else None
    return Show(what, name, _like(cursor), position=first.position, sql=cursor.sql_from(first))


def _like(cursor: Queries) -> str | None:
    if cursor.at("NOT") or cursor.at("ILIKE"):
        raise cursor.unsupported(f"SHOW … {cursor.token.word}", "use LIKE")
    return cursor.string("a pattern") if cursor.take("LIKE") else None


def _describe(cursor: Queries) -> Describe:
    first = cursor.advance()
    function = cursor.take("FUNCTION")
    extended = cursor.take("EXTENDED")
    named = cursor.token
    name = cursor.path("the name of a function" if function else "the name of a table or view")
    subject = cursor.span(named)
    return Describe(name, function, extended, position=first.position, sql=cursor.sql_from(first), subject=subject)


def _use(cursor: Queries) -> Use:
    first = cursor.advance()
    catalog = cursor.take("CATALOG")
    name = cursor.path("the name of a catalog" if catalog else "the name of a database")
    return Use(name, catalog, position=first.position, sql=cursor.sql_from(first))


def _set(cursor: Queries) -> Set:
    """SET, SET 'key' = 'value', and SET key = value as Flink's SQL client once had it."""
    first = cursor.advance()
    key = value = None
    if not cursor.at_end:
        key = _key(cursor)
        cursor.expect("=")
        value = _raw(cursor) if cursor.token.word or cursor.token.text.isdecimal() else cursor.string("a value")
    return Set(key, value, position=first.position, sql=cursor.sql_from(first))


def _reset(cursor: Queries) -> Reset:
    first = cursor.advance()
    key = None if cursor.at_end else _key(cursor)
    return Reset(key, position=first.position, sql=cursor.sql_from(first))


def _key(cursor: Queries) -> str:
    if not cursor.token.word or cursor.at("="):
        return cursor.string("the name of a setting")
    return _raw(cursor)


def _raw(cursor: Queries) -> str:
    """The text up to the next space, equals sign or end."""
    first = cursor.advance()
    while not cursor.at_end and not cursor.at("=") and cursor.token.start == cursor.previous.end + 1:
        cursor.advance()
    return cursor.sql_from(first)


_STATEMENTS: dict[str, Callable[[Queries], Statement]] = {
    "CREATE": create,
    "DROP": drop,
    "INSERT": insert,
    "EXECUTE": _execute,
    "BEGIN": lambda cursor: _statement_set(cursor, cursor.token),
    "EXPLAIN": _explain,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "SET": _set,
    "RESET": _reset,
    "USE": _use,
}
