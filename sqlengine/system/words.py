"""Names and numbers in messages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def count(number: int, noun: str) -> str:
    """Returns a number with its noun: 1 job, 1,414 jobs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], few: int = 5) -> str:
    """Returns the first `few` names, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - few:,} more" if len(names) > few else ""
    return ", ".join(names[:few]) + more


def counted(names: Sequence[str], noun: str = "job") -> str:
    """Returns `job a`, or `3 jobs (a, b, c)`."""
    if len(names) == 1:
        return f"{noun} {names[0]}"
    return f"{len(names):,} {noun}s ({listed(names)})"


def grouped(said: Iterable[tuple[K, str]]) -> dict[K, list[str]]:
    """Returns the names of which the same is said, by that, in the order in which it comes: so that
    it is told once."""
    names: dict[K, list[str]] = {}
    for what, name in said:
        names.setdefault(what, []).append(name)
    return names


def seconds(number: float) -> str:
    """Returns a time in words: 12 ms, 3.4 s, 1,414 s."""
    if number < 1:
        return f"{number * 1000:.0f} ms"
    return f"{number:,.1f} s" if number < 100 else f"{number:,.0f} s"


def span(ms: float) -> str:
    """Returns a span of time in words, by its two largest units: 45 s, 12 min 5 s, 1 h, 2 d 3 h."""
    left, parts = round(ms / 1000), list[str]()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, left = divmod(left, size)
        parts += [f"{number} {unit}"] * bool(number)
    return " ".join(parts[:2]) or "0 s"
