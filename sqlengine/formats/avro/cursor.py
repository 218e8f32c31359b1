"""Records of bytes that are read side by side: one value of all of them, then the next one."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlengine.formats.times import text_buffers

IntArray = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# No number has more bytes: so far the data may be read beyond its end.
_PADDING: Final = 16


class Failures:
    """The records that cannot be read, by their numbers, with the first reason of each."""

    def __init__(self) -> None:
        self.reasons: dict[int, str] = {}

    def add(self, lanes: IntArray, reason: str) -> None:
        for lane in lanes.tolist():
            self.reasons.setdefault(lane, reason)


class Cursor:
    """A position in each record (`lanes` are their numbers, ascending).

    A record that turns out bad stands at its end from then on, and gives zeros and empty texts. One
    in `slow` has to be read by itself: side by side with others it would take too long. `steps`:
    how often elements of arrays or maps were read, each time one of every record that has more."""

    def __init__(self, records: pa.Array) -> None:
        offsets, data = text_buffers(records)
        first, last = int(offsets[0]), int(offsets[-1])
        self._data = np.concatenate([data[first:last], np.zeros(_PADDING, np.uint8)])
        self._buffer = pa.py_buffer(self._data)
        self.at = offsets[:-1].astype(np.int64) - first
        self._ends = offsets[1:].astype(np.int64) - first
        self.failures = Failures()
        self.slow = np.zeros(len(records), np.bool_)
        self.steps = 0

    def fail(self, lanes: IntArray, reason: str) -> None:
        """Gives records up."""
        self.failures.add(lanes, reason)
        self.at[lanes] = self._ends[lanes]

    def give_up(self, lanes: IntArray) -> None:
        """Leaves records to be read by themselves."""
        self.slow[lanes] = True
        self.at[lanes] = self._ends[lanes]

    def left(self, lanes: IntArray) -> IntArray:
        """Returns the number of bytes that are left."""
        return self._ends[lanes] - self.at[lanes]

    def _move(self, lanes: IntArray, at: IntArray) -> None:
        over = at > self._ends[lanes]
        self.at[lanes] = at
        if over.any():
            self.fail(lanes[over], "it ends too early")

    def numbers(self, lanes: IntArray) -> IntArray:
        """Reads an int or long of each: seven bits a byte, the sign in the last bit."""
        at = self.at[lanes]
        byte = self._data[at]
        at += 1
        value = (byte & 0x7F).astype(np.uint64)
        more = np.flatnonzero(byte & 0x80)
        shift = 7
        while len(more) and shift < 70:
            byte = self._data[at[more]]
            at[more] += 1
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            more = more[byte >= 0x80]
            shift += 7
        self._move(lanes, at)
        if len(more):
            self.fail(lanes[more], "a number has more than ten bytes")
        return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)

    def fixed(self, lanes: IntArray, size: int) -> npt.NDArray[np.uint8]:
        """Reads so many bytes of each, a row of the result for each."""
        at = self.at[lanes]
        short = self._ends[lanes] - at < size
        if short.any():
            self.fail(lanes[short], "it ends too early")
            at = np.where(short, 0, at)
        last = len(self._data) - 1
        found: npt.NDArray[np.uint8] = self._data[np.minimum(at[:, None] + np.arange(size), last)]
        self.at[lanes[~short]] += size
        return found

    def skip(self, lanes: IntArray, sizes: IntArray | int) -> None:
        """Leaves out so many bytes of each."""
        self._move(lanes, self.at[lanes] + sizes)

    def lengths(self, lanes: IntArray) -> IntArray:
        """Reads the length of what comes next, which is there."""
        lengths = self.numbers(lanes)
        wrong = (lengths < 0) | (lengths > self.left(lanes))
        if wrong.any():
            self.fail(lanes[wrong], "a length is negative, or beyond its end")
            lengths[wrong] = 0
        return lengths

    def texts(self, lanes: IntArray, lengths: IntArray | int) -> pa.Array:
        """Reads so many bytes of each as a BinaryArray. They are there."""
        if not len(lanes):
            return pa.array([], pa.binary())
        start = self.at[lanes]
        self.at[lanes] = start + lengths
        # All of the data as values: every other one is wanted, and is copied by Arrow.
        offsets = np.empty(2 * len(lanes), np.int32)
        offsets[0::2], offsets[1::2] = start, start + lengths
        parts = [None, pa.py_buffer(offsets), self._buffer]
        whole = pa.Array.from_buffers(pa.binary(), 2 * len(lanes) - 1, parts)
        return whole.take(pa.array(np.arange(0, 2 * len(lanes), 2)))

    def finish(self) -> None:
        """Fails records of which something is left."""
        rest = np.flatnonzero(self.at < self._ends)
        for lane, left in zip(rest.tolist(), self.left(rest).tolist(), strict=True):
            self.failures.reasons.setdefault(lane, f"{left} bytes are left behind its last field")
