"""Converts an upsert stream to a full changelog, as Flink's StreamExecChangelogNormalize."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.logical import Normalize
from planner.scalar import Scalar, find_position
from sqlengine.batch import Batch, IntArray
from sqlengine.expressions import compile_expression, in_parts, truth
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.changelog.row_kinds import (
    DELETE,
    UPDATE_BEFORE,
    differ,
    kinds_of,
    plain,
    sequence,
)
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.operators.project import drop_rows
from sqlengine.state.columns import BoolArray
from sqlengine.state.table import KeyedTable
from udf.vector import Errors

# The processing time (ms) of the last change of a key.
_TOUCHED = "#touched"


class NormalizeOperator:
    """Emits for each batch and key the change to its row: +I, -U and +U, -D with the full old row,
    or nothing.

    Input: upserts by primary key (+I, +U, -D). A row that does not pass the predicate deletes its
    key; one for which the predicate fails leaves by the error port, and changes nothing. Keys are
    in the order in which the batch touches them last, each at the watermark of that row.

    State: table `rows`, primary key -> the other columns, `#touched` with a TTL (then an update is
    emitted even where nothing differs, as in Flink).
    """

    def __init__(self, node: Normalize) -> None:
        self._node = node
        self._values = Schema(tuple(c for c in node.schema if c.name not in node.keys))

    def open(self, context: Context) -> None:
        touched = (Column(_TOUCHED, BIGINT.with_nullable(False)),) if self._node.ttl_ms else ()
        keys, values = self._node.schema.select(self._node.keys), Schema((*self._values, *touched))
        self._counters = context.counters
        self._table: KeyedTable = context.table("rows", keys, values, keys.names)

    def process(self, port: int, batch: Batch) -> Output:
        if self._node.ttl_ms:
            self._table.remove(self._table.due(_TOUCHED, batch.proctime - self._node.ttl_ms))
        kinds = kinds_of(batch)
        rows = batch if batch.kinds is None else batch.take(np.flatnonzero(kinds != UPDATE_BEFORE))
        exists: BoolArray = kinds_of(rows) != DELETE
        output: Output = []
        if self._node.predicate is not None and rows.num_rows:
            rows, exists = self._filter(self._node.predicate, rows, exists, output)
        changed = self._change(rows, exists) if rows.num_rows else None
        return [
            *output,
            (0, replace(changed or batch.tick(self._node.schema), watermark=batch.watermark)),
        ]

    def close(self) -> None: ...

    def _filter(
        self, predicate: Scalar, rows: Batch, exists: BoolArray, output: Output
    ) -> tuple[Batch, BoolArray]:
        """Drops rows for which the predicate fails, which go to `output`; also returns which rows
        exist afterwards."""
        vector = in_parts(compile_expression(predicate), rows)
        # A row that does not pass is a deletion of its key: the old row may have passed.
        exists = exists & truth(vector, rows.num_rows)
        if vector.errors is None:
            return rows, exists
        # A deletion needs no predicate: its values may be incomplete.
        failed = (kinds_of(rows) != DELETE) & vector.errors.mask
        if failed.any():
            output.append(
                (ERROR_PORT, self._letters(predicate, rows, vector.errors, np.flatnonzero(failed)))
            )
        return drop_rows(rows, failed), exists[~failed]

    def _letters(self, predicate: Scalar, rows: Batch, errors: Errors, failed: IntArray) -> Batch:
        self._counters["rows_in_error"] += len(failed)
        return dead_letters(
            rows.take(failed),
            place=str(find_position(predicate) or ""),
            subject=str(predicate),
            reason=[errors.reason(int(r)) for r in failed],
        )

    def _change(self, batch: Batch, exists_after: BoolArray) -> Batch | None:
        table = self._table
        slots, is_new = table.slots_for([batch.column(k) for k in self._node.keys], batch.num_rows)
        # Only the last row of each key counts: the rows between cancel out.
        touched, last = _last_of(slots)
        existed = ~np.isin(touched, slots[is_new])
        exists = exists_after[last]
        old = [table.array(c.name, touched) for c in self._values]
        new = [batch.column(c.name).take(pa.array(last)) for c in self._values]
        changed = (existed != exists) | (
            existed & exists & (bool(self._node.ttl_ms) | differ(old, new, len(touched)))
        )
        result = self._changes(batch, touched, last, sequence(existed, exists, changed), old, new)
        table.write(
            touched[exists],
            {c.name: n.filter(pa.array(exists)) for c, n in zip(self._values, new, strict=True)},
        )
        if self._node.ttl_ms:
            table.columns[_TOUCHED][touched] = batch.proctime
        table.mark(touched[exists])
        table.remove(touched[~exists])
        return result

    def _changes(
        self,
        batch: Batch,
        touched: IntArray,
        last: IntArray,
        changes: tuple[IntArray, np.ndarray[tuple[int], np.dtype[np.int8]]],
        old: list[pa.Array],
        new: list[pa.Array],
    ) -> Batch | None:
        index, kinds = changes
        if not len(index):
            return None
        is_old = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
        chosen = pa.array(np.where(is_old, index, index + len(touched)))
        keys = zip(self._node.keys, self._table.key_arrays(touched), strict=True)
        columns = {name: key.take(pa.array(index)) for name, key in keys}
        for column, a, b in zip(self._values, old, new, strict=True):
            columns[column.name] = pa.concat_arrays([a, b]).take(chosen)
        rows = batch.take(last[index])
        return replace(
            rows,
            columns=tuple(columns[c.name] for c in rows.schema),
            kinds=plain(kinds),
            offsets=None,
        )


def _last_of(slots: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the distinct slots and the last row of each, in the order of these rows."""
    # The first occurrence in the reversed rows is the last one.
    distinct, behind = np.unique(slots[::-1], return_index=True)
    last = len(slots) - 1 - behind
    order = np.argsort(last)
    return distinct[order], last[order]
