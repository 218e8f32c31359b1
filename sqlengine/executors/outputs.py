"""The sinks of a graph: they take the output of an epoch and make it visible at its end."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import TypeVar

from parser.errors import SqlError, TryAgain
from planner.graph.chunked import Chunked
from planner.graph.distribution import OUTGOING
from planner.graph.physical import PhysicalPlan, PhysicalSink
from sqlengine.batch import Batch
from sqlengine.connectors.base import Busy, RowsRefused, Sink, Unanswered
from sqlengine.connectors.boundary.asking import AT_ONCE
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import capabilities_of
from sqlengine.executors.epochs import Replay
from sqlengine.executors.failures import SinkFailed, UnavailableSink
from sqlengine.executors.nondeterministic_calls import NondeterministicCallLog
from sqlengine.executors.progress import Progress, SlowCommit
from sqlengine.executors.sinks.last_epochs import LastEpochs, display, is_open
from sqlengine.executors.sinks.opener import SinkOpener, sink_name, with_sink_name, writer_name
from sqlengine.executors.sinks.pending_commits import PendingCommit, RecoveredCommit
from sqlengine.executors.sinks.rejected_rows import (
    SetAside,
    refused_letters,
    without_rejected,
    without_unwritable,
)
from sqlengine.executors.sinks.row_errors import RowErrors
from sqlengine.executors.wire import encode_batch
from sqlengine.operators.base import Output

# The sink of dead letters, beside those of the plan.
DEAD_LETTER_SINK = "_dead_letters"

# Shorter commits are not remembered.
_SLOW_S = 0.05
# The graph goes on while fewer rows than this wait for locked tables, and tries these tables again
# after this time.
_WAITING_ROWS = 100_000
_BACKOFF_MS = 500


T = TypeVar("T")
log = logging.getLogger("sqlengine")


@dataclass(frozen=True)
class BufferedEpoch:
    """The rows of one epoch for a sink that had no space."""

    epoch: int
    batches: list[Batch]


class Outputs:
    """The sinks of one graph, in its thread.

    `running`: open sinks by their ids in the plan. `refused`: errors of sinks, whose jobs fail once
    the epoch is complete; their rows are kept until the jobs leave with them. `asked`: which epochs
    they have. `blocked`: sinks without space, which take the epoch later, and perhaps those after
    it. `shuffle` takes rows to other subtasks, `result`
    those of statements that write to no table. `tell` hears what is being committed; commits are
    timed by `now` (s)."""

    def __init__(
        self,
        environment: Environment,
        errors: RowErrors,
        call_log: NondeterministicCallLog,
        result: Sink | None = None,
        shuffle: Sink | None = None,
    ) -> None:
        self.opener = SinkOpener(environment)
        self.errors = errors
        self.call_log = call_log
        self.progress = Progress()
        self.running: dict[str, Sink] = {} if shuffle is None else {OUTGOING: shuffle}
        self.refused: dict[str, SqlError] = {}
        self.asked = LastEpochs(self.running, self.refused)
        self.blocked: dict[str, TryAgain] = {}
        self.tell: Callable[[str], None] = lambda activity: None
        self.now: Callable[[], float] = monotonic
        self._clock = environment.clock
        self._result = result
        self._sinks: Chunked[PhysicalSink] = Chunked()
        self._rolling: dict[str, Sink] = {}
        # Sinks that have rows since their last commit, in the order in which they commit.
        self._uncommitted: dict[str, Sink] = {}
        # The last epoch's rows for each table: if it is blocked, they may leave with their job.
        self._batches: dict[str, list[Batch]] = {}
        # Epochs for which a sink had no space, oldest first. It holds the rows of the first.
        self._buffered: dict[str, deque[BufferedEpoch]] = {}
        self._last_tried: dict[str, int] = {}  # ms, of locked tables

    @property
    def shows_result(self) -> bool:
        """True for a script, which shows the rows of its queries."""
        return self._result is not None

    # ---- changes of the plan ---------------------------------------------------------------------

    def open(self, plan: PhysicalPlan) -> dict[str, Sink]:
        """Opens the sinks of the plan that are not open yet. SqlError where one cannot be; then all
        are closed."""
        with ExitStack() as opened:
            sinks = self._open(plan, opened)
            opened.pop_all()
        return sinks

    def _open(self, plan: PhysicalPlan, opened: ExitStack) -> dict[str, Sink]:
        sinks: dict[str, Sink] = {}
        new = (n for n in plan.sinks.difference(self._sinks) if n in plan.sinks)
        names = sorted(n for n in new if n not in self.running)
        for number, name in enumerate(names):
            if number % AT_ONCE == 0:
                some = names[number : number + AT_ONCE]
                self.opener.begin(plan.sinks[name].sink for name in some)
            sink = plan.sinks[name].sink
            if sink.table is not None:
                sinks[name] = self.opener.open(sink.table, sink.overwrite)
                opened.callback(sinks[name].close)
            elif self._result is not None:
                sinks[name] = self._result
        return sinks

    def switch(self, plan: PhysicalPlan, new: Mapping[str, Sink], *, moved: bool = False) -> None:
        """Switches to another plan: adds `new` sinks, closes those that the plan does not have.
        With `moved` jobs have left with the output that these have not taken."""
        self.running.update(new)
        self._rolling |= {name: sink for name, sink in new.items() if _is_rolling(plan, name, sink)}
        changed = (n for n in self._sinks.difference(plan.sinks) if n not in plan.sinks)
        gone = [name for name in changed if name in self.running]
        if not moved:
            self._readdress(plan)
        for name in gone:
            table = self._sinks[name].sink.table
            rows = self.progress.rows_out.pop(name, 0)
            self.progress.rows_gone[name if table is None else table.display] += rows
        self._sinks = self.asked.plan = plan.sinks
        self.asked.ask_later(name for name, sink in new.items() if not is_open(sink))
        for name in gone:
            self.running.pop(name).close()
            self.refused.pop(name, None)
            self.asked.unasked.pop(name, None)
            self._rolling.pop(name, None)
            self._discard(name)
        # What a job brought and its sink refused has left with the job again.
        for name in [n for n in self.refused if sink_name(n) not in plan.sinks]:
            del self.refused[name]
            if name in self._uncommitted:
                self._uncommitted[name].close()
            self._discard(name)

    def _readdress(self, plan: PhysicalPlan) -> None:
        """Gives output that a job brought to the sink of its new version that writes to the same
        table. Where there is none the output is lost if its sink refuses it."""
        tables = {
            sink.sink.table.name: name
            for name, sink in plan.sinks.items()
            if sink.sink.table is not None
        }
        for name, recovered in list(self._uncommitted.items()):
            old = self._sinks.get(sink_name(name))
            if not isinstance(recovered, RecoveredCommit) or sink_name(name) in plan.sinks:
                continue
            table = None if old is None else old.sink.table
            target = None if table is None else tables.get(table.name)
            if target is not None:
                self._rename(name, with_sink_name(name, target))
                recovered.redirect(partial(self.opener.reopened, plan.sinks[target].sink))
            elif name in self.refused:
                log.error(
                    "rows that table %s refused are lost: its job does not write to it any more",
                    None if table is None else table.display,
                )

    def _rename(self, old: str, new: str) -> None:
        self._uncommitted = {new if n == old else n: s for n, s in self._uncommitted.items()}
        _move_key(self._buffered, old, new)
        _move_key(self.refused, old, new)
        _move_key(self.blocked, old, new)
        _move_key(self._last_tried, old, new)

    def _discard(self, name: str) -> None:
        """Drops all output that a sink has not committed."""
        self._uncommitted.pop(name, None)
        self._batches.pop(name, None)
        self._buffered.pop(name, None)
        self._last_tried.pop(name, None)
        self.blocked.pop(name, None)

    def pending_commits(
        self, names: Iterable[str], writer: str, epoch: int
    ) -> tuple[PendingCommit, ...]:
        """The output that these blocked or refused sinks have not taken, oldest first; `epoch` is
        the last."""
        pending: list[PendingCommit] = []
        for name in names:
            recovered = self._uncommitted.get(name)
            if isinstance(recovered, RecoveredCommit):
                # Under the name of the sink that its job has now, see `_readdress`.
                pending += (replace(p, sink=sink_name(name)) for p in recovered.left())
                continue
            # A sink without buffered epochs has a file that is not published yet.
            for b in self._buffered.get(name, (BufferedEpoch(epoch, []),)):
                batches = tuple(map(encode_batch, b.batches))
                pending.append(PendingCommit(name, writer, b.epoch, batches))
        return tuple(pending)

    def add_pending(self, commits: Mapping[str, RecoveredCommit]) -> None:
        """Commits the output that a job brought before any other output of this graph."""
        # First in the order of commits: these epochs are older than any of this graph.
        self._uncommitted = {**commits, **self._uncommitted}

    def brought(self) -> list[tuple[str, str]]:
        """The output that jobs brought and that is not committed: its sink, and the graph that
        wrote it. Any thread."""
        names = [n for n, s in list(self._uncommitted.items()) if isinstance(s, RecoveredCommit)]
        return [(sink_name(name), writer_name(name)) for name in names]

    # ---- rows ------------------------------------------------------------------------------------

    def write(self, name: str, batch: Batch) -> None:
        """Adds rows to the epoch's output of a sink."""
        sink = self.running.get(name)
        if sink is None:
            return
        if name in self._sinks:
            batch = self._set_aside(name, batch, without_rejected)
        # A sink with buffered epochs holds the rows of the oldest one: newer rows wait in
        # `_batches`, as do those for a sink that has failed.
        if name not in self._buffered and name not in self.refused:
            batch = self._write_to(name, sink, batch)
        elif name in self._sinks:
            batch = self._set_aside(name, batch, without_unwritable)
        self._uncommitted[name] = sink
        if name in self._sinks and self._sinks[name].sink.table is not None:
            self._batches.setdefault(name, []).append(batch)

    def _write_to(self, name: str, sink: Sink, batch: Batch) -> Batch:
        """Hands rows to a sink, without those that are no records of its table where it refuses
        them; returns the rows that it gets, or will get."""
        try:
            sink.write(batch)
        except SqlError as error:
            kept = (
                self._set_aside(name, batch, without_unwritable) if name in self._sinks else batch
            )
            if kept.num_rows < batch.num_rows and not isinstance(sink, UnavailableSink):
                return self._write_to(name, sink, kept)
            self.refused.setdefault(name, error)
            return kept
        return batch

    def _set_aside(self, name: str, batch: Batch, without: SetAside) -> Batch:
        """Makes dead letters of rows that a table cannot take; returns the others. Where that
        cannot be told the sink is refused."""
        try:
            kept, letters = without(self._sinks[name], batch)
        except SqlError as error:
            self.refused.setdefault(name, error)
            return batch
        self.handle_errors(letters)
        return kept

    def handle_errors(self, errors: Output) -> None:
        """Writes rows in error to the dead letters, or keeps them as failures of their jobs."""
        if self.errors.handle(errors, self.progress) and self.errors.sink is not None:
            self._uncommitted[DEAD_LETTER_SINK] = self.errors.sink

    def mark_replayed(self, replay: Replay, now_ms: int) -> None:
        """Records, with the epoch, which dead letters have been replayed."""
        if self.errors.mark_replayed(replay, now_ms) and self.errors.sink is not None:
            self._uncommitted[DEAD_LETTER_SINK] = self.errors.sink

    def uncommitted_bytes(self, running: Collection[str]) -> Counter[str]:
        """The bytes of the epoch's output so far by job. Rows for a table of several jobs count for
        those whose operator is `running`."""
        used: Counter[str] = Counter()
        for name, batches in self._batches.items():
            jobs = self._sinks[name].jobs
            size = sum(column.nbytes for batch in batches for column in batch.columns)
            used.update(dict.fromkeys(jobs if len(jobs) == 1 else jobs & set(running), size))
        return used

    # ---- commits ---------------------------------------------------------------------------------

    def commit(self, epoch: int, *, wait: bool = True) -> None:
        """Makes the epoch's output visible.

        Raises TryAgain once all other sinks have committed, if one has no space; the next call
        tries that one again. Without `wait` a locked table is tried every `_BACKOFF_MS` only. A
        sink that raises another SqlError is refused from then on."""
        # Before any sink: no output may be visible whose answers a crash could lose.
        self.call_log.flush()
        full: TryAgain | None = None
        held: set[str] = set()
        for name in list(self._uncommitted):
            # Older output, which a job brought, comes before that of the sink itself.
            if name in self.refused or sink_name(name) in held:
                self._buffer(name, epoch)
            elif not wait and self._in_backoff(name):
                self._buffer(name, epoch)
                full = self.blocked[name]
            else:
                full = self._try_commit(name, epoch) or full
            if name != sink_name(name) and name in self._uncommitted:
                held.add(sink_name(name))
        if full is not None:
            raise full

    def _try_commit(self, name: str, epoch: int) -> TryAgain | None:
        """Commits a sink, or refuses it. Returns the error if it has no space."""
        try:
            self._commit(name, epoch)
        except TryAgain as error:
            self.blocked[name] = error
            if isinstance(error, Busy):
                self._last_tried[name] = self._clock()
            return error
        except SqlError as error:
            if name == OUTGOING:  # rows between subtasks are no job's table
                raise
            self.refused[name] = error
        else:
            if isinstance(self._uncommitted[name], RecoveredCommit):
                self._uncommitted[name].close()
            self._discard(name)
        return None

    def _commit(self, name: str, epoch: int) -> None:
        """Commits buffered epochs of a sink one by one, oldest first, then the last one. Each keeps
        its number, by which the sink knows it if a crash repeats it."""
        self._buffer(name, epoch)
        buffered = self._buffered[name]
        while buffered:
            self.progress.rows_out[name] += self._timed_commit(name, buffered[0].epoch)
            # Only after the commit returned: TryAgain leaves the epoch in front, with its rows in
            # the sink.
            buffered.popleft()
            for batch in buffered[0].batches if buffered else ():
                self._uncommitted[name].write(batch)

    def _buffer(self, name: str, epoch: int) -> None:
        # Once for each epoch: a repeated commit of the same epoch has no new batches.
        if name not in self._buffered or name in self._batches:
            batches = self._batches.pop(name, [])
            self._buffered.setdefault(name, deque()).append(BufferedEpoch(epoch, batches))

    def _in_backoff(self, name: str) -> bool:
        """True if a locked table was tried less than `_BACKOFF_MS` ago."""
        tried = self._last_tried.get(name)
        return (
            tried is not None and name in self.blocked and 0 <= self._clock() - tried < _BACKOFF_MS
        )

    def _timed_commit(self, name: str, epoch: int) -> int:
        """Commits one epoch of a sink, and remembers if that was slow; returns its rows."""
        self.tell(f"commit to {display(name, self._sinks)}")
        # Those of a commit before, if there was no space for them then.
        self.errors.handle_refused([], self.progress)
        start, spent = self.now(), self.progress.spent
        cpu = spent.begin()
        try:
            return self._uncommitted[name].commit(epoch)
        except RowsRefused:
            # Before the other rows, behind which a crash would lose them.
            self._take_refused(name)
            return self._uncommitted[name].commit(epoch)
        finally:
            end = self.now()
            spent.committed(name, cpu)
            if end - start >= _SLOW_S:
                self.progress.commits.append(SlowCommit(name, end, end - start))
            self._take_refused(name)

    def _take_refused(self, name: str) -> None:
        """Makes dead letters of rows that the system behind a sink has refused."""
        refused = self._uncommitted[name].refused()
        if refused and sink_name(name) in self._sinks:
            letters = refused_letters(self._sinks[sink_name(name)], refused)
            self.errors.handle_refused(letters, self.progress)

    def roll(self, *, end: bool = False) -> None:
        """Lets rolling sinks publish files that are due; with `end` all, as no rows follow.
        TryAgain if one has no space, or with `end` is busy: else it publishes them later."""
        full: TryAgain | None = None
        # Behind older output, which a job brought, nothing is published.
        held = {sink_name(name) for name in self._uncommitted if name != sink_name(name)}
        for name in [n for n in self._rolling if n not in self.refused and n not in held]:
            try:
                self._rolling[name].roll(end=end)
            except TryAgain as error:
                self.blocked[name] = error
                if end or not isinstance(error, Busy):
                    full = error
            except SqlError as error:
                self.refused[name] = error
            else:
                if name not in self._buffered:
                    self.blocked.pop(name, None)
        if full is not None:
            raise full

    def publish_overwrites(self) -> None:
        """Replaces the rows of tables by those of INSERT OVERWRITE: all statements succeeded."""
        for sink in self.running.values():
            sink.publish_overwrite()

    # ---- sinks without space, and failures -------------------------------------------------------

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
        buffered = (b for name in names for b in self._buffered.get(name, ()))
        return sum(batch.num_rows for b in buffered for batch in b.batches)

    @property
    def owes_rows(self) -> bool:
        """True if sinks have not taken all rows of the epochs so far."""
        return bool(self.blocked or self.refused)

    @property
    def owing(self) -> list[str]:
        """The sinks that have not taken all rows, with those that wait behind output that a job
        brought; in the order in which they commit."""
        names = dict.fromkeys((*self._uncommitted, *self.refused, *self.blocked))
        owes = self.refused.keys() | self.blocked.keys() | self._buffered.keys()
        return [name for name in names if name in owes]

    @property
    def overflows(self) -> bool:
        """True if so many rows wait for their jobs to leave that no more may be read."""
        return bool(self.refused) and self._rows_waiting(self.refused) >= _WAITING_ROWS

    def unanswered(self, jobs: Collection[str]) -> TryAgain | None:
        """Returns the error of a table that these jobs write to and that has not answered. Any
        thread."""
        plan = self._sinks
        mine = (
            e
            for n, e in self.sinks_without_space().items()
            if n in plan and plan[n].jobs & set(jobs)
        )
        return next((error for error in mine if isinstance(error, Unanswered)), None)

    def sinks_without_space(self) -> dict[str, TryAgain]:
        """Blocked sinks of the plan, also for output that a job brought. Any thread."""
        return {sink_name(name): error for name, error in list(self.blocked.items())}

    def raise_failures(self, plan: PhysicalPlan) -> None:
        """Raises JobsFailed for jobs at fault, one failure at a time."""
        if self.errors.fatal:
            raise self.errors.fatal.pop(0)
        for name, error in self.refused.items():
            if sink_name(name) in plan.sinks:
                raise SinkFailed(plan.sinks[sink_name(name)], error)

    def close(self) -> None:
        """Closes all sinks; what is not committed is lost."""
        sinks = self._uncommitted.values()
        recovered = (sink for sink in sinks if isinstance(sink, RecoveredCommit))
        for sink in (*self.running.values(), *recovered):
            sink.close()
        # At once: the error that ended the step refers to its graph, and the collector comes late.
        self._batches.clear()


def _move_key(by_name: dict[str, T], old: str, new: str) -> None:
    if old in by_name:
        by_name[new] = by_name.pop(old)


def _is_rolling(plan: PhysicalPlan, name: str, sink: Sink) -> bool:
    """True if a sink of the plan publishes rows some time after their commit. A query's result has
    no table and does not."""
    table = plan.sinks[name].sink.table
    if table is None or isinstance(sink, UnavailableSink):
        return False
    capabilities = capabilities_of(table).sink
    return capabilities is not None and capabilities.rolling
