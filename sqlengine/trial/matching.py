"""Rows that are expected beside those that came: only what is named is compared."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlengine.trial.events import Row

_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")


@dataclass(frozen=True)
class Difference:
    """The difference between the rows of a table and those expected: rows that did not come, rows
    that nobody expected, and the numbers of all."""

    table: str
    missing: tuple[Row, ...]
    unexpected: tuple[Row, ...]
    expected: int
    came: int


def difference(table: str, expected: Sequence[Row] | int, came: Sequence[Row]) -> Difference | None:
    """Returns how the rows that came differ from those expected, in any order; None where they do
    not. A number says how many are expected."""
    if isinstance(expected, int):
        if len(came) == expected:
            return None
        return Difference(table, (), tuple(came), expected, len(came))
    missing, left = [], list(came)
    # Whoever names more has less to choose from.
    for row in sorted(expected, key=len, reverse=True):
        found = next((other for other in left if _matches(row, other)), None)
        if found is None:
            missing.append(row)
        else:
            left.remove(found)
    if not missing and not left:
        return None
    return Difference(table, tuple(missing), tuple(left), len(expected), len(came))


def _matches(expected: object, came: object) -> bool:
    """True if all that is named of a value is as it says; of a list each part."""
    if isinstance(expected, Mapping):
        return isinstance(came, Mapping) and all(
            (name in came or value is None) and _matches(value, came.get(name))
            for name, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(came, list)
            and len(came) == len(expected)
            and all(map(_matches, expected, came))
        )
    if isinstance(expected, bool) or isinstance(came, bool):
        return expected is came
    if isinstance(expected, int | float) and isinstance(came, int | float):
        return expected == came
    return _text(expected) == _text(came)


def _text(value: object) -> object:
    """A number beside a text is compared as it is written; times as the engine writes them."""
    if isinstance(value, str):
        return value.rstrip("Z").replace("T", " ") if _TIME.match(value) else value
    return value if value is None else str(value)
