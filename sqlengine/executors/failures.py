"""How a graph tells of jobs at fault, and of its own end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from parser.errors import ExecutionError, ServiceError, SqlError
from planner.graph.physical import PhysicalNode, PhysicalSink
from sqlengine.batch import Batch
from sqlengine.connectors.base import Chunk, Sink, Source


class JobsFailed(ExecutionError):
    """Some jobs are at fault, and no others."""

    jobs: frozenset[str]


class SourceFailed(JobsFailed):
    """A source cannot be read any more: the jobs that read it are at fault."""

    def __init__(self, jobs: frozenset[str], cause: SqlError) -> None:
        super().__init__(
            cause.message, detail=cause.detail, hint=cause.hint, position=cause.position
        )
        self.jobs = jobs


class SinkFailed(JobsFailed):
    """A sink could not take rows: the jobs that write to it are at fault."""

    def __init__(self, sink: PhysicalSink, cause: SqlError) -> None:
        super().__init__(
            cause.message, detail=cause.detail, hint=cause.hint, position=cause.position
        )
        self.jobs = sink.jobs


class RowsFailed(JobsFailed):
    """Rows in error that belong to jobs which asked to fail on them ('' stands for a table's
    records)."""

    advice: ClassVar[str] = "SET 'job.on-error' = 'dead-letter' sets such rows aside and goes on"

    def __init__(self, letters: Batch) -> None:
        owner, place, subject, reason, payload = (c[0].as_py() for c in letters.columns[:5])
        super().__init__(
            f"{reason} in {subject}",
            detail=f"at {place}: {payload[:200]}" if place else payload[:200],
            hint=self.advice,
        )
        self.jobs = frozenset({owner})


class RowsGivenUp(RowsFailed):
    """Rows for which a job cannot go on, whatever it asked for: others would wait for it at each of
    them."""

    advice = "its rows without an answer are dead letters; start the job again when it is cheaper"


class GraphBroken(ServiceError):
    """An epoch or a change ended half-way: what is in memory is worth nothing, what is on disk is
    whole."""

    def __init__(self, graph: str) -> None:
        super().__init__(
            f"graph '{graph}' stands still after an internal error",
            hint="restart the server: the graph goes on from its last checkpoint, nothing is lost",
        )


class OperatorFailed(Exception):
    """An operator with state raised: a fault of ours, which these jobs pay for. `versions`: those
    that ran, when it came from a recovery."""

    def __init__(self, node: PhysicalNode, cause: Exception) -> None:
        super().__init__(
            f"internal error in {type(node.plan).__name__}: {type(cause).__name__}: {cause}"
        )
        self.jobs = node.jobs
        self.versions: frozenset[tuple[str, int]] = frozenset()


@dataclass
class UnavailableSource(Source):
    """In the place of a source that cannot be opened any more when a graph is recovered: it cannot
    be read either."""

    error: SqlError
    bounded: bool = False

    def shards(self) -> list[str]:
        self._fail()

    def start(self, shard: str) -> int:
        self._fail()

    def end(self, shard: str) -> int | None:
        self._fail()

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        self._fail()

    def close(self) -> None: ...

    def _fail(self) -> NoReturn:
        raise self.error


@dataclass
class UnavailableSink(Sink):
    """The same for a sink."""

    error: SqlError

    def last_epoch(self) -> int | None:
        return None

    def write(self, batch: Batch) -> None:
        raise self.error

    def commit(self, epoch: int) -> int:
        return 0

    def close(self) -> None: ...
