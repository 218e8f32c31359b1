"""Where the rows of a graph go: opens its sinks, keeps what an epoch wrote, and makes it visible at
the epoch's end."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter

import numpy as np

from parser.errors import SqlError, TryAgain
from planner import logical
from planner.catalog import Table
from planner.graph.chunked import Chunked
from planner.graph.division import OUTGOING
from planner.graph.physical import PhysicalPlan, PhysicalSink
from sqlengine.batch import Batch
from sqlengine.connectors.base import Busy, Environment, Sink
from sqlengine.connectors.registry import capabilities_of, open_sink
from sqlengine.executors.dead_letters import DeadLetterSink
from sqlengine.executors.epochs import Replay
from sqlengine.executors.failures import RowsFailed, RowsGivenUp, SinkFailed, UnavailableSink
from sqlengine.executors.nondeterministic_calls import NondeterministicCallLog
from sqlengine.executors.pending_commits import PendingCommit, RecoveredCommit
from sqlengine.executors.waiting_sink import WaitingSink
from sqlengine.executors.wire import encode_batch
from sqlengine.operators.base import GIVE_UP_PORT, Output

# The sink of dead letters, beside those of the plan.
DEAD_LETTER_SINK = "_dead_letters"


log = logging.getLogger("sqlengine")

# Between a sink and the graph whose rows for it a job brought.
_OF = " of "
# Commits that take less are not remembered.
_SLOW_S = 0.05
# So many rows may wait for tables that another holds, before their graph waits with them; so often
# such a table is tried.
_WAITING_ROWS = 100_000
_AGAIN_MS = 500


@dataclass(frozen=True)
class SlowCommit:
    """One that took its time: when it ended, by a clock that only grows, and how long it took, in
    s."""

    sink: str
    at: float
    seconds: float


@dataclass
class Progress:
    """What a runner has done, for metrics and for those who decide which jobs may share a graph.
    `letters`: dead letters by job; `commits`: the last slow ones."""

    rows_in: int = 0
    rows_out: Counter[str] = field(default_factory=Counter)
    dead_letters: int = 0
    epochs: int = 0
    letters: Counter[str] = field(default_factory=Counter)
    commits: deque[SlowCommit] = field(default_factory=lambda: deque(maxlen=200))


@dataclass(frozen=True)
class BufferedEpoch:
    """The rows of one epoch for a sink that had no space."""

    epoch: int
    batches: list[Batch]


class Outputs:
    """The sinks of one graph. One that refuses rows gets no more (`refused`); its jobs fail once
    the epoch is complete. `fatal`: why jobs fail that asked to, or that cannot go on; `blocked`:
    sinks that take the epoch later, and perhaps those after it; `shuffle`: the one that takes rows
    to other parts."""

    def __init__(
        self,
        environment: Environment,
        letters: Sink | None,
        fails_on_error: Callable[[str], bool],
        progress: Progress,
        result: Sink | None,
        answers: NondeterministicCallLog,
        shuffle: Sink | None = None,
    ) -> None:
        self.running: dict[str, Sink] = {} if shuffle is None else {OUTGOING: shuffle}
        self.refused: dict[str, SqlError] = {}
        self._sinks: Chunked[PhysicalSink] = Chunked()
        self.fatal: list[RowsFailed] = []
        self.blocked: dict[str, TryAgain] = {}
        self._uncommitted: dict[str, Sink] = {}
        self._batches: dict[
            str, list[Batch]
        ] = {}  # of the last epoch, for tables: it may go with its job
        # What a sink had no space for, oldest first: it has the rows of the first.
        self._buffered: dict[str, deque[BufferedEpoch]] = {}
        self._last_tried: dict[str, int] = {}  # when a busy sink was asked last, by the clock
        self._rolling: dict[str, Sink] = {}
        self.call_log = answers
        self._environment = environment
        self._letters = letters
        self._fails_on_error = fails_on_error
        self._progress = progress
        self._result = result
        self._recovering = self._defers_opens = False

    @property
    def shows_result(self) -> bool:
        return self._result is not None

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """A sink that cannot be opened any more does not stop a recovery: its jobs fail when it is
        over."""
        self._recovering = True
        yield
        self._recovering = False

    def open(self, plan: PhysicalPlan) -> dict[str, Sink]:
        """The sinks of the plan that are not open yet. SqlError when one cannot be opened."""
        sinks: dict[str, Sink] = {}
        for name in sorted(
            n
            for n in plan.sinks.difference(self._sinks)
            if n in plan.sinks and n not in self.running
        ):
            sink = plan.sinks[name]
            if sink.sink.table is not None:
                sinks[name] = self._open(sink.sink.table, sink.sink.overwrite)
            elif self._result is not None:
                sinks[name] = self._result
        return sinks

    @contextmanager
    def deferring_opens(self) -> Iterator[None]:
        """A sink without space for what it begins with is opened later: its job has run already,
        elsewhere."""
        self._defers_opens = True
        yield
        self._defers_opens = False

    def _open(self, table: Table, overwrite: bool) -> Sink:
        opener = partial(open_sink, table, self._environment, overwrite=overwrite)
        try:
            return opener()
        except TryAgain as error:
            if not self._defers_opens and not self._recovering:
                raise
            log.warning("table '%s' waits for space: %s", table.display, error)
            return WaitingSink(opener)
        except SqlError as error:
            if not self._recovering:
                raise
            return UnavailableSink(error)

    def switch(self, plan: PhysicalPlan, new: Mapping[str, Sink]) -> None:
        """To another plan: `new` sinks come, those that it does not have are closed."""
        self.running.update(new)
        self._rolling |= {
            name: sink
            for name, sink in new.items()
            if not isinstance(sink, UnavailableSink) and _is_rolling(plan.sinks[name].sink.table)
        }
        gone = [
            s
            for s in self._sinks.difference(plan.sinks)
            if s in self.running and s not in plan.sinks
        ]
        self._sinks = plan.sinks
        for name in gone:
            self.running.pop(name).close()
            self.refused.pop(name, None)
            self._rolling.pop(name, None)
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._uncommitted.pop(name, None)
        self._batches.pop(name, None)
        self._buffered.pop(name, None)
        self._last_tried.pop(name, None)
        self.blocked.pop(name, None)

    def pending_commits(
        self, names: Iterable[str], writer: str, epoch: int
    ) -> tuple[PendingCommit, ...]:
        """The rows that these sinks have no space for, oldest first; `epoch` is the last one."""
        kept = ((n, k) for n in names for k in self._buffered.get(n, (BufferedEpoch(epoch, []),)))
        return tuple(
            PendingCommit(n, writer, k.epoch, tuple(map(encode_batch, k.batches))) for n, k in kept
        )

    def only_tables_blocked(self, plan: PhysicalPlan) -> bool:
        """Whether all that keeps output back is tables of the plan that have no space."""
        return bool(self.blocked) and all(name in plan.sinks for name in self.blocked)

    def may_go_on(self, plan: PhysicalPlan) -> bool:
        """Whether all that keeps output back is tables that another holds, for a moment, and not
        too many rows wait for it."""
        if not self.only_tables_blocked(plan) or not all(
            isinstance(e, Busy) for e in self.blocked.values()
        ):
            return False
        kept = (k for name in self.blocked for k in self._buffered.get(name, ()))
        return sum(b.num_rows for k in kept for b in k.batches) < _WAITING_ROWS

    def sinks_without_space(self) -> dict[str, TryAgain]:
        """Sinks of the plan without space, for rows that a job brought included."""
        return {name.partition(_OF)[0]: error for name, error in list(self.blocked.items())}

    def open_pending(
        self, plan: PhysicalPlan, unsent: Iterable[PendingCommit]
    ) -> dict[str, RecoveredCommit]:
        """The sinks for rows that a job brings and that are not out. SqlError when one cannot be
        opened."""
        by_writer: dict[tuple[str, str], list[PendingCommit]] = {}
        for given in unsent:
            by_writer.setdefault((given.sink, given.writer), []).append(given)
        return {
            f"{n}{_OF}{w}": self._open_pending(plan.sinks[n].sink, w, rows)
            for (n, w), rows in by_writer.items()
        }

    def _open_pending(
        self, sink: logical.Sink, writer: str, unsent: list[PendingCommit]
    ) -> RecoveredCommit:
        assert sink.table is not None, "the result of a query goes to no other graph"
        return RecoveredCommit(
            open_sink(
                sink.table, replace(self._environment, writer=writer), overwrite=sink.overwrite
            ),
            unsent,
        )

    def add_pending(self, owed: Mapping[str, RecoveredCommit]) -> None:
        """Before anything else leaves, these rows do."""
        self._uncommitted = {**owed, **self._uncommitted}

    def write(self, name: str, batch: Batch) -> None:
        """Rows for a sink."""
        target = self.running.get(name)
        if target is None or name in self.refused:
            return
        if name not in self._buffered and not self._written(name, target, batch):
            return
        self._uncommitted[name] = target
        if name in self._sinks and self._sinks[name].sink.table is not None:
            self._batches.setdefault(name, []).append(batch)

    def _written(self, name: str, target: Sink, batch: Batch) -> bool:
        try:
            target.write(batch)
        except SqlError as error:
            self.refused[name] = error
        return name not in self.refused

    def handle_errors(self, errors: Output) -> None:
        """Rows in error become dead letters; those for which jobs fail are kept in `fatal`."""
        for port, letters in errors:
            if port == GIVE_UP_PORT:
                self.fatal.append(RowsGivenUp(letters))
                continue
            owners = letters.columns[0].to_pylist()
            fatal = np.array([self._fails_on_error(owner) for owner in owners])
            if fatal.any():
                self.fatal.append(RowsFailed(letters.take(np.flatnonzero(fatal))))
                letters = letters.take(np.flatnonzero(~fatal))
            self._progress.dead_letters += letters.num_rows
            self._progress.letters.update(
                owners if not fatal.any() else letters.columns[0].to_pylist()
            )
            if self._letters is not None and letters.num_rows:
                self._letters.write(letters)
                self._uncommitted[DEAD_LETTER_SINK] = self._letters

    def mark_replayed(self, replay: Replay, now_ms: int) -> None:
        """Writes down, with the epoch, which dead letters are done with."""
        if isinstance(self._letters, DeadLetterSink):
            self._letters.mark_replayed(replay, now_ms)
            self._uncommitted[DEAD_LETTER_SINK] = self._letters

    def commit(self, epoch: int, *, wait: bool = True) -> None:
        """Makes the epoch's output visible. A full disk stops here once all else is out, and the
        next step tries again. One who does not `wait` for busy sinks asks them now and then."""
        self.call_log.flush()
        full: TryAgain | None = None
        for name in [n for n in self._uncommitted if n not in self.refused]:
            if not wait and self._in_backoff(name):
                self._buffer(name, epoch)
                full = self.blocked[name]
                continue
            try:
                self._commit(name, epoch)
            except TryAgain as error:
                full = self.blocked[name] = error
                if isinstance(error, Busy):
                    self._last_tried[name] = self._environment.clock()
            except SqlError as error:
                if name == OUTGOING:  # it is nobody's table: no job fails for it
                    raise
                self.refused[name] = error
            else:
                if isinstance(self._uncommitted[name], RecoveredCommit):
                    self._uncommitted[name].close()
                self._forget(name)
        if full is not None:
            raise full

    def _commit(self, name: str, epoch: int) -> None:
        """Of one sink, the epochs before that it had no space for first, each as what it was: what
        is repeated after a crash is known by its epoch."""
        self._buffer(name, epoch)
        kept = self._buffered[name]
        while kept:
            self._progress.rows_out[name] += self._timed(name, kept[0].epoch)
            kept.popleft()
            for batch in kept[0].batches if kept else ():
                self._uncommitted[name].write(batch)

    def _buffer(self, name: str, epoch: int) -> None:
        if name not in self._buffered or name in self._batches:
            self._buffered.setdefault(name, deque()).append(
                BufferedEpoch(epoch, self._batches.pop(name, []))
            )

    def _in_backoff(self, name: str) -> bool:
        """Whether a busy sink was asked just now."""
        tried = self._last_tried.get(name)
        return (
            tried is not None
            and name in self.blocked
            and 0 <= self._environment.clock() - tried < _AGAIN_MS
        )

    def _timed(self, name: str, epoch: int) -> int:
        """The commit of one sink, which is remembered where it took its time."""
        began = perf_counter()
        try:
            return self._uncommitted[name].commit(epoch)
        finally:
            ended = perf_counter()
            if ended - began >= _SLOW_S:
                self._progress.commits.append(SlowCommit(name, ended, ended - began))

    def roll(self, *, end: bool = False) -> None:
        """Lets sinks show what is due; with `end` all, since nothing comes any more."""
        full: TryAgain | None = None
        for name in [n for n in self._rolling if n not in self.refused]:
            try:
                self._rolling[name].roll(end=end)
            except TryAgain as error:
                full = self.blocked[name] = error
            except SqlError as error:
                self.refused[name] = error
            else:
                self.blocked.pop(name, None)
        if full is not None:
            raise full

    def raise_failures(self, plan: PhysicalPlan) -> None:
        """Tells of jobs at fault, one at a time."""
        if self.fatal:
            raise self.fatal.pop(0)
        for name, error in self.refused.items():
            if name in plan.sinks:
                raise SinkFailed(plan.sinks[name], error)

    def publish_overwrites(self) -> None:
        """Replaces rows by what INSERT OVERWRITE has written: all statements have succeeded."""
        for sink in self.running.values():
            sink.publish_overwrite()

    def close(self) -> None:
        owed = (sink for sink in self._uncommitted.values() if isinstance(sink, RecoveredCommit))
        for sink in (*self.running.values(), *owed):
            sink.close()


def _is_rolling(table: Table | None) -> bool:
    """True if a table shows rows some time after their commit; a query's result has no table."""
    sink = capabilities_of(table).sink if table is not None else None
    return sink is not None and sink.rolling
