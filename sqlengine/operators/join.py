"""Joins of two streams that change: every row of one side meets all that the other side holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from parser.types import Schema
from planner.logical import BinaryJoin, Join, JoinKind
from planner.rewrite import conjunction
from planner.scalar import Scalar, columns_of, find_position
from sqlengine.batch import Batch, IntArray
from sqlengine.expressions import compile_expression, truth
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.changelog import DELETE, INSERT, Kinds, kinds_of, plain, takes_back
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.operators.join_state import JoinSide
from sqlengine.operators.ports import PortTimes
from sqlengine.state.columns import BoolArray

# Within one row's changes: what its arrival ends, what it makes, what its going brings back.
_ENDS, _MAKES, _BRINGS = range(3)


@dataclass(frozen=True)
class Told:
    """Rows to tell: by which row of the batch, in which part of its changes, the batch's row and the slot of the other
    side that they are made of (-1: NULL), and their kinds."""

    by: IntArray
    part: int
    rows: IntArray
    slots: IntArray
    kinds: Kinds


class JoinOperator:
    """The changes that Flink's join tells, row by row: those of one row do not depend on the others of its batch, since
    a batch comes from one side and meets the other. For a side that is kept whole: -D of the padded row before the first
    match, +I of it after the last. Rows whose condition fails with an error leave by the error port."""

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

    def process(self, port: int, batch: Batch) -> Output:
        watermark, before = self._times.advance(port, batch)
        for side in self._sides:
            side.expire(batch.proctime)
        output: Output = []
        result = self._change(port, batch, output) if batch.num_rows else None
        if result is None or not len(result[1]):
            return [*output, (0, replace(batch.tick(self._node.schema), watermark=watermark))]
        columns, by, kinds = result
        made = Batch(self._node.schema, tuple(columns), len(by), batch.proctime, watermark, seed=batch.seed)
        times = None if before is None else before[by]
        return [*output, (0, replace(made, row_watermarks=times, kinds=plain(kinds)))]

    def close(self) -> None: ...

    def _change(self, port: int, batch: Batch, output: Output) -> tuple[list[pa.Array], IntArray, Kinds]:
        this, other = self._sides[port], self._sides[1 - port]
        back = takes_back(batch)
        rows, slots = other.matches(batch, self._node.keys(port))
        if self._residual is not None and len(rows):
            holds = self._residual.holds(port, batch, rows, other, slots, output)
            rows, slots = rows[holds], slots[holds]
        counts = other.counts(slots)
        matches = np.bincount(rows, counts, batch.num_rows).astype(np.int64)
        told = self._told(port, batch, back, (rows, slots, counts), matches)
        this.take_in(batch, back, matches)
        return self._rows(port, batch, told)

    def _told(
        self,
        port: int,
        batch: Batch,
        back: BoolArray | None,
        pairs: tuple[IntArray, IntArray, IntArray],
        matches: IntArray,
    ) -> list[Told]:
        rows, slots, counts = pairs
        kind, kinds = self._node.kind, kinds_of(batch)
        whole = np.where(back, DELETE, INSERT) if back is not None else np.zeros(batch.num_rows, np.int8)
        turned = self._turned(1 - port, batch, back, rows, slots)
        if kind.is_semi:
            return self._semi(port, kinds, matches, pairs, turned)
        told = [Told(rows[at], part, _none(at), slots[at], _kind(part, len(at))) for part, at in _each(turned, counts)]
        at = np.repeat(np.arange(len(rows)), counts)
        if kind.keeps(port):
            kinds = whole
        elif kind.keeps(1 - port):  # as in Flink, which tells +I of what comes back, but -U of what goes
            kinds = np.where(whole == INSERT, INSERT, kinds)
        told.append(Told(rows[at], _MAKES, rows[at], slots[at], kinds[rows[at]]))
        if kind.keeps(port):
            alone = np.flatnonzero(matches == 0)
            told.append(Told(alone, _MAKES, alone, _none(alone), whole[alone]))
        return told

    def _turned(
        self, other: int, batch: Batch, back: BoolArray | None, rows: IntArray, slots: IntArray
    ) -> tuple[BoolArray, BoolArray] | None:
        """Which pairs are the first match of the other side's row, and which were the last; None where nobody asks."""
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
    ) -> list[Told]:
        rows, slots, counts = pairs
        anti = self._node.kind is JoinKind.ANTI
        if port == 0:
            own = np.flatnonzero((matches == 0) == anti)
            return [Told(own, _MAKES, own, _none(own), kinds[own])]
        return [
            Told(rows[at], _MAKES, _none(at), slots[at], _kind(part, len(at)) if anti else kinds[rows[at]])
            for part, at in _each(turned, counts)
        ]

    def _rows(self, port: int, batch: Batch, told: Sequence[Told]) -> tuple[list[pa.Array], IntArray, Kinds]:
        """The columns, what told each row, and the kinds, in order."""
        by, rows, slots, kinds = (
            np.concatenate([getattr(t, n) for t in told]) for n in ("by", "rows", "slots", "kinds")
        )
        if len(told) > 1:
            order = np.lexsort((np.repeat([t.part for t in told], [len(t.by) for t in told]), by))
            by, rows, slots, kinds = by[order], rows[order], slots[order], kinds[order]
        other = self._sides[1 - port]
        columns: list[pa.Array] = []
        for side in (0,) if self._node.kind.is_semi else (0, 1):
            columns += _taken(batch, rows) if side == port else _held(other, slots)
        return columns, by, kinds


