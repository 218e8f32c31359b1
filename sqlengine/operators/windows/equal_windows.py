"""Windows that overlap and hold the same slices: after a jump of time they are fired together.

Between two bounds of slices all windows that end hold the same ones. A family has windows of
several lengths: those of each hold the same slices for another time, and all are fired together up
to the first end at which the slices of any are others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.logical import AlignedWindow
from sqlengine.batch import IntArray
from sqlengine.operators.bounded import SLICE_ROWS
from sqlengine.operators.windows.times import WindowClock


@dataclass(frozen=True)
class EqualWindows:
    """The ends of windows that hold the same slices, for each of the different lengths: at least
    one. `slots` are those of all these slices, `which` the number of the lengths of each."""

    slots: IntArray
    which: IntArray
    ends: tuple[IntArray, ...]

    @property
    def all_ends(self) -> IntArray:
        """The ends of any of the windows, ascending."""
        return self.ends[0] if len(self.ends) == 1 else np.unique(np.concatenate(self.ends))

    def up_to(self, last: int) -> EqualWindows:
        """Returns the windows that end at `last` at the latest."""
        return replace(self, ends=tuple(ends[ends <= last] for ends in self.ends))

    @property
    def last_ends(self) -> IntArray:
        """The last of these ends for each slot."""
        return np.array([ends[-1] for ends in self.ends])[self.which]

    def repeated(self, slots: IntArray) -> tuple[IntArray, IntArray]:
        """Returns the places of some of the slots, once for each of their windows, and the ends of
        these, which are in order."""
        which = np.empty(int(self.slots.max(initial=0)) + 1, np.int64)
        which[self.slots] = self.which
        which = which[slots]
        counts = np.array([len(ends) for ends in self.ends])
        before = np.cumsum(counts) - counts
        of_slot = counts[which]
        places = np.repeat(np.arange(len(slots)), of_slot)
        nth = np.arange(len(places)) - np.repeat(np.cumsum(of_slot) - of_slot, of_slot)
        ends = np.concatenate(self.ends)[before[which[places]] + nth]
        order = np.argsort(ends, kind="stable")
        return places[order], ends[order]


def equal_windows(
    windows: AlignedWindow, slots: IntArray, slices: IntArray, end: int, before: int
) -> EqualWindows:
    """Returns the windows from the end `end` on that hold these `slices` (their ends), and no
    others: those that end `before` other slices are due, and up to the last window of the first of
    the slices. `windows` are those of the slices, which are at `slots`."""
    first, which = _different(windows, len(slots))
    found = []
    for number, place in enumerate(first):
        window, own = windows.at(np.array([place])), slices[which == number]
        # One more than may be fired: behind it the slices are others.
        ends = window.next_ends(np.array([end]), np.arange(SLICE_ROWS + 1))
        count = np.searchsorted(ends[:-1], int(window.last_ends(own).min()), "right")
        before = min(before, int(ends[count]))
        found.append(ends[:count])
    return EqualWindows(slots, which, tuple(ends[ends < before] for ends in found))


def due_windows(windows: EqualWindows, clock: WindowClock, upto: int) -> EqualWindows:
    """Returns those of the windows that fire at the instant `upto` (ms) at the latest."""
    return replace(windows, ends=tuple(e[clock.fires(e) <= upto] for e in windows.ends))


def _different(windows: AlignedWindow, count: int) -> tuple[IntArray, IntArray]:
    """Returns the first of so many rows with each of the different lengths, and the number of each
    row's lengths."""
    if not windows.lengths_in:
        return np.zeros(1, np.int64), np.zeros(count, np.int64)
    lengths = np.stack([np.asarray(column) for column in windows.lengths])
    _, first, which = np.unique(lengths, axis=1, return_index=True, return_inverse=True)
    return first, which.reshape(-1)
