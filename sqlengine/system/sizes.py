"""Sizes and times as users write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_SIZE = re.compile(r"\s*+([0-9]++)\s*+(b|bytes|[kmgt]b?)?\s*+")
_POWERS = {"k": 10, "m": 20, "g": 30, "t": 40}


def size(text: str) -> int:
    """Bytes of `512 mb`, `1g`, `100 kb`, as Flink counts them: 1 kb is 1024. A bare number counts
    bytes."""
    match = _SIZE.fullmatch(text.lower())
    if not match or int(match[1]) == 0:
        raise ValueError("expected a size such as '512 mb'")
    return int(match[1]) << _POWERS.get((match[2] or "b")[0], 0)


def moment_ms(text: str) -> int:
    """Returns a time in ms since 1970, given so or in ISO 8601 (UTC where it says nothing else).
    Raises ValueError for anything else."""
    try:
        if text.isascii() and text.isdigit():
            datetime.fromtimestamp(int(text) / 1000, UTC)  # up to the year 9999
            return int(text)
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        hint = "a time is 2026-01-31T12:00 (UTC), or ms since 1970"
        raise ValueError(f"'{text[:60]}' is no time: {hint}") from None
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)
