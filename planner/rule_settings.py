"""The head of a rule as settings of its job: 'rule.title', 'rule.severity' and so on.

A text of a job has them in comments at its beginning (`parser.rule_head`); SET gives them to one
without. Lists and own attributes are JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from parser.errors import OptionError, ParseError, SqlError
from parser.rule_head import FIELDS, Field, Value, field_value

PREFIX: Final = "rule."


class Status(StrEnum):
    """The part of its life that a rule is in."""

    DRAFT = "draft"  # it is checked, and does not run
    SHADOW = "shadow"  # it runs beside the live version, and writes nothing to its tables
    LIVE = "live"
    RETIRED = "retired"  # it does not run any more


@dataclass(frozen=True)
class Rule:
    """The head of a rule. Texts that it does not have are '', `severity` is one of
    `parser.rule_head.SEVERITIES` then; `attributes` are the owner's own."""

    title: str = ""
    id: str = ""
    severity: str = ""
    status: Status = Status.LIVE
    canary: str = ""
    owner: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    false_positives: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    suppress: str = ""
    threshold: str = ""
    limit: str = ""
    maintenance: tuple[str, ...] = ()


def rule_settings(head: Mapping[str, Field]) -> dict[str, str]:
    """Returns the settings that stand for a head."""
    return {_key(name): _written(found.value) for name, found in head.items()}


def check_rule_setting(key: str, value: str) -> None:
    """Raises OptionError for a value that a field of a head cannot have."""
    name = next(name for name in FIELDS if _key(name) == key)
    try:
        field_value(name, value)
    except ParseError as error:
        raise OptionError(
            f"'{key}' cannot be '{value}'", detail=error.reason, hint=error.hint, subject=key
        ) from None


def at_head(error: SqlError, head: Mapping[str, Field]) -> SqlError:
    """Moves the position of an error about what a field of the head asks for to that field; returns
    the error itself."""
    place = next((f.position for n, f in head.items() if _key(n) == error.subject), None)
    # An OptionError is about SET, and has its place.
    if place is not None and not isinstance(error, OptionError):
        error.position = place
    return error


def rule_in(settings: Mapping[str, str]) -> Rule | None:
    """Returns the head that settings stand for; None where there is none of it."""
    found = {n: field_value(n, settings[_key(n)]) for n in FIELDS if _key(n) in settings}
    return msgspec.convert(found, Rule) if found else None


def _key(name: str) -> str:
    return PREFIX + name.replace("_", "-")


def _written(value: Value) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, ensure_ascii=False)


RULE_KEYS: Final = frozenset(map(_key, FIELDS))
