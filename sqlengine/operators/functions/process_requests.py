"""Requests to a process function: the rows of a batch and the watermarks around them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlengine.batch import Batch, IntArray
from sqlengine.functions.processes import Times
from sqlengine.state.columns import distinct, milliseconds


def request_of(
    batch: Batch,
    groups: IntArray,
    schema: pa.Schema,
    names: Sequence[str],
    time: str | None,
    table: str | None,
) -> pa.RecordBatch:
    """The rows of a request: the place of the key of each, its time (ms), its table where there are
    several, and the columns that tables have (`names`)."""
    times = pa.nulls(batch.num_rows, pa.int64())
    if time is not None:
        times = pa.array(milliseconds(batch.column(time))[0])
    columns = [pa.array(groups, pa.int32()), times]
    if table is not None:
        columns.append(batch.column(table))
    columns += [batch.column(name) for name in names]
    return pa.RecordBatch.from_arrays(typed(columns, schema.types), schema=schema)


def times_of(batch: Batch) -> Times:
    """The watermarks around the rows of a batch."""
    before = np.maximum.accumulate(np.append(batch.watermarks(), batch.watermark))
    before = np.maximum(before, batch.since)
    known = [before, np.array([batch.since])]
    if batch.steps is not None:
        known.append(batch.steps[(batch.steps > batch.since) & (batch.steps < batch.watermark)])
    return Times(batch.since, before, distinct(np.concatenate(known)))


def typed(columns: Sequence[pa.Array], kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    """Columns as these types, for those that have others."""
    pairs = zip(columns, kinds, strict=True)
    return [c if c.type.equals(k) else c.cast(k, safe=False) for c, k in pairs]