def _none(like: IntArray) -> IntArray:
    return np.full(len(like), -1)


def _kind(part: int, count: int) -> Kinds:
    return np.full(count, DELETE if part == _ENDS else INSERT, np.int8)


def _each(turned: tuple[BoolArray, BoolArray] | None, counts: IntArray) -> list[tuple[int, IntArray]]:
    """The pairs that end or bring back rows of the other side, as often as those are there."""
    if turned is None:
        return []
    found = ((part, np.flatnonzero(which)) for part, which in zip((_ENDS, _BRINGS), turned, strict=True))
    return [(part, np.repeat(at, counts[at])) for part, at in found]


def _taken(batch: Batch, rows: IntArray) -> list[pa.Array]:
    index = pa.array(rows, mask=rows < 0)
    return [c.take(index) for c in batch.columns]


def _held(side: JoinSide, slots: IntArray) -> list[pa.Array]:
    there = slots >= 0
    if there.all():
        return [side.column(n, slots) for n in side.schema.names]
    index = pa.array(np.cumsum(there) - 1, mask=~there)
    return [side.column(n, slots[there]).take(index) for n in side.schema.names]


class Held(Protocol):
    """Rows that a side holds, by slot."""

    def column(self, name: str, slots: IntArray) -> pa.Array: ...


class PairCondition:
    """A condition over pairs of a row of a batch and a row that a side holds."""

    def __init__(self, node: BinaryJoin, condition: Scalar, owner: str) -> None:
        self._owner = owner
        self._condition = condition
        self._evaluate = compile_expression(condition)
        names = columns_of(condition)
        self._schemas = tuple(
            side.schema.select(tuple(n for n in side.schema.names if n in names)) for side in node.inputs
        )

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def holds(self, port: int, batch: Batch, rows: IntArray, other: Held, slots: IntArray, output: Output) -> BoolArray:
        """Where the condition is TRUE; errors go to `output`."""
        own, held = self._schemas[port], self._schemas[1 - port]
        index = pa.array(rows)
        columns = [*(batch.column(n).take(index) for n in own.names), *(other.column(n, slots) for n in held.names)]
        schema = Schema((*own, *held))
        pairs = replace(batch.with_columns(schema, columns), num_rows=len(rows), kinds=None, row_watermarks=None)
        vector = self._evaluate(pairs)
        if vector.errors is not None:
            bad = np.flatnonzero(vector.errors.mask)
            count = len(bad)
            self._counters["rows_in_error"] += count
            letters = dead_letters(
                replace(pairs, offsets=None).take(bad),
                owner=[self._owner] * count,
                place=[str(find_position(self._condition) or "")] * count,
                subject=[str(self._condition)] * count,
                reason=[vector.errors.reason(int(i)) for i in bad],
            )
            output.append((ERROR_PORT, letters))
        return truth(vector, len(rows))
