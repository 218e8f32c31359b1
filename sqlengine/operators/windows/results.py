"""Builds the output rows of fired windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from planner.logical import WindowAggregate
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.aggregates.accumulators import Accumulators
from sqlengine.operators.base import ERROR_PORT, Output
from sqlengine.operators.windows.assign import timestamps
from sqlengine.operators.windows.times import WindowClock
from udf.vector import Vector, merge_errors


@dataclass(frozen=True)
class Fired:
    """Fired windows, a row for each window and key: bounds in local time, instants of firing (all
    ms)."""

    keys: Sequence[pa.Array]
    results: Sequence[Vector]
    starts: IntArray
    ends: IntArray
    fires: IntArray

    @property
    def columns(self) -> list[pa.Array]:
        """The keys and results."""
        return [*self.keys, *(v.array(len(self.ends)) for v in self.results)]


def rows_of(
    node: WindowAggregate,
    clock: WindowClock,
    batch: Batch,
    fired: Fired,
    accumulators: Accumulators,
    output: Output,
) -> Batch:
    """Returns the output rows with the time of `batch`; the watermark before each row is less than
    the window's end.

    Rows whose value a user's aggregate could not compute leave by the error port.
    """
    schema = node.schema
    bounds = (fired.starts, fired.ends, clock.times(fired.ends))
    window = [
        timestamps(b, schema.type(n).arrow)
        for b, n in zip(bounds, node.window_columns, strict=True)
    ]
    rows = replace(
        batch.tick(schema),
        columns=(*fired.keys, *(v.array(len(fired.ends)) for v in fired.results), *window),
        num_rows=len(fired.ends),
        row_watermarks=None if clock.proctime else batch.watermarks_before(fired.fires),
    )
    errors = merge_errors([v.errors for v in fired.results])
    if errors is None:
        return rows
    call = next(
        c for c, v in zip(node.aggregates, fired.results, strict=True) if v.errors is not None
    )
    output.append((ERROR_PORT, accumulators.failed(rows, call, errors)))
    return replace(rows.take(np.flatnonzero(~errors.mask)), watermark=batch.watermark)


def repeated(vector: Vector, count: int, rows: IntArray) -> Vector:
    """Returns the rows with these numbers of a result of `count` rows."""
    errors = None if vector.errors is None else vector.errors.take(rows)
    return Vector(vector.array(count).take(pa.array(rows)), errors)
