"""The contract of a kind of window: its SQL function, slices, bounds, and the windows of a time.

A kind of window is one class. It says how it is written (`function`, `of_lengths`), and the
operators ask it for all that they need to know of its windows, on whole columns (arrays of ms):
they know no kind. An aligned kind needs no operator of its own.

Times and bounds are ms on the clock of the window's time zone (`zone`) where the time is a
TIMESTAMP_LTZ; else they are what the TIMESTAMP says. A slice and a window are known by their ends:
the instant behind their last ms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from parser.types import Root

Times: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WindowFunction:
    """The table function that makes a kind of window (FLIP-145).

    `lengths` are its parameters behind DATA and TIMECOL, in order; OFFSET is the only one that may
    be left out. `usage` is an example, `unit` the type of the lengths. `partitioned`: the TABLE
    takes PARTITION BY."""

    lengths: tuple[str, ...]
    usage: str
    unit: Root = Root.INTERVAL_DAY_TIME
    partitioned: bool = False


@dataclass(frozen=True)
class Window(ABC):
    """A kind of window over the times of `time_column`, with its lengths.

    `lengths_in`: columns that have the lengths of each row's windows, in the order of
    `length_fields`; () where all rows have those of these fields."""

    # The name in SQL. A class without one is no kind, but shares code.
    name: ClassVar[str] = ""
    function: ClassVar[WindowFunction]
    # The lengths that GROUP BY name(time, …) takes; None if GROUP BY has no such function.
    group_lengths: ClassVar[tuple[str, ...] | None] = None
    # True if Flink computes aggregates over these windows before the exchange and behind it
    # (TwoStageOptimizedWindowAggregateRule).
    in_two_steps: ClassVar[bool] = False
    # True if windows with different ends have one start, so that the start is no key.
    shares_start: ClassVar[bool] = False
    # The fields with lengths (ms), where its arithmetic takes a column of each, too.
    length_fields: ClassVar[tuple[str, ...]] = ()

    time_column: str
    lengths_in: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    @abstractmethod
    def zone(self) -> str:
        """The time zone by whose clock the bounds are counted."""

    @staticmethod
    def kinds() -> Mapping[str, type[Window]]:
        """Returns all kinds by their names in SQL."""
        kinds: dict[str, type[Window]] = {}
        waiting = Window.__subclasses__()
        while waiting:
            kind = waiting.pop()
            waiting += kind.__subclasses__()
            if kind.name:
                kinds[kind.name] = kind
        return kinds

    @classmethod
    @abstractmethod
    def of_lengths(cls, time_column: str, zone: str, lengths: Mapping[str, int]) -> Self:
        """The window with these values of the parameters of its `function`."""

    def fault(self) -> tuple[str, str] | None:
        """The parameter that does not go with the others, and why; None if they are right."""
        return None

    def is_like(self, other: Window) -> bool:
        """True if equal times are in equal windows of both, whatever the times are called."""
        return replace(self, time_column="") == replace(other, time_column="")

    @property
    def lengths(self) -> tuple[int, ...]:
        """The values of the `length_fields`."""
        return tuple(getattr(self, name) for name in self.length_fields)

    def with_lengths_in(self, columns: Sequence[str]) -> Self:
        """Returns the windows of rows that have lengths of their own, in these columns."""
        return replace(self, lengths_in=tuple(columns))

    def of_rows(self, lengths: Sequence[Times]) -> Self:
        """Returns the windows of rows with these lengths: it can be asked for as many rows only. A
        column of one row is for all."""
        fields: dict[str, Any] = dict(zip(self.length_fields, lengths, strict=True))
        return replace(self, **fields)

    def at(self, rows: Times) -> Self:
        """Returns the windows of some of the rows, by their numbers."""
        if not self.lengths_in:
            return self
        return self.of_rows([np.asarray(column)[rows] for column in self.lengths])

    def shown(self, name: str) -> str:
        """Returns a length as text: in ms, or the column that has it."""
        if not self.lengths_in:
            return f"{getattr(self, name)} ms"
        return f"{self.lengths_in[self.length_fields.index(name)]} ms"

    @abstractmethod
    def slice_numbers(self, times: Times) -> Times:
        """Returns for each time a number, which rises wherever a window may begin or end."""


class AlignedWindow(Window):
    """A kind whose bounds do not depend on the data. Its windows are made of slices, which no bound
    of a window lies in: each time is in one slice."""

    # True if a time may be in several windows, or in none.
    may_overlap: ClassVar[bool]

    @property
    @abstractmethod
    def is_disjoint(self) -> bool:
        """True if every slice is a window, and there are no others."""

    @property
    def has_gaps(self) -> bool:
        """True if there are times between one window and the next."""
        return False

    @abstractmethod
    def slice_ends(self, times: Times) -> Times:
        """Returns the slice of each time, by its end."""

    @abstractmethod
    def slice_starts(self, ends: Times) -> Times:
        """Returns the starts of the slices with these ends."""

    @abstractmethod
    def starts(self, ends: Times) -> Times:
        """Returns the starts of the windows with these ends."""

    @abstractmethod
    def first_ends(self, slices: Times) -> Times:
        """Returns the ends of the first windows that contain the slices."""

    @abstractmethod
    def last_ends(self, slices: Times) -> Times:
        """Returns the ends of the last windows that contain the slices; before `first_ends` where
        none does."""

    @abstractmethod
    def next_ends(self, ends: Times, nth: Times | int = 1) -> Times:
        """Returns for each end of a window that of the next one, or of the `nth` behind it."""

    @abstractmethod
    def previous_ends(self, ends: Times) -> Times:
        """Returns for each end of a window that of the one before."""

    @abstractmethod
    def later_ends(self, ends: Times, now: int) -> Times:
        """Returns the windows for rows that come for windows with these ends, which are over at
        `now`: later ones that are not. By processing time no row is late."""

    @abstractmethod
    def window_counts(self, slices: Times) -> Times:
        """Returns in how many windows each slice is."""

    @abstractmethod
    def window_ends(self, slices: Times, nth: Times) -> Times:
        """Returns for each slice the end of its window number `nth`, from 0, in the order in which
        rows get them."""

    def fault_over_streams(self) -> tuple[str, str] | None:
        """Why streams have no aggregate over these windows of a table function, and a hint; None if
        they have."""
        return None


class DisjointWindow(AlignedWindow):
    """A kind whose slices are its windows: a class of it has but `slice_numbers`, `slice_ends` and
    `slice_starts`."""

    may_overlap: ClassVar[bool] = False

    @property
    def is_disjoint(self) -> bool:
        return True

    def starts(self, ends: Times) -> Times:
        return self.slice_starts(ends)

    def first_ends(self, slices: Times) -> Times:
        return slices

    def last_ends(self, slices: Times) -> Times:
        return slices

    def next_ends(self, ends: Times, nth: Times | int = 1) -> Times:
        # Slices may differ in length: one after the other.
        for done in range(int(np.max(nth, initial=0))):
            ends = np.where(np.asarray(nth) > done, self.slice_ends(ends), ends)
        return ends

    def previous_ends(self, ends: Times) -> Times:
        return self.slice_starts(ends)

    def later_ends(self, ends: Times, now: int) -> Times:
        return self.slice_ends(np.full(len(ends), now))

    def window_counts(self, slices: Times) -> Times:
        return np.ones(len(slices), np.int64)

    def window_ends(self, slices: Times, nth: Times) -> Times:
        return slices
