"""What windows there are: where they begin and end, in ms of the clock of their time zone."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TypeAlias


@dataclass(frozen=True)
class Tumble:
    """Windows of `size_ms` that begin at multiples of it plus `offset_ms`, in the time zone
    `zone`."""

    time_column: str
    size_ms: int
    offset_ms: int = 0
    zone: str = "UTC"

    @property
    def slice_ms(self) -> int:
        """The length of the parts that windows are made of: each row is in one of them."""
        return self.size_ms

    def __str__(self) -> str:
        return f"TUMBLE({self.time_column}, {self.size_ms} ms{_shown(self.offset_ms)})"


@dataclass(frozen=True)
class Hop:
    """Windows of `size_ms` of which one begins at each multiple of `slide_ms` plus `offset_ms`."""

    time_column: str
    slide_ms: int
    size_ms: int
    offset_ms: int = 0
    zone: str = "UTC"

    @property
    def slice_ms(self) -> int:
        return gcd(self.slide_ms, self.size_ms)

    def __str__(self) -> str:
        return (
            f"HOP({self.time_column}, {self.slide_ms} ms, {self.size_ms}"
            f" ms{_shown(self.offset_ms)})"
        )


@dataclass(frozen=True)
class Cumulate:
    """Windows that begin at multiples of `size_ms` plus `offset_ms` and end at each multiple of
    `step_ms` behind that, up to `size_ms`."""

    time_column: str
    step_ms: int
    size_ms: int
    offset_ms: int = 0
    zone: str = "UTC"

    @property
    def slice_ms(self) -> int:
        return self.step_ms

    def __str__(self) -> str:
        return (
            f"CUMULATE({self.time_column}, {self.step_ms} ms, {self.size_ms}"
            f" ms{_shown(self.offset_ms)})"
        )


@dataclass(frozen=True)
class Session:
    """For each value of `keys` (none: for all rows), windows from a row to `gap_ms` behind the last
    one that came less than `gap_ms` after the one before it."""

    time_column: str
    gap_ms: int
    keys: tuple[str, ...] = ()
    zone: str = "UTC"

    def __str__(self) -> str:
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"SESSION({self.time_column}, {self.gap_ms} ms{by})"


# Windows that lie where they lie whatever rows there are.
Aligned: TypeAlias = Tumble | Hop | Cumulate
Window: TypeAlias = Aligned | Session


def _shown(offset_ms: int) -> str:
    return f", offset {offset_ms} ms" if offset_ms else ""
