"""Joins of two streams that change: every row of one side meets all that the other side holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from planner.logical import Join, JoinKind
from planner.rewrite import conjunction
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output, Stream
from sqlengine.operators.changelog.row_kinds import (
    DELETE,
    INSERT,
    Kinds,
    kinds_of,
    plain,
    takes_back,
)
from sqlengine.operators.joins.rows import (
    MatchedPiece,
    OutputRows,
    PairCondition,
    assemble,
    null_slots,
)
from sqlengine.operators.joins.state import JoinSide
from sqlengine.operators.ports import PortTimes
from sqlengine.state.columns import BoolArray

# Within one row's changes: what its arrival ends, what it makes, what its going brings back.
_ENDS, _MAKES, _BRINGS = range(3)


class JoinOperator:
    """The changes that Flink's join tells, row by row: those of one row do not depend on the others
    of its batch, since a batch comes from one side and meets the other. For a side that is kept
    whole: -D of the padded row before the first match, +I of it after the last. Rows whose
    condition fails with an error leave by the error port."""

    def __init__(self, node: Join, owner: str = "") -> None:
        self._node = node
        self._owner = owner
        self._sides = (JoinSide(node, 0), JoinSide(node, 1))
        residual = node.conditions[1]
        self._residual = PairCondition(node, conjunction(residual), owner) if residual else None

    def open(self, context: Context) -> None:
        self._times = PortTimes(context, 2)
        for side in self._sides:
            side.open(context)
        if self._residual is not None:
            self._residual.open(context)

    def process(self, port: int, batch: Batch) -> Stream:
        for side in self._sides:
            side.expire(batch.proctime)
        for piece in self._sides[1 - port].matches(batch, self._node.keys(port)):
            yield from self._process(port, piece)

    def _process(self, port: int, piece: MatchedPiece) -> Output:
        batch = piece.batch
        timed = self._times.advance(port, batch)
        output: Output = []
        result = self._change(port, piece, output) if batch.num_rows else None
        if result is None or not len(result[1]):
            return [*output, (0, timed.tick(self._node.schema))]
        columns, by, kinds = result
        made = timed.result(self._node.schema, columns, len(by))
        times = None if timed.row_watermarks is None else timed.row_watermarks[by]
        return [*output, (0, replace(made, row_watermarks=times, kinds=plain(kinds)))]

    def close(self) -> None: ...

    def _change(
        self, port: int, piece: MatchedPiece, output: Output
    ) -> tuple[list[pa.Array], IntArray, Kinds]:
        this, other = self._sides[port], self._sides[1 - port]
        batch, rows, slots = piece.batch, piece.rows, piece.slots
        back = takes_back(batch)
        if self._residual is not None and len(rows):
            holds = self._residual.holds(port, batch, rows, other, slots, output)
            rows, slots = rows[holds], slots[holds]
        counts = other.counts(slots)
        matches = np.bincount(rows, counts, batch.num_rows).astype(np.int64)
        told = self._told(port, batch, back, (rows, slots, counts), matches)
        this.take_in(batch, back, matches)
        return assemble(port, batch, other, told, left_only=self._node.kind.is_semi)

    def _told(
        self,
        port: int,
        batch: Batch,
        back: BoolArray | None,
        pairs: tuple[IntArray, IntArray, IntArray],
        matches: IntArray,
    ) -> list[OutputRows]:
        rows, slots, counts = pairs
        kind, kinds = self._node.kind, kinds_of(batch)
        whole = (
            np.where(back, DELETE, INSERT)
            if back is not None
            else np.zeros(batch.num_rows, np.int8)
        )
        turned = self._turned(1 - port, batch, back, rows, slots)
        if kind.is_semi:
            return self._semi(port, kinds, matches, pairs, turned)
        told = [
            OutputRows(rows[at], part, null_slots(at), slots[at], _kind(part, len(at)))
            for part, at in _each(turned, counts)
        ]
        at = np.repeat(np.arange(len(rows)), counts)
        if kind.keeps(port):
            kinds = whole
        elif kind.keeps(
            1 - port
        ):  # as in Flink, which tells +I of what comes back, but -U of what goes
            kinds = np.where(whole == INSERT, INSERT, kinds)
        told.append(OutputRows(rows[at], _MAKES, rows[at], slots[at], kinds[rows[at]]))
        if kind.keeps(port):
            alone = np.flatnonzero(matches == 0)
            told.append(OutputRows(alone, _MAKES, alone, null_slots(alone), whole[alone]))
        return told

    def _turned(
        self, other: int, batch: Batch, back: BoolArray | None, rows: IntArray, slots: IntArray
    ) -> tuple[BoolArray, BoolArray] | None:
        """Which pairs are the first match of the other side's row, and which were the last; None
        where nobody asks."""
        side = self._sides[other]
        if not side.counted:
            return None
        takes = np.zeros(len(rows), np.bool_) if back is None else back[rows]
        held = side.matched(slots, np.where(takes, -1, 1), batch.proctime)
        return ~takes & (held == 0), takes & (held == 1)

    def _semi(
        self,
        port: int,
        kinds: Kinds,
        matches: IntArray,
        pairs: tuple[IntArray, IntArray, IntArray],
        turned: tuple[BoolArray, BoolArray] | None,
    ) -> list[OutputRows]:
        rows, slots, counts = pairs
        anti = self._node.kind is JoinKind.ANTI
        if port == 0:
            own = np.flatnonzero((matches == 0) == anti)
            return [OutputRows(own, _MAKES, own, null_slots(own), kinds[own])]
        return [
            OutputRows(
                rows[at],
                _MAKES,
                null_slots(at),
                slots[at],
                _kind(part, len(at)) if anti else kinds[rows[at]],
            )
            for part, at in _each(turned, counts)
        ]


def _kind(part: int, count: int) -> Kinds:
    return np.full(count, DELETE if part == _ENDS else INSERT, np.int8)


def _each(
    turned: tuple[BoolArray, BoolArray] | None, counts: IntArray
) -> list[tuple[int, IntArray]]:
    """The pairs that end or bring back rows of the other side, as often as those are there."""
    if turned is None:
        return []
    found = (
        (part, np.flatnonzero(which)) for part, which in zip((_ENDS, _BRINGS), turned, strict=True)
    )
    return [(part, np.repeat(at, counts[at])) for part, at in found]
