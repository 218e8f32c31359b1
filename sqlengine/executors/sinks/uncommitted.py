"""Output that the sinks of a graph have not committed: of which epochs, and what holds it up."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from parser.errors import SqlError, TryAgain
from planner.graph.physical import PhysicalPlan, PhysicalSink
from sqlengine.batch import Batch
from sqlengine.connectors.base import Busy, Sink, Unanswered
from sqlengine.executors.sinks.opener import sink_name, writer_name
from sqlengine.executors.sinks.pending_commits import PendingCommit, RecoveredCommit
from sqlengine.executors.wire import encode_batch

# The graph goes on while fewer rows than this wait for locked tables, and tries these tables again
# after this time.
_WAITING_ROWS = 100_000
BACKOFF_MS: Final = 500

T = TypeVar("T")


@dataclass(frozen=True)
class BufferedEpoch:
    """The rows of one epoch for a sink that had no space."""

    epoch: int
    batches: list[Batch]


class UncommittedOutput:
    """The output of one graph that is not committed, by the ids of its sinks. It writes and commits
    nothing itself. Graph thread only, where a method does not say otherwise.

    `plan`: the sinks that run. `sinks`: those that have rows since their last commit, in the order
    in which they commit; output that a job brought stands here by a name of its own, see
    `opener.sink_name`. `buffered`: epochs for which a sink had no space, oldest first; it holds the
    rows of the first. `blocked`: sinks without space, which take the epoch later, and perhaps those
    after it. `refused`: errors of sinks, whose jobs fail once the epoch is complete; their rows are
    kept until the jobs leave with them."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.plan: Mapping[str, PhysicalSink] = {}
        self.sinks: dict[str, Sink] = {}
        self.buffered: dict[str, deque[BufferedEpoch]] = {}
        self.blocked: dict[str, TryAgain] = {}
        self.refused: dict[str, SqlError] = {}
        self._clock = clock
        # The last epoch's rows for each table: if it is blocked, they may leave with their job.
        self._batches: dict[str, list[Batch]] = {}
        self._last_tried: dict[str, int] = {}  # ms, of locked tables

    # ---- an epoch --------------------------------------------------------------------------------

    def waits(self, name: str) -> bool:
        """True if new rows of a sink wait here: it holds those of an older epoch, or has failed."""
        return name in self.buffered or name in self.refused

    def add(self, name: str, sink: Sink, batch: Batch | None = None) -> None:
        """Adds a sink that has rows of this epoch, and the rows, where they are those of a
        table."""
        self.sinks[name] = sink
        if batch is not None:
            self._batches.setdefault(name, []).append(batch)

    def add_pending(self, commits: Mapping[str, RecoveredCommit]) -> None:
        """Adds the output that a job brought, before any other output of this graph."""
        # First in the order of commits: these epochs are older than any of this graph.
        self.sinks = {**commits, **self.sinks}

    def buffer(self, name: str, epoch: int) -> deque[BufferedEpoch]:
        """Ends the epoch of a sink; returns the epochs that it has to commit, oldest first."""
        # Once for each epoch: a repeated commit of the same epoch has no new batches.
        if name not in self.buffered or name in self._batches:
            batches = self._batches.pop(name, [])
            self.buffered.setdefault(name, deque()).append(BufferedEpoch(epoch, batches))
        return self.buffered[name]

    def block(self, name: str, error: TryAgain) -> None:
        """Records that a sink has no space for its oldest epoch; a locked table also, when."""
        self.blocked[name] = error
        if isinstance(error, Busy):
            self._last_tried[name] = self._clock()

    def in_backoff(self, name: str) -> bool:
        """True if a locked table was tried less than `BACKOFF_MS` ago."""
        tried = self._last_tried.get(name)
        return (
            tried is not None and name in self.blocked and 0 <= self._clock() - tried < BACKOFF_MS
        )

    def discard(self, name: str) -> None:
        """Forgets all output of a sink: it is committed, or lost."""
        self.sinks.pop(name, None)
        self._batches.pop(name, None)
        self.buffered.pop(name, None)
        self._last_tried.pop(name, None)
        self.blocked.pop(name, None)

    def rename(self, old: str, new: str) -> None:
        """Gives all output of a sink another name, in the same place of the order."""
        self.sinks = {new if name == old else name: sink for name, sink in self.sinks.items()}
        _move_key(self.buffered, old, new)
        _move_key(self.refused, old, new)
        _move_key(self.blocked, old, new)
        _move_key(self._last_tried, old, new)

    def close(self) -> None:
        """Closes the sinks of what jobs brought; what is not committed is lost."""
        for sink in self.sinks.values():
            if isinstance(sink, RecoveredCommit):
                sink.close()
        # At once: the error that ended the step refers to its graph, and the collector comes late.
        self._batches.clear()

    # ---- output that goes to another graph, or came from one -------------------------------------

    def pending_commits(
        self, names: Iterable[str], writer: str, epoch: int
    ) -> tuple[PendingCommit, ...]:
        """Returns the output that these blocked or refused sinks have not taken, oldest first;
        `epoch` is the last."""
        pending: list[PendingCommit] = []
        for name in names:
            recovered = self.sinks.get(name)
            if isinstance(recovered, RecoveredCommit):
                # Under the name of the sink that its job has now, see `Outputs.switch`.
                pending += (replace(p, sink=sink_name(name)) for p in recovered.left())
                continue
            # A sink without buffered epochs has a file that is not published yet.
            for b in self.buffered.get(name, (BufferedEpoch(epoch, []),)):
                batches = tuple(map(encode_batch, b.batches))
                pending.append(PendingCommit(name, writer, b.epoch, batches))
        return tuple(pending)

    def brought(self) -> list[tuple[str, str]]:
        """Returns, for the output that jobs brought, its sink and the graph that wrote it. Any
        thread."""
        names = [n for n, s in list(self.sinks.items()) if isinstance(s, RecoveredCommit)]
        return [(sink_name(name), writer_name(name)) for name in names]

    # ---- what holds output up --------------------------------------------------------------------

    @property
    def owes_rows(self) -> bool:
        """True if sinks have not taken all rows of the epochs so far."""
        return bool(self.blocked or self.refused)

    @property
    def owing(self) -> list[str]:
        """The sinks that have not taken all rows, with those that wait behind output that a job
        brought; in the order in which they commit."""
        names = dict.fromkeys((*self.sinks, *self.refused, *self.blocked))
        owes = self.refused.keys() | self.blocked.keys() | self.buffered.keys()
        return [name for name in names if name in owes]

    @property
    def overflows(self) -> bool:
        """True if so many rows wait for their jobs to leave that no more may be read."""
        return bool(self.refused) and self._rows_waiting(self.refused) >= _WAITING_ROWS

    def only_tables_blocked(self, plan: PhysicalPlan) -> bool:
        """True if sinks are blocked, and all of them are tables of the plan."""
        return bool(self.blocked) and all(name in plan.sinks for name in self.blocked)

    def may_go_on(self, plan: PhysicalPlan) -> bool:
        """True if only locked tables are blocked, and few enough rows wait for them."""
        locked = all(isinstance(error, Busy) for error in self.blocked.values())
        if not locked or not self.only_tables_blocked(plan):
            return False
        return self._rows_waiting(self.blocked) < _WAITING_ROWS

    def _rows_waiting(self, names: Iterable[str]) -> int:
        buffered = (b for name in names for b in self.buffered.get(name, ()))
        return sum(batch.num_rows for b in buffered for batch in b.batches)

    def sinks_without_space(self) -> dict[str, TryAgain]:
        """Returns the errors of blocked sinks of the plan, also for output that a job brought. Any
        thread."""
        return {sink_name(name): error for name, error in list(self.blocked.items())}

    def unanswered(self, jobs: Collection[str]) -> TryAgain | None:
        """Returns the error of a table that these jobs write to and that has not answered. Any
        thread."""
        plan, wanted = self.plan, set(jobs)
        for name, error in self.sinks_without_space().items():
            if isinstance(error, Unanswered) and name in plan and plan[name].jobs & wanted:
                return error
        return None

    def bytes_by_job(self, running: Collection[str]) -> Counter[str]:
        """Returns the bytes of the epoch's rows so far by job. Rows for a table of several jobs
        count for those whose operator is `running`."""
        used: Counter[str] = Counter()
        for name, batches in self._batches.items():
            jobs = self.plan[name].jobs
            size = sum(column.nbytes for batch in batches for column in batch.columns)
            used.update(dict.fromkeys(jobs if len(jobs) == 1 else jobs & set(running), size))
        return used


def _move_key(by_name: dict[str, T], old: str, new: str) -> None:
    if old in by_name:
        by_name[new] = by_name.pop(old)
