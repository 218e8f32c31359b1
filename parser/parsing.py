"""Parses SQL text into typed statements, and single queries and conditions into expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from sqlglot import exp

from parser.errors import ParseError, Position, SqlError
from parser.grammar.commands import statement
from parser.grammar.cursor import too_deep
from parser.grammar.lexer import tokenize
from parser.grammar.queries import QueryParser
from parser.limits import refused
from parser.script import Piece, split
from parser.statements import Statement

T = TypeVar("T")


def parse(text: str, *, file: str | None = None) -> list[Statement]:
    """The statements of a script. Raises the SqlError of the first bad one; its position names
    `file`, if given."""
    return [_parse_piece(piece, file) for piece in split(text)]


def parse_pieces(text: str, *, file: str | None = None) -> Iterator[Statement | SqlError]:
    """Yields, for each statement of a script in order, the statement or its error."""
    for piece in split(text):
        try:
            yield _parse_piece(piece, file)
        except SqlError as error:
            yield error


def parse_condition(text: str) -> exp.Expression:
    """Parses one scalar expression, such as the condition of a WHERE.

    SqlError for any other text."""
    return _guarded(lambda: _whole(text, None, QueryParser.expression), Position(1, 1))


def parse_query(text: str) -> exp.Expression:
    """Parses one query without a semicolon. SqlError for any other text."""
    return _guarded(lambda: _whole(text, None, QueryParser.query), Position(1, 1))


def _whole(text: str, origin: Position | None, rule: Callable[[QueryParser], T]) -> T:
    cursor = QueryParser(tokenize(text, origin), text)
    parsed = rule(cursor)
    cursor.end()
    return parsed


def _parse_piece(piece: Piece, file: str | None) -> Statement:
    try:
        _check_size(piece)
        return _guarded(lambda: _whole(piece.sql, piece.position, statement), piece.position)
    except SqlError as error:
        raise error.in_file(file) from None


def _check_size(piece: Piece) -> None:
    most = refused(len(piece.sql), "statement_size")
    if most is not None:
        raise ParseError(
            f"the statement has {len(piece.sql):,} characters, at most {most:,} are allowed"
            " ('statement-size')",
            hint="keep lists of values in a table and join it, or write several statements",
            position=piece.position,
        )


def _guarded(parse: Callable[[], T], start: Position) -> T:
    """Deep nesting is caught by a count; where the caller's own stack leaves less room than that,
    by this."""
    try:
        return parse()
    except RecursionError:
        raise too_deep(start) from None
