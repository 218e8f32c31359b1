"""SQL texts, each read into a tree, written from the tree alone and read again; also with other
space, comments and case.

A text passes when no string in its tree holds the text of more than one token, when what is written
from the tree reads as an equal tree, when comments, white space and the case of reserved words
change nothing in the tree, and when the text with the case of all its words changed can be written
and read again, too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser import parse
from parser.errors import SqlError
from parser.grammar.lexer import Token, tokenize
from parser.grammar.reserved import RESERVED
from parser.statements import Statement
from parser.writer.statements import write

_LITERALS = (
    TokenType.STRING,
    TokenType.NATIONAL_STRING,
    TokenType.UNICODE_STRING,
    TokenType.HEX_STRING,
    TokenType.IDENTIFIER,
)


@dataclass(frozen=True)
class Text:
    """One text of a file, counted from 1: what is written from its tree (None when there is none),
    and what is wrong."""

    number: int
    file: str
    sql: str
    written: str | None
    faults: tuple[str, ...]

    @property
    def line(self) -> str:
        if not self.faults:
            return f"PASS text#{self.number}"
        return f"FAIL text#{self.number}: {'; '.join(self.faults)}"

    @property
    def json(self) -> str:
        row = {"text": self.number, "file": self.file, "sql": self.written}
        return json.dumps(
            row if not self.faults else {**row, "faults": list(self.faults)}, ensure_ascii=False
        )


def run_statements(path: Path) -> Iterator[Text]:
    """One result for each line of a file of {"file": …, "sql": …}."""
    with path.open(encoding="utf-8") as lines:
        rows = (json.loads(line) for line in lines if line.strip())
        for number, row in enumerate(rows, 1):
            yield check(row["sql"], number, row.get("file", ""))


def check(sql: str, number: int = 1, file: str = "") -> Text:
    try:
        statements = parse(sql)
    except SqlError as error:
        return Text(number, file, sql, None, (f"does not parse: {_shown(error)}",))
    if not statements:
        return Text(number, file, sql, None, ("holds no statement",))
    written = ";\n".join(map(write, statements))
    faults = [*_raw_texts(sql, statements), *_written_again(statements, "the text")]
    for what, changed, same in _variants(sql):
        faults += _changed(what, changed, statements if same else None)
    return Text(number, file, sql, written, tuple(faults))


def _changed(what: str, sql: str, original: list[Statement] | None) -> Iterator[str]:
    """What is wrong with a variant of the text, whose tree is to be `original`, if that is
    given."""
    try:
        statements = parse(sql)
    except SqlError as error:
        yield f"does not parse with {what}: {_shown(error)}"
        return
    if original is not None and atoms(statements) != atoms(original):
        yield f"another tree with {what}"
    yield from _written_again(statements, f"the text with {what}")


def _written_again(statements: list[Statement], what: str) -> Iterator[str]:
    written = ";\n".join(map(write, statements))
    try:
        again = parse(written)
    except SqlError as error:
        yield f"what is written of {what} does not parse: {_shown(error)} in {written!r}"
        return
    if atoms(again) != atoms(statements) or again != statements:
        yield f"what is written of {what} has another tree: {written!r}"


def _shown(error: SqlError) -> str:
    return str(error).replace("\n", " ")


def atoms(value: object) -> list[object]:
    """All that a tree consists of, from the top and from left to right, but for places in the
    text."""
    found: list[object] = []
    pending: list[object] = [value]
    while pending:
        current = pending.pop()
        found.append(_head(current))
        pending += reversed(list(_parts(current)))
    return found


def _head(value: object) -> object:
    if isinstance(value, Enum):
        return value
    if isinstance(value, list | tuple | Mapping):
        return (type(value).__name__, len(value))
    return value if isinstance(value, str | int | float | bool | None) else type(value)


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, exp.Expression):
        for key, part in sorted(value.args.items()):
            if part is not None and part is not False and part != []:
                yield key
                yield part
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            if field.compare:
                yield field.name
                yield getattr(value, field.name)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield key
            yield part
    elif isinstance(value, list | tuple):
        yield from value


def _raw_texts(sql: str, statements: list[Statement]) -> Iterator[str]:
    """Strings of the tree that are neither one token nor the content of one."""
    contents = {t.text for t in tokenize(sql) if t.token_type in _LITERALS}
    for text in strings(statements):
        if text not in contents and len(text.split()) > 1 and not _continued(text, contents):
            yield f"a node holds the text {text!r}"


def strings(value: object) -> Iterator[str]:
    """All strings in the fields and arguments of a tree."""
    pending: list[object] = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, str) and not isinstance(current, Enum):
            yield current
        elif isinstance(current, exp.Expression):
            pending += current.args.values()
        elif isinstance(current, Mapping):
            pending += [*current.keys(), *current.values()]
        elif isinstance(current, list | tuple):
            pending += current
        elif is_dataclass(current) and not isinstance(current, type):
            pending += [getattr(current, f.name) for f in fields(current) if f.compare]


def _continued(text: str, contents: set[str]) -> bool:
    """Whether the text is made of strings that follow each other, or of an escaped one, so that no
    token is like it."""
    return any(len(c) > 0 and c in text for c in contents) or any("\\" in c for c in contents)


def _variants(sql: str) -> Iterator[tuple[str, str, bool]]:
    """What is changed, the changed text, and whether its tree must be the same."""
    tokens = tokenize(sql)[:-1]
    raw = tokens[0].word in ("SET", "RESET")  # their keys may stand without quotes, as they are
    if not raw:
        yield "comments and space", _spaced(sql, tokens), True
        yield "reserved words in another case", _recased(sql, tokens, RESERVED), True
        yield "all words in another case", _recased(sql, tokens, None), False


def _spaced(sql: str, tokens: list[Token]) -> str:
    pieces = []
    for index, token in enumerate(tokens):
        gap = ("\n/* a ; 'b */\t", " -- c ` d\n", "\r\n// e\n  ")[index % 3]
        joined = index > 0 and tokens[index - 1].token_type is TokenType.INTRODUCER
        pieces.append(("" if joined else gap) + sql[token.start : token.end + 1])
    return "".join(pieces) + "\n/* end */ -- end"


def _recased(sql: str, tokens: list[Token], words: frozenset[str] | None) -> str:
    pieces, end = [], 0
    for token in tokens:
        text = sql[token.start : token.end + 1]
        if token.token_type is TokenType.VAR and (words is None or token.word in words):
            text = text.swapcase()
        pieces.append(sql[end : token.start] + text)
        end = token.end + 1
    return "".join(pieces) + sql[end:]
