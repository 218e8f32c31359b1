"""Function calls: all become `exp.Anonymous` with the name in upper case and plain arguments, also those that have
keywords between their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from parser.cursor import mark
from parser.json_calls import JSON_FUNCTIONS, json_arguments
from parser.lexer import Token
from parser.literals import time_unit

if TYPE_CHECKING:
    from parser.expressions import Expressions


def call(cursor: Expressions, name: Token) -> exp.Expression:
    """NAME(arguments), with FILTER, OVER and the like after it; `name` has been passed."""
    cursor.expect("(")
    arguments = _arguments(cursor)
    cursor.expect(")")
    return _after(cursor, _anonymous(name, arguments))


def _anonymous(name: Token, arguments: list[exp.Expression]) -> exp.Anonymous:
    node = mark(exp.Anonymous(this=name.text.upper(), expressions=arguments), name)
    if name.text != node.this:
        node.meta["name"] = name.text
    return node


def _arguments(cursor: Expressions) -> list[exp.Expression]:
    token = cursor.token
    if token.word == ")":
        return []
    if token.word == "*" and cursor.peek().word == ")":
        return [mark(exp.Star(), cursor.advance())]
    if cursor.take("DISTINCT"):
        return [mark(exp.Distinct(expressions=cursor.list_of(cursor.expression)), token)]
    cursor.take("ALL")
    return arguments_from(cursor, [])


def arguments_from(cursor: Expressions, arguments: list[exp.Expression]) -> list[exp.Expression]:
    """`arguments` and those that follow. A loop without helpers: calls nest, and each Python frame counts."""
    while True:
        token = cursor.token
        named = token.is_name and cursor.peek().word == "=>"
        if named:
            cursor.advance()
            cursor.advance()
        parse = _TABULAR.get(cursor.token.word)
        value = parse(cursor) if parse else cursor.expression()
        if named:
            name = mark(exp.Var(this=token.text.upper()), token)
            value = mark(exp.Kwarg(this=name, expression=value), token)
        arguments.append(value)
        if cursor.token.word != ",":
            return arguments
        cursor.advance()


def _default(cursor: Expressions) -> exp.Expression:
    return mark(exp.Var(this="DEFAULT"), cursor.advance())


def _model(cursor: Expressions) -> exp.Expression:
    if cursor.peek().is_name:
        raise cursor.unsupported("MODEL", "call a Python function: CREATE FUNCTION … LANGUAGE PYTHON")
    return cursor.expression()


def _table_argument(cursor: Expressions) -> exp.Expression:
    """TABLE name | TABLE (query) [PARTITION BY columns] [ORDER BY columns]."""
    first = cursor.advance()
    if cursor.take("("):
        table: exp.Expression = exp.Subquery(this=cursor.query())
        cursor.expect(")")
    else:
        table = table_name(cursor)
    mark(table, first, cursor.previous)
    if cursor.take("PARTITION", "BY"):
        keys = cursor.wrapped(cursor.expression) if cursor.at("(") else [cursor.expression()]
        table.set("partition", exp.Partition(expressions=keys))
    if cursor.at("ORDER", "BY"):
        raise cursor.unsupported("ORDER BY of a table argument", "order the rows in the function itself")
    return table


def table_name(cursor: Expressions) -> exp.Table:
    """catalog.database.table, of which the first two may be missing."""
    first = cursor.token
    parts = [cursor.identifier("the name of a table")]
    while cursor.take("."):
        if len(parts) == 3:
            raise cursor.unexpected("a table's name has at most three parts: catalog, database and table")
        parts.append(cursor.identifier("a name"))
    keys = ("this", "db", "catalog")
    return mark(exp.Table(**dict(zip(keys, reversed(parts), strict=False))), first, cursor.previous)


def _after(cursor: Expressions, function: exp.Expression) -> exp.Expression:
    """What can follow the arguments of an aggregate or window function."""
    token = cursor.token
    if cursor.take_any("RESPECT", "IGNORE"):
        cursor.expect("NULLS")
        function = exp.IgnoreNulls(this=function) if token.word == "IGNORE" else exp.RespectNulls(this=function)
    if cursor.at("WITHIN"):
        raise cursor.unsupported("WITHIN GROUP", "order the rows in a query below")
    if cursor.take("FILTER"):
        cursor.expect("(")
        where = cursor.expect("WHERE")
        condition = mark(exp.Where(this=cursor.expression()), where)
        cursor.expect(")")
        function = exp.Filter(this=function, expression=condition)
    if cursor.at("OVER"):
        over = cursor.advance()
        window = cursor.window_specification() if cursor.at("(") else exp.Window(alias=cursor.identifier("a window"))
        window.set("this", function)
        return mark(window, over)
    return function


def _trim(cursor: Expressions) -> exp.Expression:
    """TRIM(x), TRIM(chars FROM x), TRIM(LEADING | TRAILING | BOTH [chars] FROM x): [x] or [mode, chars, x]."""
    name = _open(cursor)
    mode = cursor.take_any("LEADING", "TRAILING", "BOTH")
    value = None if mode and cursor.at("FROM") else cursor.expression()
    if mode is None and not cursor.at("FROM"):
        return _close(cursor, name, [value] if value else [], more=True)
    cursor.expect("FROM")
    chars = value or exp.Literal(this=" ", is_string=True)
    return _close(cursor, name, [exp.Literal(this=mode or "BOTH", is_string=True), chars, cursor.expression()])


def _extract(cursor: Expressions) -> exp.Expression:
    """EXTRACT(unit FROM x): [unit, x]."""
    name = _open(cursor)
    unit = time_unit(cursor)
    cursor.expect("FROM")
    return _close(cursor, name, [unit, cursor.expression()])


def _keyed(*words: str, above: int = 0) -> Callable[[Expressions], exp.Expression]:
    """The form with `words` between the arguments, each of which may be missing: SUBSTRING(x FROM n FOR m) is
    [x, n, m]. The first argument has no operator that binds less tightly than `above`."""

    def parse(cursor: Expressions) -> exp.Expression:
        name = _open(cursor)
        arguments = [cursor.expression(above)]
        for word in words:
            if cursor.take(word):
                arguments += [cursor.expression()]
        return _close(cursor, name, arguments, more=len(arguments) == 1)

    return parse


def _round_to_unit(cursor: Expressions) -> exp.Expression:
    """CEIL(x TO unit), FLOOR(x TO unit): [x, unit]."""
    name = _open(cursor)
    arguments = [cursor.expression()]
    if cursor.take("TO"):
        arguments.append(time_unit(cursor))
    return _close(cursor, name, arguments, more=len(arguments) == 1)


def _unit_first(cursor: Expressions) -> exp.Expression:
    """TIMESTAMPADD(unit, n, x), TIMESTAMPDIFF(unit, a, b): the unit is a Var."""
    name = _open(cursor)
    arguments: list[exp.Expression] = [time_unit(cursor)]
    while cursor.take(","):
        arguments.append(cursor.expression())
    return _close(cursor, name, arguments)


def _json(cursor: Expressions) -> exp.Expression:
    name = _open(cursor)
    return _close(cursor, name, json_arguments(cursor, name.word))


def _open(cursor: Expressions) -> Token:
    name = cursor.advance()
    cursor.expect("(")
    return name


def _close(cursor: Expressions, name: Token, arguments: list[exp.Expression], more: bool = False) -> exp.Expression:
    """The end of a call; with `more`, it turned out to be one with commas."""
    if more and cursor.take(","):
        arguments_from(cursor, arguments)
    cursor.expect(")")
    return _after(cursor, _anonymous(name, arguments))


# Words that begin an argument which is no scalar expression.
_TABULAR: dict[str, Callable[[Expressions], exp.Expression]] = {
    "TABLE": _table_argument,
    "DEFAULT": _default,
    "MODEL": _model,
}

CALLS: dict[str, Callable[[Expressions], exp.Expression]] = {
    "TRIM": _trim,
    "EXTRACT": _extract,
    "POSITION": _keyed("IN", "FROM", above=33),
    "SUBSTRING": _keyed("FROM", "FOR"),
    "OVERLAY": _keyed("PLACING", "FROM", "FOR"),
    "CEIL": _round_to_unit,
    "CEILING": _round_to_unit,
    "FLOOR": _round_to_unit,
    "TIMESTAMPADD": _unit_first,
    "TIMESTAMPDIFF": _unit_first,
    **dict.fromkeys(JSON_FUNCTIONS, _json),
}
