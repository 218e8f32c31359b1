"""A place in a list of tokens, and the few moves that all grammar files are written with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from parser.errors import ParseError, Position, SqlError, UnsupportedError
from parser.grammar.lexer import Token
from parser.grammar.reserved import RESERVED

T = TypeVar("T")
Node = TypeVar("Node", bound=exp.Expression)

# Deeper nesting than people or generators write; every level costs the parser and the binder some
# Python frames.
MAX_DEPTH = 120
_CLAUSES = tuple(
    "FROM WHERE GROUP HAVING ORDER LIMIT JOIN UNION INTERSECT EXCEPT ON WINDOW QUALIFY".split()
)
_STATEMENTS = tuple(
    "SELECT INSERT CREATE DROP SET RESET SHOW DESCRIBE EXPLAIN EXECUTE USE ALTER".split()
)
_BEHIND_COLUMNS = (",", "FROM", "AS", "=", "<>", "<", ">", "<=", ">=")


def mark(node: Node, token: Token, last: Token | None = None) -> Node:
    """`node` with its place in the script in `meta`: that of `token`, or from `token` to `last`."""
    meta = node.meta
    meta["line"], meta["col"] = token.line, token.col
    meta["start"], meta["end"] = token.start, (last or token).end
    return node


class Cursor:
    """Tokens of one statement and the index of the current one. The last token is the end of the
    statement."""

    def __init__(self, tokens: list[Token], text: str) -> None:
        self.tokens = tokens
        self.text = text
        self.index = 0
        self.token = tokens[0]
        self.depth = 0

    def advance(self) -> Token:
        """Move on by one; returns the token that was current."""
        token = self.token
        # The last token is never passed, so that `token` always exists.
        if token.token_type is not TokenType.SENTINEL:
            self.index += 1
            self.token = self.tokens[self.index]
        return token

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    @property
    def previous(self) -> Token:
        return self.tokens[max(0, self.index - 1)]

    @property
    def at_end(self) -> bool:
        return self.token.token_type is TokenType.SENTINEL

    def at(self, *words: str) -> bool:
        """True if `words` follow, in this order."""
        if self.token.word != words[0]:
            return False
        return all(self.peek(i).word == words[i] for i in range(1, len(words)))

    def take(self, *words: str) -> bool:
        """Move past `words` if they follow."""
        if self.token.word != words[0] or (len(words) > 1 and not self.at(*words)):
            return False
        for _ in words:
            self.advance()
        return True

    def take_any(self, *words: str) -> str | None:
        """Move past the current word if it is one of `words`."""
        return self.advance().word if self.token.word and self.token.word in words else None

    def expect(self, *words: str) -> Token:
        """The last token of `words`, which must follow."""
        for word in words:
            if self.token.word != word:
                raise self.unexpected(f"expected {word}", near(self.token.word, (word,)))
            token = self.advance()
        return token

    def unexpected(self, detail: str, hint: str | None = None) -> ParseError:
        """The error to raise where the current token cannot stand."""
        hint = hint or self._guess()
        return ParseError(
            f"unexpected {self.token}", detail=detail, hint=hint, position=self.token.position
        )

    def _guess(self) -> str | None:
        """Returns a hint for common mistakes: what was probably meant by the unexpected token."""
        # At the first token there is none before it.
        token, before = self.token, self.previous.word if self.index else ""
        if token.word == "=" and before == "=":
            return "equality is written with one ="
        if token.word == "|":
            return "write OR; strings are joined with ||"
        if before == "," and (token.word in _CLAUSES or self.at_end or token.word == ")"):
            return "remove the comma before it"
        if token.word in RESERVED and token.is_name and self.peek().word in _BEHIND_COLUMNS:
            return f"as the name of a column, write it as `{token.text}`"
        return None

    def unsupported(self, what: str, hint: str, token: Token | None = None) -> UnsupportedError:
        """The error to raise for `what` at `token` (the current one if none is given): Flink has
        it, we have not."""
        return UnsupportedError(
            f"{what} is not supported", hint=hint, position=(token or self.token).position
        )

    def one_of(self, *words: str) -> str:
        """The current word, which must be one of `words`; moves past it."""
        if not self.token.word or self.token.word not in words:
            raise self.unexpected("expected " + ", ".join(words), near(self.token.word, words))
        return self.advance().word

    def deeper(self) -> None:
        """Count a level of nesting. A level is left by resetting `depth`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise too_deep(self.token.position)

    def name(self, what: str) -> Token:
        """A name in backticks or a word that is not reserved."""
        token = self.token
        if not token.is_name:
            raise self.unexpected(f"expected {what}")
        if token.word in RESERVED:
            raise self.unexpected(
                f"expected {what}, and {token.word} is a reserved word",
                f"write it as `{token.text}`",
            )
        return self.advance()

    def identifier(self, what: str) -> exp.Identifier:
        return identifier(self.name(what))

    def path(self, what: str) -> tuple[str, ...]:
        """Parses one to three names joined by dots."""
        parts = [self.name(what).text]
        while self.token.word == ".":
            if len(parts) == 3:
                raise self.unexpected(
                    "a name has at most three parts: catalog, database and object"
                )
            self.advance()
            parts.append(self.name(what).text)
        return tuple(parts)

    def field_path(self, what: str) -> tuple[str, ...]:
        """A column, or a field of a row: names joined by dots."""
        parts = [self.name(what).text]
        while self.take("."):
            parts.append(self.name("a name").text)
        return tuple(parts)

    def string(self, what: str) -> str:
        if self.token.token_type is not TokenType.STRING:
            raise self.unexpected(f"expected {what} in single quotes")
        return self.advance().text

    def integer(self, what: str) -> int:
        if self.token.token_type is not TokenType.NUMBER or not self.token.text.isdecimal():
            raise self.unexpected(f"expected {what}")
        # 18 digits fit into 64 bits.
        if len(self.token.text) > 18:
            raise self.unexpected(f"{what} is too large")
        return int(self.advance().text)

    def list_of(self, item: Callable[[], T]) -> list[T]:
        """Parses one or more items, separated by commas."""
        items = [item()]
        while self.token.word == ",":
            self.advance()
            items.append(item())
        return items

    def wrapped(self, item: Callable[[], T]) -> list[T]:
        """A list in parentheses, with one `item` at least."""
        self.expect("(")
        items = self.list_of(item)
        self.expect(")")
        return items

    def end(self) -> None:
        """Checks that the statement is over. ParseError."""
        if not self.at_end:
            raise self.unexpected("expected end of statement", self._hint_at_end())

    def _hint_at_end(self) -> str | None:
        """A second statement, or a misspelt keyword, which was taken for an alias when something
        follows it."""
        if self.token.word in _STATEMENTS:
            return "put ; between two statements"
        for token in (self.token, self.previous):
            if token.word not in _CLAUSES and (hint := near(token.word, _CLAUSES)):
                return hint.replace("?", f" in place of {token.text}?")
        return None

    def span(self, first: Token) -> Position:
        """Returns the position from `first` to the last token that was passed."""
        return Position(first.line, first.col, max(1, self.previous.end - first.start + 1))

    def text_from(self, first: Token) -> str:
        """The text from `first` to the last token that was passed."""
        return self.text[first.start : self.previous.end + 1]


def identifier(token: Token) -> exp.Identifier:
    return mark(
        exp.Identifier(this=token.text, quoted=token.token_type is TokenType.IDENTIFIER), token
    )


def near(word: str, known: Iterable[str]) -> str | None:
    """A hint where a keyword was misspelt."""
    matches = get_close_matches(word, list(known), n=1, cutoff=0.7) if len(word) > 1 else []
    return f"did you mean {matches[0]}?" if matches else None


def too_deep(position: Position) -> SqlError:
    detail = f"at most {MAX_DEPTH} levels are possible, fewer of long forms"
    hint = "split it into views, or write IN lists and CASE in place of nested conditions"
    return ParseError(
        "the statement is nested too deeply", detail=detail, hint=hint, position=position
    )
