"""When OVER an interval forgets its keys, and what its clocks for that do to late rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from sqlengine.batch import MIN_WATERMARK, Batch
from sqlengine.operators.base import Context
from sqlengine.state.columns import IntArray, milliseconds
from sqlengine.state.rows import RowsTable
from sqlengine.state.table import KeyedTable

# The watermark with which a key is forgotten. A clock that was set to forget its key, and the
# watermark at which it rings.
_FORGOTTEN, _CLOCK, _RINGS = "#forgotten", "#clock", "#rings"
_MS = BIGINT.with_nullable(False)


class Forgetting:
    """A key is forgotten when the watermark is one and a half of the interval behind its rows: for
    a row that comes later than that it is new. A clock that rings while the key is needed still
    counts as if a row of its time had left, so that late rows up to it are dropped. All as in
    Flink."""

    columns: Sequence[Column] = (Column(_FORGOTTEN, BIGINT),)

    def __init__(self, reach: int, time: str, left: str) -> None:
        self._reach, self._time, self._left = reach, time, left

    def open(self, context: Context, key: Schema) -> None:
        rings = Schema((Column(_CLOCK, _MS), Column(_RINGS, _MS)))
        self._clocks = RowsTable(context, "clocks", key, Schema(()), rings, key.names)

    def attach(self, keys: KeyedTable, frame: RowsTable) -> None:
        self._keys, self._frame = keys, frame

    def pieces(self, batch: Batch) -> Iterator[Batch]:
        """The batch in parts, each late row the first of one: for others it is all the same when a
        key is forgotten."""
        times, _ = milliseconds(batch.column(self._time))
        late = np.flatnonzero(times <= batch.watermarks()).tolist()
        for start, end in pairwise([0, *(row for row in late if row), batch.num_rows]):
            piece = batch.slice(start, end - start)
            self._ring(int(piece.watermarks()[0]) if piece.num_rows else piece.since)
            yield piece

    def live_on(self, slots: IntArray, times: IntArray, watermarks: IntArray) -> None:
        """Keys with rows of these times are forgotten later: only then, where they would not have
        been needed still."""
        held, is_set = self._keys.columns[_FORGOTTEN], self._keys.columns[_FORGOTTEN + "?"]
        until: dict[int, int] = {}
        clocks: list[tuple[int, int, int]] = []
        for slot, time, watermark in zip(
            slots.tolist(), times.tolist(), watermarks.tolist(), strict=True
        ):
            known = until.get(slot, int(held[slot]) if is_set[slot] else MIN_WATERMARK)
            if known < time + self._reach + 1:
                known = time + self._reach * 3 // 2 + 1
                clocks.append((slot, known, max(known, watermark + 1)))
            until[slot] = known
        if clocks:
            self._set(until, clocks)

    def _set(self, until: dict[int, int], clocks: Sequence[tuple[int, int, int]]) -> None:
        touched = np.fromiter(until, np.int64, len(until))
        self._keys.write(touched, {_FORGOTTEN: pa.array(list(until.values()), pa.int64())})
        self._keys.mark(touched)
        slots, at, rings = (np.array(x) for x in zip(*clocks, strict=True))
        self._clocks.put(
            self._keys.key_arrays(slots), [], [pa.array(at), pa.array(rings)], len(clocks)
        )

    def _ring(self, watermark: int) -> None:
        rang = self._clocks.table.due(_RINGS, watermark)
        if not len(rang):
            return
        rang = self._clocks.table.in_order(rang, _CLOCK)
        key = [self._clocks.table.array(k, rang) for k in self._clocks.key.names]
        slots, _ = self._keys.slots_for(key, len(rang))
        held, is_set = self._keys.columns[self._left], self._keys.columns[self._left + "?"]
        left = np.maximum(
            self._clocks.table.columns[_CLOCK][rang], np.where(is_set, held, 0)[slots]
        )
        self._keys.write(slots, {self._left: pa.array(left.astype(np.int64))})
        self._keys.mark(slots)
        self._clocks.drop(rang)
        self._forget(watermark)

    def _forget(self, watermark: int) -> None:
        slots = self._keys.due(_FORGOTTEN, watermark)
        if not len(slots):
            return
        groups = self._frame.groups(self._keys.key_arrays(slots), len(slots))
        held = [self._frame.slots(g) for g in groups[groups >= 0].tolist()]
        if held:
            self._frame.drop(np.concatenate(held))
        self._keys.remove(slots)
