"""Calls with OVER over rows in order, from any place on: what they have come to behind a row is all
that the next one needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT
from planner.logical import OverCall
from sqlengine.batch import IntArray
from sqlengine.operators.over.frames import NUMBERING, bound_of
from sqlengine.operators.over.lag import Lag
from sqlengine.state.columns import BoolArray, validity
from udf.aggregates.accumulators import Accumulator, Aggregate, Column, empty_accumulator
from udf.aggregates.basic import Count, Sum
from udf.vector import Vector

# As many rows take their values from one standing together: each is counted for all behind it.
_TOGETHER = 16


@dataclass(frozen=True)
class Standing:
    """What the calls have come to, of several runs of rows: how many rows and groups of peers there
    were, the rank and the peers' key of the last one, and the accumulators by call."""

    rows: IntArray
    groups: IntArray
    ranks: IntArray
    last: list[bytes | None]
    held: tuple[Accumulator, ...]

    def of(self, run: int) -> Standing:
        """That of one run alone."""
        held = tuple({n: c[run : run + 1].copy() for n, c in acc.items()} for acc in self.held)
        at = slice(run, run + 1)
        return Standing(
            self.rows[at].copy(), self.groups[at].copy(), self.ranks[at].copy(), self.last[at], held
        )

    def put(self, run: int, one: Standing) -> None:
        """That of one run is another one."""
        self.rows[run], self.groups[run], self.ranks[run] = one.rows[0], one.groups[0], one.ranks[0]
        self.last[run] = one.last[0]
        for own, other in zip(self.held, one.held, strict=True):
            for name, column in other.items():
                own[name][run] = column[0]


@dataclass(frozen=True)
class Run:
    """Rows of several runs, one run after the other, each in order: the number of its run for each,
    the numbers of the runs from 0 on without a gap, the key that its peers share, and the columns
    that calls read."""

    of: IntArray
    peers: Sequence[bytes]
    columns: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return len(self.of)


class Folds:
    """The columns that tell of rows: one for each of `calls`, then, of each sum and mean, of how
    many values it is: with another number of them it is told anew, as Flink does, though it may be
    the same."""

    def __init__(self, calls: Sequence[OverCall], *, by_peers: bool) -> None:
        counts = [
            replace(c, function="COUNT", type=BIGINT) for c in calls if c.function in ("SUM", "AVG")
        ]
        self.calls = [*calls, *counts]
        self.shared = [
            by_peers and c.function not in NUMBERING for c in self.calls
        ]  # peers have the value of their last
        self._bound = [_bound(c) for c in self.calls]
        functions = {c.function for c in calls}
        self._counts_rows, self._ranks = (
            bool(functions & {"ROW_NUMBER", "RANK"}),
            "RANK" in functions,
        )
        self._counts_groups = "DENSE_RANK" in functions
        self._numbers_rows = bool(functions & NUMBERING)
        # Whether what has been reached can be kept beside what comes of it; else it would have to
        # be made anew.
        self.lasting = not any(map(_grows, self._bound))
        self.reads_peers = self._ranks or self._counts_groups

    def begin(self, runs: int) -> Standing:
        """Before the first row of so many runs."""
        held = tuple(empty_accumulator(b.accumulators, runs) for b in self._bound if b is not None)
        rows, groups, ranks = np.zeros((3, runs), np.int64)
        return Standing(rows, groups, ranks, [None] * runs, held)

    def copied(self, at: Standing) -> Standing:
        """One that is not changed with the other."""
        fresh: list[Accumulator] = []
        bounds = [b for b in self._bound if b is not None]
        for bound, acc in zip(bounds, at.held, strict=True):
            if not _grows(bound):
                fresh.append({n: c.copy() for n, c in acc.items()})
                continue
            every = np.arange(len(at.rows))
            fresh.append(empty_accumulator(bound.accumulators, len(every)))
            bound.merge(fresh[-1], every, acc, every)
        return Standing(at.rows.copy(), at.groups.copy(), at.ranks.copy(), [*at.last], tuple(fresh))

    def same(self, one: Standing, other: Standing) -> BoolArray:
        """For which runs the two are the same for all rows behind."""
        found = np.ones(len(one.rows), np.bool_)
        if self._counts_rows:
            found &= one.rows == other.rows
        if self._counts_groups:
            found &= one.groups == other.groups
        if self.reads_peers:
            found &= (one.ranks == other.ranks) | (not self._ranks)
            found &= np.array([a == b for a, b in zip(one.last, other.last, strict=True)], np.bool_)
        for a, b in zip(one.held, other.held, strict=True):
            for name, column in a.items():
                found &= _equal(column, b[name])
        return found

    def standing(self, at: Standing) -> list[pa.Array]:
        """The columns of the last row of each run, for those who share its values."""
        held = iter(at.held)
        every = np.arange(len(at.rows))
        numbers = {"ROW_NUMBER": at.rows, "RANK": at.ranks, "DENSE_RANK": at.groups}
        return [
            pa.array(numbers[c.function]).cast(c.type.arrow)
            if b is None
            else _result(b, next(held), every, c)
            for c, b in zip(self.calls, self._bound, strict=True)
        ]

    def after(self, at: Standing, rows: Run) -> list[pa.Array]:
        """The columns of the rows; `at` moves behind them."""
        if not len(rows):
            return [pa.array([], c.type.arrow) for c in self.calls]
        starts = np.flatnonzero(np.append(True, rows.of[1:] != rows.of[:-1]))
        lengths = np.diff(np.append(starts, len(rows)))
        place = np.arange(len(rows)) - np.repeat(starts, lengths)
        numbers = self._numbers(at, rows, starts, place) if self._numbers_rows else {}
        held = iter(at.held)
        columns = []
        for call, bound in zip(self.calls, self._bound, strict=True):
            if bound is None:
                columns.append(pa.array(numbers[call.function]).cast(call.type.arrow))
                continue
            values = _values([rows.columns[a] for a in call.arguments])
            columns.append(_folded(call, bound, next(held), rows.of, place, values))
        return columns

    def _numbers(
        self, at: Standing, rows: Run, starts: IntArray, place: IntArray
    ) -> dict[str, IntArray]:
        """By function; the counts of `at` move behind the rows."""
        runs, first = rows.of[starts], np.repeat(starts, np.diff(np.append(starts, len(rows))))
        number = at.rows[rows.of] + place + 1
        ends = np.append(starts[1:], len(rows)) - 1
        begins = np.ones(len(rows), np.bool_)
        if self.reads_peers:
            before = [None, *rows.peers[:-1]]
            for start, run in zip(starts.tolist(), runs.tolist(), strict=True):
                before[start] = at.last[run]
            begins = np.fromiter(
                (a != b for a, b in zip(before, rows.peers, strict=True)), np.bool_, len(rows)
            )
            for end, run in zip(ends.tolist(), runs.tolist(), strict=True):
                at.last[run] = rows.peers[end]
        latest = np.maximum.accumulate(np.where(begins, np.arange(len(rows)), -1))
        rank = np.where(latest >= first, number[latest], at.ranks[rows.of])
        passed = np.cumsum(begins)
        dense = at.groups[rows.of] + passed - (passed - begins)[first]
        at.rows[runs], at.ranks[runs], at.groups[runs] = number[ends], rank[ends], dense[ends]
        return {"ROW_NUMBER": number, "RANK": rank, "DENSE_RANK": dense}


