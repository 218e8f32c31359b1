"""A stateless stage over lines that Spark itself reads from files (`spark.read_segments`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import BIGINT, BYTES, Schema
from sqlengine.batch import Batch
from sqlengine.executors.spark.worker import ChunkOutput, ChunkPosition, Step, TaskContext
from sqlengine.operators.base import Operator, Output
from sqlengine.operators.scan import OFFSET, RECORD
from sqlengine.state.keys import BUCKETS

_RAW = Schema.of(**{RECORD: BYTES, OFFSET: BIGINT})


class LineStage:
    """A chain of operators as a stateless stage: their tables are empty at each chunk of a shard.

    The first operator takes batches of `record` and `offset` (`raw_schema`). Only the last may have
    several output ports."""

    def __init__(self, operators: Sequence[Operator]) -> None:
        self._operators = operators
        self._context = TaskContext()
        for i, operator in enumerate(operators):
            self._context.prefix = f"{i}/"
            operator.open(self._context)

    def run(self, step: Step, records: pa.RecordBatch) -> Iterator[ChunkOutput]:
        """Processes records (`shard`, `offset`, `sequence`, `record`), in order within a shard."""
        for chunk, sequence in _chunks(records, step):
            position = ChunkPosition(chunk.origin, chunk.column(OFFSET)[0].as_py(), sequence)
            yield ChunkOutput(position, chunk.num_rows, self._process(chunk))

    def _process(self, chunk: Batch) -> Output:
        """Returns the output of the last operator and the rows in error of all."""
        output: Output = [(0, chunk)]
        for operator in self._operators:
            aside = [(port, b) for port, b in output if port != 0]
            output = aside + [o for port, b in output if port == 0 for o in operator.process(0, b)]
        for table in self._context.tables.values():
            table.drop(range(BUCKETS))
        return output


def _chunks(records: pa.RecordBatch, step: Step) -> Iterator[tuple[Batch, int]]:
    """Yields runs of rows of one shard and file, as input of a scan, with the sequence number of
    their first row."""
    names = ("shard", "offset")
    changes = [pc.run_end_encode(records.column(n)).run_ends.to_numpy() for n in names]
    ends = np.union1d(*changes)
    sequences, offsets = records.column("sequence"), records.column("offset")
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        record = records.column("record").slice(start, end - start).cast(pa.binary())
        columns = (record, offsets.slice(start, end - start))
        shard = records.column("shard")[start].as_py()
        batch = Batch(_RAW, columns, end - start, step.proctime, origin=shard, seed=step.seed)
        yield batch, sequences[start].as_py()
