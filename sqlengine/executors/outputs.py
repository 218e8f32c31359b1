"""The sinks of a graph: they are opened with its plan, and take the rows of its epochs.

What they have not committed is in `sinks/uncommitted.py`, its commit in `sinks/committer.py`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Final

from parser.errors import SqlError
from planner.catalog import Table
from planner.graph.chunked import Chunked
from planner.graph.distribution import OUTGOING
from planner.graph.physical import PhysicalPlan, PhysicalSink
from sqlengine.batch import Batch
from sqlengine.connectors.base import Sink
from sqlengine.connectors.boundary.asking import AT_ONCE
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import capabilities_of
from sqlengine.executors.epochs import Replay
from sqlengine.executors.failures import SinkFailed, UnavailableSink
from sqlengine.executors.nondeterministic_calls import NondeterministicCallLog
from sqlengine.executors.progress import Progress
from sqlengine.executors.sinks.committer import Committer
from sqlengine.executors.sinks.last_epochs import LastEpochs, is_open
from sqlengine.executors.sinks.opener import SinkOpener, sink_name, with_sink_name
from sqlengine.executors.sinks.pending_commits import RecoveredCommit
from sqlengine.executors.sinks.rejected_rows import SetAside, without_rejected, without_unwritable
from sqlengine.executors.sinks.row_errors import RowErrors
from sqlengine.executors.sinks.uncommitted import UncommittedOutput
from sqlengine.operators.base import Output

# The sink of dead letters, beside those of the plan.
DEAD_LETTER_SINK: Final = "_dead_letters"

log = logging.getLogger("sqlengine")


class Outputs:
    """The sinks of one graph, in its thread.

    `running`: open sinks by their ids in the plan. `uncommitted`: their output that is not
    committed yet; `committer` commits it. `asked`: which epochs they have. `shuffle` takes rows to
    other subtasks, `result` those of statements that write to no table."""

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
        self.uncommitted = UncommittedOutput(environment.clock)
        self.committer = Committer(self.uncommitted, errors, call_log, self.progress)
        self.asked = LastEpochs(self.running, self.uncommitted.refused)
        self._result = result
        self._sinks: Chunked[PhysicalSink] = Chunked()

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
        self.committer.rolling |= {n: sink for n, sink in new.items() if _is_rolling(plan, n, sink)}
        changed = (n for n in self._sinks.difference(plan.sinks) if n not in plan.sinks)
        gone = [name for name in changed if name in self.running]
        if not moved:
            self._readdress(plan)
        before = self._sinks
        self._sinks = self.asked.plan = self.uncommitted.plan = plan.sinks
        self.asked.ask_later(name for name, sink in new.items() if not is_open(sink))
        for name in gone:
            self._close_sink(name, before[name].sink.table)
        # What a job brought and its sink refused has left with the job again.
        for name in [n for n in self.uncommitted.refused if sink_name(n) not in plan.sinks]:
            del self.uncommitted.refused[name]
            if name in self.uncommitted.sinks:
                self.uncommitted.sinks[name].close()
            self.uncommitted.discard(name)

    def _close_sink(self, name: str, table: Table | None) -> None:
        """Closes a sink that the plan does not have any more."""
        rows = self.progress.rows_out.pop(name, 0)
        self.progress.rows_gone[name if table is None else table.display] += rows
        self.running.pop(name).close()
        self.asked.unasked.pop(name, None)
        self.committer.rolling.pop(name, None)
        self.uncommitted.refused.pop(name, None)
        self.uncommitted.discard(name)

    def _readdress(self, plan: PhysicalPlan) -> None:
        """Gives output that a job brought to the sink of its new version that writes to the same
        table. Where there is none the output is lost if its sink refuses it."""
        tables = {
            sink.sink.table.name: name
            for name, sink in plan.sinks.items()
            if sink.sink.table is not None
        }
        for name, recovered in list(self.uncommitted.sinks.items()):
            old = self._sinks.get(sink_name(name))
            if not isinstance(recovered, RecoveredCommit) or sink_name(name) in plan.sinks:
                continue
            table = None if old is None else old.sink.table
            target = None if table is None else tables.get(table.name)
            if target is not None:
                self.uncommitted.rename(name, with_sink_name(name, target))
                recovered.redirect(partial(self.opener.reopened, plan.sinks[target].sink))
            elif name in self.uncommitted.refused:
                log.error(
                    "rows that table %s refused are lost: its job does not write to it any more",
                    None if table is None else table.display,
                )

    # ---- rows ------------------------------------------------------------------------------------

    def write(self, name: str, batch: Batch) -> None:
        """Adds rows to the epoch's output of a sink."""
        sink = self.running.get(name)
        if sink is None:
            return
        if name in self._sinks:
            batch = self._set_aside(name, batch, without_rejected)
        if not self.uncommitted.waits(name):
            batch = self._write_to(name, sink, batch)
        elif name in self._sinks:
            batch = self._set_aside(name, batch, without_unwritable)
        is_table = name in self._sinks and self._sinks[name].sink.table is not None
        self.uncommitted.add(name, sink, batch if is_table else None)

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
            self.uncommitted.refused.setdefault(name, error)
            return kept
        return batch

    def _set_aside(self, name: str, batch: Batch, without: SetAside) -> Batch:
        """Makes dead letters of rows that a table cannot take; returns the others. Where that
        cannot be told the sink is refused."""
        try:
            kept, letters = without(self._sinks[name], batch)
        except SqlError as error:
            self.uncommitted.refused.setdefault(name, error)
            return batch
        self.handle_errors(letters)
        return kept

    def handle_errors(self, errors: Output) -> None:
        """Writes rows in error to the dead letters, or keeps them as failures of their jobs."""
        if self.errors.handle(errors, self.progress) and self.errors.sink is not None:
            self.uncommitted.add(DEAD_LETTER_SINK, self.errors.sink)

    def mark_replayed(self, replay: Replay, now_ms: int) -> None:
        """Records, with the epoch, which dead letters have been replayed."""
        if self.errors.mark_replayed(replay, now_ms) and self.errors.sink is not None:
            self.uncommitted.add(DEAD_LETTER_SINK, self.errors.sink)

    # ---- the end ---------------------------------------------------------------------------------

    def publish_overwrites(self) -> None:
        """Replaces the rows of tables by those of INSERT OVERWRITE: all statements succeeded."""
        for sink in self.running.values():
            sink.publish_overwrite()

    def raise_failures(self, plan: PhysicalPlan) -> None:
        """Raises JobsFailed for jobs at fault, one failure at a time."""
        if self.errors.fatal:
            raise self.errors.fatal.pop(0)
        for name, error in self.uncommitted.refused.items():
            if sink_name(name) in plan.sinks:
                raise SinkFailed(plan.sinks[sink_name(name)], error)

    def close(self) -> None:
        """Closes all sinks; what is not committed is lost."""
        for sink in self.running.values():
            sink.close()
        self.uncommitted.close()


def _is_rolling(plan: PhysicalPlan, name: str, sink: Sink) -> bool:
    """True if a sink of the plan publishes rows some time after their commit. A query's result has
    no table and does not."""
    table = plan.sinks[name].sink.table
    if table is None or isinstance(sink, UnavailableSink):
        return False
    capabilities = capabilities_of(table).sink
    return capabilities is not None and capabilities.rolling
