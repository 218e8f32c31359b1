"""What Spark does for a plan, in this process: tables instead of its frames, a list for each partition. Every stage runs as
in a worker; nothing starts a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sqlengine.executors.spark_worker import FRAME

Map = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Frames:
    """A frame of Spark: a table for each partition."""

    parts: tuple[pa.Table, ...]

    def mapInArrow(self, run: Map, schema: str) -> Frames:
        assert schema.split(",")[0] == "partition int"
        return Frames(tuple(pa.Table.from_batches(run(iter(p.to_batches())), FRAME) for p in self.parts))

    def unionByName(self, other: Frames) -> Frames:
        return Frames((*self.parts, *other.parts))

    def repartitionById(self, count: int, column: str) -> Frames:
        """Blocks come in no order: those of the last partition first."""
        whole = pa.concat_tables(reversed(self.parts))
        return Frames(tuple(whole.filter(pc.equal(whole[column], p)) for p in range(count)))

    def toArrow(self) -> pa.Table:
        return pa.concat_tables(self.parts)


class Staged:
    """A session of Spark whose frames have `partitions` parts."""

    def __init__(self, partitions: int = 2) -> None:
        self.defaultParallelism = partitions

    @property
    def sparkContext(self) -> Staged:
        return self

    def createDataFrame(self, table: pa.Table) -> Frames:
        """Rows in runs, as Spark cuts them."""
        size = -(-table.num_rows // self.defaultParallelism)
        return Frames(tuple(table.slice(n * size, size) for n in range(self.defaultParallelism)))
