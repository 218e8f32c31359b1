"""OVER calls as folds over ordered rows: the state after a row is all that the next row needs."""

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

# The number of rows computed from one state at a time: each row is accumulated into all after it.
_ROWS_PER_STEP = 16


@dataclass(frozen=True)
class FoldState:
    """The state of the calls, for several runs of rows.

    The number of rows and of groups of peers so far, the rank and the peers' key of the last row,
    and the accumulators by call.
    """

    rows: IntArray
    groups: IntArray
    ranks: IntArray
    last: list[bytes | None]
    accumulators: tuple[Accumulator, ...]

    def of(self, run: int) -> FoldState:
        """Returns a copy of the state of one run."""
        accumulators = tuple(
            {n: c[run : run + 1].copy() for n, c in acc.items()} for acc in self.accumulators
        )
        at = slice(run, run + 1)
        return FoldState(
            self.rows[at].copy(),
            self.groups[at].copy(),
            self.ranks[at].copy(),
            self.last[at],
            accumulators,
        )

    def put(self, run: int, one: FoldState) -> None:
        """Sets the state of one run."""
        self.rows[run], self.groups[run], self.ranks[run] = one.rows[0], one.groups[0], one.ranks[0]
        self.last[run] = one.last[0]
        for own, other in zip(self.accumulators, one.accumulators, strict=True):
            for name, column in other.items():
                own[name][run] = column[0]


@dataclass(frozen=True)
class Run:
    """Rows of several runs, one run after the other, each in order.

    For each row the number of its run (from 0, without gaps) and the key of its peers; and the
    columns that the calls read.
    """

    of: IntArray
    peers: Sequence[bytes]
    columns: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return len(self.of)


