"""Parameters of statements: values of Python as typed SQL literals, in the place of marks such as
`?`.

The lexer says where marks are, so that none is found in strings, names and comments, and a literal
touches nothing that would change its meaning."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias, get_args

from parser.errors import SqlError
from parser.grammar.lexer import Token, tokenize
from parser.writer.values import literal

ParamStyle: TypeAlias = Literal["qmark", "named", "numeric", "format", "pyformat"]
Parameters: TypeAlias = Sequence[object] | Mapping[str, object]
STYLES: Final[tuple[str, ...]] = get_args(ParamStyle)
_PERCENT: Final = re.compile(r"%(?:%|s|\((?P<name>[^()]*)\)s)?")
_HINT: Final = "in this style a percent sign is written %%"


class BadParameters(SqlError):
    """Parameters that are not those of the statement's marks."""

    title = "bad parameters"


@dataclass(frozen=True)
class Template:
    """A statement with marks: `texts` stand around the parameters `keys`, which are numbers from 0
    on or names."""

    texts: tuple[str, ...]
    keys: tuple[int | str, ...]

    def bound(self, parameters: Parameters) -> str:
        """Returns the statement with its parameters. BadParameters where they are not those of the
        marks, BadValue for one that SQL cannot say."""
        self._check(parameters)
        parts = [self.texts[0]]
        for key, text in zip(self.keys, self.texts[1:], strict=True):
            # A space on both sides: a literal must not touch a word, which could be its prefix.
            parts += (" ", literal(_value(parameters, key)), " ", text)
        return "".join(parts)

    @property
    def count(self) -> int:
        """The number of parameters."""
        if all(isinstance(key, int) for key in self.keys):
            return max((int(key) for key in self.keys), default=-1) + 1
        return len(set(self.keys))

    def _check(self, parameters: Parameters) -> None:
        if any(isinstance(key, str) for key in self.keys):
            if not isinstance(parameters, Mapping):
                raise BadParameters("the parameters have names", hint="give a mapping of them")
            missing = [k for k in self.keys if k not in parameters]
            if missing:
                raise BadParameters(f"parameter '{missing[0]}' is missing")
            return
        if isinstance(parameters, Mapping | str | bytes) or not isinstance(parameters, Sized):
            raise BadParameters("the parameters have places", hint="give a sequence of them")
        if len(parameters) != self.count:
            raise BadParameters(
                f"the statement has {self.count} parameters, and {len(parameters)} are given"
            )


def _value(parameters: Parameters, key: int | str) -> object:
    return parameters[key]  # type: ignore[index]


@lru_cache(maxsize=256)
def template(sql: str, style: ParamStyle = "qmark") -> Template:
    """Returns a statement with its marks, of one of PEP 249's styles. ParseError for a text that
    has no tokens, BadParameters for a mark that is none.

    >>> template("SELECT '?' || ? -- ?").bound(["it's"])
    "SELECT '?' ||  'it''s'  -- ?"
    """
    percent = style in ("format", "pyformat")
    marks = list(_percents(sql) if percent else _marks(sql, tokenize(sql), style))
    texts, keys, end = [""], [], 0
    for mark in marks:
        texts[-1] += sql[end : mark.start]
        if isinstance(mark.key, _Percent):
            texts[-1] += "%"
        else:
            keys.append(mark.key)
            texts.append("")
        end = mark.end
    texts[-1] += sql[end:]
    kinds = {isinstance(key, str) for key in keys}
    if len(kinds) > 1:
        raise BadParameters("some parameters have names and some have none")
    return Template(tuple(texts), tuple(keys))


class _Percent:
    """Stands for a percent sign."""


@dataclass(frozen=True)
class _Mark:
    start: int
    end: int
    key: int | str | _Percent


def _marks(sql: str, tokens: Sequence[Token], style: str) -> Iterator[_Mark]:
    number = 0
    for token, following in itertools.pairwise(tokens):
        if style == "qmark" and token.word == "?":
            yield _Mark(token.start, token.end + 1, number)
            number += 1
        elif style != "qmark" and token.word == ":" and following.start == token.end + 1:
            key: int | str = following.text
            if style == "numeric":
                if not following.text.isdecimal():
                    continue
                key = int(following.text) - 1
                if key < 0:
                    raise BadParameters("the first parameter is :1")
            elif not following.word or not sql[following.start].isidentifier():
                continue
            yield _Mark(token.start, following.end + 1, key)


def _percents(sql: str) -> Iterator[_Mark]:
    """Finds marks with percent signs, %% wherever it stands. BadParameters for one in a string."""
    places = {t.start: t.word for t in tokenize(sql)}
    inside = [(t.start, t.end) for t in tokenize(sql) if not t.word]
    number = 0
    for match in _PERCENT.finditer(sql):
        if match.group() == "%%":
            yield _Mark(match.start(), match.end(), _Percent())
        elif places.get(match.start()) == "%" and match.group() != "%":
            name = match["name"]
            yield _Mark(match.start(), match.end(), number if name is None else name)
            number += name is None
        elif any(start <= match.start() <= end for start, end in inside) or match.group() == "%":
            raise BadParameters("a percent sign that is no mark", hint=_HINT)
