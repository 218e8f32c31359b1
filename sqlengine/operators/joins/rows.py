"""Common parts of joins: matching pairs of arriving and stored rows, residual conditions,
assembling output rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from parser.types import Schema
from planner.graph.family_members import member_columns
from planner.logical import BinaryJoin
from planner.scalar import Scalar, columns_of, find_position
from sqlengine.batch import Batch, IntArray
from sqlengine.expressions import compile_expression, in_parts, truth
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.bounded import SLICE_ROWS, rows_at_once
from sqlengine.operators.changelog.row_kinds import Kinds, plain
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.state.columns import BoolArray, validity
from sqlengine.state.keys import KeyColumn, batch_keys
from sqlengine.state.rows import RowsTable

# A pair costs 16 bytes, and the columns of its condition.
MOST_PAIRS = SLICE_ROWS
# The output rows that tell how large the others may be.
_FIRST_ROWS = 1 << 13
_NO_COLUMNS = Schema(())
_NONE: IntArray = np.empty(0, np.int64)


class StoredRows(Protocol):
    """Rows in state, addressed by slot."""

    def column(self, name: str, slots: IntArray) -> pa.Array: ...


class StoredKeys(Protocol):
    """Rows by their keys."""

    def first_matches(
        self, key: Sequence[pa.Array], num_rows: int, most: int | None
    ) -> tuple[IntArray, IntArray, int]:
        """Returns pairs as `RowsTable.first_matches`."""


class StoredSide(StoredRows, Protocol):
    """The stored rows of one side of a join."""

    schema: Schema


@dataclass(frozen=True)
class MatchedPiece:
    """Consecutive rows of a batch with their matches on the other side: pairs of row number and
    slot."""

    batch: Batch
    rows: IntArray
    slots: IntArray


@dataclass(frozen=True)
class OutputRows:
    """Output rows of a join before they are assembled.

    For each one: `by`, the arriving row that causes it; `part`, which orders the output of one
    arriving row; the arriving row and the stored slot that it is made of (-1: padded with NULL);
    and its kind.
    """

    by: IntArray
    part: int
    rows: IntArray
    slots: IntArray
    kinds: Kinds


def keys_of(
    batch: Batch, keys: Sequence[str], strict: Sequence[int]
) -> tuple[list[KeyColumn], IntArray]:
    """Returns the keys of the rows that can match, and their numbers: NULL in a column of `strict`
    matches nothing."""
    columns = batch_keys(batch, keys)
    rows = _matchable(batch, keys, strict)
    if len(rows) == batch.num_rows:
        return columns, rows
    return [c.take(rows) for c in columns], rows


def _matchable(batch: Batch, keys: Sequence[str], strict: Sequence[int]) -> IntArray:
    good: BoolArray | None = None
    for column in (batch.column(keys[i]) for i in strict):
        if column.null_count:
            good = validity(column) if good is None else good & validity(column)
    return np.arange(batch.num_rows) if good is None else np.flatnonzero(good)


def match_in_pieces(
    batch: Batch, keys: Sequence[str], strict: Sequence[int], stored: StoredKeys | RowsTable
) -> Iterator[MatchedPiece]:
    """Splits a batch into pieces of at most `MOST_PAIRS` pairs (or one row); each is looked up when
    the previous one is done.

    A key with many rows must not cost memory for its rows times those of the batch.
    """
    if not batch.num_rows:
        yield MatchedPiece(batch, _NONE, _NONE)
        return
    while True:
        rows, slots, covered, numbers = _first_matches(batch, keys, strict, stored)
        if covered == len(numbers):
            yield MatchedPiece(batch, numbers[rows], slots)
            return
        # Rows with a NULL key are not among `numbers`: they belong to the piece of the rows around
        # them.
        end = int(numbers[covered])
        yield MatchedPiece(batch.slice(0, end), numbers[rows], slots)
        batch = batch.slice(end, batch.num_rows - end)


def _first_matches(
    batch: Batch, keys: Sequence[str], strict: Sequence[int], stored: StoredKeys | RowsTable
) -> tuple[IntArray, IntArray, int, IntArray]:
    """Returns the first pairs of rows that can match, how many of these are covered, and their
    numbers."""
    if isinstance(stored, RowsTable):
        columns, numbers = keys_of(batch, keys, strict)
        return *stored.first_matches(columns, len(numbers), MOST_PAIRS), numbers
    numbers = _matchable(batch, keys, strict)
    arrays = [batch.column(k) for k in keys]
    if len(numbers) < batch.num_rows:
        arrays = [a.take(pa.array(numbers)) for a in arrays]
    return *stored.first_matches(arrays, len(numbers), MOST_PAIRS), numbers


def pair_ranges(counts: IntArray) -> Iterator[tuple[int, int]]:
    """Yields consecutive ranges of rows with at most `MOST_PAIRS` pairs together (or one row);
    `counts` are pairs by row."""
    ends, start = np.cumsum(counts), 0
    while start < len(counts):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + MOST_PAIRS, side="right")))
        yield start, end
        start = end


def match_key_ranges(
    keys: list[pa.Array], num_rows: int, stored: RowsTable
) -> Iterator[tuple[int, int, IntArray, IntArray]]:
    """Yields ranges of keys with at most `MOST_PAIRS` pairs (or one key).

    Each with its begin and end, and its pairs of a number within the range and a slot.
    """
    start = 0
    while start < num_rows:
        rows, slots, covered = stored.first_matches(
            [k.slice(start) for k in keys], num_rows - start, MOST_PAIRS
        )
        yield start, start + covered, rows, slots
        start += covered


def null_slots(rows: IntArray) -> IntArray:
    """Returns -1 (no row) for each of these."""
    return np.full(len(rows), -1)


def assembled(
    port: int,
    batch: Batch,
    timed: Batch,
    other: StoredSide,
    outputs: Sequence[OutputRows],
    schema: Schema,
    *,
    left_only: bool = False,
) -> Iterator[Batch]:
    """Yields the output rows in slices: the columns of both sides (or the left one), with the
    watermarks of the rows of `timed` that cause them."""
    by, rows, slots, kinds = _in_order(outputs)
    before = None if timed.row_watermarks is None else timed.row_watermarks[by]
    whole = replace(
        timed.result(_NO_COLUMNS, (), len(by)), kinds=plain(kinds), row_watermarks=before
    )
    start, size = 0, _FIRST_ROWS
    while start < len(by) or not start:
        part = slice(start, start + size)
        columns = _columns(port, batch, other, left_only, rows[part], slots[part])
        piece = (
            whole
            if not start and size >= len(by)
            else whole.slice(start, min(size, len(by) - start))
        )
        yield piece.with_columns(schema, columns)
        start += size
        size = rows_at_once(columns, size)


def assemble(
    port: int,
    batch: Batch,
    other: StoredSide,
    outputs: Sequence[OutputRows],
    *,
    left_only: bool = False,
) -> tuple[list[pa.Array], IntArray, Kinds]:
    """Returns the columns of both sides (or the left one), the causing row of each output row, and
    the kinds, in order."""
    by, rows, slots, kinds = _in_order(outputs)
    return _columns(port, batch, other, left_only, rows, slots), by, kinds


def _in_order(outputs: Sequence[OutputRows]) -> tuple[IntArray, IntArray, IntArray, Kinds]:
    """Returns the causing row, the arriving row, the slot and the kind of each output row."""
    by, rows, slots, kinds = (
        np.concatenate([getattr(t, n) for t in outputs]) for n in ("by", "rows", "slots", "kinds")
    )
    if len(outputs) > 1:
        # By arriving row, then by part; within a part the pairs keep their order (lexsort is
        # stable).
        order = np.lexsort((np.repeat([t.part for t in outputs], [len(t.by) for t in outputs]), by))
        by, rows, slots, kinds = by[order], rows[order], slots[order], kinds[order]
    return by, rows, slots, kinds


def _columns(
    port: int,
    batch: Batch,
    other: StoredSide,
    left_only: bool,
    rows: IntArray,
    slots: IntArray,
) -> list[pa.Array]:
    columns: list[pa.Array] = []
    for side in (0,) if left_only else (0, 1):
        columns += _arriving_columns(batch, rows) if side == port else _stored_columns(other, slots)
    return columns


def _arriving_columns(batch: Batch, rows: IntArray) -> list[pa.Array]:
    if len(rows) == 1 and batch.num_rows == 1 and not rows[0]:
        return list(batch.columns)
    # A masked index takes NULL: that pads the row.
    index = pa.array(rows, mask=rows < 0)
    return [c.take(index) for c in batch.columns]


def _stored_columns(side: StoredSide, slots: IntArray) -> list[pa.Array]:
    exists = slots >= 0
    if exists.all():
        return [side.column(n, slots) for n in side.schema.names]
    # Columns are read at existing slots only; the index, masked where there is no row, spreads them
    # with NULLs.
    index = pa.array(np.cumsum(exists) - 1, mask=~exists)
    return [side.column(n, slots[exists]).take(index) for n in side.schema.names]


class PairCondition:
    """A residual condition over pairs of an arriving and a stored row."""

    def __init__(self, node: BinaryJoin, condition: Scalar) -> None:
        self._condition = condition
        self._evaluate = compile_expression(condition)
        # A letter of a family says by the member's number whose it is.
        known = (name for side in node.inputs for name in side.schema.names)
        names = {*columns_of(condition), *member_columns(known)}
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
        """Returns True where the condition is TRUE; dead letters of failing pairs go to
        `output`."""
        own, stored = self._schemas[port], self._schemas[1 - port]
        index = pa.array(rows)
        columns = [
            *(batch.column(n).take(index) for n in own.names),
            *(other.column(n, slots) for n in stored.names),
        ]
        schema = Schema((*own, *stored))
        pairs = replace(
            batch.with_columns(schema, columns), num_rows=len(rows), kinds=None, row_watermarks=None
        )
        vector = in_parts(self._evaluate, pairs)
        if vector.errors is not None:
            bad = np.flatnonzero(vector.errors.mask)
            count = len(bad)
            self._counters["rows_in_error"] += count
            letters = dead_letters(
                replace(pairs, offsets=None).take(bad),
                place=str(find_position(self._condition) or ""),
                subject=str(self._condition),
                reason=[vector.errors.reason(int(i)) for i in bad],
            )
            output.append((ERROR_PORT, letters))
        return truth(vector, len(rows))
