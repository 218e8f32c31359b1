"""Errors that a graph raises: jobs at fault, operators at fault, a graph that must restart.

Also what stands in for a source or a sink that a recovery cannot open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn, Protocol

from parser.errors import ExecutionError, ServiceError, SqlError
from planner.graph.physical import PhysicalNode, PhysicalSink
from sqlengine.batch import Batch
from sqlengine.connectors.base import Sink, Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.formats.base import OutOfReach


class JobsFailed(ExecutionError):
    """Some jobs failed; the graph goes on without them. `jobs`: their names. A `lasting` failure
    would come again: the jobs are not started again. `versions` and `epoch`: see `OperatorFailed`,
    where a recovery raised."""

    jobs: frozenset[str]
    lasting: ClassVar[bool] = False
    epoch = 0
    versions: frozenset[tuple[str, int]] = frozenset()


class FailureHandler(Protocol):
    """Takes jobs that fail, and the reason. It must not block. After a `lasting` failure, which
    would come again, the jobs are not started again."""

    def __call__(self, jobs: frozenset[str], reason: str, *, lasting: bool = False) -> None: ...


class SourceFailed(JobsFailed):
    """A source cannot be read any more: the jobs that read it fail."""

    def __init__(self, jobs: frozenset[str], cause: SqlError) -> None:
        super().__init__(
            cause.message, detail=cause.detail, hint=cause.hint, position=cause.position
        )
        self.jobs = jobs


class SourceAway(SourceFailed):
    """A range of a log cannot be read again now, and can once its source is there: nothing of the
    epoch is done without it."""


class SourceChanged(SourceFailed):
    """A repetition finds other rows than were read before, of a table that keeps no history: jobs
    that were started again would read it anew, and write rows twice."""

    lasting: ClassVar[bool] = True


class Unreadable(ServiceError):
    """A task cannot read what the driver has found for it, and perhaps can read itself."""

    def __init__(self, cause: Exception) -> None:
        detail = cause.message if isinstance(cause, SqlError) else str(cause)
        super().__init__("a task on Spark cannot read a topic's files", detail=detail)


class SinkFailed(JobsFailed):
    """A sink could not take rows: the jobs that write to it fail."""

    def __init__(self, sink: PhysicalSink, cause: SqlError) -> None:
        super().__init__(
            cause.message, detail=cause.detail, hint=cause.hint, position=cause.position
        )
        self.jobs = sink.jobs


class EpochUnknown(ExecutionError):
    """A table could not tell the last epoch that it has of a graph: under the numbers of epochs
    that it has, it would take new rows for repeated ones."""

    def __init__(self, table: str, cause: SqlError) -> None:
        super().__init__(
            f"table {table} cannot tell which rows it has",
            detail=str(cause),
            hint=cause.hint or "see whether it is there; no row is lost until then",
        )


class RowsFailed(JobsFailed):
    """Rows in error of one job with 'job.on-error' = 'fail'. `jobs` is {''} for a record that its
    table cannot read."""

    lasting: ClassVar[bool] = True
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
    """A job whose functions answer too late: it fails whatever 'job.on-error' says, because other
    jobs would wait for it at each row."""

    advice = "its rows without an answer are dead letters; start the job again when it is cheaper"


class ExecutorUnavailable(ServiceError):
    """Raised where what runs the operators of a graph is not there, in each attempt of an epoch, or
    where nobody knows which job was at fault. Nothing of the epoch was written: the graph is
    recovered once it is back."""


class FamilyFailed(ExecutorUnavailable):
    """Raised where the operators of a family fail or take too long: which of its jobs is at fault
    is known once each of them runs alone. The graph is recovered with the family taken apart."""

    def __init__(self, family: str, reason: str) -> None:
        super().__init__(f"{reason}; its jobs run apart from now on, so that only one fails")
        self.family = family


class GraphBroken(ServiceError):
    """An epoch or a change of this graph ended half-way. State in memory is inconsistent; what is
    on disk is consistent."""

    def __init__(self, graph: str) -> None:
        super().__init__(
            f"graph '{graph}' stands still after an internal error",
            hint="restart the server: the graph goes on from its last checkpoint, nothing is lost",
        )


class OperatorFailed(Exception):
    """An operator raised and its input must come again: it has state, or something that it needs is
    out of reach. The graph is restored without the jobs behind it. `versions`: the versions of
    these jobs, and `epoch`: the one that failed, if a recovery raised; `is_fault`: it is a bug of
    the engine, whose log needs the trace, and not `out_of_reach`."""

    epoch = 0
    lasting: ClassVar[bool] = False
    node = ""  # its id
    is_fault = False
    out_of_reach: OutOfReach | None = None

    def __init__(self, node: PhysicalNode, cause: Exception) -> None:
        self.out_of_reach = cause if isinstance(cause, OutOfReach) else None
        self.is_fault = self.out_of_reach is None
        where = f"internal error in {type(node.plan).__name__}: {type(cause).__name__}: "
        super().__init__(f"{where if self.is_fault else ''}{cause}")
        self.jobs, self.node = node.jobs, node.id
        self.versions: frozenset[tuple[str, int]] = frozenset()


class StepFailed(OperatorFailed):
    """Jobs whose operators took too long or too much memory in one step: the graph is restored
    without them."""

    lasting: ClassVar[bool] = True

    def __init__(self, jobs: frozenset[str], reason: str) -> None:
        Exception.__init__(self, reason)
        self.jobs = jobs
        self.versions = frozenset()


class LastingFailure(ExecutionError):
    """The failure of a job that a recovery has met, and that would come again."""


class StepEnded(Exception):
    """A step that was ended on request, of a removal or because the server stops. Nobody is at
    fault; the graph is restored without the removed `jobs`, whose `versions` a recovery names. They
    are started again if that is not `lasting`."""

    epoch = 0

    def __init__(
        self, reason: str, jobs: frozenset[str] = frozenset(), *, lasting: bool = True
    ) -> None:
        super().__init__(reason)
        self.jobs = jobs
        self.lasting = lasting
        self.versions: frozenset[tuple[str, int]] = frozenset()


@dataclass
class UnavailableSource(Source):
    """Stands in for a source that a recovery cannot open: raises its error when it is read."""

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
    """Stands in for a sink that a recovery cannot open: raises its error when it is asked for its
    last epoch, or gets rows."""

    error: SqlError

    def last_epoch(self) -> int | None:
        raise self.error

    def write(self, batch: Batch) -> None:
        raise self.error

    def commit(self, epoch: int) -> int:
        return 0

    def close(self) -> None: ...
