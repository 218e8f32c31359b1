"""Unbounded GROUP BY: one row per key, updated by every batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.logical import GroupAggregate
from sqlengine.batch import MAX_WATERMARK, Batch, IntArray
from sqlengine.operators.aggregates.accumulators import Accumulators
from sqlengine.operators.base import ERROR_PORT, Context, Output, Rest, expiry
from sqlengine.operators.changelog.row_kinds import (
    DELETE,
    UPDATE_BEFORE,
    differ,
    first_seen,
    plain,
    retractions,
    sequence,
)
from sqlengine.state.columns import BoolArray
from sqlengine.state.keys import batch_keys
from sqlengine.state.table import KeyedTable
from udf.vector import Vector, merge_errors

# The number of rows of a key, and the time of its last change (processing time, ms).
ROWS, _TOUCHED = "#rows", "#touched"
_NUMBER = BIGINT.with_nullable(False)


class GroupAggregateOperator:
    """Emits for each batch and key what its rows changed together: +I for a new key, -U and +U, or
    -D for the last row.

    As Flink's StreamExecGroupAggregate with mini-batch (MiniBatchGroupAggFunction): -U and +U only
    where the result differs. Keys are in the order in which the batch touches them first. Input:
    one changelog. A retraction for a key without rows is dropped (`rows_without_key`), as in Flink.
    Late rows do not exist: there are no windows.

    State: table `groups`, key -> `#rows`, accumulators, `#touched` with a TTL (then an update is
    emitted even where nothing differs, as in Flink); tables `distinct <n>`.
    """

    def __init__(self, node: GroupAggregate) -> None:
        self._node = node
        self._retracts = bool(node.input.changes)
        keeping = node.monotonic_extremes if self._retracts else frozenset[str]()
        self._accumulators = Accumulators(
            node.aggregates, retract=self._retracts, keeping=keeping, tabled=not node.ttl_ms
        )

    def open(self, context: Context) -> None:
        self._counters = context.counters
        schema = self._node.schema
        keys = Schema(tuple(schema.columns[: len(self._node.keys)]))
        numbers = [
            Column(ROWS, _NUMBER),
            *((Column(_TOUCHED, _NUMBER),) if self._node.ttl_ms else ()),
        ]
        values = Schema((*numbers, *self._accumulators.columns))
        self._table: KeyedTable = context.table("groups", keys, values, keys.names)
        self._accumulators.attach(self._table, context.counters)
        self._accumulators.open_tables(context)

    def process(self, port: int, batch: Batch) -> Output:
        output: Output = []
        if self._node.ttl_ms:
            self._table.remove(self._table.due(_TOUCHED, batch.proctime - self._node.ttl_ms))
        changed = self._change(batch, output) if batch.num_rows else None
        # Only at the end of bounded input is it known that there are no rows.
        if self._node.always and batch.watermark == MAX_WATERMARK and not len(self._table):
            changed = self._empty_result(batch)
        return [*output, (0, changed or batch.tick(self._node.schema))]

    def rest(self) -> Rest:
        return expiry(self._table, _TOUCHED, self._node.ttl_ms)

    def close(self) -> None: ...

    def _empty_result(self, batch: Batch) -> Batch:
        """Returns the one row of a global aggregate whose bounded input was empty."""
        slots, _ = self._table.slots_for([], 1)
        self._table.columns[ROWS][slots] = 1
        self._table.mark(slots)
        values = tuple(v.array(1) for v in self._accumulators.results(slots))
        return replace(batch.tick(self._node.schema), columns=values, num_rows=1)

    def _change(self, batch: Batch, output: Output) -> Batch | None:
        retracts = retractions(batch)
        slots, _ = self._table.slots_for(batch_keys(batch, self._node.keys), batch.num_rows)
        if retracts is not None:
            batch, slots, retracts = self._without_unknown(batch, slots, retracts)
        # Results before and after the whole batch are compared, as with mini-batch in Flink:
        # changes within the batch are not emitted.
        touched = first_seen(slots)
        rows = self._table.columns[ROWS].view(np.int64)
        existed = rows[touched] > 0
        before = [*self._accumulators.results(touched), *self._accumulators.parts(touched)]
        self._add(batch, slots, retracts, output)
        exists = rows[touched] > 0
        after = [*self._accumulators.results(touched), *self._accumulators.parts(touched)]
        if self._node.ttl_ms:
            self._table.columns[_TOUCHED][touched] = batch.proctime
        self._table.mark(touched)
        result = self._changes(batch, touched, (existed, exists), (before, after), output)
        # Last: the emitted -D rows took their keys from these slots.
        self._table.remove(touched[~exists])
        return result

    def _add(self, batch: Batch, slots: IntArray, back: BoolArray | None, output: Output) -> None:
        """Accumulates rows into their keys, and retracts those of `back`."""
        self._accumulators.change(batch, slots, back, output)
        rows = self._table.columns[ROWS].view(np.int64)
        np.add.at(rows, slots, 1 if back is None else np.where(back, -1, 1))

    def _without_unknown(
        self, batch: Batch, slots: IntArray, back: BoolArray
    ) -> tuple[Batch, IntArray, BoolArray]:
        """Drops retractions for keys without rows."""
        row_counts: dict[int, int] = {}
        rows, keep = self._table.columns[ROWS], np.ones(len(slots), np.bool_)
        # Row by row: a row added earlier in the batch may be retracted later in it.
        for i, (slot, takes) in enumerate(zip(slots.tolist(), back.tolist(), strict=True)):
            count = row_counts.get(slot, int(rows[slot]))
            keep[i] = not takes or count > 0
            row_counts[slot] = count + (-1 if takes else 1) * int(keep[i])
        if keep.all():
            return batch, slots, back
        self._counters["rows_without_key"] += int((~keep).sum())
        return batch.take(np.flatnonzero(keep)), slots[keep], back[keep]

    def _changes(
        self,
        batch: Batch,
        touched: IntArray,
        existence: tuple[BoolArray, BoolArray],
        results: tuple[list[Vector], list[Vector]],
        output: Output,
    ) -> Batch | None:
        """Returns the changelog rows of the touched keys; None where nothing changed."""
        existed, exists = existence
        old, new = ([v.array(len(touched)) for v in side] for side in results)
        changed = existed != exists
        stays = existed & exists
        different = (
            stays
            if self._node.ttl_ms and self._node.aggregates
            else stays & differ(old, new, len(touched))
        )
        index, kinds = sequence(existed, exists, changed | different)
        if not len(index):
            return None
        keys = [k.take(pa.array(index)) for k in self._table.key_arrays(touched)]
        is_old = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
        chosen = pa.array(np.where(is_old, index, index + len(touched)))
        pairs = list(zip(old, new, strict=True))[: len(self._node.aggregates)]
        values = [pa.concat_arrays([a, b]).take(chosen) for a, b in pairs]
        result = replace(
            batch.tick(self._node.schema),
            columns=(*keys, *values),
            num_rows=len(index),
            kinds=plain(kinds),
        )
        errors = merge_errors([v.errors for v in results[1]])
        if errors is None:
            return result
        return self._without_failed(result, errors.mask[index] & ~is_old, results[1], index, output)

    def _without_failed(
        self, result: Batch, bad: BoolArray, values: list[Vector], which: IntArray, output: Output
    ) -> Batch:
        """Drops rows whose value a user's aggregate could not compute."""
        for call, vector in zip(self._node.aggregates, values, strict=False):
            errors = None if vector.errors is None else vector.errors.take(which)
            if errors is not None:
                output.append((ERROR_PORT, self._accumulators.failed(result, call, errors)))
        return replace(result.take(np.flatnonzero(~bad)), watermark=result.watermark)
