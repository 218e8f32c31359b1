"""Rows that a table cannot take, whatever its state: they are set aside before its sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from planner.catalog import Table
from planner.graph.physical import PhysicalSink
from sqlengine.batch import Batch
from sqlengine.connectors.boundary.rows import unwritable
from sqlengine.connectors.refused_rows import RefusedRows
from sqlengine.connectors.registry import connector_of, rejects
from sqlengine.operators.base import ERROR_PORT, Output
from sqlengine.operators.dead_letters import dead_letters

# Parts the rows that a table can take from dead letters.
SetAside: TypeAlias = Callable[[PhysicalSink, Batch], tuple[Batch, Output]]


def refused_letters(sink: PhysicalSink, refused: Sequence[RefusedRows]) -> Output:
    """Returns rows that the other side of a sink has refused as dead letters."""
    table = sink.sink.table
    if table is None:
        return []
    return [letter for r in refused for letter in _letters(sink, table, r.rows, r.reasons)]


def without_rejected(sink: PhysicalSink, batch: Batch) -> tuple[Batch, Output]:
    """Returns the rows that the table of a sink can take, and the others as dead letters.
    SqlError where its connector fails.

    That depends on the rows and the table's definition alone, so that a recovery that cannot open
    the table sets the same rows aside."""
    table = sink.sink.table
    return (batch, []) if table is None else _without(sink, table, batch, rejects(table, batch))


def without_unwritable(sink: PhysicalSink, batch: Batch) -> tuple[Batch, Output]:
    """Returns the rows that can be records of the table of a sink, and the others as dead letters.

    Makes records of all rows, so that it is asked where the sink itself has refused them, or cannot
    be asked now."""
    table = sink.sink.table
    if table is None:
        return batch, []
    return _without(sink, table, batch, unwritable(table, connector_of(table), batch))


def _without(
    sink: PhysicalSink, table: Table, batch: Batch, reasons: Mapping[int, str]
) -> tuple[Batch, Output]:
    if not reasons:
        return batch, []
    kept = batch.take(np.setdiff1d(np.arange(batch.num_rows), list(reasons)))
    return kept, _letters(sink, table, batch, reasons)


def _letters(sink: PhysicalSink, table: Table, batch: Batch, reasons: Mapping[int, str]) -> Output:
    by_job: dict[str, list[int]] = {}
    for row in sorted(reasons):
        for job in _writers(sink, batch, row):
            by_job.setdefault(job, []).append(row)
    letters = [
        dead_letters(
            batch.take(np.array(rows)),
            owner=job,
            place=batch.origin,
            subject=f"table {table.display}",
            reason=[reasons[row] for row in rows],
        )
        for job, rows in by_job.items()
    ]
    return [(ERROR_PORT, rows) for rows in letters]


def _writers(sink: PhysicalSink, batch: Batch, row: int) -> Sequence[str]:
    """Returns the jobs that write a row: all of the table's where they share the operator."""
    if batch.writers is None:
        return sorted(sink.jobs)
    return [batch.writers.jobs[batch.writers.of[row]]]
