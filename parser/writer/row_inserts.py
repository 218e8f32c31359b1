"""The rows of executemany: many of an INSERT … VALUES in one statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from parser.grammar.lexer import Token, tokenize
from parser.writer.parameters import Parameters, ParamStyle, template

# Rows of one statement, and characters of their texts, at most.
_ROWS: Final = 1_000
_SIZE: Final = 256 << 10


@dataclass(frozen=True)
class RowInsert:
    """INSERT … VALUES of one row of marks alone. `head` is what stands before VALUES, `keys` are
    the parameters in the order of their columns."""

    head: str
    keys: tuple[int | str, ...]


def row_insert(sql: str, style: ParamStyle) -> RowInsert | None:
    """Returns the parts of an INSERT … VALUES whose only row has marks alone; None for others.

    >>> row_insert("INSERT INTO t (a, b) VALUES (:x, :y)", "named")
    RowInsert(head='INSERT INTO t (a, b) ', keys=('x', 'y'))
    """
    row = _row_of(sql)
    if row is None or template(sql[: row[0]], style).keys:
        return None
    values = template(sql[slice(*row)], style)
    separators = ["(", *[","] * (len(values.keys) - 1), ")"]
    if not values.keys or [text.strip() for text in values.texts] != separators:
        return None
    head = template(sql[: row[0]], style).bound([])
    word = [token for token in tokenize(head) if token.word == "VALUES"][-1]
    return RowInsert(head[: word.start], values.keys)


def inserts(sql: str, style: ParamStyle, rows: Iterable[Parameters]) -> Iterator[str]:
    """Yields statements with the parameters of all rows in order: one for many rows where `sql` is
    INSERT … VALUES with one row of marks, else one for each."""
    row = _row_of(sql)
    whole = template(sql, style)
    if row is None or template(sql[: row[0]], style).keys:
        yield from map(whole.bound, rows)
        return
    start, end = row
    head = template(sql[:start], style).bound([])
    values = template(sql[start:end], style)
    found: list[str] = []
    size = 0
    for parameters in rows:
        found.append(values.bound(parameters))
        size += len(found[-1])
        if len(found) == _ROWS or size > _SIZE:
            yield head + ", ".join(found)
            found, size = [], 0
    if found:
        yield head + ", ".join(found)


def _row_of(sql: str) -> tuple[int, int] | None:
    """Returns where the only row of INSERT … VALUES begins and ends; None for other statements."""
    tokens = tokenize(sql)
    words = [token.word for token in tokens]
    if words[:1] != ["INSERT"] or "VALUES" not in words:
        return None
    first = words.index("VALUES") + 1
    last = len(tokens) - 2  # the last one is the end of the text
    while last > first and words[last] == ";":
        last -= 1
    if words[first] != "(" or _closing(tokens, first) != last:
        return None
    return tokens[first].start, tokens[last].end + 1


def _closing(tokens: list[Token], opening: int) -> int | None:
    """Returns the number of the parenthesis that closes another one."""
    depth = 0
    for number in range(opening, len(tokens)):
        depth += (tokens[number].word == "(") - (tokens[number].word == ")")
        if depth == 0:
            return number
    return None
