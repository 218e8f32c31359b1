"""Function calls: all become `exp.Anonymous` with the name in upper case and plain arguments. Those
that have keywords between their arguments are in `parser.grammar.keyword_calls`."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from parser.grammar.cursor import identifier, mark
from parser.grammar.lexer import Token
from parser.grammar.recursion import RecursiveCursor
from parser.grammar.reserved import RESERVED
from parser.nodes import Model, Separator


def call(cursor: RecursiveCursor, name: Token) -> exp.Expression:
    """NAME(arguments), with FILTER, OVER and the like after it; `name` has been passed."""
    cursor.expect("(")
    arguments = _arguments(cursor)
    function: exp.Expression = anonymous(name, arguments)
    if cursor.token.word != ")":
        function = _inside(cursor, function)
    cursor.expect(")")
    return after(cursor, function)


def qualified(qualifiers: list[Token], function: exp.Expression) -> exp.Expression:
    """catalog.database.f(x): the call below FILTER, OVER and the like gets the qualifiers."""
    if qualifiers:
        node = function
        while not isinstance(node, exp.Anonymous):
            node = node.this
        node.set("qualifiers", [identifier(q) for q in qualifiers])
    return function


def anonymous(name: Token, arguments: list[exp.Expression]) -> exp.Anonymous:
    node = mark(exp.Anonymous(this=name.text.upper(), expressions=arguments), name)
    if name.text != node.this:
        node.meta["name"] = name.text
    return node


def _arguments(cursor: RecursiveCursor) -> list[exp.Expression]:
    token = cursor.token
    if token.word == ")":
        return []
    if token.word == "*" and cursor.peek().word == ")":
        return [mark(exp.Star(), cursor.advance())]
    if cursor.take("DISTINCT"):
        return [mark(exp.Distinct(expressions=arguments_from(cursor, [])), token)]
    cursor.take("ALL")
    return arguments_from(cursor, [])


def arguments_from(
    cursor: RecursiveCursor, arguments: list[exp.Expression]
) -> list[exp.Expression]:
    """`arguments` and those that follow. A loop without helpers: calls nest, and each Python frame
    counts."""
    while True:
        token = cursor.token
        named = token.is_name and cursor.peek().word == "=>"
        if named:
            cursor.advance()
            cursor.advance()
        parse = _TABULAR.get(cursor.token.word)
        value = parse(cursor) if parse else cursor.expression()
        if type(value) is exp.Subquery and cursor.token.word in ("PARTITION", "ORDER"):
            set_semantics(cursor, value)
        if named:
            name = mark(exp.Var(this=token.text), token)
            value = mark(exp.Kwarg(this=name, expression=value), token)
        arguments.append(value)
        if cursor.token.word != ",":
            return arguments
        cursor.advance()


def _inside(cursor: RecursiveCursor, function: exp.Expression) -> exp.Expression:
    """Parses the clauses inside the parentheses of an aggregate: IGNORE NULLS, ORDER BY,
    SEPARATOR."""
    token = cursor.token
    nulls = cursor.take_any("RESPECT", "IGNORE")
    if nulls:
        cursor.expect("NULLS")
    if cursor.at("ORDER", "BY"):
        function.append("expressions", cursor.order())
    if cursor.at("SEPARATOR"):
        first = cursor.advance()
        separator = mark(
            exp.Literal(this=cursor.string("the separator"), is_string=True), cursor.previous
        )
        function.append("expressions", mark(Separator(this=separator), first))
    if nulls:
        return mark(
            exp.IgnoreNulls(this=function)
            if nulls == "IGNORE"
            else exp.RespectNulls(this=function),
            token,
        )
    return function


def _default(cursor: RecursiveCursor) -> exp.Expression:
    return mark(exp.Var(this="DEFAULT"), cursor.advance())


def _model(cursor: RecursiveCursor) -> exp.Expression:
    """MODEL name, or a column of that name."""
    following = cursor.peek()
    if not following.is_name or following.word in RESERVED:
        return cursor.expression()
    first = cursor.advance()
    parts = _parts(cursor, "the name of a model")
    keys = ("this", "db", "catalog")
    return mark(Model(**dict(zip(keys, reversed(parts), strict=False))), first, cursor.previous)


def _table_argument(cursor: RecursiveCursor) -> exp.Expression:
    """TABLE name | TABLE (query) [PARTITION BY columns] [ORDER BY columns]."""
    first = cursor.advance()
    if cursor.take("("):
        table: exp.Expression = exp.Subquery(this=cursor.query())
        cursor.expect(")")
    else:
        table = table_name(cursor)
    mark(table, first, cursor.previous)
    if cursor.token.word in ("PARTITION", "ORDER"):
        set_semantics(cursor, table)
    return table


def set_semantics(cursor: RecursiveCursor, table: exp.Expression) -> None:
    """[PARTITION BY columns] [ORDER BY columns] of a table argument."""
    token = cursor.token
    if cursor.take("PARTITION", "BY"):
        keys = cursor.wrapped(cursor.expression) if cursor.at("(") else [cursor.expression()]
        table.set("partition", mark(exp.Partition(expressions=keys), token))
    if cursor.at("ORDER", "BY"):
        order = cursor.advance()
        cursor.advance()
        items = cursor.wrapped(cursor.ordered) if cursor.at("(") else [cursor.ordered()]
        table.set("order", mark(exp.Order(expressions=items), order))


def _query_argument(cursor: RecursiveCursor) -> exp.Expression:
    """A query without parentheses, as only a named argument has it."""
    first = cursor.token
    query = cursor.query()
    return mark(exp.Subquery(this=query), first, cursor.previous)


def _parts(cursor: RecursiveCursor, what: str) -> list[exp.Identifier]:
    parts = [cursor.identifier(what)]
    while cursor.take("."):
        if len(parts) == 3:
            raise cursor.unexpected(
                "a table's name has at most three parts: catalog, database and table"
            )
        parts.append(cursor.identifier("a name"))
    return parts


def table_name(cursor: RecursiveCursor) -> exp.Table:
    """catalog.database.table, of which the first two may be missing."""
    first = cursor.token
    keys = ("this", "db", "catalog")
    parts = dict(zip(keys, reversed(_parts(cursor, "the name of a table")), strict=False))
    return mark(exp.Table(**parts), first, cursor.previous)


_FOLLOWS = frozenset({"RESPECT", "IGNORE", "WITHIN", "FILTER", "OVER"})


def after(cursor: RecursiveCursor, function: exp.Expression) -> exp.Expression:
    """Parses the clauses behind a call of an aggregate or window function."""
    token = cursor.token
    if token.word not in _FOLLOWS:
        return function
    if cursor.at("RESPECT", "NULLS") or cursor.at("IGNORE", "NULLS"):
        cursor.advance()
        cursor.advance()
        function = (
            exp.IgnoreNulls(this=function)
            if token.word == "IGNORE"
            else exp.RespectNulls(this=function)
        )
    while cursor.at("WITHIN"):
        function = _within(cursor, function)
    if cursor.take("FILTER"):
        cursor.expect("(")
        where = cursor.expect("WHERE")
        condition = mark(exp.Where(this=cursor.expression()), where)
        cursor.expect(")")
        function = exp.Filter(this=function, expression=condition)
    if cursor.at("OVER"):
        over = cursor.advance()
        window = (
            cursor.window_specification()
            if cursor.at("(")
            else exp.Window(alias=cursor.identifier("a window"))
        )
        window.set("this", function)
        return mark(window, over)
    return function


def _within(cursor: RecursiveCursor, function: exp.Expression) -> exp.Expression:
    """WITHIN GROUP (ORDER BY …), or WITHIN DISTINCT (…)."""
    first = cursor.advance()
    if cursor.at("DISTINCT"):
        token = cursor.advance()
        inner: exp.Expression = mark(
            exp.Distinct(expressions=cursor.wrapped(cursor.expression)), token
        )
    else:
        cursor.expect("GROUP", "(")
        inner = cursor.order()
        cursor.expect(")")
    return mark(exp.WithinGroup(this=function, expression=inner), first)


# Words that begin an argument which is no scalar expression.
_TABULAR: dict[str, Callable[[RecursiveCursor], exp.Expression]] = {
    "TABLE": _table_argument,
    "DEFAULT": _default,
    "MODEL": _model,
    **dict.fromkeys(("SELECT", "WITH", "VALUES"), _query_argument),
}
