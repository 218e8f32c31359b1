"""Replays records of dead letters through one job, as part of an epoch.

They go through operators of their own, so that no other job, and no other statement of this one,
sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from parser.errors import SqlError
from planner.graph.merge import Graph, merge
from planner.graph.physical import lower
from planner.logical import Sink
from sqlengine.batch import Batch
from sqlengine.connectors.base import Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epochs import EpochRecord, ReplayedRecord
from sqlengine.executors.inputs import Inputs
from sqlengine.operators.base import Output


def push_replayed(
    factory: OperatorFactory,
    graph: Graph,
    inputs: Inputs,
    rows: Sequence[ReplayedRecord],
    record: EpochRecord,
    write: Callable[[str, Batch], None],
) -> tuple[Output, int]:
    """Processes records, which all go to the same statements of the job. Returns the rows in error,
    and how many were given to sinks. Does nothing if a recovery goes on without the job."""
    assert record.replay is not None
    job = record.replay.job
    plans = [s for s in statements_of(graph, job) if s.place in rows[0].places]
    if not plans:
        return [], 0
    # Of its own, and closed afterwards: replayed rows must not touch the tables of running
    # operators.
    executor = EmbeddedExecutor(factory)
    executor.switch(executor.prepare(lower(merge(Graph(), {job: plans}))))
    try:
        for row in rows:
            chunk = _chunk(inputs, row)
            if chunk is not None and row.source in executor.running:
                source = inputs.running[row.source]
                executor.push(row.source, source.batch(chunk, record.proctime, record.seed), write)
        return executor.take_errors(), executor.counts.rows_by_job()[job]
    finally:
        executor.close()


def statements_of(graph: Graph, job: str) -> list[Sink]:
    """The running statements of a job."""
    plans = (graph.nodes[name].plan for name in graph.jobs.get(job, ()))
    return [plan for plan in plans if isinstance(plan, Sink)]


def _chunk(inputs: Inputs, row: ReplayedRecord) -> Chunk | None:
    if row.source not in inputs.running:
        return None
    if row.record is None:
        return read_record(inputs.running[row.source].source, row.shard, row.offset)
    record = pa.array([row.record], pa.binary())
    return Chunk(row.shard, row.offset, row.offset + 1, 1, record, offsets=np.array([row.offset]))


def read_record(source: Source, shard: str, offset: int) -> Chunk | None:
    """Reads the record at an offset; None if it is not kept any more."""
    if shard not in source.shards():
        return None
    try:
        chunk = source.read(shard, offset, max_rows=1)
    except SqlError:
        return None
    if chunk is None or chunk.records is None or chunk.num_rows != 1 or chunk.start != offset:
        return None
    return chunk if chunk.offsets is not None and int(chunk.offsets[0]) == offset else None
