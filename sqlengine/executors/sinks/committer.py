"""Commits of the sinks of a graph: each for itself, so that one without space holds up no other."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

from parser.errors import SqlError, TryAgain
from planner.graph.distribution import OUTGOING
from sqlengine.connectors.base import Busy, RowsRefused, Sink
from sqlengine.executors.nondeterministic_calls import NondeterministicCallLog
from sqlengine.executors.progress import Progress, SlowCommit
from sqlengine.executors.sinks.last_epochs import display
from sqlengine.executors.sinks.opener import sink_name
from sqlengine.executors.sinks.pending_commits import RecoveredCommit
from sqlengine.executors.sinks.rejected_rows import refused_letters
from sqlengine.executors.sinks.row_errors import RowErrors
from sqlengine.executors.sinks.uncommitted import UncommittedOutput

# Shorter commits are not remembered.
_SLOW_S: Final = 0.05


class Committer:
    """Commits the `output` of one graph, in its thread.

    `rolling`: sinks that publish rows some time after their commit. `tell` hears what is being
    committed; commits are timed by `now` (s)."""

    def __init__(
        self,
        output: UncommittedOutput,
        errors: RowErrors,
        call_log: NondeterministicCallLog,
        progress: Progress,
    ) -> None:
        self.rolling: dict[str, Sink] = {}
        self.tell: Callable[[str], None] = lambda activity: None
        self.now: Callable[[], float] = monotonic
        self._output = output
        self._errors = errors
        self._call_log = call_log
        self._progress = progress

    def commit(self, epoch: int, *, wait: bool = True) -> None:
        """Makes the epoch's output visible.

        Raises TryAgain once all other sinks have committed, if one has no space; the next call
        tries that one again. Without `wait` a locked table is not tried each time, see
        `UncommittedOutput.in_backoff`. A sink that raises another SqlError is refused from then
        on."""
        # Before any sink: no output may be visible whose answers a crash could lose.
        self._call_log.flush()
        output = self._output
        full: TryAgain | None = None
        held: set[str] = set()
        for name in list(output.sinks):
            # Older output, which a job brought, comes before that of the sink itself.
            if name in output.refused or sink_name(name) in held:
                output.buffer(name, epoch)
            elif not wait and output.in_backoff(name):
                output.buffer(name, epoch)
                full = output.blocked[name]
            else:
                full = self._try_commit(name, epoch) or full
            if name != sink_name(name) and name in output.sinks:
                held.add(sink_name(name))
        if full is not None:
            raise full

    def _try_commit(self, name: str, epoch: int) -> TryAgain | None:
        """Commits a sink, or refuses it. Returns the error if it has no space."""
        output = self._output
        try:
            self._commit(name, epoch)
        except TryAgain as error:
            output.block(name, error)
            return error
        except SqlError as error:
            if name == OUTGOING:  # rows between subtasks are no job's table
                raise
            output.refused[name] = error
        else:
            sink = output.sinks[name]
            if isinstance(sink, RecoveredCommit):
                sink.close()
            output.discard(name)
        return None

    def _commit(self, name: str, epoch: int) -> None:
        """Commits buffered epochs of a sink one by one, oldest first, then the last one. Each keeps
        its number, by which the sink knows it if a crash repeats it."""
        buffered = self._output.buffer(name, epoch)
        while buffered:
            self._progress.rows_out[name] += self._timed_commit(name, buffered[0].epoch)
            # Only after the commit returned: TryAgain leaves the epoch in front, with its rows in
            # the sink.
            buffered.popleft()
            for batch in buffered[0].batches if buffered else ():
                self._output.sinks[name].write(batch)

    def _timed_commit(self, name: str, epoch: int) -> int:
        """Commits one epoch of a sink, and remembers if that was slow; returns its rows."""
        self.tell(f"commit to {display(name, self._output.plan)}")
        # Those of a commit before, if there was no space for them then.
        self._errors.handle_refused([], self._progress)
        sink, spent, start = self._output.sinks[name], self._progress.spent, self.now()
        cpu = spent.begin()
        try:
            return sink.commit(epoch)
        except RowsRefused:
            # Before the other rows, behind which a crash would lose them.
            self._take_refused(name, sink)
            return sink.commit(epoch)
        finally:
            end = self.now()
            spent.committed(name, cpu)
            if end - start >= _SLOW_S:
                self._progress.commits.append(SlowCommit(name, end, end - start))
            self._take_refused(name, sink)

    def _take_refused(self, name: str, sink: Sink) -> None:
        """Makes dead letters of rows that the system behind a sink has refused."""
        refused, table = sink.refused(), self._output.plan.get(sink_name(name))
        if refused and table is not None:
            self._errors.handle_refused(refused_letters(table, refused), self._progress)

    def roll(self, *, end: bool = False) -> None:
        """Lets rolling sinks publish files that are due; with `end` all, as no rows follow.
        TryAgain if one has no space, or with `end` is busy: else it publishes them later."""
        output = self._output
        full: TryAgain | None = None
        # Behind older output, which a job brought, nothing is published.
        held = {sink_name(name) for name in output.sinks if name != sink_name(name)}
        for name in [n for n in self.rolling if n not in output.refused and n not in held]:
            try:
                self.rolling[name].roll(end=end)
            except TryAgain as error:
                output.blocked[name] = error
                if end or not isinstance(error, Busy):
                    full = error
            except SqlError as error:
                output.refused[name] = error
            else:
                if name not in output.buffered:
                    output.blocked.pop(name, None)
        if full is not None:
            raise full
