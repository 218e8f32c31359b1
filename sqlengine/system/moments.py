"""Times that people write."""

from __future__ import annotations

from datetime import UTC, datetime


def moment_ms(text: str) -> int:
    """Returns a time in ms since 1970, given so or in ISO 8601 (UTC where it says nothing else).
    Raises ValueError for anything else."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        hint = "a time is 2026-01-31T12:00 (UTC), or ms since 1970"
        raise ValueError(f"'{text[:60]}' is no time: {hint}") from None
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)
