"""`canary` in the head of a rule: how long a version runs beside the live one before it takes its
place by itself, and how many rows it may give in that time.

    -- canary: 1h
    -- canary: 1h, max-rate 2x          twice the rows of the live version
    -- canary: 2 days, max-rate 100/h"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from parser.errors import ParseError

HINT: Final = "write '1h', '1h, max-rate 2x' or '1h, max-rate 100/h'"
_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNITS: Final = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d"}
_NUMBER: Final = r"(\d{1,12}(?:\.\d{1,12})?)"
_DURATION: Final = re.compile(rf"{_NUMBER} *([a-z]+)")
_RATIO: Final = re.compile(rf"{_NUMBER} *x")
_RATE: Final = re.compile(rf"{_NUMBER} */ *([a-z]+)")
_MOST_MS: Final = 365 * _MS["d"]
# Fewer rows of the live version are no measure: they count as so many.
LEAST: Final = 10


@dataclass(frozen=True)
class Canary:
    """The trial of a version: for `duration_ms`, with at most `ratio` times the rows of the live
    version, or `per_ms` rows a millisecond; None: any number."""

    duration_ms: int
    ratio: float | None = None
    per_ms: float | None = None

    def bound(self, live: int) -> float | None:
        """Returns the rows that it may give in the whole time, where the live version gives `live`
        in it; None for any number."""
        if self.ratio is not None:
            return self.ratio * max(live, LEAST)
        # 1 an hour in an hour is 1, and not 0.9999999999999999.
        return None if self.per_ms is None else round(self.per_ms * self.duration_ms, 6)

    def bound_so_far(self, live: int, ran_ms: int) -> float | None:
        """Returns the rows with which it is out of bounds for certain after `ran_ms`, even if it
        gives no more: if the live version goes on as it does, with `live` rows so far."""
        if self.ratio is None:
            return self.bound(live)
        left = self.duration_ms / min(max(ran_ms, 1), self.duration_ms)
        return self.ratio * max(live, LEAST) * left


def canary_of(text: str) -> Canary:
    """Returns what the text says. ParseError for what is none."""
    first, _, bound = (part.strip() for part in text.partition(","))
    found = _DURATION.fullmatch(first)
    unit = found and _unit(found[2])
    if found is None or not unit:
        raise ParseError(f"'{text}' is no canary", detail="it begins with a time", hint=HINT)
    duration = round(float(found[1]) * _MS[unit])
    if not _MS["s"] <= duration <= _MOST_MS:
        raise ParseError("a canary lasts from a second to a year", hint=HINT)
    return _bounded(duration, bound, text) if bound else Canary(duration)


def _bounded(duration: int, bound: str, text: str) -> Canary:
    key, _, value = (part.strip() for part in bound.partition(" "))
    ratio, rate = _RATIO.fullmatch(value), _RATE.fullmatch(value)
    unit = rate and _unit(rate[2])
    if key == "max-rate" and ratio is not None and float(ratio[1]) > 0:
        return Canary(duration, ratio=float(ratio[1]))
    if key == "max-rate" and rate is not None and unit:
        return Canary(duration, per_ms=float(rate[1]) / _MS[unit])
    raise ParseError(
        f"'{text}' is no canary", detail=f"'{bound}' is no bound of its rows", hint=HINT
    )


def _unit(word: str) -> str | None:
    """Returns the unit that a word names: s, m, h or d."""
    word = word if word in _MS else word.removesuffix("s")
    unit = _UNITS.get(word, word)
    return unit if unit in _MS else None
