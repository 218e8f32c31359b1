"""The events behind an alert, found by replay: those without which a rule would not give an equal
one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from parser.errors import JobError
from planner.logical import Sink
from sqlengine.batch import IntArray
from sqlengine.broker.base import Broker
from sqlengine.system.words import count, listed
from sqlengine.trial.epochs_read import EpochsRead, Origin, epochs_read, source_of
from sqlengine.trial.events import Row, rows_of, text_of
from sqlengine.trial.minimal import minimal
from sqlengine.trial.recorded import (
    History,
    Place,
    Recorded,
    TableRecords,
    in_order,
    joined,
)
from sqlengine.trial.reproducing import Reproduction, chance_in
from sqlengine.trial.rules import TrialRule, read_by

# What is read of each shard first, back from where the rule had read; each time more by this
# factor.
_FIRST_ROWS: Final = 1000
_FACTOR: Final = 4
# For so long before an alert the log is looked at for how far its graph had read.
_BEFORE_MS: Final = 10_000


@dataclass(frozen=True)
class Limits:
    """The limits of a search: how many records it reads, and for how long it goes on (s). `tell` is
    called with what it does."""

    records: int = 1_000_000
    seconds: float = 60.0
    tell: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class LineageEvent:
    """An event behind an alert: a record of a table's topic, when it came (ms), and its row."""

    table: str
    place: Place
    time: int
    row: Row


@dataclass(frozen=True)
class Lineage:
    """The events behind an alert, in the order in which the rule read them.

    `minimal`: without any of them the rule would not give the alert; else the search has stopped
    before that was sure. `read`: how many records it has read; `notes`: what else there is to
    know."""

    rule: str
    alert: Row
    events: tuple[LineageEvent, ...]
    minimal: bool
    read: int
    notes: tuple[str, ...] = ()


@dataclass
class _Reach:
    """A shard of a table that was read back to `low`: the records [low, end), of which the job can
    have read those from `begin` on; `first`: the first that is there."""

    table: int
    shard: int
    begin: int
    first: int
    end: int
    low: int = field(init=False)

    def __post_init__(self) -> None:
        self.low = self.end

    @property
    def complete(self) -> bool:
        return self.low <= self.begin


