"""Names and numbers in messages."""

from __future__ import annotations

from collections.abc import Sequence


def listed(names: Sequence[str], few: int = 5) -> str:
    """Returns the first `few` names, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - few:,} more" if len(names) > few else ""
    return ", ".join(names[:few]) + more


def counted(names: Sequence[str], noun: str = "job") -> str:
    """Returns `job a`, or `3 jobs (a, b, c)`."""
    if len(names) == 1:
        return f"{noun} {names[0]}"
    return f"{len(names):,} {noun}s ({listed(names)})"
