"""Cases of rules: `rule.test.yaml` beside `rule.sql`.

tables:                                  # rows that are there before those of any case
  hosts: [{host: web-1, owner: ops}]
cases:
  - name: an encoded command
    events:                              # of the one table that the rule reads,
      - {host: web-1, command: powershell -enc AA}
    alerts:                              # and what it writes: what is named is compared
      - {host: web-1, severity: high}
  - name: of several tables, in this order
    events: {processes: [{host: a}], logins: {file: logins.jsonl}}
    until: 2026-01-31 13:00:00           # the clock goes on to here behind the last event
    alerts: 1
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard

import yaml

from parser.errors import ParseError, Position, SqlError
from sqlengine.trial.events import RECORD, Row

SUFFIX: Final = ".test.yaml"
_EVENTS: Final = "events are lines of JSON in UTF-8, also as .gz"
# Rows as a file has them: of the one table, or by table.
Given: TypeAlias = Sequence[Row] | Mapping[str, Sequence[Row]]
Expected: TypeAlias = Sequence[Row] | int | Mapping[str, Sequence[Row] | int] | None

_MOST_PARTS: Final = 1_000_000
_FILE_KEYS: Final = ("tables", "cases")
_CASE_KEYS: Final = ("name", "events", "alerts", "errors", "until")


@dataclass(frozen=True)
class Span:
    """The place of a case's `alerts` in its file, as indexes of characters; `indent`:
    the column of the case's keys, `flow`: these stand in braces. Begin and end are equal where it
    has none."""

    begin: int
    end: int
    indent: int
    flow: bool


@dataclass(frozen=True)
class Case:
    """A named case. `events` and `alerts` as they are written (None: nothing is said of alerts);
    `errors`: the number of rows in error that there should be; `until`: where the clock goes on to
    behind the last event; `span`: where `alerts` stands, for `--update`."""

    name: str
    events: Given
    alerts: Expected
    errors: int
    until: str | None
    position: Position
    span: Span


@dataclass(frozen=True)
class CaseFile:
    """The cases of one file. `text`: as it stands there, without a byte order mark; `tables`: rows
    that are there before those of any case."""

    path: Path
    text: str
    tables: Given
    cases: tuple[Case, ...]


if TYPE_CHECKING or not yaml.__with_libyaml__:
    _Base = yaml.SafeLoader
else:
    _Base = yaml.CSafeLoader  # ten times as fast


class _Loader(_Base):
    """Reads times, dates and words such as `no` as texts."""

    yaml_implicit_resolvers = {  # noqa: RUF012  the name and the form are the library's
        letter: [(tag, r) for tag, r in found if tag.rsplit(":", 1)[-1] in ("null", "int", "float")]
        for letter, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), ["t", "f"])


def read_cases(path: Path) -> CaseFile:
    """Returns the cases of a file. ParseError with the position for what is none."""
    try:
        return _read(path, path.read_bytes().decode("utf-8-sig"))  # ends of lines stay
    except (OSError, UnicodeDecodeError) as error:
        raise ParseError(f"'{path}' cannot be read", detail=str(error)) from None
    except SqlError as error:
        raise error.in_file(str(path)) from None


def _read(path: Path, text: str) -> CaseFile:
    root = _compose(text)
    listed = isinstance(root, yaml.SequenceNode)
    keys = {"cases": root} if listed else _keys(root, _FILE_KEYS, "a file of cases")
    cases, tables = keys.get("cases"), keys.get("tables")
    if not isinstance(cases, yaml.SequenceNode) or not cases.value:
        hint = "write 'cases:', and below it a list of cases, each with 'name', 'events', 'alerts'"
        raise ParseError("there is no case", hint=hint, position=_place(root))
    given: Given = {} if tables is None else _given(tables, path)
    found = [_case(number, node, path) for number, node in enumerate(cases.value, 1)]
    return CaseFile(path, text, given, tuple(found))


def _compose(text: str) -> yaml.Node:
    try:
        root = yaml.compose(text, Loader=_Loader)
        if root is not None and "*" in text:
            _count_parts(root, {})
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = None if mark is None else Position(mark.line + 1, mark.column + 1)
        detail = " ".join(p for p in (error.context, error.problem) if p)
        raise ParseError("the file is no YAML", detail=detail, position=place) from None
    except (yaml.YAMLError, RecursionError) as error:
        detail = " ".join(str(error).split())
        raise ParseError("the file is no YAML", detail=detail, position=Position(1, 1)) from None
    if root is None:
        raise ParseError("the file is empty", position=Position(1, 1))
    return root


def _count_parts(node: yaml.Node, known: dict[int, int]) -> int:
    """Returns the number of parts of a tree with all that aliases in it stand for; `known` has it
    by identity. ParseError for a small text that aliases make large, or endless."""
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = _MOST_PARTS  # as long as it is open: it cannot be a part of itself
    parts = node.value if isinstance(node, yaml.CollectionNode) else ()
    inner = chain.from_iterable(parts) if isinstance(node, yaml.MappingNode) else parts
    found = 1 + sum(_count_parts(part, known) for part in inner)
    if found > _MOST_PARTS:
        most = f"aliases make more than {_MOST_PARTS:,} values of this"
        raise ParseError(most, position=_place(node))
    known[id(node)] = found
    return found


def _case(number: int, node: yaml.Node, path: Path) -> Case:
    keys = _keys(node, _CASE_KEYS, "a case")
    alerts, events = keys.get("alerts"), keys.get("events")
    errors, until = _value(keys.get("errors")), _value(keys.get("until"))
    if events is None:
        raise ParseError("a case has no events", position=_place(node))
    if errors is not None and not _is_number(errors):
        raise ParseError("'errors' is a number", position=_place(keys["errors"]))
    return Case(
        str(_value(keys.get("name")) or f"case {number}"),
        _given(events, path),
        None if alerts is None else _expected(alerts, path),
        errors or 0,
        None if until is None else str(until),
        _place(node),
        _span(node, alerts),
    )


def _keys(node: yaml.Node, known: Sequence[str], what: str) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise ParseError(f"{what} has keys: {', '.join(known)}", position=_place(node))
    for key, _ in node.value:
        if key.value not in known:
            near = get_close_matches(str(key.value), known, 1)
            raise ParseError(
                f"{what} has no '{key.value}'",
                detail=None if near else f"it has {', '.join(known)}",
                hint=f"did you mean '{near[0]}'?" if near else None,
                position=_place(key),
            )
    return _by_key(node)


def _by_key(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    """Returns the values of an object by their keys. ParseError for a key that stands there twice,
    of which YAML would take the last."""
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if str(key.value) in found:
            raise ParseError(f"'{key.value}' is there twice", position=_place(key))
        found[str(key.value)] = value
    return found


def _given(node: yaml.Node, path: Path) -> Given:
    """Rows of the one table, or by table; a table's may be in a file."""
    if isinstance(node, yaml.MappingNode) and not _is_file(node):
        return {table: _rows(value, path) for table, value in _by_key(node).items()}
    return _rows(node, path)


