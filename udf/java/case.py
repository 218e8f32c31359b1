"""Case-insensitive matching as Java's patterns do it: the characters that are one letter."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

Spans: TypeAlias = list[tuple[str, str]]
_ASCII = (("a", "z", -32), ("A", "Z", 32))


def with_case(low: str, high: str, *, everywhere: bool) -> Spans:
    """The characters from `low` to `high` and their other cases: those of ASCII letters, or of all
    (flag u)."""
    spans = [(low, high)]
    if everywhere and low == high and _upper(low) == _fold(low):
        return spans  # without two cases of its own, Java does not look for others
    if everywhere:
        folded = {c: _fold(c) for c in _cased()}
        asked = {f for c, f in folded.items() if low <= c <= high}
        return spans + [(c, c) for c, f in folded.items() if f in asked and not low <= c <= high]
    for first, last, shift in _ASCII:
        start, end = max(low, first), min(high, last)
        if start <= end:
            spans.append((chr(ord(start) + shift), chr(ord(end) + shift)))
    return spans


def _fold(char: str) -> str:
    """Folds case as Java does: the lower case of the upper case, each of one character only."""
    return _upper(char).lower()[0]


def _upper(char: str) -> str:
    if len(char.upper()) == 1:
        return char.upper()
    return char.title() if len(char.title()) == 1 else char


@lru_cache(maxsize=1)
def _cased() -> tuple[str, ...]:
    """Returns all characters that have two cases (about 2,900; none is beyond these planes)."""
    return tuple(c for c in map(chr, range(0x1F000)) if c.upper() != c or c.lower() != c)
