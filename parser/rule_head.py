"""The head of a rule: YAML in comments at the beginning of its text, so that the file stays SQL.

    -- @rule
    -- title: Encoded PowerShell
    -- severity: high
    -- tags: [attack.execution, attack.t1059.001]
    INSERT INTO alerts SELECT …

It ends with the first line that is no comment. Values are texts: `severity: no` is no FALSE."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from io import StringIO
from typing import Final, Protocol, TypeAlias

import yaml

from parser.canary import canary_of
from parser.errors import ParseError, Position, SqlError
from parser.suppression import READERS

Value: TypeAlias = str | tuple[str, ...] | Mapping[str, str]

SEVERITIES: Final = ("informational", "low", "medium", "high", "critical")
STATUSES: Final = ("draft", "shadow", "live", "retired")
TEXTS: Final = ("title", "id", "owner", "description")
# Texts of a form of their own, each with what reads it.
FORMS: Final[Mapping[str, Callable[[str], object]]] = {"canary": canary_of, **READERS}
LISTS: Final = ("tags", "references", "false_positives", "tests", "maintenance")
LIMITS: Final = ("suppress", "threshold", "limit")
MAPS: Final = ("attributes",)
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {"severity": SEVERITIES, "status": STATUSES}
FIELDS: Final = (*TEXTS, *CHOICES, "canary", *LISTS, *MAPS, *LIMITS)

# The one in C is ten times as fast; not every build of the library has it.
_Loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_MARK = re.compile(r"[ \t]*--[ \t]*@rule[ \t]*")
_COMMENT = re.compile(r"[ \t]*--[ ]?")
_MOST: Final = 65_536  # characters: somebody reads it
_MOST_TIMES: Final = 100  # each is a condition that all alerts are judged by


class _Mark(Protocol):
    """A place in a YAML text; both count from 0."""

    line: int
    column: int


@dataclass(frozen=True)
class Field:
    """One field of a head: its value, and where that stands."""

    value: Value
    position: Position


@dataclass(frozen=True)
class _Line:
    """A line of a head without its comment signs. `number` counts from 1 in the text, `indent` is
    the number of characters before it."""

    text: str
    number: int
    indent: int


def rule_head(text: str) -> Mapping[str, Field] | None:
    """Returns the fields of the head that a text begins with; None for a text without one.

    ParseError with the position for what is no YAML, an unknown field, and a value of another
    kind."""
    lines = _lines(text)
    return None if lines is None else _fields(lines)


def field_value(name: str, text: str) -> Value:
    """Returns the value of a field that is written alone, as in SET. ParseError as for
    `rule_head`."""
    if name not in FIELDS:
        raise _unknown(name, None)
    if name in TEXTS:
        return text
    found = _node([_Line(line, 1, 0) for line in text.split("\n")])
    return "" if found is None else _checked(name, found, None)


def _lines(text: str) -> list[_Line] | None:
    """The lines behind the mark, before which only comments and empty lines may come; None for a
    text without it. ParseError for too many."""
    found: list[_Line] | None = None
    size = 0
    for number, read in enumerate(StringIO(text, newline="\n"), 1):
        line = read.rstrip("\n")
        sign = _COMMENT.match(line)
        if sign is None and (found is not None or line.strip()):
            return found
        if found is not None and sign is not None:
            found.append(_Line(line[sign.end() :].rstrip("\r"), number, sign.end()))
            size += len(read)
            if size > _MOST:
                most = f"the head of a rule has at most {_MOST:,} characters"
                raise ParseError(most, position=Position(found[0].number, 1))
        elif _MARK.fullmatch(line.rstrip("\r")):
            found = []
    return found


def _fields(lines: Sequence[_Line]) -> Mapping[str, Field]:
    root = _node(lines)
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        hint = "write a field and its value on each line, as in '-- title: My rule'"
        raise ParseError("the head of a rule has fields", hint=hint, position=_place(root, lines))
    found: dict[str, Field] = {}
    for key, value in root.value:
        place = _place(key, lines)
        if not isinstance(key, yaml.ScalarNode):
            raise ParseError("a field of a head has a name", position=place)
        name = str(key.value)
        if name not in FIELDS:
            raise _unknown(name, place)
        if name in found:
            raise ParseError(f"'{name}' is there twice", position=place)
        found[name] = Field(_checked(name, value, lines), _place(value, lines))
    return found


def _node(lines: Sequence[_Line]) -> yaml.Node | None:
    """Returns the tree of a YAML text, in which all that is written stays text."""
    text = "\n".join(line.text for line in lines)
    try:
        _refuse_aliases(text, lines)
        return yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ParseError(
            "the head of the rule is no YAML",
            detail=" ".join(p for p in (error.context, error.problem) if p),
            hint="put a text with ': ', '#', or a bracket at its beginning into quotes",
            position=None if mark is None else _at(mark, lines),
        ) from None
    except (yaml.YAMLError, RecursionError) as error:
        detail = " ".join(str(error).split())
        raise ParseError("the head of the rule is no YAML", detail=detail) from None


def _refuse_aliases(text: str, lines: Sequence[_Line]) -> None:
    """Refuses what could make a small text large."""
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise ParseError(
                "the head of a rule has no aliases",
                detail=f"'*{event.anchor}' stands for another part of it",
                position=_at(event.start_mark, lines) if event.start_mark else None,
            )


def _checked(name: str, node: yaml.Node, lines: Sequence[_Line] | None) -> Value:
    place = None if lines is None else _place(node, lines)
    if name in LISTS:
        texts = _texts(name, node, place)
        if name in FORMS and len(texts) > _MOST_TIMES:
            raise ParseError(f"'{name}' has at most {_MOST_TIMES} times", position=place)
        return _read(name, texts, place)
    if name in MAPS:
        return _attributes(name, node, lines)
    if not isinstance(node, yaml.ScalarNode):
        raise ParseError(f"'{name}' is one text", position=place)
    value = str(node.value).strip()
    choices = CHOICES.get(name, (value,))
    if value not in choices:
        raise ParseError(
            f"'{value}' is no {name}", hint=f"it is one of {', '.join(choices)}", position=place
        )
    _read(name, (value,), place)
    return value


def _read(name: str, texts: tuple[str, ...], place: Position | None) -> tuple[str, ...]:
    """The texts, of which each has the form that the field asks for. ParseError if not."""
    if name in FORMS:
        for text in texts:
            try:
                FORMS[name](text)
            except ParseError as error:
                raise error.at(place) from None
    return texts


def _texts(name: str, node: yaml.Node, place: Position | None) -> tuple[str, ...]:
    """A list of texts; one text alone is a list of one."""
    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    if not all(isinstance(item, yaml.ScalarNode) for item in items):
        hint = f"write '{name}: [one, two]', or a line '- one' for each"
        raise ParseError(f"'{name}' is a list of texts", hint=hint, position=place)
    return tuple(str(item.value) for item in items if item.value)


def _attributes(name: str, node: yaml.Node, lines: Sequence[_Line] | None) -> Mapping[str, str]:
    place = None if lines is None else _place(node, lines)
    pairs = node.value if isinstance(node, yaml.MappingNode) else None
    if pairs is None or not all(isinstance(n, yaml.ScalarNode) for pair in pairs for n in pair):
        hint = f"write '{name}: {{my_key: a text, another: a text}}'"
        raise ParseError(f"'{name}' has keys, each with a text", hint=hint, position=place)
    found: dict[str, str] = {}
    for key, value in pairs:
        if str(key.value) in found:
            twice = None if lines is None else _place(key, lines)
            raise ParseError(f"'{key.value}' is there twice", position=twice)
        found[str(key.value)] = str(value.value)
    return found


def _unknown(name: str, place: Position | None) -> SqlError:
    near = get_close_matches(name.lower(), FIELDS, 1, 0.7)
    return ParseError(
        f"a rule has no field '{name}'",
        detail=None if near else f"it has {', '.join(FIELDS)}",
        hint=f"did you mean '{near[0]}'?" if near else "put fields of your own below 'attributes'",
        position=place,
    )


def _place(node: yaml.Node, lines: Sequence[_Line]) -> Position:
    start, end = node.start_mark, node.end_mark
    assert start is not None
    assert end is not None
    found = _at(start, lines)
    width = end.column - start.column if end.line == start.line else 1
    return Position(found.line, found.column, max(width, 1))


def _at(mark: _Mark, lines: Sequence[_Line]) -> Position:
    line = lines[min(mark.line, len(lines) - 1)]
    return Position(line.number, line.indent + mark.column + 1)
