"""The past of a rule: the rows that it had read when an event came, and what that has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.logical import LogicalPlan, Sink
from planner.logical.change_kinds import RowKind
from planner.scalar import Scalar
from planner.tables import Identifier
from sqlengine.batch import Batch
from sqlengine.broker.base import Broker
from sqlengine.trial.bench import Bench
from sqlengine.trial.events import Row, rows_of, text_of
from sqlengine.trial.recorded import History, Place, Recorded, TableRecords, in_order
from sqlengine.trial.reproducing import COMES, depends_on_clock, row_by_row
from sqlengine.trial.rules import TrialRule
from sqlengine.trial.watermarks import event_times


@dataclass(frozen=True)
class Change:
    """A row that an operation gives: its kind, and its values as JSON has them; it is the one
    number `at` of a batch."""

    kind: RowKind
    row: Row
    batch: Batch
    at: int

    @property
    def alone(self) -> Batch:
        """The row in a batch of its own."""
        return self.batch.take(np.array([self.at]))

    @property
    def pair(self) -> tuple[RowKind, Row]:
        """Its kind and its values."""
        return self.kind, self.row


@dataclass(frozen=True)
class Difference:
    """Rows that an operation gives because of an event, and those that it would give without it, or
    takes back because of it."""

    rows: tuple[Change, ...]
    instead_of: tuple[Change, ...]


class Past:
    """The records that a rule can have read up to an event, which is a record of one of its tables.

    `since`: since when the job has run (ms), None where nobody knows it; `limit`: how many records
    of each shard are read, the last ones."""

    def __init__(
        self,
        bench: Bench,
        rule: TrialRule,
        broker: Broker,
        event: tuple[Place, int],
        since: int | None,
        limit: int,
    ) -> None:
        self._bench, self._rule, self._since, self._limit = bench, rule, since, limit
        self.place, self._time = event
        self._tables = [TableRecords(t, rule.catalog.table_of(t), broker) for t in rule.reads]
        self._streams = {t.name for t in rule.streams}
        self.cut: dict[str, int] = {}

    @property
    def has_event(self) -> bool:
        """True if the event is of a table of the rule."""
        return len(self.event_alone) > 0

    def rows(self, wanted: Mapping[Identifier, Scalar | None]) -> History:
        """Returns the rows that fulfil the conditions for their tables; none of tables without an
        entry."""
        first: list[Recorded] = []
        then: list[Recorded] = []
        for table in self._tables:
            if table.table.name not in wanted:
                continue
            whole = table.is_kept_whole or table.table.name not in self._streams
            for shard in table.shards:
                found = self._read(table, shard, wanted[table.table.name], whole=whole)
                found = found.by_event_time() if table.has_watermarks else found
                (first if whole else then).append(found)
        return in_order(first, then)

    def _read(
        self, table: TableRecords, shard: int, condition: Scalar | None, *, whole: bool
    ) -> Recorded:
        mine = (table.topic, shard) == (self.place.topic, self.place.shard)
        end = self.place.offset + 1 if mine else table.end(shard, self._time)
        begin = min(table.begin(shard, None if whole else self._since), end)
        low = begin if whole else max(begin, end - self._limit)
        if low > begin or (low and low == table.first(shard)):
            self.cut[f"{table.topic}:{shard}" if shard else table.topic] = low
        return table.rows(shard, low, end, condition)

    def difference(self, plan: LogicalPlan, history: History) -> Difference:
        """Returns what a plan gives with the event and does not without it, at the end of the given
        rows, and the other way round."""
        event = self._events(history)
        others = np.setdiff1d(np.arange(len(history)), event)
        having = self._changes(plan, history)
        lacking = self._changes(plan, history.take(others)) if len(others) else []
        more, less = _without(having, lacking), _without(lacking, having)
        rows = [change for change in more if change.kind in COMES]
        gone = [change for change in more if change.kind not in COMES]
        instead = [change for change in less if change.kind in COMES]
        return Difference(tuple(rows), (*gone, *instead))

    def changes(self, plan: LogicalPlan, history: History) -> list[Change]:
        """Returns all that a plan gives for rows."""
        return self._changes(plan, history)

    def ahead(self, history: History) -> str | None:
        """Returns the latest event time that a row of the event's shard had before it, if the event
        is behind that: such a row may have made it late."""
        for at in self._events(history):
            recorded = history.records[int(history.tables[at])]
            times = event_times(recorded.table, recorded.rows)
            row = int(history.rows[at])
            earlier = (recorded.shards == self.place.shard) & (recorded.offsets < self.place.offset)
            if times is not None and earlier.any() and times[earlier].max() > times[row]:
                return text_of(int(times[earlier].max()))
        return None

    def _events(self, history: History) -> list[int]:
        return [at for at in range(len(history)) if history.place(at) == self.place]

    def _changes(self, plan: LogicalPlan, history: History) -> list[Change]:
        found: list[Change] = []

        def take(batch: Batch) -> None:
            pairs = enumerate(rows_of(batch))
            found.extend(Change(kind, row, batch, at) for at, (kind, row) in pairs)

        sink = Sink(row_by_row(plan), None, self._rule.name)
        portions = history.portions(timed=depends_on_clock(sink))
        tables = [r.table for r in history.records]
        self._bench.run_portions([sink], self._rule.settings, portions, tables, self._time, take)
        return found

    @cached_property
    def event_alone(self) -> History:
        """The event, and nothing else."""
        for table in self._tables:
            if table.topic == self.place.topic:
                at = self.place.offset
                return in_order([], [table.rows(self.place.shard, at, at + 1)])
        return in_order([], [])

    def notes(self) -> list[str]:
        """Says which records were not looked at."""
        when = text_of(self._time)
        return [
            f"state as of {when}, of the records of '{topic}' from offset {low:,} on"
            for topic, low in self.cut.items()
        ]


def _without(some: Sequence[Change], others: Sequence[Change]) -> tuple[Change, ...]:
    """The changes that are not among others as often."""
    left = Counter(repr(change.pair) for change in others)
    found = []
    for change in some:
        if left[repr(change.pair)]:
            left[repr(change.pair)] -= 1
        else:
            found.append(change)
    return tuple(found)
