"""Two-phase aggregation: one partial row per key and batch before the exchange, merged behind it.

As Flink's TwoStageOptimizedAggregateRule plans it (`table.optimizer.agg-phase-strategy`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import Column, Schema
from planner.logical import ROWS, GlobalAggregate, LocalAggregate
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.aggregates.accumulators import Accumulators
from sqlengine.operators.aggregates.group_aggregate import ROWS as _ROWS
from sqlengine.operators.aggregates.group_aggregate import GroupAggregateOperator
from sqlengine.operators.base import Context, Output
from sqlengine.operators.changelog.row_kinds import first_seen
from sqlengine.state.columns import BoolArray, SlotColumn, distinct, to_numpy
from sqlengine.state.table import KeyedTable


class LocalAggregateOperator:
    """Aggregates each batch to one partial row per key, as Flink's StreamExecLocalGroupAggregate.

    Stateless between batches. Keys are in the order in which the batch has them first. Counters:
    `rows_before_exchange` and `rows_over_exchange`.
    """

    def __init__(self, node: LocalAggregate) -> None:
        self._node = node

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def process(self, port: int, batch: Batch) -> Output:
        node = self._node
        output: Output = []
        if not batch.num_rows:
            return [(0, replace(batch.tick(node.schema), origin=batch.origin, steps=batch.steps))]
        accumulators = Accumulators(node.aggregates)
        # A table for this batch alone: it has no state, and numbers the keys as state tables do.
        table = KeyedTable(
            "local",
            node.input.schema.select(node.keys),
            Schema(node.schema.columns[len(node.keys) :]),
        )
        slots, _ = table.slots_for([batch.column(k) for k in node.keys], batch.num_rows)
        accumulators.attach(table, self._counters)
        accumulators.change(batch, slots, None, output)
        np.add.at(table.columns[ROWS], slots, 1)
        touched = first_seen(slots)
        self._counters["rows_before_exchange"] += batch.num_rows
        self._counters["rows_over_exchange"] += len(touched)
        columns = [
            *table.key_arrays(touched),
            *(table.array(c.name, touched) for c in table.values),
        ]
        return [*output, (0, self._result(batch, columns, len(touched)))]

    def _result(self, batch: Batch, columns: list[pa.Array], count: int) -> Batch:
        """Returns the partial rows with the watermark after the batch, as an aggregate emits its
        results."""
        watermarks = [s for s in (batch.steps, batch.row_watermarks) if s is not None]
        # One partial row stands for rows at several watermarks: these go along as steps.
        steps = distinct(np.concatenate(watermarks)) if watermarks else None
        return replace(
            batch.result(self._node.schema, columns, count), origin=batch.origin, steps=steps
        )

    def close(self) -> None: ...


class GlobalAggregateOperator(GroupAggregateOperator):
    """Merges partial rows, as Flink's StreamExecGlobalGroupAggregate.

    State and output are those of `GroupAggregateOperator`.
    """

    def __init__(self, node: GlobalAggregate) -> None:
        super().__init__(node)
        self._parts = node.local.parts

    def _add(self, batch: Batch, slots: IntArray, back: BoolArray | None, output: Output) -> None:
        merge_parts(self._accumulators, batch, self._parts, slots)
        count = to_numpy(batch.schema.type(ROWS), batch.column(ROWS))[0]
        np.add.at(self._table.columns[_ROWS].view(np.int64), slots, count)


def merge_parts(
    accumulators: Accumulators, batch: Batch, parts: Sequence[Column], slots: IntArray
) -> None:
    """Merges partial rows, whose accumulators are the columns `parts`, into those at `slots`, of
    which one may be there for several rows."""
    columns = _columns(batch, parts)
    for at in _rounds(slots):
        accumulators.merge_with(slots[at], columns, at)


def _columns(batch: Batch, parts: Sequence[Column]) -> dict[str, SlotColumn]:
    """Returns accumulator columns in the form of a state table, by row."""
    columns: dict[str, SlotColumn] = {}
    for column in parts:
        columns[column.name], valid = to_numpy(column.type, batch.column(column.name))
        if column.type.nullable:
            columns[column.name + "?"] = valid
    return columns


def _rounds(slots: IntArray) -> Iterator[IntArray]:
    """Yields rounds of rows without a repeated slot: the first row of each slot, then the second,
    and so on."""
    order = np.argsort(slots, kind="stable")
    ordered = slots[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    # The n-th row of its slot has rank n: all rows of one rank are of different slots, and can be
    # merged at once.
    rank = np.arange(len(slots)) - np.repeat(starts, np.diff(np.append(starts, len(slots))))
    for n in range(int(rank.max(initial=-1)) + 1):
        yield order[rank == n]
