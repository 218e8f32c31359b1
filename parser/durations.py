"""Durations as people write them: '1 h', '500 ms', '2days'."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {
    ("ms", "milli", "millis", "millisecond", "milliseconds"): 1,
    ("s", "sec", "secs", "second", "seconds"): 1_000,
    ("m", "min", "minute", "minutes"): 60_000,
    ("h", "hour", "hours"): 3_600_000,
    ("d", "day", "days"): 86_400_000,
}
_DURATION = re.compile(r"\s*+(\d{1,18})\s*+([a-z]*)\s*+", re.IGNORECASE | re.ASCII)


def unit_ms(name: str) -> int | None:
    """Returns the ms of a unit by its name; None for what is none."""
    return next((ms for names, ms in _UNITS.items() if name.lower() in names), None)


def duration_in(text: str) -> int | None:
    """Returns the ms of a duration, of which a number alone is one; None for what is none."""
    match = _DURATION.fullmatch(text)
    unit = None if match is None else unit_ms(match[2] or "ms")
    return None if match is None or unit is None else int(match[1]) * unit
