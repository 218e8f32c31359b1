"""What Spark does for a plan, in this process: tables instead of its frames, one for each
partition. Every stage runs as in a worker; nothing starts a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from sqlengine.executors.spark.view import SparkView
from sqlengine.executors.spark.worker import COUNTED, FRAME

Map = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Frames:
    """A frame of Spark, with what is asked of one."""

    parts: tuple[pa.Table, ...]

    def mapInArrow(self, run: Map, schema: str) -> Frames:  # noqa: N802
        assert [c.split()[0] for c in schema.split(", ")] == FRAME.names
        return replace(self, parts=tuple(self.task(run, part) for part in self.parts))

    def task(self, run: Map, part: pa.Table) -> pa.Table:
        return pa.Table.from_batches(run(iter(part.to_batches())), FRAME)

    def unionByName(self, other: Frames) -> Frames:  # noqa: N802
        return replace(self, parts=(*self.parts, *other.parts))

    def repartitionById(self, count: int, column: str) -> Frames:  # noqa: N802
        """Blocks come in no order: here those of the last partition first."""
        whole = pa.concat_tables(reversed(self.parts))
        parts = tuple(whole.filter(pc.equal(whole[column], p)) for p in range(count))
        return replace(self, parts=parts)

    def toArrow(self) -> pa.Table:  # noqa: N802
        return pa.concat_tables(self.parts)


class RepeatedFrames(Frames):
    """Every task has three attempts: one dies at its first output, one behind its end, and what
    the last one gives is what the second one has given."""

    def task(self, run: Map, part: pa.Table) -> pa.Table:
        next(run(iter(part.to_batches())), None)
        first, last = super().task(run, part), super().task(run, part)
        given = [t.filter(pc.not_equal(t["stage"], COUNTED)).to_pylist() for t in (first, last)]
        assert given[0] == given[1]
        return last


class WithoutJava:
    """What a session of Spark has to be asked, in a process without Java."""

    @property
    def sparkContext(self) -> Self:  # noqa: N802
        return self

    def session(self) -> Self:
        return self

    def require(self) -> None:
        """All of Spark that is needed is here."""

    @contextmanager
    def unstarted(self) -> Iterator[None]:
        yield

    @contextmanager
    def errors(self) -> Iterator[None]:
        yield

    def close(self) -> None: ...


@dataclass(frozen=True)
class Staged(WithoutJava):
    """A session of Spark whose frames have so many parts."""

    defaultParallelism: int = 3  # noqa: N815
    frames: type[Frames] = Frames

    def createDataFrame(self, table: pa.Table) -> Frames:  # noqa: N802
        size = -(-table.num_rows // self.defaultParallelism)
        parts = (table.slice(n * size, size) for n in range(self.defaultParallelism))
        return self.frames(tuple(parts))

    @contextmanager
    def group(
        self,
        name: str,
        what: str,
        tell: Callable[[str | None], None] = lambda what: None,
        far: Callable[[str], None] | None = None,
    ) -> Iterator[None]:
        tell(None)
        if far is not None:
            far("in stages")
        yield

    def partitions(self) -> int:
        return self.defaultParallelism

    def cancel(self, name: str) -> None:
        """Its tasks run in the thread that waits for them."""

    def view(self) -> SparkView:
        return SparkView("in stages", "0", "http://127.0.0.1:4040", 0.0, 1)

    def worker_memory(self) -> None:
        """Its tasks run in this process."""
