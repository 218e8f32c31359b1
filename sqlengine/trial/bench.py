"""Runs rules over rows that are given: each event an epoch, the clock driven by the events."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from pathlib import Path

from planner.catalog import Identifier, Table
from planner.logical import Sink
from planner.logical.change_kinds import RowKind
from sqlengine.batch import Batch
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.memory.tables import Memory, MemoryTable
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.sinks.rows_set_aside import RowsSetAside
from sqlengine.session.runner import EmbeddedRunner
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


@dataclass(frozen=True)
class Portion:
    """Rows of one table that come together, at a processing time (ms)."""

    table: Table
    time: int
    rows: Batch


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
        tables = list({e.table.name: e.table for e in events}.values())
        return self.run_portions(sinks, settings, _portions(events), tables, until, emit)

    def run_portions(
        self,
        sinks: Sequence[Sink],
        settings: Mapping[str, str],
        portions: Iterator[Portion],
        tables: Sequence[Table],
        until: int | None = None,
        emit: Callable[[Batch], None] = _ignore,
    ) -> Result:
        """Runs plans over rows of some tables, as `run` does over events: an epoch for each
        portion, which is taken when the one before is done."""
        self.memory.tables.clear()
        first = list(islice(portions, 1))
        self.now[0] = min(BEGIN_MS, *(portion.time for portion in first)) if first else BEGIN_MS
        written = {s.table.name: s.table for s in sinks if s.table is not None}
        feed = _Feed(self, chain(first, portions), until, tables)
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
    """Gives a run its rows, portion by portion, and then their end."""

    def __init__(
        self,
        bench: Bench,
        portions: Iterator[Portion],
        until: int | None,
        tables: Sequence[Table],
    ) -> None:
        self._bench, self._until = bench, until
        self._portions = portions
        self._open = [bench.table(table) for table in tables]
        for table in self._open:
            table.open = True

    def proceed(self, rows: int) -> bool:
        """Adds the next rows. Called before each epoch."""
        portion = next(self._portions, None)
        if portion is None:
            self._end()
            return True
        self._bench.now[0] = max(self._bench.now[0], portion.time)
        self._bench.table(portion.table).append(portion.rows)
        return True

    def idle(self) -> None: ...

    def _end(self) -> None:
        if self._until is not None and self._bench.now[0] < self._until:
            self._bench.now[0] = self._until  # one more step, which sees this time
            return
        for table in self._open:
            table.open = False


def _portions(events: Sequence[Event]) -> Iterator[Portion]:
    most = 1 if len(events) <= _SINGLE else _PORTION
    for _, run in groupby(events, lambda e: e.table.name):
        found = list(run)
        for start in range(0, len(found), most):
            part = found[start : start + most]
            yield Portion(part[0].table, part[0].time, batch_of(part))
