"""Sessions as state: windows that grow with their rows and become one where they meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from sqlengine.batch import IntArray
from sqlengine.operators.base import Context
from sqlengine.operators.windows.session_spans import Held, Line, Rows, Spans, java_places, spans_of
from sqlengine.operators.windows.times import WindowClock
from sqlengine.state.chains import KeyChains, distinct_keys
from sqlengine.state.table import KeyedTable

# A session is known by its key and a number of its own; bounds by the clock of its zone, and when
# it is over.
NUMBER, START, END, FIRES = "#number", "#start", "#end", "#fires"
_COUNT = BIGINT.with_nullable(False)
_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Assigned:
    """Rows in sessions. `rows`: those that are not late; `slots`: the session of each. `merges`:
    slots, and others that have become part of them, pair by pair; within one of them no slot is
    named twice. `ahead`: the others of which what they have comes first, in Flink, where two become
    one."""

    rows: IntArray
    slots: IntArray
    merges: Sequence[tuple[IntArray, IntArray]]
    ahead: IntArray


class Sessions:
    """The sessions that are open, of all keys; `values` are columns that each has besides. A row
    makes a session from its time to `gap_ms` behind it, one with all that it touches. A session
    that was over before the row came takes no more; a row whose own was over is late."""

    def __init__(
        self,
        context: Context,
        keys: Schema,
        values: Sequence[Column],
        clock: WindowClock,
        gap_ms: int,
    ) -> None:
        columns = Schema((*(Column(n, _COUNT) for n in (START, END, FIRES)), *values))
        identity = Schema((*keys, Column(NUMBER, _COUNT)))
        self.table: KeyedTable = context.table("sessions", identity, columns, keys.names)
        self.chains = KeyChains(self.table, keys.names)
        self._keys = keys
        self._clock = clock
        self._gap_ms = gap_ms
        self._generation = -1

    def refresh(self) -> None:
        """To be called before anything else in a step."""
        self.chains.refresh()
        if self._generation != self.table.generation:
            self._generation = self.table.generation
            self._next = 1 + int(self.table.columns[NUMBER][self.table.live()].max(initial=-1))

    def due(self, upto: int) -> IntArray:
        """Sessions that are over, in the order of their ends, then of their arrival."""
        return self.table.in_order(self.table.due(FIRES, upto), FIRES, END)

    def remove(self, slots: IntArray) -> None:
        self.chains.leave(slots)
        self.table.remove(slots)

    def pieces(self, keys: Sequence[pa.Array], instants: IntArray) -> list[tuple[int, int]]:
        """Rows with these times by stretches, from where to where: one for which several sessions
        become one is alone in its stretch, since it finds what those before it have made."""
        codes, firsts = distinct_keys([c.type for c in self._keys], keys, len(instants))
        which, slots = self.chains.members(
            self.chains.groups([k.take(pa.array(firsts)) for k in keys], len(firsts))
        )
        columns = self.table.columns
        bounds = columns[START][slots].tolist(), columns[END][slots].tolist()
        lines: dict[int, Line] = {}
        for key, start, end in zip(which.tolist(), *bounds, strict=True):
            lines.setdefault(key, Line()).add(start, end)
        cuts = [0]
        for row, (key, time) in enumerate(
            zip(codes.tolist(), self._clock.local(instants).tolist(), strict=True)
        ):
            if lines.setdefault(key, Line()).add(time, time + self._gap_ms) > 1:
                cuts += (row, row + 1)
        cuts.append(len(instants))
        return [(a, b) for a, b in pairwise(cuts) if a < b]

    def assign(
        self, keys: Sequence[pa.Array], instants: IntArray, before: IntArray, *, again: bool = False
    ) -> Assigned:
        """Puts rows with these times into sessions; `before` is what had passed before each of
        them. Sessions that have become part of another are still to be removed. `again`: in one
        step, so sessions that were over before the first of the rows may still be there."""
        codes, firsts = distinct_keys([c.type for c in self._keys], keys, len(instants))
        distinct = [k.take(pa.array(firsts)) for k in keys]
        which, slots = self.chains.members(self.chains.groups(distinct, len(firsts)))
        columns = self.table.columns
        held = Held(
            which,
            columns[START][slots].astype(np.int64),
            columns[END][slots].astype(np.int64),
            slots,
        )
        rows = Rows(codes, self._clock.local(instants), before)
        # Within an hour of it, clocks that jump may show what is over as what is still to come.
        margin = 1 if self._clock.zone == "UTC" else 1 + _HOUR_MS
        behind = instants - margin <= before
        if again:
            behind |= np.isin(codes, which[columns[FIRES][slots].astype(np.int64) <= before[:1]])
        spans = spans_of(rows, held, self._gap_ms, behind, self._clock.fires)
        targets, merges = self._place(spans, slots, distinct)
        kept = np.flatnonzero(spans.row_span >= 0)
        return Assigned(
            kept, targets[spans.row_span[kept]], merges, _ahead(held, targets[spans.held_span])
        )

    def _place(
        self, spans: Spans, held: IntArray, keys: Sequence[pa.Array]
    ) -> tuple[IntArray, list[tuple[IntArray, IntArray]]]:
        """The slot of each session: that of the first that was there, or a new one, in the order of
        arrival."""
        targets = np.full(len(spans.key), -1, np.int64)
        order = np.argsort(self._ranks(held), kind="stable")
        targets[spans.held_span[order][::-1]] = held[order][::-1]
        arrival = np.full(len(spans.key), len(spans.row_span), np.int64)
        at = np.flatnonzero(spans.row_span >= 0)
        arrival[spans.row_span[at][::-1]] = at[::-1]
        touched = arrival < len(spans.row_span)
        new = np.flatnonzero(touched & (targets < 0))
        new = new[np.argsort(arrival[new])]
        targets[new] = self._begin([k.take(pa.array(spans.key[new])) for k in keys], len(new))
        self._write(targets[touched], spans.start[touched], spans.end[touched])
        others = held[order][held[order] != targets[spans.held_span[order]]]
        into = targets[spans.held_span[order]][held[order] != targets[spans.held_span[order]]]
        return targets, list(_rounds(into, others))

    def _ranks(self, slots: IntArray) -> IntArray:
        """The place of each slot in the order of arrival."""
        ordered = self.table.in_order(slots)
        ranks = np.empty(int(slots.max(initial=0)) + 1, np.int64)
        ranks[ordered] = np.arange(len(ordered))
        return ranks[slots]

    def _begin(self, keys: Sequence[pa.Array], count: int) -> IntArray:
        numbers = pa.array(np.arange(self._next, self._next + count))
        self._next += count
        slots, _ = self.table.slots_for([*keys, numbers], count)
        self.chains.enter(slots, keys)
        return slots

    def _write(self, slots: IntArray, starts: IntArray, ends: IntArray) -> None:
        columns = self.table.columns
        columns[START][slots], columns[END][slots] = starts, ends
        columns[FIRES][slots] = self._clock.fires(ends)
        self.table.mark(slots)


def _ahead(held: Held, targets: IntArray) -> IntArray:
    """Slots of sessions that have become part of another (`targets`, by session), and stand before
    it in a set of Flink's; with equal places the later one does."""
    mine = np.flatnonzero(targets != held.slot)
    if not len(mine):
        return mine
    order = np.argsort(held.slot)
    there = order[np.searchsorted(held.slot[order], targets[mine])]
    places = java_places(held.start, held.end)
    first = (places[mine] < places[there]) | (
        (places[mine] == places[there]) & (held.start[mine] > held.start[there])
    )
    ahead: IntArray = held.slot[mine[first]]
    return ahead


def _rounds(slots: IntArray, others: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Pairs in rounds in which no slot comes twice."""
    while len(slots):
        _, first = np.unique(slots, return_index=True)
        yield slots[first], others[first]
        rest = np.ones(len(slots), np.bool_)
        rest[first] = False
        slots, others = slots[rest], others[rest]
