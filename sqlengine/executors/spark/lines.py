"""A stateless stage over lines that Spark itself reads from files (`spark.read_segments`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import BIGINT, BYTES, Schema
from sqlengine.batch import Batch
from sqlengine.executors.spark.worker import Piece, Place, Step, TaskContext
from sqlengine.operators.base import Operator, Output
from sqlengine.operators.scan import OFFSET, RECORD
from sqlengine.state.keys import BUCKETS

_RAW = Schema.of(**{RECORD: BYTES, OFFSET: BIGINT})


class LineStage:
    """Operators that stand one behind the other; the first takes batches of `record` and `offset`
    (`raw_schema`), only the last may have several output ports. Their tables begin empty with every
    chunk of a shard."""

    def __init__(self, operators: Sequence[Operator]) -> None:
        self._operators = operators
        self._context = TaskContext()
        for i, operator in enumerate(operators):
            self._context.prefix = f"{i}/"
            operator.open(self._context)

    def run(self, step: Step, records: pa.RecordBatch) -> Iterator[Piece]:
        """Records (`shard`, `offset`, `sequence`, `record`) are in order within a shard."""
        for chunk, sequence in _chunks(records, step):
            place = Place(chunk.origin, chunk.column(OFFSET)[0].as_py(), sequence)
            yield Piece(place, chunk.num_rows, self._process(chunk))

    def _process(self, chunk: Batch) -> Output:
        """Output of the last operator, and what left by the error ports of those before it."""
        output: Output = [(0, chunk)]
        for operator in self._operators:
            aside = [(port, b) for port, b in output if port != 0]
            output = aside + [o for port, b in output if port == 0 for o in operator.process(0, b)]
        for table in self._context.tables.values():
            table.drop(range(BUCKETS))
        return output


def _chunks(records: pa.RecordBatch, step: Step) -> Iterator[tuple[Batch, int]]:
    """Runs of rows of one shard and file, as a scan takes them, with the sequence number of the
    first."""
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