class Search:
    """The search for the events behind an alert that a rule has written, see `Reproduction`.

    `since`: since when the job has run (ms), None where nobody knows it."""

    def __init__(
        self,
        broker: Broker,
        made: Reproduction,
        origin: Origin,
        since: int | None,
        limits: Limits,
    ) -> None:
        self._broker, self._made, self._origin, self._limits = broker, made, origin, limits
        self._deadline = time.monotonic() + limits.seconds
        rule = made.rule
        self._tables = tables_of(rule, made.sink, broker)
        streams = {t.name for t in rule.streams}
        self._is_first = [t.is_kept_whole or t.table.name not in streams for t in self._tables]
        self._parts: list[list[Recorded]] = [[] for _ in self._tables]
        self._reaches: list[_Reach] = []
        self._since = since
        self._read = 0
        self._epochs = EpochsRead()

    def run(self) -> Lineage:
        """Returns the events. JobError where the alert does not come again."""
        self._epochs = epochs_read(self._broker, self._origin, self._origin.time - _BEFORE_MS)
        self._reaches = self._shards()
        given = self._widened()
        # What came behind the event of which the alert came is not behind it.
        before = given.take(np.arange(self._made.cause_in(given)))
        given = before if self._made.suffices(before) else given
        chosen, sure = minimal(len(given), partial(self._suffices, given), self._goes_on)
        return self._lineage(given.take(chosen), sure)

    def _widened(self) -> History:
        """Reads back until the rule gives the alert again; returns what was read."""
        rows, known = _FIRST_ROWS, -1
        while True:
            self._widen(rows)
            found = sum(len(part) for parts in self._parts for part in parts)
            if found > known:
                self._limits.tell(f"replaying {count(found, 'event')} of {self._read:,}")
                given = self._reproduced()
                if given is not None:
                    return given
            if all(reach.complete for reach in self._reaches) or self._is_over():
                raise self._not_reproduced(found)
            known = found
            rows *= _FACTOR

    def _reproduced(self) -> History | None:
        """Returns what was read in an order in which it gives the alert: tables in which the rule
        looks rows up come first, or as they came; rows of several shards as they came, or by their
        event times. None where it does not give it."""
        attempts = [(True, False)]
        if any(self._is_first):
            attempts.append((False, False))
        if any(table.has_watermarks for table in self._tables):
            attempts.append((True, True))
        for first, even in attempts:
            given = self._history(first=first, even=even)
            made = self._made.found_in(given)
            if made is not None:
                self._made = made
                return given
        return None

    def _suffices(self, given: History, chosen: IntArray) -> bool:
        return self._made.suffices(given.take(chosen))

    def _goes_on(self, left: int) -> bool:
        self._limits.tell(f"{count(left, 'event')} left")
        return time.monotonic() < self._deadline

    def _is_over(self) -> bool:
        return self._read >= self._limits.records or time.monotonic() >= self._deadline

    # ---- reading ---------------------------------------------------------------------------------

    def _shards(self) -> list[_Reach]:
        found = []
        for number, table in enumerate(self._tables):
            ends = self._epochs.ends(source_of(table.written))
            for shard in table.shards:
                end = table.end(shard, self._origin.time)
                end = min(ends.get(shard, end), table.end(shard))
                since = None if self._is_first[number] else self._since
                begin = min(table.begin(shard, since), end)
                found.append(_Reach(number, shard, begin, table.first(shard), end))
        return found

    def _widen(self, rows: int) -> None:
        """Reads more of each shard, further back; all of tables that are there first."""
        for reach in self._reaches:
            if reach.complete or (self._read >= self._limits.records):
                continue
            whole = self._is_first[reach.table]
            low = reach.begin if whole else max(reach.begin, reach.end - rows)
            low = max(low, reach.low - (self._limits.records - self._read))
            table = self._tables[reach.table]
            self._limits.tell(f"reading {table.topic} from {low:,} on")
            condition = self._made.wanted.get(table.table.name)
            found = table.rows(reach.shard, low, reach.low, condition)
            self._read += reach.low - low
            self._parts[reach.table].insert(0, found)
            reach.low = low

    def _history(self, *, first: bool, even: bool) -> History:
        """Returns the rows that were read, as the rule has read them. `first`: those of tables in
        which it looks rows up before all others; `even`: by their event times."""
        read = [joined(parts) for parts in self._parts if parts]
        times = [int(rows.times.min()) for rows in read if len(rows)]
        if times and self._origin.graph:
            self._epochs = epochs_read(self._broker, self._origin, min(times))
        numbers = [number for number, parts in enumerate(self._parts) if parts]
        timed = [
            self._epochs.timed(source_of(self._tables[number].written), rows)
            for number, rows in zip(numbers, read, strict=True)
        ]
        timed = [rows.by_event_time() for rows in timed] if even else timed
        early = [first and self._is_first[number] for number in numbers]
        return in_order(
            [rows for rows, comes_first in zip(timed, early, strict=True) if comes_first],
            [rows for rows, comes_first in zip(timed, early, strict=True) if not comes_first],
        )

    # ---- results ---------------------------------------------------------------------------------

    def _lineage(self, given: History, sure: bool) -> Lineage:
        times = given.times.tolist()
        events = tuple(
            LineageEvent(
                given.records[given.tables[at]].table.display,
                given.place(at),
                times[at],
                event_row(given, at),
            )
            for at in range(len(given))
        )
        ((_, alert),) = rows_of(self._made.row)
        notes = []
        if not sure:
            stopped = f"the search stopped after {self._limits.seconds:g} s"
            notes.append(f"{stopped}: some of these events may not be needed (--seconds)")
        if self._made.volatile:
            names = listed(self._made.volatile)
            notes.append(f"not compared: {names}, which has another value each time")
        if not events:
            notes.append("the rule gives this row without any event")
        return Lineage(self._made.rule.name, alert, events, sure, self._read, tuple(notes))

    def _not_reproduced(self, candidates: int) -> JobError:
        """The error for an alert that does not come again, with all that may be the reason."""
        reasons = [*self._gone(), *self._changed()]
        chance = chance_in(self._made.sink)
        if chance:
            reasons.append(f"{listed(chance)} gives another value each time")
        if self._read >= self._limits.records:
            reasons.append(f"only {self._read:,} records were read (--limit)")
        elif time.monotonic() >= self._deadline:
            reasons.append(f"it stopped after {self._limits.seconds:g} s (--seconds)")
        detail = f"{count(candidates, 'event')} of {self._read:,} that were read may be behind it"
        return JobError(
            f"rule '{self._made.rule.name}' does not give this alert again",
            detail="; ".join([detail, *reasons]),
            hint=None if reasons else "is the text of the rule the one that has written it?",
        )

    def _gone(self) -> list[str]:
        """Says of which tables retention has taken records that the rule has read."""
        return [
            f"the records of '{self._tables[r.table].topic}' before offset {r.first} are gone"
            for r in self._reaches
            if r.complete and r.first > 0 and r.begin <= r.first
        ]

    def _changed(self) -> list[str]:
        """Says which tables have changed since, of those that keep the last row of a key."""
        found = []
        for reach in self._reaches:
            table = self._tables[reach.table]
            since = table.end(reach.shard) - reach.end
            if self._is_first[reach.table] and since:
                found.append(
                    f"table '{table.table.display}' has changed since {text_of(self._origin.time)}"
                )
        return list(dict.fromkeys(found))


def event_row(given: History, at: int) -> Row:
    """Returns the row of an event as JSON has it."""
    recorded = given.records[given.tables[at]]
    ((_, row),) = rows_of(recorded.rows.take(given.rows[at : at + 1]))
    return row


def tables_of(rule: TrialRule, sink: Sink, broker: Broker) -> list[TableRecords]:
    """Opens the records of the tables that an INSERT of a rule reads. ServiceError for one whose
    records are in no topic."""
    return [TableRecords(t, rule.catalog.table_of(t), broker) for t in read_by([sink])]
