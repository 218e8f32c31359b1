"""Runs rules over rows that are given: each event an epoch, the clock driven by the events."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from planner.catalog import Identifier, Table
from planner.logical import Sink
from planner.logical.change_kinds import RowKind
from sqlengine.batch import Batch
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.memory.tables import Memory, MemoryTable
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.sinks.rows_set_aside import RowsSetAside
from sqlengine.session.session import EmbeddedRunner
from sqlengine.trial.events import BEGIN_MS, Event, Row, batch_of, rows_of

# Up to so many events are an epoch each, so that the clock is right for all of them; of more, as of
# a file, so many of one table are one.
_SINGLE, _PORTION = 200, 1000


@dataclass(frozen=True)
class Result:
    """The result of a run: the changes that each table got, in order, and the number of rows in
    error, with the fault of the first."""

    changes: Mapping[Identifier, Sequence[tuple[RowKind, Row]]]
    errors: int
    first_error: str


def _ignore(batch: Batch) -> None: ...


@dataclass
class Bench:
    """A place where rules run. For one thread; made by `open_bench`."""

    environment: Environment
    memory: Memory
    factory: OperatorFactory
    now: list[int] = field(default_factory=lambda: [BEGIN_MS])

    def run(
        self,
        sinks: Sequence[Sink],
        settings: Mapping[str, str],
        events: Sequence[Event],
        until: int | None = None,
        emit: Callable[[Batch], None] = _ignore,
    ) -> Result:
        """Runs plans over events from their beginning to their end, at the latest at the processing
        time `until` (ms). `emit` takes the rows of a plan that writes no table. SqlError for what
        fails a job, or cannot be run."""
        self.memory.tables.clear()
        self.now[0] = BEGIN_MS
        written = {s.table.name: s.table for s in sinks if s.table is not None}
        feed = _Feed(self, events, until, [t for t in _read(events) if t not in written])
        aside = RowsSetAside()
        runner = EmbeddedRunner(
            self.environment,
            self.factory,
            _PORTION,
            idle=feed.idle,
            proceed=feed.proceed,
            dead_letters=aside,
        )
        runner.run(sinks, {"job.on-error": "dead-letter", **settings}, emit)
        changes = {name: self._rows(table) for name, table in written.items()}
        return Result(changes, aside.rows, aside.first)

    def table(self, table: Table) -> MemoryTable:
        """Returns the rows in memory of a table that stands in for one of a rule."""
        return self.memory.table(table.options["name"])

    def _rows(self, table: Table) -> list[tuple[RowKind, Row]]:
        rows = self.table(table).rows
        return [] if rows is None else rows_of(rows)


@contextmanager
def open_bench() -> Iterator[Bench]:
    """Opens a place for rules to run; what they keep on disk goes with it."""
    with tempfile.TemporaryDirectory(prefix="sqlengine-") as folder:
        now, memory = [BEGIN_MS], Memory()
        dimensions = Path(folder)
        environment = Environment(
            None, lambda: now[0], "trial", memory=memory, dimensions=dimensions
        )
        yield Bench(environment, memory, OperatorFactory(dimensions=dimensions), now)


class _Feed:
    """Gives a run its events, portion by portion, and then their end."""

    def __init__(
        self, bench: Bench, events: Sequence[Event], until: int | None, tables: Sequence[Identifier]
    ) -> None:
        self._bench, self._until = bench, until
        self._portions = _portions(events)
        self._open = [bench.table(e.table) for e in events]
        for table in self._open:
            table.open = True

    def proceed(self, rows: int) -> bool:
        """Adds the next events. Called before each epoch."""
        portion = next(self._portions, None)
        if portion is None:
            self._end()
            return True
        self._bench.now[0] = max(self._bench.now[0], portion[0].time)
        self._bench.table(portion[0].table).append(batch_of(portion))
        return True

    def idle(self) -> None: ...

    def _end(self) -> None:
        if self._until is not None and self._bench.now[0] < self._until:
            self._bench.now[0] = self._until  # one more step, which sees this time
            return
        for table in self._open:
            table.open = False


def _portions(events: Sequence[Event]) -> Iterator[list[Event]]:
    most = 1 if len(events) <= _SINGLE else _PORTION
    for _, run in groupby(events, lambda e: e.table.name):
        found = list(run)
        for start in range(0, len(found), most):
            yield found[start : start + most]


def _read(events: Sequence[Event]) -> list[Identifier]:
    return list(dict.fromkeys(e.table.name for e in events))
