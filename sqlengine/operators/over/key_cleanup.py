"""Removes the keys of OVER with RANGE frames, and the effect of the cleanup timers on late rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from parser.types import BIGINT, Column, Schema
from sqlengine.batch import MIN_WATERMARK, Batch
from sqlengine.operators.base import Context
from sqlengine.state.columns import IntArray, milliseconds
from sqlengine.state.rows import RowsTable
from sqlengine.state.table import KeyedTable

# The watermark with which a key is removed. The time of a cleanup timer, and the watermark with
# which it fires (both ms).
_REMOVED_AT, _TIMER, _FIRES = "#forgotten", "#clock", "#rings"
_MS = BIGINT.with_nullable(False)


class KeyCleanup:
    """Removes a key when the watermark is one and a half intervals past its last row; for later
    rows the key is new.

    As Flink's RowTimeRangeBoundedPrecedingFunction (cleanupTsState). A timer that fires while the
    key is still needed counts as if a row of its time had been emitted, so that late rows up to it
    are dropped; that is Flink's behaviour, too. State: columns of the table of keys; table
    `clocks`, key -> timers.
    """

    columns: Sequence[Column] = (Column(_REMOVED_AT, BIGINT),)

    def __init__(self, time: str, left: str) -> None:
        self._time, self._left = time, left

    def open(self, context: Context, key: Schema) -> None:
        rings = Schema((Column(_TIMER, _MS), Column(_FIRES, _MS)))
        self._timers = RowsTable(context, "clocks", key, Schema(()), rings, key.names)

    def attach(self, keys: KeyedTable, frame: RowsTable) -> None:
        self._keys, self._frame = keys, frame

    def pieces(self, batch: Batch) -> Iterator[Batch]:
        """Splits the batch so that each late row begins a piece: only for these it matters when a
        key is removed."""
        times, _ = milliseconds(batch.column(self._time))
        late = np.flatnonzero(times <= batch.watermarks()).tolist()
        for start, end in pairwise([0, *(row for row in late if row), batch.num_rows]):
            piece = batch.slice(start, end - start)
            self._fire(int(piece.watermarks()[0]) if piece.num_rows else piece.since)
            yield piece

    def earliest(self) -> int | None:
        """Returns the instant (ms) of the next timer; None without any."""
        return self._timers.table.earliest(_FIRES)

    def extend(
        self, slots: IntArray, times: IntArray, watermarks: IntArray, reach: IntArray
    ) -> None:
        """Moves the removal of keys with rows of these times, but only if they would be removed too
        early; `reach`: the interval of each (ms)."""
        removed_at, is_set = self._keys.columns[_REMOVED_AT], self._keys.columns[_REMOVED_AT + "?"]
        new_removed_at: dict[int, int] = {}
        timers: list[tuple[int, int, int]] = []
        columns = (slots, times, watermarks, reach)
        for slot, time, watermark, ms in zip(*(c.tolist() for c in columns), strict=True):
            until = new_removed_at.get(
                slot, int(removed_at[slot]) if is_set[slot] else MIN_WATERMARK
            )
            if until < time + ms + 1:
                # Half an interval more than needed: a key with a steady flow of rows sets few
                # timers.
                until = time + ms * 3 // 2 + 1
                timers.append((slot, until, max(until, watermark + 1)))
            new_removed_at[slot] = until
        if timers:
            self._set_timers(new_removed_at, timers)

    def _set_timers(
        self, removed_at: dict[int, int], timers: Sequence[tuple[int, int, int]]
    ) -> None:
        touched = np.fromiter(removed_at, np.int64, len(removed_at))
        self._keys.write(touched, {_REMOVED_AT: np.fromiter(removed_at.values(), np.int64)})
        self._keys.mark(touched)
        slots, at, fires = (np.array(x) for x in zip(*timers, strict=True))
        key = self._keys.key_columns(slots, self._keys.keys.names)
        self._timers.put(key, [], [at, fires], len(timers))

    def _fire(self, watermark: int) -> None:
        fired = self._timers.table.due(_FIRES, watermark)
        if not len(fired):
            return
        fired = self._timers.table.in_order(fired, _TIMER)
        key = self._timers.table.key_columns(fired, self._timers.key.names)
        slots, _ = self._keys.slots_for(key, len(fired))
        emitted, is_set = self._keys.columns[self._left], self._keys.columns[self._left + "?"]
        # Flink's behaviour, see the class: a timer counts as an emitted row of its time.
        left = np.maximum(
            self._timers.table.columns[_TIMER][fired], np.where(is_set, emitted, 0)[slots]
        )
        self._keys.write(slots, {self._left: left.astype(np.int64)})
        self._keys.mark(slots)
        self._timers.drop(fired)
        # After the timers: a key whose timer fires and which is due is removed, with the mark just
        # written.
        self._remove_keys(watermark)

    def _remove_keys(self, watermark: int) -> None:
        slots = self._keys.due(_REMOVED_AT, watermark)
        if not len(slots):
            return
        key = self._keys.key_columns(slots, self._frame.key.names)
        groups = self._frame.groups(key, len(slots))
        stored = [self._frame.slots(g) for g in groups[groups >= 0].tolist()]
        if stored:
            self._frame.drop(np.concatenate(stored))
        self._keys.remove(slots)
