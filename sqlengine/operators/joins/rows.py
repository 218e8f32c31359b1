"""What joins share: pairs of a row that comes and a row that is held, their condition, and the rows
made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from parser.types import Schema
from planner.logical import BinaryJoin
from planner.scalar import Scalar, columns_of, find_position
from sqlengine.batch import Batch, IntArray
from sqlengine.expressions import compile_expression, truth
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.changelog.row_kinds import Kinds
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.state.columns import BoolArray, validity
from sqlengine.state.rows import RowsTable

# A pair costs 16 bytes, and what its condition or its row needs.
MOST_PAIRS = 1 << 19


class StoredRows(Protocol):
    """Rows that are held, by slot."""

    def column(self, name: str, slots: IntArray) -> pa.Array: ...


class StoredSide(StoredRows, Protocol):
    """Rows of one side of a join."""

    schema: Schema


@dataclass(frozen=True)
class MatchedPiece:
    """Some rows of a batch, and their pairs with what the other side holds: numbers of rows and
    slots."""

    batch: Batch
    rows: IntArray
    slots: IntArray


@dataclass(frozen=True)
class OutputRows:
    """Rows to tell: by which row of the batch, in which part of its changes, the batch's row and
    the slot of the other side that they are made of (-1: NULL), and their kinds."""

    by: IntArray
    part: int
    rows: IntArray
    slots: IntArray
    kinds: Kinds


def keys_of(
    batch: Batch, keys: Sequence[str], strict: Sequence[int]
) -> tuple[list[pa.Array], IntArray]:
    """The key of each row that can match at all, and the numbers of those rows: in the columns
    `strict` NULL equals nothing."""
    arrays = [batch.column(k) for k in keys]
    good = np.ones(batch.num_rows, np.bool_)
    for i in strict:
        if arrays[i].null_count:
            good &= validity(arrays[i])
    if good.all():
        return arrays, np.arange(batch.num_rows)
    rows = np.flatnonzero(good)
    return [a.take(pa.array(rows)) for a in arrays], rows


def match_in_pieces(
    batch: Batch, keys: Sequence[str], strict: Sequence[int], held: RowsTable
) -> Iterator[MatchedPiece]:
    """A batch in pieces of no more than `MOST_PAIRS` pairs (or one row), each looked up when those
    before it are done: a key with many rows must not cost memory for its rows times those of the
    batch."""
    while True:
        arrays, numbers = keys_of(batch, keys, strict)
        rows, slots, covered = held.first_matches(arrays, len(numbers), MOST_PAIRS)
        if covered == len(numbers):
            yield MatchedPiece(batch, numbers[rows], slots)
            return
        end = int(numbers[covered])
        yield MatchedPiece(batch.slice(0, end), numbers[rows], slots)
        batch = batch.slice(end, batch.num_rows - end)


def fits_at_once(pairs: int) -> bool:
    """Whether so many pairs can be held at once."""
    return pairs <= MOST_PAIRS


def pair_ranges(counts: IntArray) -> Iterator[tuple[int, int]]:
    """Rows with so many pairs each, in consecutive ranges of no more than `MOST_PAIRS` pairs (or
    one row)."""
    ends, start = np.cumsum(counts), 0
    while start < len(counts):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + MOST_PAIRS, side="right")))
        yield start, end
        start = end


def match_key_ranges(
    keys: list[pa.Array], num_rows: int, held: RowsTable
) -> Iterator[tuple[int, int, IntArray, IntArray]]:
    """Keys in ranges of no more than `MOST_PAIRS` pairs (or one key): where each begins and ends,
    and its pairs, of numbers within the range and slots."""
    start = 0
    while start < num_rows:
        rows, slots, covered = held.first_matches(
            [k.slice(start) for k in keys], num_rows - start, MOST_PAIRS
        )
        yield start, start + covered, rows, slots
        start += covered


def null_slots(rows: IntArray) -> IntArray:
    """As many places where there is no row."""
    return np.full(len(rows), -1)


def assemble(
    port: int,
    batch: Batch,
    other: StoredSide,
    told: Sequence[OutputRows],
    *,
    left_only: bool = False,
) -> tuple[list[pa.Array], IntArray, Kinds]:
    """The columns of both sides (or of the left one), what told each row, and the kinds, in
    order."""
    by, rows, slots, kinds = (
        np.concatenate([getattr(t, n) for t in told]) for n in ("by", "rows", "slots", "kinds")
    )
    if len(told) > 1:
        order = np.lexsort((np.repeat([t.part for t in told], [len(t.by) for t in told]), by))
        by, rows, slots, kinds = by[order], rows[order], slots[order], kinds[order]
    columns: list[pa.Array] = []
    for side in (0,) if left_only else (0, 1):
        columns += _taken(batch, rows) if side == port else _held(other, slots)
    return columns, by, kinds


def _taken(batch: Batch, rows: IntArray) -> list[pa.Array]:
    index = pa.array(rows, mask=rows < 0)
    return [c.take(index) for c in batch.columns]


def _held(side: StoredSide, slots: IntArray) -> list[pa.Array]:
    there = slots >= 0
    if there.all():
        return [side.column(n, slots) for n in side.schema.names]
    index = pa.array(np.cumsum(there) - 1, mask=~there)
    return [side.column(n, slots[there]).take(index) for n in side.schema.names]


class PairCondition:
    """A condition over pairs of a row of a batch and a row that a side holds."""

    def __init__(self, node: BinaryJoin, condition: Scalar, owner: str) -> None:
        self._owner = owner
        self._condition = condition
        self._evaluate = compile_expression(condition)
        names = columns_of(condition)
        self._schemas = tuple(
            side.schema.select(tuple(n for n in side.schema.names if n in names))
            for side in node.inputs
        )

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def holds(
        self,
        port: int,
        batch: Batch,
        rows: IntArray,
        other: StoredRows,
        slots: IntArray,
        output: Output,
    ) -> BoolArray:
        """Where the condition is TRUE; errors go to `output`."""
        own, held = self._schemas[port], self._schemas[1 - port]
        index = pa.array(rows)
        columns = [
            *(batch.column(n).take(index) for n in own.names),
            *(other.column(n, slots) for n in held.names),
        ]
        schema = Schema((*own, *held))
        pairs = replace(
            batch.with_columns(schema, columns), num_rows=len(rows), kinds=None, row_watermarks=None
        )
        vector = self._evaluate(pairs)
        if vector.errors is not None:
            bad = np.flatnonzero(vector.errors.mask)
            count = len(bad)
            self._counters["rows_in_error"] += count
            letters = dead_letters(
                replace(pairs, offsets=None).take(bad),
                owner=self._owner,
                place=str(find_position(self._condition) or ""),
                subject=str(self._condition),
                reason=[vector.errors.reason(int(i)) for i in bad],
            )
            output.append((ERROR_PORT, letters))
        return truth(vector, len(rows))