class Folds:
    """Folds calls over rows.

    Its columns are one for each of `calls`, then the number of values of each sum and mean: where
    only that changed, the row is emitted again, as in Flink.
    """

    def __init__(self, calls: Sequence[OverCall], *, by_peers: bool) -> None:
        counts = [
            replace(c, function="COUNT", type=BIGINT) for c in calls if c.function in ("SUM", "AVG")
        ]
        self.calls = [*calls, *counts]
        # RANGE frames: all peers have the value of the last of them.
        self.shared = [by_peers and c.function not in NUMBERING for c in self.calls]
        self._bound = [_bound(c) for c in self.calls]
        functions = {c.function for c in calls}
        self._counts_rows, self._ranks = (
            bool(functions & {"ROW_NUMBER", "RANK"}),
            "RANK" in functions,
        )
        self._counts_groups = "DENSE_RANK" in functions
        self._numbers_rows = bool(functions & NUMBERING)
        # False if states are updated in place, so that a mark would have to be a full copy.
        self.lasting = not any(map(_grows, self._bound))
        self.reads_peers = self._ranks or self._counts_groups

    def begin(self, runs: int) -> FoldState:
        """Returns the state before the first row of so many runs."""
        accumulators = tuple(
            empty_accumulator(b.accumulators, runs) for b in self._bound if b is not None
        )
        rows, groups, ranks = np.zeros((3, runs), np.int64)
        return FoldState(rows, groups, ranks, [None] * runs, accumulators)

    def copy(self, at: FoldState) -> FoldState:
        """Returns a copy of the state."""
        fresh: list[Accumulator] = []
        bounds = [b for b in self._bound if b is not None]
        for bound, acc in zip(bounds, at.accumulators, strict=True):
            # Accumulators that hold collections update them in place: merged into empty ones, they
            # get collections of their own.
            if not _grows(bound):
                fresh.append({n: c.copy() for n, c in acc.items()})
                continue
            every = np.arange(len(at.rows))
            fresh.append(empty_accumulator(bound.accumulators, len(every)))
            bound.merge(fresh[-1], every, acc, every)
        return FoldState(
            at.rows.copy(), at.groups.copy(), at.ranks.copy(), [*at.last], tuple(fresh)
        )

    def same(self, one: FoldState, other: FoldState) -> BoolArray:
        """Returns True for runs for which all following rows get the same values from both
        states."""
        equal = np.ones(len(one.rows), np.bool_)
        # Only what later values depend on is compared: without ROW_NUMBER or RANK, states may
        # differ in their row counts and still give equal values from here on.
        if self._counts_rows:
            equal &= one.rows == other.rows
        if self._counts_groups:
            equal &= one.groups == other.groups
        if self.reads_peers:
            equal &= (one.ranks == other.ranks) | (not self._ranks)
            equal &= np.array([a == b for a, b in zip(one.last, other.last, strict=True)], np.bool_)
        for a, b in zip(one.accumulators, other.accumulators, strict=True):
            for name, column in a.items():
                equal &= _equal(column, b[name])
        return equal

    def values_at(self, at: FoldState) -> list[pa.Array]:
        """Returns the columns of the last row of each run, for peers that share its values."""
        accumulators = iter(at.accumulators)
        every = np.arange(len(at.rows))
        numbers = {"ROW_NUMBER": at.rows, "RANK": at.ranks, "DENSE_RANK": at.groups}
        return [
            pa.array(numbers[c.function]).cast(c.type.arrow)
            if b is None
            else _result(b, next(accumulators), every, c)
            for c, b in zip(self.calls, self._bound, strict=True)
        ]

    def after(self, at: FoldState, rows: Run) -> list[pa.Array]:
        """Returns the columns of the rows, and advances the state `at` behind them."""
        if not len(rows):
            return [pa.array([], c.type.arrow) for c in self.calls]
        starts = np.flatnonzero(np.append(True, rows.of[1:] != rows.of[:-1]))
        lengths = np.diff(np.append(starts, len(rows)))
        place = np.arange(len(rows)) - np.repeat(starts, lengths)
        numbers = self._numbers(at, rows, starts, place) if self._numbers_rows else {}
        accumulators = iter(at.accumulators)
        columns = []
        for call, bound in zip(self.calls, self._bound, strict=True):
            if bound is None:
                columns.append(pa.array(numbers[call.function]).cast(call.type.arrow))
                continue
            values = _values([rows.columns[a] for a in call.arguments])
            # Numbering functions have no accumulator: the iterator moves on for aggregates only.
            columns.append(_folded(call, bound, next(accumulators), rows.of, place, values))
        return columns

    def _numbers(
        self, at: FoldState, rows: Run, starts: IntArray, place: IntArray
    ) -> dict[str, IntArray]:
        """Returns the values of numbering functions, by function; advances the counts of `at`."""
        runs, first = rows.of[starts], np.repeat(starts, np.diff(np.append(starts, len(rows))))
        number = at.rows[rows.of] + place + 1
        ends = np.append(starts[1:], len(rows)) - 1
        begins = np.ones(len(rows), np.bool_)
        if self.reads_peers:
            # The first row of a run is compared with the last row of the block before, whose key is
            # in the state.
            before = [None, *rows.peers[:-1]]
            for start, run in zip(starts.tolist(), runs.tolist(), strict=True):
                before[start] = at.last[run]
            begins = np.fromiter(
                (a != b for a, b in zip(before, rows.peers, strict=True)), np.bool_, len(rows)
            )
            for end, run in zip(ends.tolist(), runs.tolist(), strict=True):
                at.last[run] = rows.peers[end]
        # The rank of a row is the number of the first of its peers, which may be in an earlier
        # block: then it is that of the state.
        latest = np.maximum.accumulate(np.where(begins, np.arange(len(rows)), -1))
        rank = np.where(latest >= first, number[latest], at.ranks[rows.of])
        passed = np.cumsum(begins)
        dense = at.groups[rows.of] + passed - (passed - begins)[first]
        at.rows[runs], at.ranks[runs], at.groups[runs] = number[ends], rank[ends], dense[ends]
        return {"ROW_NUMBER": number, "RANK": rank, "DENSE_RANK": dense}


def _bound(call: OverCall) -> Aggregate | None:
    """Returns the aggregate of a call; None for numbering functions."""
    if call.function == "LAG":
        return Lag(call.type, call.constants[0], has_default=len(call.arguments) > 1)
    return None if call.function in NUMBERING else bound_of(call)


