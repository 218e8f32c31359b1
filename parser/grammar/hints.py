"""Hints: /*+ NAME(arguments), … */."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.grammar.cursor import mark
from parser.grammar.recursion import RecursiveCursor


def hint(cursor: RecursiveCursor) -> exp.Hint | None:
    """The hints that begin here: calls, whose arguments are EQs of an option, names, or
    literals."""
    if cursor.token.word != "/*+":
        return None
    first = cursor.advance()
    hints = cursor.list_of(lambda: _hint(cursor))
    last = cursor.expect("*/")
    return mark(exp.Hint(expressions=hints), first, last)


def _hint(cursor: RecursiveCursor) -> exp.Expression:
    name = cursor.name("the name of a hint")
    arguments: list[exp.Expression] = []
    if cursor.at("("):
        empty = cursor.take("(", ")")
        arguments = [] if empty else cursor.wrapped(lambda: _argument(cursor))
    return mark(exp.Anonymous(this=name.text.upper(), expressions=arguments), name, cursor.previous)


def _argument(cursor: RecursiveCursor) -> exp.Expression:
    """'key' = 'value', key = 'value', a name, or a literal."""
    token = cursor.token
    if token.is_name:
        value: exp.Expression = cursor.identifier("a name")
    elif token.token_type is TokenType.STRING:
        value = mark(exp.Literal(this=cursor.string("a value"), is_string=True), token)
    else:
        return _number(cursor)
    if not cursor.take("="):
        return value
    right = cursor.token
    setting = mark(exp.Literal(this=cursor.string("the value of an option"), is_string=True), right)
    return mark(exp.EQ(this=value, expression=setting), token, right)


def _number(cursor: RecursiveCursor) -> exp.Expression:
    sign = cursor.token
    negative = cursor.take_any("-", "+") == "-"
    token = cursor.token
    if token.token_type is not TokenType.NUMBER:
        raise cursor.unexpected("expected an option, a name, a string or a number")
    cursor.advance()
    number = mark(exp.Literal(this=token.text, is_string=False), token)
    return mark(exp.Neg(this=number), sign, token) if negative else number
