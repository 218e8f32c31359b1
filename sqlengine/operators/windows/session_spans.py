"""Computes sessions from the rows of a batch and the existing sessions of their keys."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from sqlengine.batch import IntArray
from sqlengine.state.columns import BoolArray

# Returns the instants (ms) at which windows with these local ends fire.
Fires = Callable[[IntArray], IntArray]
_LATE = -1


@dataclass(frozen=True)
class Rows:
    """Rows in order of arrival: the number of their key, local time, the watermark before each, and
    the gap behind which their session ends, the same for all of a key (ms)."""

    key: IntArray
    time: IntArray
    before: IntArray
    gap: IntArray


@dataclass(frozen=True)
class Existing:
    """Existing sessions of these keys: the key's number, local bounds, and their slots."""

    key: IntArray
    start: IntArray
    end: IntArray
    slot: IntArray

    def of(self, chosen: BoolArray) -> Existing:
        return Existing(self.key[chosen], self.start[chosen], self.end[chosen], self.slot[chosen])


@dataclass(frozen=True)
class Spans:
    """The sessions after the rows were added: key and bounds of each.

    `row_span` is the session of each row (-1: late), `existing_span` that of each existing session.
    """

    key: IntArray
    start: IntArray
    end: IntArray
    row_span: IntArray
    existing_span: IntArray


