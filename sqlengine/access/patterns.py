"""Patterns of names: `*` stands for any characters, also none; all others for themselves.

Matching takes time in proportion to the name, whatever the pattern: names come from strangers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# As names of topics, jobs, connectors, functions and secrets, and the star.
_PATTERN: Final = re.compile(r"[A-Za-z0-9_.*-]{1,200}", re.ASCII)


def is_pattern(text: str) -> bool:
    """True for a pattern of names. Brackets, question marks and spaces are none: they would not do
    what others who see them may expect."""
    return _PATTERN.fullmatch(text) is not None


def matches(pattern: str, name: str) -> bool:
    """True if the pattern stands for the whole name, in the same letters.

    >>> matches("fraud.*", "fraud.cards"), matches("fraud.*", "Fraud.cards")
    (True, False)
    >>> matches("*.eu.*", "a.eu.b"), matches("fraud.*", "not.fraud.cards")
    (True, False)
    """
    first, *others = pattern.split("*")
    if not others:
        return name == pattern
    last = others.pop()
    if len(name) < len(first) + len(last):
        return False
    if not (name.startswith(first) and name.endswith(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for part in others:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def any_matches(patterns: Iterable[str], name: str) -> bool:
    """True if one of the patterns stands for the name."""
    return any(matches(pattern, name) for pattern in patterns)
