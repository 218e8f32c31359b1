"""Late rows: counters, dead letters, and the side output for a late-row table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from planner.graph.family_members import number_columns
from planner.graph.physical import late_port
from planner.logical import LATE_COLUMNS, ROWS, LateRows, LogicalPlan, Stateful
from sqlengine.batch import MIN_WATERMARK, Batch, IntArray
from sqlengine.operators.base import ERROR_PORT, NO_TICK, Context, Output, Rest
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.operators.member_counts import LATE_ROWS, count_rows
from sqlengine.state.columns import to_numpy

REASON = "late: its window was over"
BEHIND = "late: it came behind the watermark"


def described(operation: LogicalPlan) -> str:
    """Returns an operation as the subject of its letters."""
    return f"{type(operation).__name__} {operation.label}"


class LateGate:
    """Drops and counts the late rows of input `port` (counter `late_rows`; `late_rows/NUMBER` those
    of a member of a family).

    Where the job asks for them, they leave as its dead letters, or by a port of their own to the
    table of late rows.
    """

    def __init__(self, node: Stateful, port: int = 0, reason: str = REASON) -> None:
        self._letters = node.tells_late
        self._port = late_port(port) if node.late is not None else None
        self._subject = described(node)
        self._reason = reason

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def drop(self, batch: Batch, rows: IntArray, output: Output) -> None:
        """Drops these rows of the batch; appends what is to be emitted of them to `output`."""
        member = number_columns(batch.schema.names)[:1]
        numbers = batch.column(member[0]).to_numpy()[rows] if member else None
        count_rows(self._counters, LATE_ROWS, _count(batch, rows), numbers)
        if not len(rows):
            return
        if self._port is not None:
            output.append((self._port, batch.take(rows)))
        elif self._letters:
            letters = dead_letters(
                batch.take(rows),
                place="",
                subject=self._subject,
                reason=self._reason,
            )
            output.append((ERROR_PORT, letters))


def _count(batch: Batch, rows: IntArray) -> int:
    """Returns how many rows these are, of which each may stand for several (`LocalAggregate`)."""
    if ROWS not in batch.schema.names:
        return len(rows)
    return int(to_numpy(batch.schema.type(ROWS), batch.column(ROWS))[0][rows].sum())


class LateRowsOperator:
    """Adds to late rows the watermark before each of them and the operation that dropped it.

    Stateless; Flink has no counterpart.
    """

    def __init__(self, node: LateRows, columns: Sequence[str]) -> None:
        self._schema = node.schema.select(tuple(columns))
        self._known = frozenset(node.operation.late_schema(node.port).names)
        self._operation = type(node.input).__name__

    def open(self, context: Context) -> None: ...

    def process(self, port: int, batch: Batch) -> Output:
        columns = [
            batch.column(n) if n in self._known else self._metadata(n, batch)
            for n in self._schema.names
        ]
        return [(0, batch.with_columns(self._schema, columns))]

    def rest(self) -> Rest:
        return NO_TICK

    def close(self) -> None: ...

    def _metadata(self, name: str, batch: Batch) -> pa.Array:
        if name == LATE_COLUMNS[1].name:
            return pa.array([self._operation] * batch.num_rows, pa.string())
        before = batch.watermarks()
        watermarks = pa.array(before, mask=np.asarray(before == MIN_WATERMARK))
        return watermarks.view(LATE_COLUMNS[0].type.arrow)
