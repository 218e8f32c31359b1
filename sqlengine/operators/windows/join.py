"""Window joins: joins the rows of equal windows of two inputs when the window fires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from planner.logical import JoinKind, WindowJoin
from planner.rewrite import conjunction
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output, Rest, Stream, min_rest
from sqlengine.operators.joins.rows import PairCondition, pair_ranges
from sqlengine.operators.late_rows import LateGate
from sqlengine.operators.ports import PortTimes
from sqlengine.operators.windows.rows import WindowRows
from sqlengine.operators.windows.times import clock_below
from sqlengine.state.chains import distinct_keys
from sqlengine.state.columns import distinct, validity

_NONE = -1


@dataclass(frozen=True)
class _Pairs:
    """Places among the due rows of each side; -1 for the missing side of an unmatched row."""

    left: IntArray
    right: IntArray


class WindowJoinOperator:
    """Joins rows with the same window and key, as Flink's WindowJoinOperator.

    A row is late by the combined watermark of both inputs; with `aligned` inputs (from one source,
    batch for batch) by its own. The output (all +I) is ordered by the end of the window, then by
    the arrival of the left rows; unmatched right rows come last. Rows whose condition fails leave
    by the error port. State: a `WindowRows` for each side, and `PortTimes`. Timers: the end of the
    windows.
    """

    def __init__(self, node: WindowJoin, *, aligned: bool = False) -> None:
        self._node = node
        self._aligned = aligned
        self._clock = clock_below(node.left)
        self._sides = tuple(
            WindowRows(
                side.schema,
                node.keys(port),
                node.ends[port],
                self._clock,
                LateGate(node, port),
            )
            for port, side in enumerate(node.inputs)
        )
        residual = node.conditions[1]
        self._residual = PairCondition(node, conjunction(residual)) if residual else None

    def open(self, context: Context) -> None:
        self._times = PortTimes(context, 2)
        for side, name in zip(self._sides, ("left", "right"), strict=True):
            side.open(context, name)
        if self._residual is not None:
            self._residual.open(context)

    def process(self, port: int, batch: Batch) -> Stream:
        own = batch
        batch = self._times.advance(port, batch)
        output: Output = []
        if batch.num_rows:
            self._sides[port].add(
                batch, self._clock.before(own if self._aligned else batch), output
            )
        yield from output
        due = [side.due(self._clock.now(batch)) for side in self._sides]
        parts = list(self._split_due(due))
        for number, part in enumerate(parts, 1):
            yield from self._fire(batch, part, last=number == len(parts))
            for side, slots in zip(self._sides, part, strict=True):
                side.table.remove(slots)
        if not parts:
            yield 0, batch.tick(self._node.schema)

    def timer(self) -> int | None:
        return self._clock.timer(*(side.earliest for side in self._sides))

    def rest(self) -> Rest:
        return min_rest([self._clock.rest(side.earliest()) for side in self._sides])

    @property
    def untold(self) -> list[int]:
        return self._times.untold

    def close(self) -> None: ...

    def _split_due(self, due: Sequence[IntArray]) -> Iterator[list[IntArray]]:
        """Yields the rows that are due, as many windows at once as have few pairs: more windows
        would come out piece by piece, and not in their order."""
        fires = [side.fires(slots) for side, slots in zip(self._sides, due, strict=True)]
        times = distinct(np.concatenate(fires))
        ends = [np.searchsorted(f, times, "right") for f in fires]
        rows = [np.diff(e, prepend=0) for e in ends]
        start = [0, 0]
        for _, last in pair_ranges(rows[0] * rows[1] + rows[0] + rows[1]):
            # Both lists are sorted by firing time: the due rows of windows are one range of each.
            end = [int(e[last - 1]) for e in ends]
            yield [slots[a:b] for slots, a, b in zip(due, start, end, strict=True)]
            start = end

    def _fire(self, batch: Batch, due: Sequence[IntArray], *, last: bool) -> Stream:
        """Emits joined rows for pieces of the left rows with few pairs each.

        Unmatched right rows come with the last piece, and the watermark after the batch with the
        last window (`last`).
        """
        earlier = replace(batch, watermark=batch.since)
        order, first, counts = self._matches(due)
        matched = np.zeros(len(due[1]), np.bool_)
        for start, end in list(pair_ranges(counts)) or [(0, 0)]:
            output: Output = []
            part = counts[start:end]
            nth = np.arange(int(part.sum())) - np.repeat(np.cumsum(part) - part, part)
            pairs = _Pairs(
                np.repeat(np.arange(start, end), part),
                order[np.repeat(first[start:end], part) + nth],
            )
            if self._residual is not None and len(pairs.left):
                pairs = self._filter_pairs(batch, due, pairs, output)
            matched[pairs.right] = True
            # Whether a right row is unmatched is known only when all left rows have been seen.
            is_last_piece = end == len(due[0])
            unmatched = np.flatnonzero(~matched) if is_last_piece else np.empty(0, np.int64)
            joined = self._result(
                batch if is_last_piece and last else earlier,
                due,
                self._apply_join_type(pairs, np.arange(start, end), unmatched),
            )
            yield from [*output, (0, joined)]

    def _filter_pairs(
        self, batch: Batch, due: Sequence[IntArray], pairs: _Pairs, output: Output
    ) -> _Pairs:
        """Returns the pairs for which the residual condition is TRUE."""
        assert self._residual is not None
        schema = self._node.left.schema
        index, left = np.unique(pairs.left, return_inverse=True)
        columns = tuple(self._sides[0].column(n, due[0][index]) for n in schema.names)
        rows = batch.result(schema, columns, len(index))
        holds = self._residual.holds(0, rows, left, self._sides[1], due[1][pairs.right], output)
        return _Pairs(pairs.left[holds], pairs.right[holds])

    def _matches(self, due: Sequence[IntArray]) -> tuple[IntArray, IntArray, IntArray]:
        """Returns the right rows sorted by join key, and for each left row the first match there
        and the number of matches."""
        strict = [not e.null_safe for e in self._node.equalities]
        arrays = [
            [side.column(n, slots) for n in self._node.keys(port)]
            for port, (side, slots) in enumerate(zip(self._sides, due, strict=True))
        ]
        types = [self._node.left.schema.type(n).with_nullable(True) for n in self._node.keys(0)]
        count = len(due[0])
        both = [pa.concat_arrays([a, b.cast(a.type)]) for a, b in zip(*arrays, strict=True)]
        # One numbering of the keys of both sides: equal keys have equal codes, and a binary search
        # finds the matches.
        codes, _ = distinct_keys(types, both, count + len(due[1]))
        good = np.ones(len(codes), np.bool_)
        for array, needed in zip(both, strict, strict=True):
            if needed and array.null_count:
                good &= validity(array)
        left, right = np.flatnonzero(good[:count]), np.flatnonzero(good[count:])
        # Stable, so that matches of a left row keep the order of their arrival.
        order = right[np.argsort(codes[count:][right], kind="stable")]
        sorted_ = codes[count:][order]
        first, counts = np.zeros(count, np.int64), np.zeros(count, np.int64)
        first[left] = np.searchsorted(sorted_, codes[left], "left")
        counts[left] = np.searchsorted(sorted_, codes[left], "right") - first[left]
        return order, first, counts

    def _apply_join_type(self, pairs: _Pairs, left: IntArray, unmatched: IntArray) -> _Pairs:
        """Applies the join type to the pairs of some left rows, and to `unmatched` right rows."""
        kind = self._node.kind
        if kind.is_semi:
            matched = np.isin(left, pairs.left)
            rows = left[matched == (kind is JoinKind.SEMI)]
            return _Pairs(rows, np.full(len(rows), _NONE))
        lefts, rights = [pairs.left], [pairs.right]
        if kind.keeps(0):
            unmatched_left = np.setdiff1d(left, pairs.left)
            lefts, rights = [*lefts, unmatched_left], [*rights, np.full(len(unmatched_left), _NONE)]
        if kind.keeps(1):
            lefts, rights = [*lefts, np.full(len(unmatched), _NONE)], [*rights, unmatched]
        return _Pairs(np.concatenate(lefts), np.concatenate(rights))

    def _result(self, batch: Batch, due: Sequence[IntArray], pairs: _Pairs) -> Batch:
        places = (pairs.left, pairs.right)
        times = [
            np.append(side.fires(slots), np.iinfo(np.int64).max)[at]
            for side, slots, at in zip(self._sides, due, places, strict=True)
        ]
        # The missing side of an unmatched row (-1) reads the appended maximum, which never wins.
        fires = np.minimum(times[0], times[1])
        by_left = np.where(pairs.left < 0, len(due[0]), pairs.left)
        order = np.lexsort((pairs.right, by_left, fires))
        columns: list[pa.Array] = []
        for port in (0,) if self._node.kind.is_semi else (0, 1):
            at = places[port][order]
            index = pa.array(at, mask=at < 0)
            columns += [
                self._sides[port].column(n, due[port]).take(index)
                for n in self._sides[port].schema.names
            ]
        result = batch.result(self._node.schema, columns, len(order))
        return (
            result
            if self._clock.proctime
            else replace(result, row_watermarks=batch.watermarks_before(fires[order]))
        )