def _values(columns: list[pa.Array]) -> pa.Array | None:
    """Returns the input of a call: its argument, or several as one ROW."""
    if len(columns) < 2:
        return columns[0] if columns else None
    return pa.StructArray.from_arrays(columns, [str(i) for i in range(len(columns))])


def _grows(bound: Aggregate | None) -> bool:
    """True if an aggregate holds collections, which it updates in place."""
    return bound is not None and any(t.children for _, t in bound.accumulators)


def _equal(a: Column, b: Column) -> BoolArray:
    if a.dtype == np.object_:
        return np.fromiter(
            (x == y for x, y in zip(a.tolist(), b.tolist(), strict=True)), np.bool_, len(a)
        )
    if a.dtype == np.float64:  # by bits: NaN equals itself, and the two zeros differ
        a, b = a.view(np.int64), b.view(np.int64)
    equal: BoolArray = a == b
    return equal


def _result(
    bound: Aggregate, accumulators: Accumulator, slots: IntArray, call: OverCall
) -> pa.Array:
    result = bound.result(accumulators, slots)
    return (result.array(len(slots)) if isinstance(result, Vector) else result).cast(
        call.type.arrow
    )


def _folded(
    call: OverCall,
    bound: Aggregate,
    accumulators: Accumulator,
    of: IntArray,
    place: IntArray,
    values: pa.Array | None,
) -> pa.Array:
    """Returns the call's values; advances `accumulators` (by run) behind the rows."""
    added = _prefix_sums(bound, accumulators, of, place, values)
    if added is not None:
        _advance(accumulators, of, added)
        return _result(bound, added, np.arange(len(of)), call)
    # An aggregate gives a value for each slot only, not for each row. So _ROWS_PER_STEP rows at a
    # time get a copy of the state each, into which all rows of the step up to them are accumulated:
    # quadratic in the step, but few calls. Collections cannot be copied: one row a step.
    size = 1 if _grows(bound) else _ROWS_PER_STEP
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
        own = {n: c[of[at]] for n, c in accumulators.items()}
        taken = None if values is None else values.take(pa.array(pairs))
        bound.update(own, of_pairs, taken, np.ones(len(pairs), np.bool_))
        parts.append(_result(bound, own, np.arange(len(at)), call))
        rows.append(at)
        _advance(accumulators, of[at], own)
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(rows), kind="stable")))


def _advance(accumulators: Accumulator, of: IntArray, rows: Accumulator) -> None:
    """Sets the state of each run to that of its last row."""
    last = np.flatnonzero(np.append(of[1:] != of[:-1], True))
    for name, column in accumulators.items():
        column[of[last]] = rows[name][last]


def _prefix_sums(
    bound: Aggregate,
    accumulators: Accumulator,
    of: IntArray,
    place: IntArray,
    values: pa.Array | None,
) -> Accumulator | None:
    """Returns the accumulators after each row for counts and integer sums, by prefix sums; None for
    others."""
    present = np.ones(len(of), np.bool_) if values is None else validity(values)
    if isinstance(bound, Count):
        return {"count": _running_sum(accumulators["count"], of, place, present.astype(np.int64))}
    if not isinstance(bound, Sum) or accumulators["sum"].dtype != np.int64 or values is None:
        return None
    numbers = np.asarray(values.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    counts = _running_sum(accumulators["count"], of, place, present.astype(np.int64))
    return {
        "sum": _running_sum(accumulators["sum"], of, place, numbers),
        "sum?": counts > 0,
        "count": counts,
    }


def _running_sum(start: Column, of: IntArray, place: IntArray, numbers: IntArray) -> IntArray:
    # Sums wrap around modulo 2^64, as those of BIGINT do; differences of wrapped sums are right.
    with np.errstate(over="ignore"):
        sums = np.cumsum(numbers)
        first = np.arange(len(of)) - place
        sums_after: IntArray = start[of] + sums - (sums - numbers)[first]
    return sums_after
