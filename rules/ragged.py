"""Lists of different lengths side by side in one array."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Index: TypeAlias = npt.NDArray[np.intp]
Ints: TypeAlias = npt.NDArray[np.integer]


def spread(starts: Ints, counts: Ints) -> Index:
    """The places `starts[i], starts[i] + 1, …` of `counts[i]` items each, one list after the
    other."""
    ends = counts.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    # start - (end - count): what must be added to the running number to count from `start` in each
    # list.
    shifts = starts - ends
    shifts += counts
    places: Index = shifts.repeat(counts)
    places += np.arange(total)
    return places


def distinct(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The keys ascending, each once. `keys` may be reordered. (NumPy's own function hashes first,
    which is slower.)"""
    if len(keys) < 2:
        return keys
    keys.sort()
    new = np.empty(len(keys), np.bool_)
    new[0] = True
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return keys if new.all() else keys[new]


class Growing:
    """An array that grows at its end. `array` is valid until the next `extend`."""

    def __init__(self, dtype: type[np.integer]) -> None:
        self._buffer = np.zeros(64, dtype)
        self.length = 0

    @property
    def array(self) -> Ints:
        return self._buffer[: self.length]

    def extend(self, values: Ints) -> None:
        end = self.length + len(values)
        if end > len(self._buffer):
            # At least doubled: amortised constant time for each item.
            larger = np.zeros(max(end, 2 * len(self._buffer)), self._buffer.dtype)
            larger[: self.length] = self.array
            self._buffer = larger
        self._buffer[self.length : end] = values
        self.length = end

    def truncate(self, length: int) -> None:
        self.length = length
