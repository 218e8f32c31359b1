"""OVER aggregation in an order that is not time: new rows are inserted between others, and change
the values after them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import Schema
from planner.logical import Over
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output
from sqlengine.operators.changelog.row_kinds import (
    DELETE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Kinds,
    differ,
    first_seen,
    kinds_of,
    plain,
    retractions,
)
from sqlengine.operators.over.comparison import Change, ComparedRows
from sqlengine.operators.over.folds import Folds
from sqlengine.operators.over.runs import OverRuns
from sqlengine.operators.ranks.ordering import sorting
from sqlengine.state.columns import BoolArray
from sqlengine.state.equal_rows import EqualRows
from sqlengine.state.rows import COUNT, RowsTable


class OverSortedOperator:
    """Emits for each batch the rows of the touched partitions whose values changed.

    -D for removed rows; then, in order, added rows with the kind with which they came, and -U and
    +U for other rows with new values. As Flink's NonTimeRangeUnboundedPrecedingFunction and
    NonTimeRowsUnboundedPrecedingFunction. State: table `rows`, partition -> all rows, in order. No
    timers, no late rows.
    """

    def __init__(self, node: Over) -> None:
        self._node = node
        self._names = node.input.schema.names
        self._rest = tuple(n for n in self._names if n not in node.partition)
        self._insert_only = not node.input.changes

    def open(self, context: Context) -> None:
        self._counters = context.counters
        schema = self._node.input.schema
        rest, nothing = schema.select(self._rest), Schema(())
        identity, values = (nothing, rest) if self._insert_only else (rest, nothing)
        key = schema.select(self._node.partition)
        by = sorting(self._node.order)
        # Without an upsert key, equal rows each have their own place in the order.
        form = (
            EqualRows
            if self._node.input.changes and not self._node.input.upsert_keys
            else RowsTable
        )
        self._rows = form(context, "rows", key, identity, values, self._node.partition, by)
        self._runs = OverRuns(
            self._rows,
            Folds(self._node.calls, by_peers=not self._node.frame.is_rows),
            context.check_step,
        )

    def process(self, port: int, batch: Batch) -> Output:
        result = self._change(batch) if batch.num_rows else None
        return [(0, result or batch.tick(self._node.schema))]

    def close(self) -> None: ...

    def _change(self, batch: Batch) -> Batch | None:
        key = [batch.column(n) for n in self._node.partition]
        added, change = self._apply(batch, key)
        groups = self._rows.groups(key, batch.num_rows)
        compared = self._runs.compare(first_seen(groups[groups >= 0]).tolist(), change)
        result = self._emit(batch, compared, added)
        # Only after the comparison: rows removed by this batch must keep their places in it.
        removed: IntArray = change.slots[self._rows.table.columns[COUNT][change.slots] == 0]
        self._runs.forget(removed)
        self._rows.drop(removed)
        return result

    def _apply(self, batch: Batch, key: list[pa.Array]) -> tuple[dict[int, np.int8], Change]:
        """Writes the rows to the state; returns the kinds of added rows by slot, and the change of
        multiplicities."""
        rest = [batch.column(n) for n in self._rest]
        retracts, kinds = retractions(batch), kinds_of(batch)
        if retracts is None:
            into = ([], rest) if self._insert_only else (rest, [])
            slots, _ = self._rows.put(key, *into, batch.num_rows)
            return dict(zip(slots.tolist(), kinds, strict=True)), _change_of(
                slots, np.empty(0, np.int64)
            )
        is_addition = pa.array(~retracts)
        slots, _ = self._rows.put(
            [c.filter(is_addition) for c in key],
            [c.filter(is_addition) for c in rest],
            [],
            int((~retracts).sum()),
        )
        is_retraction = pa.array(retracts)
        retracted = self._rows.take(
            [c.filter(is_retraction) for c in key],
            [c.filter(is_retraction) for c in rest],
            int(retracts.sum()),
        )
        self._counters["rows_without_key"] += int((retracted < 0).sum())
        return dict(zip(slots.tolist(), kinds[~retracts], strict=True)), _change_of(
            slots, retracted[retracted >= 0]
        )

    def _emit(
        self, batch: Batch, compared: ComparedRows, added: dict[int, np.int8]
    ) -> Batch | None:
        """Returns the changelog rows. The n-th of equal rows before corresponds to the n-th
        after."""
        rows = compared.rows
        old, before = _numbered(rows.was)
        new, number = _numbered(rows.now)
        removed = np.flatnonzero(before >= rows.now[old])
        is_new = number >= rows.was[new]
        # The index of the same row among the old values, where it existed.
        old_index = (np.cumsum(rows.was) - rows.was)[new] + number
        kept = np.flatnonzero(~is_new)
        times = np.where(is_new, 1, 0)
        # A new row is emitted once, a changed one twice (-U and +U), an unchanged one not at all.
        times[kept] = 2 * self._changed(compared, old_index[kept], kept)
        emitted = np.repeat(np.arange(len(new)), times)
        first = np.cumsum(times) - times
        kinds = np.full(len(emitted), UPDATE_AFTER)
        kinds[first[is_new]] = [added[s] for s in rows.slots[new[is_new]].tolist()]
        values_index = len(old) + emitted
        pairs = first[times == 2]
        kinds[pairs], kinds[pairs + 1], values_index[pairs] = (
            UPDATE_BEFORE,
            UPDATE_AFTER,
            old_index[times == 2],
        )
        kinds = np.concatenate([np.full(len(removed), DELETE), kinds])
        slots = rows.slots[np.concatenate([old[removed], new[emitted]])]
        return (
            self._rows_of(batch, compared, slots, np.concatenate([removed, values_index]), kinds)
            if len(kinds)
            else None
        )

    def _changed(self, compared: ComparedRows, was: IntArray, now: IntArray) -> BoolArray:
        old = [c.take(pa.array(was)) for c in compared.old]
        new = [c.take(pa.array(now)) for c in compared.new]
        return differ(old, new, len(now))

    def _rows_of(
        self, batch: Batch, compared: ComparedRows, slots: IntArray, which: IntArray, kinds: Kinds
    ) -> Batch:
        """Returns output rows; `which` are indices into the old values followed by the new ones."""
        calls, index = len(self._node.calls), pa.array(which)
        sides = zip(compared.old[:calls], compared.new[:calls], strict=True)
        columns = (
            *self._rows.arrays(self._names, slots),
            *(pa.concat_arrays([a, b]).take(index) for a, b in sides),
        )
        tick = batch.tick(self._node.schema)
        return replace(tick, columns=columns, num_rows=len(kinds), kinds=plain(kinds))


def _change_of(added: IntArray, removed: IntArray) -> Change:
    # A row added and retracted by one batch stays in the change with a difference of 0.
    slots, at = np.unique(np.concatenate([added, removed]), return_inverse=True)
    more = np.bincount(
        at, np.append(np.ones(len(added)), np.full(len(removed), -1)), len(slots)
    ).astype(np.int64)
    return Change(slots, more)


def _numbered(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Returns each row as often as it is counted, and its number among its copies."""
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
