"""JSON paths: `$.a.b[0]['c']`, `[*]`, `..`, `[1:3]`, `[0,2]`, `[?(@.b > 1)]`, `.length()`, with
`lax` or `strict` before."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TypeAlias

import regex

from udf.json.filter import Predicate, parse_predicate
from udf.json.text import BadPath, Json, NotFound


@dataclass(frozen=True)
class Names:
    names: tuple[str, ...]


@dataclass(frozen=True)
class Indices:
    indices: tuple[int, ...]


@dataclass(frozen=True)
class Slice:
    start: int | None
    end: int | None


@dataclass(frozen=True)
class Wildcard:
    pass


@dataclass(frozen=True)
class Scan:
    """`..`: what follows is looked for in the value and in all that it has in it."""


@dataclass(frozen=True)
class Filter:
    accepts: Predicate


@dataclass(frozen=True)
class Function:
    name: str


Step: TypeAlias = Names | Indices | Slice | Wildcard | Scan | Filter | Function


@dataclass(frozen=True)
class Path:
    """`lax`: nothing at the path is emptiness, else an error. `definite`: it can lead to one value
    only."""

    steps: tuple[Step, ...]
    lax: bool

    @property
    def definite(self) -> bool:
        return all(
            isinstance(s, Names | Function) or (isinstance(s, Indices) and len(s.indices) == 1)
            for s in self.steps
        )

    def find(self, document: Json) -> Json:
        """The value at a definite path, else a list of all that is found. NotFound, BadPath."""
        # A function stands at the end alone (see `_dotted`).
        last = self.steps[-1] if self.steps else None
        call = last if isinstance(last, Function) else None
        steps = self.steps if call is None else self.steps[:-1]
        matches = list(_walk(document, steps, definite=True))
        values: Json = matches
        # Whether the path is definite is a matter of its steps, not of how many values were found.
        if Path(steps, self.lax).definite:
            if not matches:
                raise NotFound("no results for the path")
            values = matches[0]
        return values if call is None else _FUNCTIONS[call.name](values)


_MODE = regex.compile(r"\s*(strict|lax)\s+(.+)", regex.IGNORECASE | regex.DOTALL)


@lru_cache(maxsize=1024)
def parse_path(text: str) -> Path:
    """BadPath for what is no path."""
    match = _MODE.fullmatch(text)
    spec = (match[2] if match else text).strip()
    lax = match is not None and match[1].lower() == "lax"
    if not spec:
        raise BadPath("a path is empty")
    # A path without `$` is taken from the root: "a.b" is "$.a.b".
    return Path(tuple(_Parser(spec if spec[0] in "$@" else f"$.{spec}").steps()), lax)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 1

    def steps(self) -> Iterator[Step]:
        while self.at < len(self.text):
            if self.text.startswith("..", self.at):
                self.at += 2
                yield Scan()
                # `..['a']` and `.['a']`: the bracket is read by the next turn.
                if self.text[self.at : self.at + 1] != "[":
                    yield self._dotted()
            elif self.text[self.at] == ".":
                self.at += 1
                if self.text[self.at : self.at + 1] != "[":
                    yield self._dotted()
            elif self.text[self.at] == "[":
                yield self._bracket()
            else:
                raise BadPath(f"unexpected '{self.text[self.at]}' in the path {self.text}")

    def _dotted(self) -> Step:
        end = self.at
        while end < len(self.text) and self.text[end] not in ".[( ":
            end += 1
        name = self.text[self.at : end]
        if not name or self.text[end : end + 1] == " ":
            raise BadPath(f"a name is missing or has a blank in the path {self.text}")
        self.at = end
        if self.text.startswith("(", end):
            close = self.text.find(")", end)
            # A function takes no arguments and ends the path.
            if (
                close != len(self.text) - 1
                or name not in _FUNCTIONS
                or self.text[end + 1 : close].strip()
            ):
                raise BadPath(f"function {name} is not known in a path")
            self.at = close + 1
            return Function(name)
        return Wildcard() if name == "*" else Names((name,))

    def _bracket(self) -> Step:
        match = _BRACKET.match(self.text, self.at)
        if match is None:
            # Neither names nor indices, a slice or `*`: only a filter is left.
            return self._filter()
        self.at = match.end()
        if match["names"]:
            return Names(tuple(_unquoted(m[0]) for m in _QUOTED.finditer(match["names"])))
        if match["indices"]:
            return Indices(tuple(int(i) for i in match["indices"].split(",")))
        if match["slice"]:
            start, _, end = match["slice"].partition(":")
            return Slice(int(start) if start.strip() else None, int(end) if end.strip() else None)
        return Wildcard()

    def _filter(self) -> Step:
        match = _FILTER.match(self.text, self.at)
        if match is None:
            raise BadPath(
                f"'[' is not closed, or what is in it is not known, in the path {self.text}"
            )
        try:
            predicate = parse_predicate(match[1], self._value_of)
        except ValueError as error:
            raise BadPath(str(error)) from None
        self.at = match.end()
        return Filter(predicate)

    @staticmethod
    def _value_of(path: str) -> Callable[[Json], Json]:
        """Returns a function that evaluates a relative path such as `@.a`; it raises NotFound."""
        return parse_path(path).find


_QUOTED = regex.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_ONE = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_BRACKET = regex.compile(
    rf"\[\s*(?:(?P<names>{_ONE}(?:\s*,\s*{_ONE})*)|(?P<slice>-?\d*\s*:\s*-?\d*)|(?P<indices>-?\d+(?:\s*,\s*-?\d+)*)|\*)\s*\]"
)
_FILTER = regex.compile(
    r"\[\s*\?\s*\(((?:[^()'\"]|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\((?1)\))*)\)\s*\]"
)


def _unquoted(text: str) -> str:
    return str(regex.sub(r"\\(.)", r"\1", text[1:-1]))


def _walk(value: Json, steps: tuple[Step, ...], *, definite: bool) -> Iterator[Json]:
    """Yields all matches; a missing part is an error while the path is `definite`."""
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, Names):
        yield from _by_name(value, step.names, rest, definite)
    elif isinstance(step, Indices | Slice):
        yield from _by_index(value, step, rest, definite)
    else:
        for item in _all_of(value, step):
            # From a wildcard on the path is indefinite, and a missing part no error.
            yield from _walk(item, rest, definite=False)


def _all_of(value: Json, step: Step) -> Iterator[Json]:
    match step:
        case Scan():
            yield from _descendants(value)
        case Wildcard():
            yield from _children(value)
        case Filter():
            # A filter tests the elements of an array, but an object as a whole.
            items = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
            yield from filter(step.accepts, items)


def _by_index(
    value: Json, step: Indices | Slice, rest: tuple[Step, ...], definite: bool
) -> Iterator[Json]:
    if not isinstance(value, list):
        if definite:
            raise NotFound("an index stands behind what is no array")
        return
    # An index out of bounds is an error only where exactly one element is asked for.
    single = definite and isinstance(step, Indices) and len(step.indices) == 1
    for item in _elements(value, step, single):
        yield from _walk(item, rest, definite=single)


def _by_name(
    value: Json, names: tuple[str, ...], rest: tuple[Step, ...], definite: bool
) -> Iterator[Json]:
    if not isinstance(value, dict):
        if definite:
            raise NotFound("a name stands behind what is no object")
        return
    # Several names give an object of those that are there, and the path goes on in it.
    if len(names) > 1:
        yield from _walk({n: value[n] for n in names if n in value}, rest, definite=definite)
    elif names[0] in value:
        yield from _walk(value[names[0]], rest, definite=definite)
    elif rest and definite:
        # A missing last name gives nothing; a missing one on the way is an error.
        raise NotFound(f"there is no '{names[0]}'")


def _elements(value: list[Json], step: Indices | Slice, definite: bool) -> Iterator[Json]:
    # Python's slices have the bounds of JSON paths: negative ones count from the end.
    if isinstance(step, Slice):
        yield from value[step.start : step.end]
        return
    for index in step.indices:
        if -len(value) <= index < len(value):
            yield value[index]
        elif definite:
            raise NotFound(f"there is no element {index}")


def _children(value: Json) -> Iterator[Json]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descendants(value: Json) -> Iterator[Json]:
    stack = [value]
    while stack:
        item = stack.pop()
        yield item
        # Reversed, for the stack gives the last first: the result is in document order.
        stack += list(_children(item))[::-1]


def _numbers(value: Json) -> list[float]:
    numbers = (
        # bool is a subclass of int in Python.
        [float(v) for v in value if isinstance(v, int | Decimal) and not isinstance(v, bool)]
        if isinstance(value, list)
        else []
    )
    if not numbers:
        raise BadPath("the function of the path takes an array of numbers")
    return numbers


def _double(value: float) -> Decimal:
    return Decimal(repr(value))


def _deviation(numbers: list[float]) -> float:
    mean = sum(numbers) / len(numbers)
    return math.sqrt(sum((n - mean) ** 2 for n in numbers) / len(numbers))


def _length(value: Json) -> Json:
    return len(value) if isinstance(value, list | dict) else None


_FUNCTIONS: dict[str, Callable[[Json], Json]] = {
    "length": _length,
    "size": _length,
    "keys": lambda value: list(value) if isinstance(value, dict) else None,
    "sum": lambda value: _double(sum(_numbers(value))),
    "min": lambda value: _double(min(_numbers(value))),
    "max": lambda value: _double(max(_numbers(value))),
    "avg": lambda value: _double(sum(n := _numbers(value)) / len(n)),
    "stddev": lambda value: _double(_deviation(_numbers(value))),
}