class Line:
    """The sessions of one key as disjoint intervals, sorted."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> int:
        """Adds an interval; returns how many sessions it touches, which it merges."""
        # Touching counts as overlapping: an interval that ends where this one starts is merged.
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start], [end]
        return last - first


def spans_of(rows: Rows, existing: Existing, behind: BoolArray, fires: Fires) -> Spans:
    """Assigns rows to sessions: rows at most their gap apart share one.

    Where a row is `behind`, sessions may have ended before it arrived: the rows of its key are then
    processed one by one.
    """
    if not behind.any():
        return _assign_at_once(rows, existing)
    slow = np.isin(rows.key, rows.key[behind])
    slow_existing = np.isin(existing.key, rows.key[behind])
    # Keys without such a row need no order of arrival: all their rows are merged at once, with the
    # same result.
    fast = _assign_at_once(_rows(rows, ~slow), existing.of(~slow_existing))
    one = _assign_in_order(_rows(rows, slow), existing.of(slow_existing), fires)
    count = len(fast.key)
    row_span, existing_span = (
        np.empty(len(rows.key), np.int64),
        np.empty(len(existing.key), np.int64),
    )
    row_span[~slow], existing_span[~slow_existing] = fast.row_span, fast.existing_span
    row_span[slow] = np.where(one.row_span >= 0, one.row_span + count, _LATE)
    existing_span[slow_existing] = one.existing_span + count
    return Spans(
        np.concatenate([fast.key, one.key]),
        np.concatenate([fast.start, one.start]),
        np.concatenate([fast.end, one.end]),
        row_span,
        existing_span,
    )


def java_places(start: IntArray, end: IntArray) -> IntArray:
    """Returns the buckets of windows with these bounds in a small HashSet of Java, by the hash of
    the TimeWindow of Flink's table runtime.

    The hash is start plus the modular inverse of (end << 1) + 1, both modulo 2^32.
    """
    odd = ((end.astype(np.uint64) << np.uint64(1)) + np.uint64(1)).astype(np.uint32)
    # Newton's iteration for the inverse modulo a power of two: an odd number cubed has 4 right bits
    # or more, and each step doubles them.
    inverse = odd * odd * odd
    for _ in range(3):
        inverse *= np.uint32(2) - odd * inverse
    hashed = start.astype(np.uint64).astype(np.uint32) + inverse
    places: IntArray = ((hashed ^ (hashed >> np.uint32(16))) & np.uint32(15)).astype(np.int64)
    return places


def _rows(rows: Rows, chosen: BoolArray) -> Rows:
    return Rows(*(column[chosen] for column in (rows.key, rows.time, rows.before, rows.gap)))


def _assign_at_once(rows: Rows, existing: Existing) -> Spans:
    """Assigns all rows at once: sorted by time they form runs, which are then merged with existing
    sessions."""
    order = np.lexsort((rows.time, rows.key))
    key, time, gap = rows.key[order], rows.time[order], rows.gap[order]
    begins = np.ones(len(key), np.bool_)
    # A gap of exactly that length does not separate rows.
    begins[1:] = (key[1:] != key[:-1]) | (time[1:] - time[:-1] > gap[1:])
    stretch = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    last = np.append(first, len(key))[1:] - 1
    pieces = Existing(
        np.concatenate([key[first], existing.key]),
        np.concatenate([time[first], existing.start]),
        np.concatenate([time[last] + gap[last], existing.end]),
        np.empty(0, np.int64),
    )
    spans = _merge_intervals(pieces)
    row_span = np.empty(len(key), np.int64)
    row_span[order] = spans.existing_span[: len(first)][stretch]
    return replace(spans, row_span=row_span, existing_span=spans.existing_span[len(first) :])


def _merge_intervals(pieces: Existing) -> Spans:
    """Merges touching intervals of the same key."""
    order = np.lexsort((pieces.start, pieces.key))
    key, start = pieces.key[order], pieces.start[order]
    # A running maximum of the ends, for each key anew: the key is the high part of one number, and
    # the rank of the end its low part, so that one accumulate does all keys.
    distinct, rank = np.unique(pieces.end[order], return_inverse=True)
    size = max(len(distinct), 1)
    reached = np.maximum.accumulate(key * size + rank) if len(key) else key
    begins = np.ones(len(key), np.bool_)
    begins[1:] = (key[1:] != key[:-1]) | (start[1:] > distinct[reached[:-1] % size])
    first = np.flatnonzero(begins)
    last = np.append(first, len(key))[1:] - 1
    span = np.empty(len(key), np.int64)
    span[order] = np.cumsum(begins) - 1
    return Spans(
        key[first], start[first], distinct[reached[last] % size], np.empty(0, np.int64), span
    )


@dataclass
class _Open:
    """A session while rows are added to it."""

    start: int
    end: int
    rows: list[int] = field(default_factory=list)
    existing: list[int] = field(default_factory=list)

    def take(self, other: _Open) -> None:
        self.start, self.end = min(self.start, other.start), max(self.end, other.end)
        self.rows += other.rows
        self.existing += other.existing


def _assign_in_order(rows: Rows, existing: Existing, fires: Fires) -> Spans:
    """Adds rows in order of arrival: a session that has ended before a row takes no more."""
    by_key: dict[int, list[_Open]] = {}
    for i, (key, start, end) in enumerate(
        zip(existing.key.tolist(), existing.start.tolist(), existing.end.tolist(), strict=True)
    ):
        by_key.setdefault(key, []).append(_Open(start, end, existing=[i]))
    # When the session of each row on its own would fire: if that is past, only a longer session
    # that is still open can save the row.
    ends = rows.time + rows.gap
    columns = (rows.key, rows.time, ends, rows.before, fires(ends))
    arriving = zip(*(column.tolist() for column in columns), strict=True)
    for i, (key, time, end, before, fired) in enumerate(arriving):
        sessions = by_key.setdefault(key, [])
        overlapping = [
            s for s in sessions if s.start <= end and s.end >= time and _ends_at(s, fires) > before
        ]
        if not overlapping and fired <= before:
            continue
        session = overlapping[0] if overlapping else _Open(time, end)
        if not overlapping:
            sessions.append(session)
        # A row may close the gap between sessions: all of them become the first one.
        for other in overlapping[1:]:
            session.take(other)
            sessions.remove(other)
        session.take(_Open(time, end, [i]))
    return _numbered(by_key, len(rows.key), len(existing.key))


def _ends_at(session: _Open, fires: Fires) -> int:
    return int(fires(np.array([session.end]))[0])


def _numbered(by_key: dict[int, list[_Open]], rows: int, existing: int) -> Spans:
    sessions = [(key, s) for key, sessions_of_key in by_key.items() for s in sessions_of_key]
    row_span, existing_span = np.full(rows, _LATE, np.int64), np.empty(existing, np.int64)
    for number, (_, session) in enumerate(sessions):
        row_span[session.rows] = number
        existing_span[session.existing] = number
    keys = np.array([key for key, _ in sessions], np.int64)
    starts = np.array([s.start for _, s in sessions], np.int64)
    ends = np.array([s.end for _, s in sessions], np.int64)
    return Spans(keys, starts, ends, row_span, existing_span)
