"""Literals of texts and bytes, in all the ways to write them."""

from __future__ import annotations

import codecs

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.errors import ParseError
from parser.grammar.cursor import mark
from parser.grammar.lexer import Token, decoded
from parser.grammar.recursion import RecursiveCursor

_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")


def string_literal(cursor: RecursiveCursor) -> exp.Expression:
    """Strings that are separated by a line break are one string."""
    first = cursor.advance()
    text = first.text + _continued(cursor)
    return mark(exp.Literal(this=text, is_string=True), first, cursor.previous)


def _continued(cursor: RecursiveCursor) -> str:
    text = ""
    while cursor.token.token_type is TokenType.STRING:
        if cursor.token.line == cursor.previous.line:
            raise cursor.unexpected("two strings on one line do not join", "put || between them")
        text += cursor.advance().text
    return text


def bytes_literal(cursor: RecursiveCursor) -> exp.Expression:
    first = cursor.advance()
    text = first.text + _continued(cursor)
    if len(text) % 2 or not _HEXADECIMAL.issuperset(text):
        message = f"unexpected {first}"
        detail = "a binary string has an even number of hexadecimal digits"
        raise ParseError(message, detail=detail, position=first.position)
    return mark(exp.HexString(this=text.upper()), first, cursor.previous)


def national_literal(cursor: RecursiveCursor) -> exp.Expression:
    """N'…'."""
    token = cursor.token
    return mark(exp.National(this=string_literal(cursor)), token, cursor.previous)


def introduced_literal(cursor: RecursiveCursor) -> exp.Expression:
    """_charset'…'."""
    token = cursor.advance()
    try:
        codecs.lookup(token.text)
    except LookupError:
        raise ParseError(f"unknown character set '{token.text}'", position=token.position) from None
    charset = mark(exp.Var(this=token.text), token)
    return mark(
        exp.Introducer(this=charset, expression=string_literal(cursor)), token, cursor.previous
    )


def unicode_literal(cursor: RecursiveCursor) -> exp.Expression:
    """U&'…' [UESCAPE 'c']: a plain string of the characters that it stands for."""
    first = cursor.advance()
    text = first.text + _continued(cursor)
    escape = "\\"
    if cursor.take("UESCAPE"):
        token = cursor.token
        escape = cursor.string("the escape character")
        if len(escape) != 1 or escape in "+'\"" or escape.isspace() or escape in _HEXADECIMAL:
            raise ParseError(f"{token} is no escape character", position=token.position)
    return mark(
        exp.Literal(this=_decoded(text, escape, first), is_string=True), first, cursor.previous
    )


def _decoded(text: str, escape: str, token: Token) -> str:
    plain = decoded(text, escape)
    if plain is None:
        hint = "write four hexadecimal digits"
        raise ParseError(f"bad escape in {token}", hint=hint, position=token.position)
    return plain
