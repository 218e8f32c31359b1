"""Calls of the SQL/JSON functions: what their clauses say follows the arguments as `NAME =>
value`."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.grammar.cursor import mark
from parser.grammar.datatypes import cast_target
from parser.grammar.lexer import Token
from parser.grammar.recursion import RecursiveCursor
from parser.grammar.reserved import STRUCTURAL

Arguments = list[exp.Expression]

_WRAPPERS = (
    (("WITHOUT",), "WITHOUT"),
    (("WITH", "CONDITIONAL"), "CONDITIONAL"),
    (("WITH", "UNCONDITIONAL"), "UNCONDITIONAL"),
    (("WITH",), "UNCONDITIONAL"),
)
_ON_ERROR = (
    ("NULL",),
    ("ERROR",),
    ("EMPTY", "ARRAY"),
    ("EMPTY", "OBJECT"),
    ("TRUE",),
    ("FALSE",),
    ("UNKNOWN",),
)


def json_arguments(cursor: RecursiveCursor, name: str) -> Arguments:
    """Parses all between the parentheses of a call of `name`."""
    return _ARGUMENTS[name](cursor)


def _query(cursor: RecursiveCursor) -> Arguments:
    """JSON_VALUE, JSON_QUERY, JSON_EXISTS: [json, path], then PASSING, RETURNING, WRAPPER,
    ON_EMPTY, ON_ERROR as given. A behaviour and a wrapper are Vars; WITH WRAPPER is
    UNCONDITIONAL."""
    arguments = cursor.list_of(cursor.expression)
    if token := _at(cursor, "PASSING"):
        arguments.append(
            _clause(
                "PASSING", exp.Tuple(expressions=cursor.list_of(lambda: _passed(cursor))), token
            )
        )
    if token := _at(cursor, "RETURNING"):
        arguments.append(_clause("RETURNING", cast_target(cursor), token))
    for words, name in _WRAPPERS:
        token = cursor.token
        if cursor.take(*words):
            cursor.take("ARRAY")
            cursor.expect("WRAPPER")
            arguments.append(_clause("WRAPPER", exp.Var(this=name), token))
            break
    while not cursor.at(")"):
        token = cursor.token
        behaviour = _behaviour(cursor)
        cursor.expect("ON")
        arguments.append(_clause("ON_" + cursor.one_of("EMPTY", "ERROR"), behaviour, token))
    return arguments


def _passed(cursor: RecursiveCursor) -> exp.Expression:
    value = cursor.expression()
    cursor.expect("AS")
    return exp.Alias(this=value, alias=cursor.identifier("the name of a variable"))


def _behaviour(cursor: RecursiveCursor) -> exp.Expression:
    """A Var such as ERROR or EMPTY_ARRAY, or the value after DEFAULT."""
    if cursor.take("DEFAULT"):
        return cursor.expression()
    for words in _ON_ERROR:
        if cursor.take(*words):
            return exp.Var(this="_".join(words))
    raise cursor.unexpected("expected NULL, ERROR or DEFAULT, then ON EMPTY or ON ERROR")


def _object(cursor: RecursiveCursor) -> Arguments:
    """JSON_OBJECT: [key, value, key, value, …], then ON_NULL if given."""
    arguments: Arguments = []
    if not _at_end(cursor):
        cursor.list_of(lambda: arguments.extend(_pair(cursor)))
    return arguments + _on_null(cursor)


def _object_aggregate(cursor: RecursiveCursor) -> Arguments:
    """JSON_OBJECTAGG: [key, value], then ON_NULL if given."""
    return _pair(cursor) + _on_null(cursor)


def _pair(cursor: RecursiveCursor) -> Arguments:
    if cursor.at("KEY") and _begins_operand(cursor.peek()):
        cursor.advance()
    key = cursor.expression()
    if not cursor.take(":"):
        cursor.expect("VALUE")
    return [key, cursor.expression()]


def _begins_operand(token: Token) -> bool:
    """True if KEY before `token` is the keyword, and not a column of that name."""
    if token.token_type is TokenType.VAR:
        return token.word not in STRUCTURAL and token.word != "VALUE"
    return token.word == "(" or (token.word == "" and token.token_type is not TokenType.SENTINEL)


def _array(cursor: RecursiveCursor) -> Arguments:
    """JSON_ARRAY: [value, …], then ON_NULL if given."""
    arguments = [] if _at_end(cursor) else cursor.list_of(cursor.expression)
    return arguments + _on_null(cursor)


def _array_aggregate(cursor: RecursiveCursor) -> Arguments:
    """JSON_ARRAYAGG: [value], then an Order and ON_NULL if given."""
    value = cursor.expression()
    order = [cursor.order()] if cursor.at("ORDER", "BY") else []
    return [value, *order, *_on_null(cursor)]


def _at_end(cursor: RecursiveCursor) -> bool:
    return cursor.at(")") or cursor.at("NULL", "ON", "NULL") or cursor.at("ABSENT", "ON", "NULL")


def _on_null(cursor: RecursiveCursor) -> Arguments:
    token = cursor.token
    if cursor.at(")"):
        return []
    behaviour = exp.Var(this=cursor.one_of("NULL", "ABSENT"))
    cursor.expect("ON", "NULL")
    return [_clause("ON_NULL", behaviour, token)]


def _at(cursor: RecursiveCursor, word: str) -> Token | None:
    return cursor.advance() if cursor.at(word) else None


def _clause(name: str, value: exp.Expression, token: Token) -> exp.Kwarg:
    return mark(exp.Kwarg(this=exp.Var(this=name), expression=value), token)


_ARGUMENTS: dict[str, Callable[[RecursiveCursor], Arguments]] = {
    "JSON_EXISTS": _query,
    "JSON_VALUE": _query,
    "JSON_QUERY": _query,
    "JSON_OBJECT": _object,
    "JSON_OBJECTAGG": _object_aggregate,
    "JSON_ARRAY": _array,
    "JSON_ARRAYAGG": _array_aggregate,
}
JSON_FUNCTIONS = frozenset(_ARGUMENTS)
