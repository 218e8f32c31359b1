"""Removes the keys of OVER with RANGE frames, and the effect of the cleanup timers on late rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from parser.types import BIGINT, Column, Schema
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch
from sqlengine.operators.base import Context
from sqlengine.state.columns import BoolArray, IntArray, milliseconds
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

    A piece of a batch has no late row but its first. A key that is removed within it, and has rows
    again behind that, goes on in its slot: what is emitted of it later reaches no row from before,
    but where it says so (`begins_anew`), and `settle` forgets the rest, once all that is due has
    been emitted: so none of this is in the state.
    """

    columns: Sequence[Column] = (Column(_REMOVED_AT, BIGINT),)

    def __init__(self, time: str, left: str) -> None:
        self._time, self._left = time, left
        self._since = MIN_WATERMARK
        # By key, the times of its removal (ms) within the piece, of which it had rows again.
        self._removals: dict[int, list[int]] = {}

    def open(self, context: Context, key: Schema) -> None:
        rings = Schema((Column(_TIMER, _MS), Column(_FIRES, _MS)))
        self._timers = RowsTable(context, "clocks", key, Schema(()), rings, key.names)

    def attach(self, keys: KeyedTable, frame: RowsTable, time: str) -> None:
        """Takes the tables of keys, and of emitted rows with their time (ms) in a column."""
        self._keys, self._frame, self._frame_time = keys, frame, time

    def pieces(self, batch: Batch) -> Iterator[Batch]:
        """Splits the batch so that each late row begins a piece: only for these it matters when a
        key is removed."""
        times, _ = milliseconds(batch.column(self._time))
        late = np.flatnonzero(times <= batch.watermarks()).tolist()
        for start, end in pairwise([0, *(row for row in late if row), batch.num_rows]):
            piece = batch.slice(start, end - start)
            self._since = int(piece.watermarks()[0]) if piece.num_rows else piece.since
            self._fire(self._since)
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
            if MIN_WATERMARK < until <= watermark > self._since:
                self._removals.setdefault(slot, []).append(until)
            if until < time + ms + 1:
                # Half an interval more than needed: a key with a steady flow of rows sets few
                # timers.
                until = time + ms * 3 // 2 + 1
                timers.append((slot, until, max(until, watermark + 1)))
            new_removed_at[slot] = until
        if timers:
            self._set_timers(new_removed_at, timers)

    @property
    def is_settled(self) -> bool:
        """False if a key was removed within the piece."""
        return not self._removals

    def begins_anew(self, keys: IntArray, times: IntArray) -> BoolArray:
        """Returns True for rows, sorted by key and then time, that are the first which is emitted
        of their key behind its removal."""
        anew = np.zeros(len(keys), np.bool_)
        emitted, is_set = self._keys.columns[self._left], self._keys.columns[self._left + "?"]
        for row in np.flatnonzero(np.isin(keys, list(self._removals))).tolist():
            slot = int(keys[row])
            if row and keys[row - 1] == slot:
                before = int(times[row - 1])
            else:
                before = int(emitted[slot]) if is_set[slot] else MIN_WATERMARK
            anew[row] = any(before <= at < times[row] for at in self._removals[slot])
        return anew

    def settle(self) -> None:
        """Ends a piece, of which all rows that are due are emitted: keys that were removed, and
        whose later rows wait, forget what was before."""
        slots = np.fromiter(self._removals, np.int64, len(self._removals))
        removed_at = np.array([times[-1] for times in self._removals.values()], np.int64)
        self._removals = {}
        emitted = self._keys.columns[self._left][slots].astype(np.int64)
        old = np.flatnonzero(emitted <= removed_at)
        if not len(old):
            return
        slots, removed_at = slots[old], removed_at[old]
        _drop(self._timers, self._keys, slots, removed_at, _TIMER)
        _drop(self._frame, self._keys, slots, removed_at, self._frame_time)
        self._keys.blank(slots, [n for n in self._keys.values.names if n != _REMOVED_AT])
        self._keys.mark(slots)

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
        never = np.full(len(slots), MAX_WATERMARK, np.int64)
        _drop(self._frame, self._keys, slots, never, self._frame_time)
        self._keys.remove(slots)


def _drop(rows: RowsTable, keys: KeyedTable, slots: IntArray, upto: IntArray, time: str) -> None:
    """Drops rows of keys whose `time` is at most `upto`, which each key has."""
    groups = rows.groups(keys.key_columns(slots, rows.key.names), len(slots)).tolist()
    times = rows.table.columns[time].astype(np.int64, copy=False)
    stored = [(rows.slots(g), at) for g, at in zip(groups, upto.tolist(), strict=True) if g >= 0]
    if stored:
        rows.drop(np.concatenate([s[times[s] <= at] for s, at in stored]))
