"""Names and filters of topics: what they may be, which names a filter takes, and whether two
filters take the same one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_SHARED: Final = "$share/"
# Bytes of a name.
LONGEST: Final = 65_535


def filters_of(text: str) -> tuple[str, ...]:
    """Returns the filters of the option 'topic', in order. ValueError for one that is none, or for
    two that take the same names: each message would come twice."""
    filters = tuple(sorted({part.strip() for part in text.split(";")}))
    for one in filters:
        check_filter(one)
    for i, one in enumerate(filters):
        for other in filters[i + 1 :]:
            if overlap(one, other):
                raise ValueError(f"'{one}' and '{other}' take messages of the same topics")
    return filters


def check_filter(text: str) -> None:
    """Raises ValueError unless a text is a filter of topics."""
    if text.startswith(_SHARED):
        _, group, *rest = text.split("/", 2)
        if not group or not rest or set(group) & {"+", "#"}:
            raise ValueError(f"'{text}' is no shared subscription: $share/GROUP/FILTER")
        text = rest[0]
    if not text or "\0" in text or len(text.encode()) > LONGEST:
        raise ValueError("a filter of topics has 1 to 65,535 bytes, none of them 0")
    levels = text.split("/")
    for number, level in enumerate(levels, 1):
        if "#" in level and (level != "#" or number < len(levels)):
            raise ValueError(f"# stands alone at the end of a filter, not as in '{text}'")
        if "+" in level and level != "+":
            raise ValueError(f"+ stands for a whole level, not as in '{text}'")


def name_error(name: str) -> str | None:
    """Returns why nothing can be published under a name; None if it can."""
    if not name:
        return "the topic is empty"
    if any(mark in name for mark in "+#\0"):
        return f"topic '{name[:100]}' has one of +, # and the character 0"
    if len(name.encode()) > LONGEST:
        return f"the topic has more than {LONGEST:,} bytes"
    return None


def unshared(filter_: str) -> str:
    """Returns the filter of a shared subscription, and any other as it is."""
    return filter_.split("/", 2)[2] if filter_.startswith(_SHARED) else filter_


def matches(filter_: str, name: str) -> bool:
    """True if a filter takes the messages of a topic."""
    return _meet(unshared(filter_).split("/"), name.split("/"))


def overlap(one: str, other: str) -> bool:
    """True if there is a topic whose messages both filters take. A shared subscription is one of
    its own."""
    if one.startswith(_SHARED) or other.startswith(_SHARED):
        return one == other
    return _meet(one.split("/"), other.split("/"))


def _meet(one: Sequence[str], other: Sequence[str]) -> bool:
    """True if two lists of levels, of which either may have wildcards, stand for the same name."""
    wild = ("+", "#")
    if (one[0] in wild and other[0].startswith("$")) or (
        other[0] in wild and one[0].startswith("$")
    ):
        return False  # the server's own topics are asked for by name
    for a, b in zip(one, other, strict=False):
        if "#" in (a, b):
            return True
        if a != b and "+" not in (a, b):
            return False
    longer = max(one, other, key=len)
    return len(one) == len(other) or longer[min(len(one), len(other))] == "#"
