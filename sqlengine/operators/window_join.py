"""Joins of the rows of a window with those of the same window of another stream, once it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from planner.logical import JoinKind, WindowJoin
from planner.rewrite import conjunction
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output
from sqlengine.operators.join_rows import PairCondition
from sqlengine.operators.late_rows import LateRows
from sqlengine.operators.ports import PortTimes
from sqlengine.operators.window_rows import WindowRows
from sqlengine.operators.window_times import clock_below
from sqlengine.state.chains import distinct_keys
from sqlengine.state.columns import validity

_NONE = -1


@dataclass(frozen=True)
class _Pairs:
    """Places among the rows of each side that are due; -1 for a row of the other side without a match."""

    left: IntArray
    right: IntArray


class WindowJoinOperator:
    """A row is late by the time of both sides together. Its rows (all +I) are ordered by the end of the window, then by
    the arrival of the left rows; right rows without a match come last. Rows whose condition fails with an error leave by
    the error port."""

    def __init__(self, node: WindowJoin, owner: str = "") -> None:
        self._node = node
        self._clock = clock_below(node.left)
        self._sides = tuple(
            WindowRows(side.schema, node.keys(port), node.ends[port], self._clock, LateRows(node, owner))
            for port, side in enumerate(node.inputs)
        )
        residual = node.conditions[1]
        self._residual = PairCondition(node, conjunction(residual), owner) if residual else None

    def open(self, context: Context) -> None:
        self._times = PortTimes(context, 2)
        for side, name in zip(self._sides, ("left", "right"), strict=True):
            side.open(context, name)
        if self._residual is not None:
            self._residual.open(context)

    def process(self, port: int, batch: Batch) -> Output:
        batch = self._times.advance(port, batch)
        output: Output = []
        if batch.num_rows:
            self._sides[port].add(batch, self._clock.before(batch), output)
        due = [side.due(self._clock.now(batch)) for side in self._sides]
        tick = batch.tick(self._node.schema)
        if not len(due[0]) and not len(due[1]):
            return [*output, (0, tick)]
        result = self._fire(batch, due, output)
        for side, slots in zip(self._sides, due, strict=True):
            side.table.remove(slots)
        return [*output, (0, result)]

    def timer(self) -> int | None:
        return self._clock.timer(*(side.earliest() for side in self._sides))

    def close(self) -> None: ...

    def _fire(self, batch: Batch, due: Sequence[IntArray], output: Output) -> Batch:
        pairs = self._matches(due)
        if self._residual is not None and len(pairs.left):
            schema = self._node.left.schema
            columns = tuple(self._sides[0].column(n, due[0]) for n in schema.names)
            rows = batch.result(schema, columns, len(due[0]))
            held = self._residual.holds(0, rows, pairs.left, self._sides[1], due[1][pairs.right], output)
            pairs = _Pairs(pairs.left[held], pairs.right[held])
        return self._told(batch, due, self._kept(pairs, len(due[0]), len(due[1])))

    def _matches(self, due: Sequence[IntArray]) -> _Pairs:
        """Pairs of rows that are equal in all columns by which the sides are joined."""
        strict = [not e.null_safe for e in self._node.equalities]
        arrays = [
            [side.column(n, slots) for n in self._node.keys(port)]
            for port, (side, slots) in enumerate(zip(self._sides, due, strict=True))
        ]
        types = [self._node.left.schema.type(n).with_nullable(True) for n in self._node.keys(0)]
        count = len(due[0])
        both = [pa.concat_arrays([a, b.cast(a.type)]) for a, b in zip(*arrays, strict=True)]
        codes, _ = distinct_keys(types, both, count + len(due[1]))
        good = np.ones(len(codes), np.bool_)
        for array, needed in zip(both, strict, strict=True):
            if needed and array.null_count:
                good &= validity(array)
        left, right = np.flatnonzero(good[:count]), np.flatnonzero(good[count:])
        order = right[np.argsort(codes[count:][right], kind="stable")]
        sorted_ = codes[count:][order]
        first = np.searchsorted(sorted_, codes[left], "left")
        counts = np.searchsorted(sorted_, codes[left], "right") - first
        nth = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return _Pairs(np.repeat(left, counts), order[np.repeat(first, counts) + nth])

    def _kept(self, pairs: _Pairs, left: int, right: int) -> _Pairs:
        """What the kind of join makes of the pairs."""
        kind = self._node.kind
        if kind.is_semi:
            matched = np.isin(np.arange(left), pairs.left)
            rows = np.flatnonzero(matched == (kind is JoinKind.SEMI))
            return _Pairs(rows, np.full(len(rows), _NONE))
        lefts, rights = [pairs.left], [pairs.right]
        if kind.keeps(0):
            alone = np.setdiff1d(np.arange(left), pairs.left)
            lefts, rights = [*lefts, alone], [*rights, np.full(len(alone), _NONE)]
        if kind.keeps(1):
            alone = np.setdiff1d(np.arange(right), pairs.right)
            lefts, rights = [*lefts, np.full(len(alone), _NONE)], [*rights, alone]
        return _Pairs(np.concatenate(lefts), np.concatenate(rights))

    def _told(self, batch: Batch, due: Sequence[IntArray], pairs: _Pairs) -> Batch:
        places = (pairs.left, pairs.right)
        times = [
            np.append(side.fires(slots), np.iinfo(np.int64).max)[at]
            for side, slots, at in zip(self._sides, due, places, strict=True)
        ]
        fires = np.minimum(times[0], times[1])
        by_left = np.where(pairs.left < 0, len(due[0]), pairs.left)
        order = np.lexsort((pairs.right, by_left, fires))
        columns: list[pa.Array] = []
        for port in (0,) if self._node.kind.is_semi else (0, 1):
            at = places[port][order]
            index = pa.array(at, mask=at < 0)
            columns += [self._sides[port].column(n, due[port]).take(index) for n in self._sides[port].schema.names]
        told = batch.result(self._node.schema, columns, len(order))
        return told if self._clock.proctime else replace(told, row_watermarks=batch.watermarks_before(fires[order]))
