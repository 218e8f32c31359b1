"""What Spark does for a plan, in this process: tables instead of its frames, one for each
partition. Every stage runs as in a worker; nothing starts a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sqlengine.executors.spark.view import SparkView
from sqlengine.executors.spark.worker import FRAME

Map = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Frames:
    """A frame of Spark, with what is asked of one."""

    parts: tuple[pa.Table, ...]

    def mapInArrow(self, run: Map, schema: str) -> Frames:  # noqa: N802
        assert [c.split()[0] for c in schema.split(", ")] == FRAME.names
        return Frames(
            tuple(pa.Table.from_batches(run(iter(p.to_batches())), FRAME) for p in self.parts)
        )

    def unionByName(self, other: Frames) -> Frames:  # noqa: N802
        return Frames((*self.parts, *other.parts))

    def repartitionById(self, count: int, column: str) -> Frames:  # noqa: N802
        """Blocks come in no order: here those of the last partition first."""
        whole = pa.concat_tables(reversed(self.parts))
        return Frames(tuple(whole.filter(pc.equal(whole[column], p)) for p in range(count)))

    def toArrow(self) -> pa.Table:  # noqa: N802
        return pa.concat_tables(self.parts)


@dataclass(frozen=True)
class Staged:
    """A session of Spark whose frames have so many parts."""

    defaultParallelism: int = 3  # noqa: N815

    @property
    def sparkContext(self) -> Staged:  # noqa: N802
        return self

    def createDataFrame(self, table: pa.Table) -> Frames:  # noqa: N802
        size = -(-table.num_rows // self.defaultParallelism)
        return Frames(tuple(table.slice(n * size, size) for n in range(self.defaultParallelism)))

    def session(self) -> Staged:
        return self

    @contextmanager
    def errors(self) -> Iterator[None]:
        yield

    @contextmanager
    def group(self, name: str, what: str, tell: Callable[[str], None]) -> Iterator[None]:
        tell("in stages")
        yield

    def cancel(self, name: str) -> None:
        """Its tasks run in the thread that waits for them."""

    def view(self) -> SparkView:
        return SparkView("in stages", "0", "http://127.0.0.1:4040", 0.0, 1)

    def worker_memory(self) -> None:
        """Its tasks run in this process."""

    def close(self) -> None: ...