def _expected(node: yaml.Node, path: Path) -> Expected:
    if isinstance(node, yaml.MappingNode) and not _is_file(node):
        return {table: _rows_or_number(value, path) for table, value in _by_key(node).items()}
    return _rows_or_number(node, path)


def _rows_or_number(node: yaml.Node, path: Path) -> Sequence[Row] | int:
    number = _value(node)
    return number if _is_number(number) else _rows(node, path)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _rows(node: yaml.Node, path: Path) -> Sequence[Row]:
    if _is_file(node):
        file = path.parent / str(_value(node.value[0][1]))
        check_place(file, path, _place(node))
        return list(_rows_in(file, _place(node)))
    for row in node.value if isinstance(node, yaml.SequenceNode) else ():
        if isinstance(row, yaml.MappingNode):
            _by_key(row)
    rows = _value(node)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        hint = "write a list, with one '- {column: value}' for each, or 'file: rows.jsonl'"
        raise ParseError("rows are expected here", hint=hint, position=_place(node))
    return [{str(name): value for name, value in row.items()} for row in rows]


def _is_file(node: yaml.Node) -> bool:
    """True for {file: PATH}, unless a table is called so."""
    return (
        isinstance(node, yaml.MappingNode)
        and [key.value for key, _ in node.value] == ["file"]
        and isinstance(node.value[0][1], yaml.ScalarNode)
    )