def _bound(call: OverCall) -> Aggregate | None:
    """None for those that are numbers of rows."""
    if call.function == "LAG":
        return Lag(call.type, call.constants[0], has_default=len(call.arguments) > 1)
    return None if call.function in NUMBERING else bound_of(call)


def _values(columns: list[pa.Array]) -> pa.Array | None:
    """What a call is given: its argument, several as one ROW."""
    if len(columns) < 2:
        return columns[0] if columns else None
    return pa.StructArray.from_arrays(columns, [str(i) for i in range(len(columns))])


def _grows(bound: Aggregate | None) -> bool:
    """Whether an aggregate keeps values, which it changes in place."""
    return bound is not None and any(t.children for _, t in bound.accumulators)


def _equal(a: Column, b: Column) -> BoolArray:
    if a.dtype == np.object_:
        return np.fromiter(
            (x == y for x, y in zip(a.tolist(), b.tolist(), strict=True)), np.bool_, len(a)
        )
    if a.dtype == np.float64:  # a NaN is itself, and the zeros are two
        a, b = a.view(np.int64), b.view(np.int64)
    found: BoolArray = a == b
    return found


def _result(bound: Aggregate, held: Accumulator, slots: IntArray, call: OverCall) -> pa.Array:
    result = bound.result(held, slots)
    return (result.array(len(slots)) if isinstance(result, Vector) else result).cast(
        call.type.arrow
    )


def _folded(
    call: OverCall,
    bound: Aggregate,
    held: Accumulator,
    of: IntArray,
    place: IntArray,
    values: pa.Array | None,
) -> pa.Array:
    """The call's values; `held` (by run) moves behind the rows."""
    added = _added(bound, held, of, place, values)
    if added is not None:
        _moved(held, of, added)
        return _result(bound, added, np.arange(len(of)), call)
    size = 1 if _grows(bound) else _TOGETHER
    parts, rows = [], []
    for step in range(int(place.max()) // size + 1):
        at = np.flatnonzero(place // size == step)
        lengths = place[at] % size + 1
        of_pairs = np.repeat(np.arange(len(at)), lengths)
        ends = np.cumsum(lengths)
        pairs = (
            np.arange(int(ends[-1]))
            - np.repeat(ends - lengths, lengths)
            + np.repeat(at - lengths + 1, lengths)
        )
        own = {n: c[of[at]] for n, c in held.items()}
        taken = None if values is None else values.take(pa.array(pairs))
        bound.update(own, of_pairs, taken, np.ones(len(pairs), np.bool_))
        parts.append(_result(bound, own, np.arange(len(at)), call))
        rows.append(at)
        _moved(held, of[at], own)
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(rows), kind="stable")))


def _moved(held: Accumulator, of: IntArray, rows: Accumulator) -> None:
    """The standing of each run is that of the last of its rows."""
    last = np.flatnonzero(np.append(of[1:] != of[:-1], True))
    for name, column in held.items():
        column[of[last]] = rows[name][last]


def _added(
    bound: Aggregate, held: Accumulator, of: IntArray, place: IntArray, values: pa.Array | None
) -> Accumulator | None:
    """The accumulators behind each row where they are sums that can be run through; None
    elsewhere."""
    there = np.ones(len(of), np.bool_) if values is None else validity(values)
    if isinstance(bound, Count):
        return {"count": _running(held["count"], of, place, there.astype(np.int64))}
    if not isinstance(bound, Sum) or held["sum"].dtype != np.int64 or values is None:
        return None
    numbers = np.asarray(values.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    counts = _running(held["count"], of, place, there.astype(np.int64))
    return {"sum": _running(held["sum"], of, place, numbers), "sum?": counts > 0, "count": counts}


def _running(start: Column, of: IntArray, place: IntArray, numbers: IntArray) -> IntArray:
    with np.errstate(over="ignore"):
        sums = np.cumsum(numbers)
        first = np.arange(len(of)) - place
        found: IntArray = start[of] + sums - (sums - numbers)[first]
    return found
