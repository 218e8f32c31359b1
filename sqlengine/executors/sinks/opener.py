"""Opens the sinks of a graph, also where a table has no space or cannot be opened any more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from parser.errors import SqlError, TryAgain
from planner.catalog import Table
from planner.graph.physical import PhysicalPlan
from planner.logical import Sink as LogicalSink
from sqlengine.connectors.base import Sink
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import begin_opening_sink, open_sink
from sqlengine.executors.failures import UnavailableSink
from sqlengine.executors.sinks.pending_commits import PendingCommit, RecoveredCommit
from sqlengine.executors.sinks.waiting import WaitingSink

log = logging.getLogger("sqlengine")

# In the name of a recovered commit, between its sink and the graph that wrote the rows.
_OF = " of "


class SinkOpener:
    """Opens tables for writing as the writer of one graph. `patient`: nobody asks again for a table
    that takes long to open. `is_recovering`: see `recovering`."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.patient = False
        self.is_recovering = self._defers_opens = False

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """A sink that cannot be opened does not stop a recovery: its jobs fail after it."""
        self.is_recovering = True
        yield
        self.is_recovering = False

    @contextmanager
    def deferring_opens(self) -> Iterator[None]:
        """A sink without space to begin is opened later: its job has run already, elsewhere."""
        self._defers_opens = True
        yield
        self._defers_opens = False

    def begin(self, sinks: Iterable[LogicalSink]) -> None:
        """Begins to open tables beside each other, in a recovery, which waits for all of them."""
        for sink in sinks if self.is_recovering else ():
            if sink.table is not None:
                begin_opening_sink(sink.table, self._environment, overwrite=sink.overwrite)

    def open(self, table: Table, overwrite: bool) -> Sink:
        """Raises SqlError where the table cannot be opened, unless a recovery goes on without it,
        and TryAgain where it has no space, unless the sink may wait for some."""
        opener = partial(
            open_sink, table, self._environment, overwrite=overwrite, patient=self.patient
        )
        try:
            return opener()
        except TryAgain as error:
            if not self._defers_opens and not self.is_recovering:
                raise
            log.warning("table '%s' waits for space: %s", table.display, error)
            return WaitingSink(opener)
        except SqlError as error:
            if not self.is_recovering:
                raise
            return UnavailableSink(error)

    def open_pending(
        self, plan: PhysicalPlan, commits: Iterable[PendingCommit]
    ) -> dict[str, RecoveredCommit]:
        """Opens sinks for the output that a job brings from another graph, as the writer that it
        had there. SqlError where one cannot be opened or refuses the rows; then all are closed."""
        by_writer: dict[tuple[str, str], list[PendingCommit]] = {}
        for commit in commits:
            by_writer.setdefault((commit.sink, commit.writer), []).append(commit)
        with ExitStack() as opened:
            recovered = {
                f"{name}{_OF}{writer}": RecoveredCommit(sink, mine)
                for (name, writer), mine in by_writer.items()
                for sink in [self._open_as(plan.sinks[name].sink, writer, opened)]
            }
            opened.pop_all()
        return recovered

    def reopened(self, sink: LogicalSink, writer: str) -> Sink:
        """Returns a sink for what another could not take, of the same writer. It is opened when it
        is asked to take that, and refuses it if it cannot be."""
        return WaitingSink(self._opener(sink, writer))

    def _opener(self, sink: LogicalSink, writer: str) -> Callable[[], Sink]:
        assert sink.table is not None, "the result of a query goes to no other graph"
        # The sink knows epochs by their writer: under another name it would take repeated rows
        # twice.
        environment = replace(self._environment, writer=writer)
        return partial(open_sink, sink.table, environment, overwrite=sink.overwrite)

    def _open_as(self, sink: LogicalSink, writer: str, opened: ExitStack) -> Sink:
        """Opens a sink as another writer, to be closed with `opened`."""
        opener = self._opener(sink, writer)
        # One that cannot be opened refuses the rows then, and the job keeps them.
        found = WaitingSink(opener) if self.is_recovering else opener()
        opened.callback(found.close)
        return found


def sink_name(name: str) -> str:
    """The sink of the plan to which a sink writes, itself or as a recovered commit."""
    return name.partition(_OF)[0]


def writer_name(name: str) -> str:
    """The graph that wrote the rows of a recovered commit, which has this name."""
    return name.partition(_OF)[2]


def with_sink_name(name: str, sink: str) -> str:
    """The name of a recovered commit for another sink of the plan."""
    return f"{sink}{_OF}{name.partition(_OF)[2]}"
