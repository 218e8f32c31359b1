"""The conditions in JSON paths: `@.a == 1 && (@.b != 'x' || !@.c)`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

import regex

from udf.json.text import BadPath, Json, NotFound, NotJson, read_json

Predicate: TypeAlias = Callable[[Json], bool]
# What an operand is of the value that is tested; Missing where there is nothing.
Operand: TypeAlias = Callable[[Json], object]
ValueOf: TypeAlias = Callable[[str], Callable[[Json], Json]]

_TOKEN = regex.compile(
    # Longer operators before shorter ones, for an alternation takes the first that matches.
    r"\s*(?:(?P<op>&&|\|\||==|!=|<=|>=|=~|<|>|!|\(|\))|(?P<path>[@$](?:\.\.?[\w*-]+(?:\(\))?|\[[^\]]*\])*)"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<regex>/(?:[^/\\]|\\.)*/[a-z]*)|(?P<list>\[[^\]]*\])"
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>[A-Za-z_]+))"
)
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "=~", "in", "nin", "contains", "size", "empty")


class _Missing:
    """No value at a path."""


_MISSING = _Missing()


def parse_predicate(text: str, value_of: ValueOf) -> Predicate:
    """ValueError for what is no condition; `value_of` gives the value at a path."""
    parser = _Parser(_tokens(text), value_of)
    predicate = parser.disjunction()
    if parser.tokens:
        raise ValueError(f"'{parser.tokens[0][1]}' is not expected in the condition {text}")
    return predicate


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    # Blanks at the end would be a token without text.
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise ValueError(f"'{text[at:]}' is not known in a condition")
        tokens.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]], value_of: ValueOf) -> None:
        self.tokens, self.value_of = tokens, value_of

    def _take(self, *texts: str) -> str | None:
        # Words are taken whatever their case, but a text such as 'in' is never an operator.
        if (
            self.tokens
            and self.tokens[0][0] in ("op", "word")
            and self.tokens[0][1].lower() in texts
        ):
            return self.tokens.pop(0)[1].lower()
        return None

    def disjunction(self) -> Predicate:
        parts = [self._conjunction()]
        while self._take("||"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else lambda value: any(p(value) for p in parts)

    def _conjunction(self) -> Predicate:
        parts = [self._negation()]
        while self._take("&&"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else lambda value: all(p(value) for p in parts)

    def _negation(self) -> Predicate:
        if self._take("!"):
            inner = self._negation()
            return lambda value: not inner(value)
        if self._take("("):
            inner = self.disjunction()
            if not self._take(")"):
                raise ValueError("')' is missing in a condition")
            return inner
        return self._comparison()

    def _comparison(self) -> Predicate:
        left = self._operand()
        operator = self._take(*_COMPARISONS)
        if operator is None:
            # A path alone asks for existence: null is there, too.
            return lambda value: left(value) is not _MISSING
        right, compare = self._operand(), _COMPARE[operator]
        return lambda value: compare(left(value), right(value))

    def _operand(self) -> Operand:
        if not self.tokens:
            raise ValueError("an operand is missing in a condition")
        kind, text = self.tokens.pop(0)
        match kind:
            case "path":
                return self._path(text)
            case "text":
                constant: object = regex.sub(r"\\(.)", r"\1", text[1:-1])
            case "number":
                constant = Decimal(text)
            case "regex":
                constant = _pattern(text)
            case "list":
                constant = _listed(text)
            case "word" if text in ("true", "false", "null"):
                constant = {"true": True, "false": False, "null": None}[text]
            case _:
                raise ValueError(f"'{text}' is no operand")
        return lambda value: constant

    def _path(self, text: str) -> Operand:
        find = self.value_of(text)

        def value_at(value: Json) -> object:
            try:
                return find(value)
            except (NotFound, BadPath):
                # A wrong path inside a filter is nothing found, not an error of the row.
                return _MISSING

        return value_at


def _pattern(text: str) -> regex.Pattern[str]:
    # Greedy from the right: the body may hold escaped slashes.
    body, _, flags = text[1:].rpartition("/")
    return regex.compile(body, regex.IGNORECASE if "i" in flags else 0)


def _listed(text: str) -> list[object]:
    try:
        # Lists are written with either quote; JSON knows only double ones.
        parsed = read_json(text.replace("'", '"'))
    except NotJson as error:
        raise ValueError(str(error)) from None
    return list(parsed) if isinstance(parsed, list) else []


def _comparable(left: object, right: object) -> bool:
    # Numbers with numbers, texts with texts; nothing else has an order.
    both = (int | Decimal, str)
    return any(isinstance(left, k) and isinstance(right, k) for k in both) and not isinstance(
        left, bool
    )


def _equal(left: object, right: object) -> bool:
    if _MISSING in (left, right):
        return False
    # True == 1 in Python, but not in JSON.
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _ordered(test: Callable[[object, object], bool]) -> Callable[[object, object], bool]:
    return lambda left, right: _comparable(left, right) and test(left, right)


def _matches(left: object, right: object) -> bool:
    if not isinstance(left, str) or not isinstance(right, regex.Pattern):
        return False
    try:
        # The timeout bounds the backtracking of a bad pattern.
        return right.fullmatch(left, timeout=0.1) is not None
    except TimeoutError:
        return False


def _contains(left: object, right: object) -> bool:
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    return isinstance(left, list) and any(_equal(x, right) for x in left)


def _among(left: object, right: object) -> bool:
    return isinstance(right, list) and any(_equal(left, x) for x in right)


def _sized(left: object, right: object) -> bool:
    return isinstance(left, list | str) and len(left) == right


def _emptied(left: object, right: object) -> bool:
    return isinstance(left, list | str | dict) and (len(left) == 0) == right


_COMPARE: dict[str, Callable[[object, object], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(lambda left, right: left < right),  # type: ignore[operator]
    "<=": _ordered(lambda left, right: left <= right),  # type: ignore[operator]
    ">": _ordered(lambda left, right: left > right),  # type: ignore[operator]
    ">=": _ordered(lambda left, right: left >= right),  # type: ignore[operator]
    "=~": _matches,
    "in": _among,
    "nin": lambda left, right: not _among(left, right),
    "contains": _contains,
    "size": _sized,
    "empty": _emptied,
}
