"""The progress of a statement, for people who wait."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TextIO

from parser.errors import ServiceError

# What `progress=` takes: whether to show a line, or what to call.
Told = bool | Callable[["Progress"], object]


@dataclass(frozen=True)
class Progress:
    """The progress of a statement. `rows`: those that were taken from the result; `rows_read`:
    rows of its tables; `seconds`: since it began; `watermark`: that of its rows (UTC), None where
    there is none."""

    rows: int
    rows_read: int
    seconds: float
    watermark: dt.datetime | None

    @property
    def rate(self) -> float:
        """Rows of its tables that were read a second."""
        return self.rows_read / self.seconds if self.seconds else 0.0

    @staticmethod
    def of(about: Mapping[str, object], rows: int, seconds: float) -> Progress:
        """Returns what a page tells of its query."""
        read, past = about.get("rows_read"), about.get("watermark_ms")
        assert isinstance(read, int)
        when = None
        if isinstance(past, int):
            when = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=past)
        return Progress(rows, read, seconds, when)

    def __str__(self) -> str:
        past = "" if self.watermark is None else f", events up to {self.watermark:%F %T}"
        return f"{self.rows_read:,} rows read, {self.rate:,.0f} a second{past}"


def teller(told: Told, out: TextIO | None = None) -> Callable[[Progress], object] | None:
    """Returns what to call with progress: for True a function that keeps one line on standard
    error. ServiceError for what is no function."""
    if told is True:
        to = out or sys.stderr
        return lambda progress: print(f"\r{progress}\x1b[K", end="", file=to, flush=True)
    if told and not callable(told):
        raise ServiceError(f"'progress' is True or a function, not {told!r:.60}")
    return told or None
