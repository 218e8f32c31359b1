"""TO_CHANGELOG, FROM_CHANGELOG, and dropping -U."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.logical import DropUpdateBefore, FromChangelog, ToChangelog
from sqlengine.batch import Batch, RowKind
from sqlengine.operators.base import ERROR_PORT, NO_TICK, Context, Output, Rest
from sqlengine.operators.changelog.row_kinds import UPDATE_BEFORE, kinds_of, plain
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.state.columns import BoolArray

_KINDS = {kind.short: kind for kind in RowKind}


class DropUpdateBeforeOperator:
    """Drops -U rows, as Flink's StreamExecDropUpdateBefore. Stateless."""

    def __init__(self, node: DropUpdateBefore) -> None: ...

    def open(self, context: Context) -> None: ...

    def process(self, port: int, batch: Batch) -> Output:
        if batch.kinds is None:
            return [(0, batch)]
        return [(0, _kept(batch, batch.kinds != UPDATE_BEFORE))]

    def rest(self) -> Rest:
        return NO_TICK

    def close(self) -> None: ...


class ToChangelogOperator:
    """Converts each change to an insert-only row with its operation code in front.

    Stateless. Changes whose kind has no code are dropped.
    """

    def __init__(self, node: ToChangelog) -> None:
        self._node = node
        codes = dict(node.codes)
        self._codes = pa.array([codes.get(kind.short) for kind in RowKind], node.op.type.arrow)
        self._has_code = np.array([kind.short in codes for kind in RowKind])

    def open(self, context: Context) -> None: ...

    def process(self, port: int, batch: Batch) -> Output:
        kept: BoolArray = self._has_code[kinds_of(batch)]
        rows = batch if kept.all() else _kept(batch, kept)
        codes = self._codes.take(pa.array(kinds_of(rows)))
        schema = type(rows.schema)((self._node.op, *rows.schema))
        return [(0, replace(rows.with_columns(schema, [codes, *rows.columns]), kinds=None))]

    def close(self) -> None: ...


class FromChangelogOperator:
    """Converts each row to the change that its operation code names.

    Stateless. Rows with NULL or an unknown code leave by the error port.
    """

    def __init__(self, node: FromChangelog) -> None:
        self._node = node
        self._codes = pa.array([code for code, _ in node.kinds], pa.string())
        self._kinds = np.array([_KINDS[kind] for _, kind in node.kinds], np.int8)

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def process(self, port: int, batch: Batch) -> Output:
        codes = batch.column(self._node.op).cast(pa.string())
        places = pc.index_in(codes, value_set=self._codes)
        known = np.asarray(places.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        bad = ~known
        rows = self._without_op(_kept(batch, known))
        kinds = (
            self._kinds[places.drop_null().to_numpy(zero_copy_only=False)]
            if len(places)
            else np.empty(0, np.int8)
        )
        output: Output = (
            [] if not bad.any() else [(ERROR_PORT, self._failed(batch, np.flatnonzero(bad)))]
        )
        return [*output, (0, replace(rows, kinds=plain(kinds)))]

    def close(self) -> None: ...

    def _without_op(self, batch: Batch) -> Batch:
        names = tuple(n for n in batch.schema.names if n != self._node.op)
        return batch.with_columns(batch.schema.select(names), [batch.column(n) for n in names])

    def _failed(self, batch: Batch, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Batch:
        self._counters["rows_in_error"] += len(rows)
        letters = batch.take(rows)
        codes = letters.column(self._node.op).to_pylist()
        return dead_letters(
            letters,
            place="",
            subject=f"FROM_CHANGELOG, column '{self._node.op}'",
            reason=[
                "received NULL op code" if c is None else f"received invalid op code '{c}'"
                for c in codes
            ],
        )


def _kept(batch: Batch, rows: BoolArray) -> Batch:
    """Returns the rows where `rows` is True; the watermark after the last row stays."""
    return (
        batch
        if rows.all()
        else replace(batch.take(np.flatnonzero(rows)), watermark=batch.watermark)
    )
