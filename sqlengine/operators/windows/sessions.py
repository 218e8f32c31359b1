"""The state of session windows: sessions grow with their rows, and merge when they touch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from parser.types import BIGINT, Column, Schema
from sqlengine.batch import IntArray
from sqlengine.operators.base import Context
from sqlengine.operators.windows.session_spans import (
    Existing,
    Line,
    Rows,
    Spans,
    java_places,
    spans_of,
)
from sqlengine.operators.windows.times import WindowClock
from sqlengine.state.chains import KeyChains, distinct_keys
from sqlengine.state.keys import KeyColumn
from sqlengine.state.table import KeyedTable

# A session is identified by its key and a number. Its bounds are in local time; `#fires` is the
# instant (ms) at which it ends.
NUMBER, START, END, FIRES = "#number", "#start", "#end", "#fires"
_COUNT = BIGINT.with_nullable(False)
_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Assigned:
    """Rows assigned to sessions.

    `rows` are those that are not late, `slots` the session of each. `merges` are pairs of slots and
    of others merged into them, in rounds in which no slot occurs twice. `ahead` are those of the
    others whose accumulators come first in the merge, as in Flink.
    """

    rows: IntArray
    slots: IntArray
    merges: Sequence[tuple[IntArray, IntArray]]
    ahead: IntArray


class Sessions:
    """The open sessions of all keys (Flink: MergingWindowSet); `values` are further columns of
    each.

    A row opens a session from its time to a gap later, which merges with all that it touches. A
    session that ended before the row arrived is not merged; a row whose own session has ended is
    late. State: table `sessions`, key and `#number` -> bounds, `#fires`, `values`.
    """

    def __init__(
        self,
        context: Context,
        keys: Schema,
        values: Sequence[Column],
        clock: WindowClock,
    ) -> None:
        columns = Schema((*(Column(n, _COUNT) for n in (START, END, FIRES)), *values))
        identity = Schema((*keys, Column(NUMBER, _COUNT)))
        self.table: KeyedTable = context.table("sessions", identity, columns, keys.names)
        self.chains = KeyChains(self.table, keys.names)
        self._keys = keys
        self._clock = clock
        self._generation = -1

    def refresh(self) -> None:
        """Synchronizes with the table; call it first in each step."""
        self.chains.refresh()
        if self._generation != self.table.generation:
            self._generation = self.table.generation
            self._next = 1 + int(self.table.columns[NUMBER][self.table.live()].max(initial=-1))

    def due(self, upto: int) -> IntArray:
        """Returns the sessions that have ended, in the order of their ends, then of their
        arrival."""
        return self.table.in_order(self.table.due(FIRES, upto), FIRES, END)

    def remove(self, slots: IntArray) -> None:
        self.chains.remove(slots)
        self.table.remove(slots)

    def pieces(
        self, keys: Sequence[KeyColumn], instants: IntArray, gaps: IntArray
    ) -> list[tuple[int, int]]:
        """Splits rows into ranges: a row that merges several sessions is a range of its own, so
        that it sees the result of those before it."""
        codes, firsts = distinct_keys([c.type for c in self._keys], keys, len(instants))
        which, slots = self.chains.members(
            self.chains.groups([k.take(firsts) for k in keys], len(firsts))
        )
        columns = self.table.columns
        bounds = columns[START][slots].tolist(), columns[END][slots].tolist()
        # A dry run on copies of the bounds: only the rows that would join several sessions matter
        # here.
        lines: dict[int, Line] = {}
        for key, start, end in zip(which.tolist(), *bounds, strict=True):
            lines.setdefault(key, Line()).add(start, end)
        cuts = [0]
        times = self._clock.local(instants)
        added = zip(codes.tolist(), times.tolist(), (times + gaps).tolist(), strict=True)
        for row, (key, time, end) in enumerate(added):
            if lines.setdefault(key, Line()).add(time, end) > 1:
                cuts += (row, row + 1)
        cuts.append(len(instants))
        return [(a, b) for a, b in pairwise(cuts) if a < b]

    def assign(
        self,
        keys: Sequence[KeyColumn],
        instants: IntArray,
        before: IntArray,
        gaps: IntArray,
    ) -> Assigned:
        """Assigns rows with these times and gaps (ms, equal for rows of one key) to sessions;
        `before` is the watermark before each of them.

        The caller still has to remove sessions that were merged into others. Sessions that ended
        before the first row may still exist: they wait for their turn to fire.
        """
        codes, firsts = distinct_keys([c.type for c in self._keys], keys, len(instants))
        distinct = [k.take(firsts) for k in keys]
        which, slots = self.chains.members(self.chains.groups(distinct, len(firsts)))
        columns = self.table.columns
        existing = Existing(
            which,
            columns[START][slots].astype(np.int64),
            columns[END][slots].astype(np.int64),
            slots,
        )
        rows = Rows(codes, self._clock.local(instants), before, gaps)
        # Where a zone's clock is set back, an ended session may look open in local time, for an
        # hour.
        margin = 1 if self._clock.zone == "UTC" else 1 + _HOUR_MS
        behind = instants - margin <= before
        ended = columns[FIRES][slots].astype(np.int64) <= before[:1]
        if ended.any():
            behind |= np.isin(codes, which[ended])
        spans = spans_of(rows, existing, behind, self._clock.fires)
        targets, merges = self._place(spans, slots, distinct)
        kept = np.flatnonzero(spans.row_span >= 0)
        return Assigned(
            kept,
            targets[spans.row_span[kept]],
            merges,
            _preceding(existing, targets[spans.existing_span]),
        )

    def _place(
        self, spans: Spans, existing: IntArray, keys: Sequence[KeyColumn]
    ) -> tuple[IntArray, list[tuple[IntArray, IntArray]]]:
        """Returns the slot of each session: that of the oldest existing session in it, or a new
        one; and the merges."""
        targets = np.full(len(spans.key), -1, np.int64)
        order = np.argsort(self._ranks(existing), kind="stable")
        # Of repeated indices NumPy keeps the last value written: written backwards, the oldest
        # session of each span stays.
        targets[spans.existing_span[order][::-1]] = existing[order][::-1]
        # The first row of each span, likewise: new sessions are numbered in the order in which
        # their first rows arrived.
        arrival = np.full(len(spans.key), len(spans.row_span), np.int64)
        at = np.flatnonzero(spans.row_span >= 0)
        arrival[spans.row_span[at][::-1]] = at[::-1]
        touched = arrival < len(spans.row_span)
        new = np.flatnonzero(touched & (targets < 0))
        new = new[np.argsort(arrival[new])]
        targets[new] = self._create([k.take(spans.key[new]) for k in keys], len(new))
        self._write(targets[touched], spans.start[touched], spans.end[touched])
        others = existing[order][existing[order] != targets[spans.existing_span[order]]]
        into = targets[spans.existing_span[order]][
            existing[order] != targets[spans.existing_span[order]]
        ]
        return targets, list(_rounds(into, others))

    def _ranks(self, slots: IntArray) -> IntArray:
        """Returns the place of each slot in the order of arrival."""
        # Slots are reused after removals, so that their numbers say nothing about age.
        ordered = self.table.in_order(slots)
        ranks = np.empty(int(slots.max(initial=0)) + 1, np.int64)
        ranks[ordered] = np.arange(len(ordered))
        return ranks[slots]

    def _create(self, keys: Sequence[KeyColumn], count: int) -> IntArray:
        numbers = np.arange(self._next, self._next + count)
        self._next += count
        slots = self.table.append([*keys, numbers], count)
        self.chains.add(slots, keys)
        return slots

    def _write(self, slots: IntArray, starts: IntArray, ends: IntArray) -> None:
        columns = self.table.columns
        columns[START][slots], columns[END][slots] = starts, ends
        columns[FIRES][slots] = self._clock.fires(ends)
        self.table.mark(slots)


def _preceding(existing: Existing, targets: IntArray) -> IntArray:
    """Returns merged sessions that precede the session they are merged into in Flink's hash set.

    Flink merges the accumulators in the order of iteration; of equal buckets the later window is
    first.
    """
    merged = np.flatnonzero(targets != existing.slot)
    if not len(merged):
        return merged
    # Slots are not sorted: `order` maps the place in the sorted ones back to the place in
    # `existing`.
    order = np.argsort(existing.slot)
    into = order[np.searchsorted(existing.slot[order], targets[merged])]
    places = java_places(existing.start, existing.end)
    first = (places[merged] < places[into]) | (
        (places[merged] == places[into]) & (existing.start[merged] > existing.start[into])
    )
    ahead: IntArray = existing.slot[merged[first]]
    return ahead


def _rounds(slots: IntArray, others: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yields pairs in rounds in which no slot occurs twice."""
    while len(slots):
        # NumPy writes through repeated indices only once: three sessions merged into one take two
        # rounds.
        _, first = np.unique(slots, return_index=True)
        yield slots[first], others[first]
        rest = np.ones(len(slots), np.bool_)
        rest[first] = False
        slots, others = slots[rest], others[rest]
