"""Checking WITH options against their declarations: every mistake is named, with what was probably
meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping

from parser.errors import OptionError
from planner.settings import FOR_EVER_MS
from sqlengine.batch import RowKind
from sqlengine.formats.base import Option

# Hints name all of so many options, else a few.
_MANY, _FEW = 8, 5


def boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("expected 'true' or 'false'")
    return lowered == "true"


def integer(text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise ValueError("expected an integer") from None


def at_least(least: int) -> Callable[[str], int]:
    """An integer of `least` or more."""

    def parse(text: str) -> int:
        value = integer(text)
        if value < least:
            raise ValueError(f"expected an integer of {least} or more")
        return value

    return parse


def between(least: int, most: int) -> Callable[[str], int]:
    """An integer from `least` to `most`."""

    def parse(text: str) -> int:
        value = integer(text)
        if not least <= value <= most:
            raise ValueError(f"expected an integer from {least} to {most:,}")
        return value

    return parse


def delay(text: str) -> int:
    """Parses a `duration` that may be 0."""
    return 0 if _NOTHING.fullmatch(text) else duration(text)


_NOTHING = re.compile(r"\s*+0++\s*+(ms|s|min|m|h|d)?\s*+")
_DURATION = re.compile(r"\s*+([0-9]++)\s*+(ms|s|min|m|h|d)?\s*+")
_MILLIS = {"ms": 1, "s": 1000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration(text: str) -> int:
    """Milliseconds of `10 s`, `500 ms`, `1 min`; a bare number counts milliseconds. At most
    `FOR_EVER_MS`."""
    match = _DURATION.fullmatch(text)
    if not match or int(match[1]) == 0:
        raise ValueError("expected a duration such as '10 s'")
    return min(int(match[1]) * _MILLIS[match[2] or "ms"], FOR_EVER_MS)


def number(text: str) -> float:
    try:
        return float(text.strip())
    except ValueError:
        raise ValueError("expected a number") from None


def choice(*values: str) -> Callable[[str], str]:
    """Returns a parser of one of `values` in any case; the result is written as in `values`."""
    known = {v.lower(): v for v in values}

    def parse(text: str) -> str:
        if text.strip().lower() not in known:
            raise ValueError("expected " + " or ".join(f"'{v}'" for v in values))
        return known[text.strip().lower()]

    return parse


def exactly(*values: str) -> Callable[[str], str]:
    """Returns a parser of one of `values` as they are written."""

    def parse(text: str) -> str:
        if text not in values:
            raise ValueError("expected " + " or ".join(f"'{v}'" for v in values))
        return text

    return parse


def character(text: str) -> str:
    if len(text) != 1:
        raise ValueError("expected a single character")
    return text


_KINDS = {
    "I": RowKind.INSERT,
    "UB": RowKind.UPDATE_BEFORE,
    "UA": RowKind.UPDATE_AFTER,
    "D": RowKind.DELETE,
}


def kinds(text: str) -> frozenset[RowKind]:
    """Kinds of rows, as in `I,UB,UA,D`."""
    names = [name.strip().upper() for name in text.split(",")]
    if not set(names) <= set(_KINDS):
        raise ValueError("expected some of I, UB, UA and D, separated by commas")
    return frozenset(_KINDS[name] for name in names)


def did_you_mean(name: str, known: Collection[str]) -> str | None:
    """A hint for a name that is not known, None when nothing is near."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else None


def probably_meant(name: str, known: Collection[str]) -> str | None:
    """A hint for an option that is not known, None when nothing is near. The prefix of a format may
    be missing, or stand behind `value.` as in Flink's upsert connectors."""
    near = did_you_mean(name, known)
    if near is None:
        last = name.rpartition(".")[2]
        ends = [k for k in known if k.rpartition(".")[2] == last]
        near = f"did you mean '{ends[0]}'?" if ends else None
    return near


def known_options(name: str, known: Collection[str]) -> str:
    """A hint with the options that there are; of many the few that are most like `name`, and the
    page that lists all."""
    if len(known) <= _MANY:
        return f"known options: {', '.join(sorted(known)) or 'none'}"
    likeness = {k: difflib.SequenceMatcher(None, name, k).ratio() for k in sorted(known)}
    nearest = sorted(sorted(known), key=lambda k: -likeness[k])[:_FEW]
    return f"known options: {', '.join(nearest)}, …; docs/connectors.md lists all {len(known)}"


def parse_options(
    given: Mapping[str, str], declared: Mapping[str, Option], owner: str
) -> dict[str, object]:
    """Returns every declared option's value by name, None where it is neither given nor has a
    default.

    OptionError for an unknown name, a bad value or a required option that is missing; `owner` says
    whose they are."""
    for name in given:
        if name not in declared:
            hint = did_you_mean(name, declared) or known_options(name, declared)
            raise OptionError(f"unknown option '{name}' of {owner}", hint=hint, subject=name)
    return {
        name: _value(name, option, given.get(name, option.default), owner)
        for name, option in declared.items()
    }


def _value(name: str, option: Option, text: str | None, owner: str) -> object:
    if text is None:
        if option.required:
            raise OptionError(
                f"{owner} needs the option '{name}'", hint=option.doc or None, subject=name
            )
        return None
    try:
        if option.required and not text.strip():
            raise ValueError("it is empty")
        return option.parse(text)
    except ValueError as error:
        message = f"bad value '{text}' for option '{name}' of {owner}"
        raise OptionError(message, detail=str(error), subject=name) from None