def _rows_in(file: Path, place: Position) -> Iterator[Row]:
    """Yields the rows of a file of JSON lines, gzip too; records, as `sql topic read --output json`
    shows them, under `RECORD`: what they are rows of is known later."""
    try:
        opened = gzip.open if file.suffix == ".gz" else open
        with opened(file, "rt", encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _row_in(line, f"{file}:{number}")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        hint = _EVENTS if isinstance(error, UnicodeDecodeError) else None
        raise ParseError(
            f"'{file}' cannot be read", detail=str(error), hint=hint, position=place
        ) from None
    except SqlError as error:
        raise error.at(place) from None


def check_place(file: Path, named_by: Path, place: Position | None = None) -> None:
    """Raises ParseError for a file that a rule or its cases name, and that leads elsewhere than to
    the folder of the rule or the one in which the command runs: who runs the cases of others shows
    nobody what else he has."""
    try:
        file.exists()
        real = file.resolve()
        inside = any(real.is_relative_to(folder.resolve()) for folder in (named_by.parent, Path()))
    except (OSError, ValueError, RuntimeError) as error:
        raise ParseError(f"'{file}' names no file", detail=str(error), position=place) from None
    if not inside:
        raise ParseError(
            f"'{file}' is in neither the folder of the cases nor the current one",
            hint="run the command in a folder that has both, or copy the file",
            position=place,
        )


def _row_in(line: str, place: str) -> Row:
    try:
        row = json.loads(line)
        json.dumps(row, ensure_ascii=False).encode()  # halves of characters are none
    except (ValueError, RecursionError) as error:
        raise ParseError(f"{place} is no JSON", detail=str(error), hint=_EVENTS) from None
    if not isinstance(row, dict):
        raise ParseError(f"{place} is no object")
    return {RECORD: row} if is_record(row) else row


def is_record(row: Row) -> bool:
    """True for an object that is a record of a topic, and no row of a table."""
    return "offset" in row and not row.keys().isdisjoint(("value", "value_base64"))


def _value(node: yaml.Node | None) -> object:
    """The value of a tree: numbers, texts, true, false and NULL, lists and objects of them."""
    if node is None:
        return None
    loader = _Loader("")
    try:
        value = loader.construct_document(node)
        str(value)  # what has too many digits is no number
        return value
    except (yaml.YAMLError, ValueError) as error:
        detail = " ".join(str(error).split())
        raise ParseError("a value cannot be read", detail=detail, position=_place(node)) from None
    finally:
        loader.dispose()


def _span(case: yaml.Node, alerts: yaml.Node | None) -> Span:
    """Returns the place of `alerts` with its key; behind the last key where there is none."""
    assert isinstance(case, yaml.MappingNode)
    key = next((k for k, _ in case.value if k.value == "alerts"), None)
    end = _end(case.value[-1][1] if alerts is None else alerts)
    begin = end if key is None else key.start_mark.index
    return Span(begin, end, case.value[0][0].start_mark.column, bool(case.flow_style))


def _end(node: yaml.Node) -> int:
    """Returns the end of the last part of a tree; a block itself ends in front of what comes behind
    it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(node, yaml.MappingNode) else last)
    assert node.end_mark is not None
    return node.end_mark.index


def _place(node: yaml.Node) -> Position:
    mark = node.start_mark
    assert mark is not None
    return Position(mark.line + 1, mark.column + 1)
