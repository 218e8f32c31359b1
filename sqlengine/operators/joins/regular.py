"""Regular joins: both inputs are unbounded and may have changes."""

from __future__ import annotations

import numpy as np

from planner.logical import Join, JoinKind
from planner.rewrite import conjunction
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output, Rest, Stream, min_rest
from sqlengine.operators.changelog.row_kinds import (
    DELETE,
    INSERT,
    Kinds,
    kinds_of,
    retractions,
)
from sqlengine.operators.joins.rows import (
    MatchedPiece,
    OutputRows,
    PairCondition,
    assembled,
    null_slots,
)
from sqlengine.operators.joins.state import JoinSide
from sqlengine.operators.ports import PortTimes
from sqlengine.state.columns import BoolArray

# Order of one input row's output: retractions of null-padded rows, then joined rows, then restored
# null-padded rows.
_RETRACT_PADDED, _JOINED, _RESTORE_PADDED = range(3)


class JoinOperator:
    """Inner, outer, semi and anti join of two changelogs, as Flink's StreamingJoinOperator and
    StreamingSemiAntiJoinOperator.

    A batch comes from one side and joins the stored rows of the other, so the output of one row
    does not depend on the other rows of its batch. For an outer side: -D of the null-padded row
    before the first match, +I of it after the last one. Late rows need no treatment: every row
    joins. Rows whose condition fails leave by the error port.

    State: a `JoinSide` for each input, and `PortTimes`. TTL is checked against the batch's
    processing time.
    """

    def __init__(self, node: Join) -> None:
        self._node = node
        self._sides = (JoinSide(node, 0), JoinSide(node, 1))
        residual = node.conditions[1]
        self._residual = PairCondition(node, conjunction(residual)) if residual else None

    def open(self, context: Context) -> None:
        self._times = PortTimes(context, 2)
        for side in self._sides:
            side.open(context)
        if self._residual is not None:
            self._residual.open(context)

    def process(self, port: int, batch: Batch) -> Stream:
        for side in self._sides:
            side.expire(batch.proctime)
        # A generator: each piece is matched when the one before is emitted and stored, which bounds
        # memory.
        for piece in self._sides[1 - port].matches(batch, self._node.keys(port)):
            yield from self._process(port, piece)

    def _process(self, port: int, piece: MatchedPiece) -> Stream:
        timed = self._times.advance(port, piece.batch)
        output: Output = []
        outputs = self._change(port, piece, output) if piece.batch.num_rows else []
        yield from output
        if not any(len(part.by) for part in outputs):
            yield 0, timed.tick(self._node.schema)
            return
        schema, left_only = self._node.schema, self._node.kind.is_semi
        other = self._sides[1 - port]
        for joined in assembled(
            port, piece.batch, timed, other, outputs, schema, left_only=left_only
        ):
            yield 0, joined

    def rest(self) -> Rest:
        return min_rest([side.rest() for side in self._sides])

    @property
    def untold(self) -> list[int]:
        return self._times.untold

    def close(self) -> None: ...

    def _change(self, port: int, piece: MatchedPiece, output: Output) -> list[OutputRows]:
        """Takes the rows in; returns what comes out."""
        this, other = self._sides[port], self._sides[1 - port]
        batch, rows, slots = piece.batch, piece.rows, piece.slots
        retracts = retractions(batch)
        if self._residual is not None and len(rows):
            holds = self._residual.holds(port, batch, rows, other, slots, output)
            rows, slots = rows[holds], slots[holds]
        # The batch is matched against the other side only, which it does not change: all its rows
        # can be looked up at once.
        counts = other.counts(slots)
        # Counted after the residual condition: a pair that fails it is no match, for outer joins
        # too.
        matches = np.bincount(rows, counts, batch.num_rows).astype(np.int64)
        outputs = self._output_rows(port, batch, retracts, (rows, slots, counts), matches)
        # Stored last: the match counts of the new rows come from the pairs above.
        this.take_in(batch, retracts, matches)
        return outputs

    def _output_rows(
        self,
        port: int,
        batch: Batch,
        retracts: BoolArray | None,
        pairs: tuple[IntArray, IntArray, IntArray],
        matches: IntArray,
    ) -> list[OutputRows]:
        rows, slots, counts = pairs
        kind, kinds = self._node.kind, kinds_of(batch)
        outer_kinds = (
            np.where(retracts, DELETE, INSERT)
            if retracts is not None
            else np.zeros(batch.num_rows, np.int8)
        )
        edges = self._match_edges(1 - port, batch, retracts, rows, slots)
        if kind.is_semi:
            return self._semi(port, kinds, matches, pairs, edges)
        outputs = [
            OutputRows(rows[at], part, null_slots(at), slots[at], _kind(part, len(at)))
            for part, at in _each(edges, counts)
        ]
        # Equal stored rows are one slot with a count: one output row for each of them.
        at = np.repeat(np.arange(len(rows)), counts)
        if kind.keeps(port):
            kinds = outer_kinds
        elif kind.keeps(1 - port):
            # As in Flink: joined rows are +I where they replace a null-padded row, and keep -U.
            kinds = np.where(outer_kinds == INSERT, INSERT, kinds)
        outputs.append(OutputRows(rows[at], _JOINED, rows[at], slots[at], kinds[rows[at]]))
        if kind.keeps(port):
            alone = np.flatnonzero(matches == 0)
            outputs.append(OutputRows(alone, _JOINED, alone, null_slots(alone), outer_kinds[alone]))
        return outputs

    def _match_edges(
        self, other: int, batch: Batch, retracts: BoolArray | None, rows: IntArray, slots: IntArray
    ) -> tuple[BoolArray, BoolArray] | None:
        """Returns which pairs are the first match of the stored row, and which were the last; None
        where that is not counted."""
        side = self._sides[other]
        if not side.counted:
            return None
        takes = np.zeros(len(rows), np.bool_) if retracts is None else retracts[rows]
        before = side.update_matches(slots, np.where(takes, -1, 1), batch.proctime)
        # The padded row goes with the first match (0 to 1), and comes back with the last one (1 to
        # 0).
        return ~takes & (before == 0), takes & (before == 1)

    def _semi(
        self,
        port: int,
        kinds: Kinds,
        matches: IntArray,
        pairs: tuple[IntArray, IntArray, IntArray],
        edges: tuple[BoolArray, BoolArray] | None,
    ) -> list[OutputRows]:
        rows, slots, counts = pairs
        anti = self._node.kind is JoinKind.ANTI
        if port == 0:
            own = np.flatnonzero((matches == 0) == anti)
            return [OutputRows(own, _JOINED, own, null_slots(own), kinds[own])]
        return [
            OutputRows(
                rows[at],
                _JOINED,
                null_slots(at),
                slots[at],
                _kind(part, len(at)) if anti else kinds[rows[at]],
            )
            for part, at in _each(edges, counts)
        ]


def _kind(part: int, count: int) -> Kinds:
    """Returns the kind of padded rows of a part: -D where they are retracted, +I where they are
    restored."""
    return np.full(count, DELETE if part == _RETRACT_PADDED else INSERT, np.int8)


def _each(
    edges: tuple[BoolArray, BoolArray] | None, counts: IntArray
) -> list[tuple[int, IntArray]]:
    """Yields, by part, the pairs that retract or restore padded rows of the other side, once for
    each equal stored row."""
    if edges is None:
        return []
    parts = (
        (part, np.flatnonzero(which))
        for part, which in zip((_RETRACT_PADDED, _RESTORE_PADDED), edges, strict=True)
    )
    return [(part, np.repeat(at, counts[at])) for part, at in parts]
