"""Calls of the SQL/JSON functions: what their clauses say follows the arguments as `NAME => value`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from parser.cursor import mark
from parser.datatypes import cast_target
from parser.lexer import Token

if TYPE_CHECKING:
    from parser.expressions import Expressions

Arguments = list[exp.Expression]

_WRAPPERS = (("WITHOUT",), ("WITH", "CONDITIONAL"), ("WITH", "UNCONDITIONAL"), ("WITH",))
_ON_ERROR = (("NULL",), ("ERROR",), ("EMPTY", "ARRAY"), ("EMPTY", "OBJECT"), ("TRUE",), ("FALSE",), ("UNKNOWN",))


def json_arguments(cursor: Expressions, name: str) -> Arguments:
    """All between the parentheses of a call of `name`."""
    return _ARGUMENTS[name](cursor)


def _query(cursor: Expressions) -> Arguments:
    """JSON_VALUE, JSON_QUERY, JSON_EXISTS: [json, path], then RETURNING, WRAPPER, ON_EMPTY, ON_ERROR as given."""
    arguments = cursor.list_of(cursor.expression)
    if token := _at(cursor, "RETURNING"):
        arguments.append(_clause("RETURNING", cast_target(cursor), token))
    for words in _WRAPPERS:
        token = cursor.token
        if cursor.take(*words):
            cursor.take("ARRAY")
            cursor.expect("WRAPPER")
            arguments.append(_clause("WRAPPER", exp.Var(this=" ".join(words)), token))
    while not cursor.at(")"):
        token = cursor.token
        behaviour = _behaviour(cursor)
        cursor.expect("ON")
        arguments.append(_clause("ON_" + cursor.one_of("EMPTY", "ERROR"), behaviour, token))
    return arguments


def _behaviour(cursor: Expressions) -> exp.Expression:
    """A Var such as ERROR or EMPTY ARRAY, or the value after DEFAULT."""
    if cursor.take("DEFAULT"):
        return cursor.expression()
    for words in _ON_ERROR:
        if cursor.take(*words):
            return exp.Var(this=" ".join(words))
    raise cursor.unexpected("expected NULL, ERROR or DEFAULT, then ON EMPTY or ON ERROR")


def _object(cursor: Expressions) -> Arguments:
    """JSON_OBJECT: [key, value, key, value, …], then ON_NULL if given."""
    arguments: Arguments = []
    if not _at_end(cursor):
        cursor.list_of(lambda: arguments.extend(_pair(cursor)))
    return arguments + _on_null(cursor)


def _object_aggregate(cursor: Expressions) -> Arguments:
    """JSON_OBJECTAGG: [key, value], then ON_NULL if given."""
    return _pair(cursor) + _on_null(cursor)


def _pair(cursor: Expressions) -> Arguments:
    cursor.take("KEY")
    key = cursor.expression()
    if not cursor.take(":"):
        cursor.expect("VALUE")
    return [key, _value(cursor)]


def _array(cursor: Expressions) -> Arguments:
    """JSON_ARRAY: [value, …], then ON_NULL if given."""
    arguments = [] if _at_end(cursor) else cursor.list_of(lambda: _value(cursor))
    return arguments + _on_null(cursor)


def _array_aggregate(cursor: Expressions) -> Arguments:
    """JSON_ARRAYAGG: [value], then ON_NULL if given."""
    return [_value(cursor), *_on_null(cursor)]


def _value(cursor: Expressions) -> exp.Expression:
    value = cursor.expression()
    if cursor.at("FORMAT"):
        raise cursor.unsupported("FORMAT JSON", "wrap the text in JSON(…)")
    return value


def _at_end(cursor: Expressions) -> bool:
    return cursor.at(")") or cursor.at("NULL", "ON", "NULL") or cursor.at("ABSENT", "ON", "NULL")


def _on_null(cursor: Expressions) -> Arguments:
    token = cursor.token
    if cursor.at(")"):
        return []
    behaviour = exp.Var(this=cursor.one_of("NULL", "ABSENT"))
    cursor.expect("ON", "NULL")
    return [_clause("ON_NULL", behaviour, token)]


def _at(cursor: Expressions, word: str) -> Token | None:
    return cursor.advance() if cursor.at(word) else None


def _clause(name: str, value: exp.Expression, token: Token) -> exp.Kwarg:
    return mark(exp.Kwarg(this=exp.Var(this=name), expression=value), token)


_ARGUMENTS: dict[str, Callable[[Expressions], Arguments]] = {
    "JSON_EXISTS": _query,
    "JSON_VALUE": _query,
    "JSON_QUERY": _query,
    "JSON_OBJECT": _object,
    "JSON_OBJECTAGG": _object_aggregate,
    "JSON_ARRAY": _array,
    "JSON_ARRAYAGG": _array_aggregate,
}
JSON_FUNCTIONS = frozenset(_ARGUMENTS)
