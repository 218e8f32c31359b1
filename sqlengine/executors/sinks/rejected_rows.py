"""Rows that a table cannot take, whatever its state: they are set aside before its sink."""

from __future__ import annotations

import numpy as np

from planner.graph.physical import PhysicalSink
from sqlengine.batch import Batch
from sqlengine.connectors.registry import connector_of
from sqlengine.operators.base import ERROR_PORT, Output
from sqlengine.operators.dead_letters import dead_letters


def without_rejected(sink: PhysicalSink, batch: Batch) -> tuple[Batch, Output]:
    """Returns the rows that the table of a sink can take, and the others as dead letters.

    That depends on the rows and the table's definition alone, so that a recovery that cannot open
    the table sets the same rows aside."""
    table = sink.sink.table
    reasons = {} if table is None else connector_of(table).rejects(table, batch)
    if not reasons or table is None:
        return batch, []
    rejected = np.array(sorted(reasons))
    letters = dead_letters(
        batch.take(rejected),
        # Nobody's where jobs share the operators before the sink.
        owner=next(iter(sink.jobs)) if len(sink.jobs) == 1 else "",
        place=batch.origin,
        subject=f"table {table.display}",
        reason=[reasons[row] for row in rejected.tolist()],
    )
    kept = batch.take(np.setdiff1d(np.arange(batch.num_rows), rejected))
    return kept, [(ERROR_PORT, letters)]
