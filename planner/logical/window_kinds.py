"""The kinds of windows and their arithmetic: TUMBLE, HOP, CUMULATE and SESSION (FLIP-145)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from planner.logical.window_specs import (
    AlignedWindow,
    DisjointWindow,
    Times,
    Window,
    WindowFunction,
)

_TABLE = "TABLE t, DESCRIPTOR(time column), "


class _EvenSlices(AlignedWindow):
    """Slices of one length, of which one begins at `offset_ms` (before or behind 1970). Lengths may
    be columns (`Window.of_rows`): nothing here asks which of two is greater but with NumPy."""

    offset_ms: int

    @property
    @abstractmethod
    def slice_ms(self) -> int:
        """The length of a slice."""

    def slice_numbers(self, times: Times) -> Times:
        return (times - self.offset_ms) // self.slice_ms

    def slice_ends(self, times: Times) -> Times:
        return times - (times - self.offset_ms) % self.slice_ms + self.slice_ms

    def slice_starts(self, ends: Times) -> Times:
        return ends - self.slice_ms

    @property
    def _offset(self) -> str:
        shown = self.lengths_in or self.offset_ms
        return f", offset {self.shown('offset_ms')}" if shown else ""


class _OverlappingWindow(_EvenSlices):
    """Windows of up to `size_ms` that end at equal distances."""

    may_overlap: ClassVar[bool] = True
    # The order of the windows of one row.
    latest_first: ClassVar[bool] = False

    size_ms: int

    @property
    @abstractmethod
    def distance_ms(self) -> int:
        """The distance from the end of one window to that of the next, in ms."""

    @property
    def is_disjoint(self) -> bool:
        return self.slice_ms == self.size_ms

    @property
    def has_gaps(self) -> bool:
        return bool(np.any(np.greater(self.distance_ms, self.size_ms)))

    def next_ends(self, ends: Times, nth: Times | int = 1) -> Times:
        return ends + nth * self.distance_ms

    def previous_ends(self, ends: Times) -> Times:
        return ends - self.distance_ms

    def later_ends(self, ends: Times, now: int) -> Times:
        return ends + ((now - ends) // self.size_ms + 1) * self.size_ms

    def window_counts(self, slices: Times) -> Times:
        between = self.last_ends(slices) - self.first_ends(slices)
        counts: Times = np.maximum(between // self.distance_ms + 1, 0)
        return counts

    def window_ends(self, slices: Times, nth: Times) -> Times:
        if self.latest_first:
            return self.last_ends(slices) - nth * self.distance_ms
        return self.first_ends(slices) + nth * self.distance_ms


@dataclass(frozen=True)
class Tumble(DisjointWindow, _EvenSlices):
    """Windows of `size_ms`, of which one begins at `offset_ms`."""

    name: ClassVar[str] = "TUMBLE"
    function: ClassVar[WindowFunction] = WindowFunction(
        ("SIZE", "OFFSET"), f"TUMBLE({_TABLE}INTERVAL '1' MINUTE)"
    )
    group_lengths: ClassVar[tuple[str, ...] | None] = ("SIZE",)
    in_two_steps: ClassVar[bool] = True
    length_fields: ClassVar[tuple[str, ...]] = ("size_ms", "offset_ms")

    size_ms: int
    offset_ms: int = 0
    zone: str = "UTC"

    @classmethod
    def of_lengths(cls, time_column: str, zone: str, lengths: Mapping[str, int]) -> Self:
        return cls(time_column, lengths["SIZE"], lengths.get("OFFSET", 0), zone)

    def fault(self) -> tuple[str, str] | None:
        if abs(self.offset_ms) < self.size_ms:
            return None
        return "OFFSET", "the offset of a window must be smaller than its size"

    @property
    def slice_ms(self) -> int:
        return self.size_ms

    def __str__(self) -> str:
        return f"TUMBLE({self.time_column}, {self.shown('size_ms')}{self._offset})"


@dataclass(frozen=True)
class Hop(_OverlappingWindow):
    """Windows of `size_ms`, of which one begins at each multiple of `slide_ms` plus `offset_ms`."""

    name: ClassVar[str] = "HOP"
    function: ClassVar[WindowFunction] = WindowFunction(
        ("SLIDE", "SIZE", "OFFSET"), f"HOP({_TABLE}INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)"
    )
    group_lengths: ClassVar[tuple[str, ...] | None] = ("SLIDE", "SIZE")
    latest_first: ClassVar[bool] = True
    length_fields: ClassVar[tuple[str, ...]] = ("slide_ms", "size_ms", "offset_ms")

    slide_ms: int
    size_ms: int
    offset_ms: int = 0
    zone: str = "UTC"

    @classmethod
    def of_lengths(cls, time_column: str, zone: str, lengths: Mapping[str, int]) -> Self:
        offset_ms = lengths.get("OFFSET", 0)
        return cls(time_column, lengths["SLIDE"], lengths["SIZE"], offset_ms, zone)

    @property
    def slice_ms(self) -> int:
        length: int = np.gcd(self.slide_ms, self.size_ms)
        return length

    @property
    def distance_ms(self) -> int:
        return self.slide_ms

    def starts(self, ends: Times) -> Times:
        return ends - self.size_ms

    def first_ends(self, slices: Times) -> Times:
        return slices + (self.offset_ms + self.size_ms - slices) % self.slide_ms

    def last_ends(self, slices: Times) -> Times:
        latest = slices - self.slice_ms + self.size_ms
        return latest - (latest - self.offset_ms - self.size_ms) % self.slide_ms

    def fault_over_streams(self) -> tuple[str, str] | None:
        """Windows must not end between the beginnings of others."""
        if not self.size_ms % self.slide_ms:
            return None
        message = (
            f"aggregates over HOP need a size that is a multiple of the slide, but {self.size_ms}"
            f" ms is none of {self.slide_ms} ms"
        )
        return message, "GROUP BY HOP(ts, slide, size) takes any"

    def __str__(self) -> str:
        lengths = f"{self.shown('slide_ms')}, {self.shown('size_ms')}"
        return f"HOP({self.time_column}, {lengths}{self._offset})"


@dataclass(frozen=True)
class Cumulate(_OverlappingWindow):
    """Windows that begin at multiples of `size_ms` plus `offset_ms`, and end at each multiple of
    `step_ms` behind that, up to `size_ms`."""

    name: ClassVar[str] = "CUMULATE"
    function: ClassVar[WindowFunction] = WindowFunction(
        ("STEP", "SIZE", "OFFSET"), f"CUMULATE({_TABLE}INTERVAL '1' HOUR, INTERVAL '1' DAY)"
    )
    in_two_steps: ClassVar[bool] = True
    shares_start: ClassVar[bool] = True
    length_fields: ClassVar[tuple[str, ...]] = ("step_ms", "size_ms", "offset_ms")

    step_ms: int
    size_ms: int
    offset_ms: int = 0
    zone: str = "UTC"

    @classmethod
    def of_lengths(cls, time_column: str, zone: str, lengths: Mapping[str, int]) -> Self:
        offset_ms = lengths.get("OFFSET", 0)
        return cls(time_column, lengths["STEP"], lengths["SIZE"], offset_ms, zone)

    def fault(self) -> tuple[str, str] | None:
        if not self.size_ms % self.step_ms:
            return None
        return "SIZE", (
            f"the size of CUMULATE must be a multiple of its step, but {self.size_ms} ms is none of"
            f" {self.step_ms} ms"
        )

    @property
    def slice_ms(self) -> int:
        return self.step_ms

    @property
    def distance_ms(self) -> int:
        return self.step_ms

    def starts(self, ends: Times) -> Times:
        return ends - 1 - (ends - 1 - self.offset_ms) % self.size_ms

    def first_ends(self, slices: Times) -> Times:
        return slices

    def last_ends(self, slices: Times) -> Times:
        return self.starts(slices) + self.size_ms

    def __str__(self) -> str:
        lengths = f"{self.shown('step_ms')}, {self.shown('size_ms')}"
        return f"CUMULATE({self.time_column}, {lengths}{self._offset})"


@dataclass(frozen=True)
class Session(Window):
    """Windows for each value of `keys` (none: for all rows), from a row to `gap_ms` behind the last
    one that came less than `gap_ms` after the one before it."""

    name: ClassVar[str] = "SESSION"
    function: ClassVar[WindowFunction] = WindowFunction(
        ("GAP",),
        "SESSION(TABLE t PARTITION BY key, DESCRIPTOR(time column), INTERVAL '1' MINUTE)",
        partitioned=True,
    )
    group_lengths: ClassVar[tuple[str, ...] | None] = ("GAP",)
    length_fields: ClassVar[tuple[str, ...]] = ("gap_ms",)

    gap_ms: int
    keys: tuple[str, ...] = ()
    zone: str = "UTC"

    @classmethod
    def of_lengths(cls, time_column: str, zone: str, lengths: Mapping[str, int]) -> Self:
        return cls(time_column, lengths["GAP"], (), zone)

    def with_keys(self, more: Sequence[str]) -> Self:
        """Returns the windows for each value of more columns."""
        return replace(self, keys=(*self.keys, *more))

    def slice_numbers(self, times: Times) -> Times:
        """A session may end at any instant."""
        return times

    def __str__(self) -> str:
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"SESSION({self.time_column}, {self.shown('gap_ms')}{by})"
