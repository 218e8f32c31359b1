"""Records of dead letters through a job again: in the graph's thread and its epochs, but through
operators of their own, so that no other job, and no other statement of this one, sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from parser.errors import SqlError
from planner.graph.merge import Graph, merge
from planner.graph.physical import lower
from planner.logical import Sink
from sqlengine.batch import Batch
from sqlengine.connectors.base import Chunk, Source
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
) -> Output:
    """Gives records that all go to the same statements to these; what cannot be processed again is
    given back. Nothing where the job is gone (a recovery without it)."""
    assert record.replay is not None
    job = record.replay.job
    plans = [s for s in statements_of(graph, job) if s.place in rows[0].places]
    if not plans:
        return []
    executor = EmbeddedExecutor(factory)
    executor.switch(executor.prepare(lower(merge(Graph(), {job: plans}))))
    try:
        for again in rows:
            chunk = _chunk(inputs, again)
            if chunk is not None and again.source in executor.running:
                source = inputs.running[again.source]
                executor.push(
                    again.source, source.batch(chunk, record.proctime, record.seed), write
                )
        return executor.take_errors()
    finally:
        executor.close()


def statements_of(graph: Graph, job: str) -> list[Sink]:
    """The job's statements as they run."""
    plans = (graph.nodes[name].plan for name in graph.jobs.get(job, ()))
    return [plan for plan in plans if isinstance(plan, Sink)]


def _chunk(inputs: Inputs, again: ReplayedRecord) -> Chunk | None:
    if again.source not in inputs.running:
        return None
    if again.record is None:
        return read_record(inputs.running[again.source].source, again.shard, again.offset)
    record = pa.array([again.record], pa.binary())
    return Chunk(
        again.shard, again.offset, again.offset + 1, 1, record, offsets=np.array([again.offset])
    )


def read_record(source: Source, shard: str, offset: int) -> Chunk | None:
    """The record at a place; None where it is kept no more."""
    if shard not in source.shards():
        return None
    try:
        chunk = source.read(shard, offset, max_rows=1)
    except SqlError:
        return None
    if chunk is None or chunk.records is None or chunk.num_rows != 1 or chunk.start != offset:
        return None
    return chunk if chunk.offsets is not None and int(chunk.offsets[0]) == offset else None
