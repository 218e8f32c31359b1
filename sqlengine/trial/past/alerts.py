"""The alerts of rules over the past: counted as they come, and written where that is asked for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Schema
from planner.logical.change_kinds import RowKind
from sqlengine.batch import Batch, IntArray
from sqlengine.connectors.memory.tables import MemoryTable
from sqlengine.trial.events import Row, rows_of
from sqlengine.trial.past.period import DAY_MS
from sqlengine.trial.past.tables import TIME

# Of one column so many values are counted at most; beyond it the rarer half is forgotten.
_MOST_VALUES: Final = 100_000
Days: TypeAlias = dict[int | None, int]


@dataclass
class Tally:
    """The number of alerts of a rule: by `days` since 1970 in UTC (None: those without a time), and
    by the values of columns (`top`), of which rare ones may be missing where there are very
    many."""

    days: Days = field(default_factory=dict)
    top: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.days.values())

    def note_value(self, column: str, value: str, number: int) -> None:
        """Counts a value of a column so many times."""
        counted = self.top.setdefault(column, Counter())
        counted[value] += number
        if len(counted) > _MOST_VALUES:
            self.top[column] = Counter(dict(counted.most_common(_MOST_VALUES // 2)))


class Takes(Protocol):
    """Takes rows of a table as they come, each written by one of `jobs`."""

    def __call__(self, table: str, jobs: Sequence[str], of: IntArray, rows: Batch) -> None:
        """`of`: the job of each row, by its place in `jobs`."""


@dataclass
class AlertTable(MemoryTable):
    """A table that hands its rows on, with its own name and the jobs that wrote them, and keeps
    none. `jobs`: all that write to it; `take`: None where nobody listens."""

    display: str = ""
    jobs: set[str] = field(default_factory=set)
    take: Takes | None = None

    def append(self, rows: Batch) -> None:
        """See `MemoryTable`."""
        if self.take is None:
            return
        if rows.writers is None:  # there is one that writes here
            self.take(self.display, tuple(self.jobs), np.zeros(rows.num_rows, np.int64), rows)
        else:
            self.take(self.display, rows.writers.jobs, rows.writers.of, rows)


@dataclass
class Counting:
    """Counts the alerts of jobs. `columns`: those whose values are counted; `tallies`: by job."""

    columns: Sequence[str] = ()
    tallies: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))

    def take(self, jobs: Sequence[str], of: IntArray, rows: Batch, now: int | None) -> None:
        """Counts rows, see `Takes`. Their times are in the column `TIME`, or `now` (ms)."""
        signs = signs_of(rows)
        for job, day, number in _sums(of, days_of(rows, now), signs):
            days = self.tallies[jobs[job]].days
            days[day] = days.get(day, 0) + number
        for column in self.columns:
            if column not in rows.schema.names or not _is_shown(rows.schema.type(column)):
                continue
            for job, value, number in _sums(of, rows.column(column).cast(pa.string()), signs):
                if value is not None:
                    self.tallies[jobs[job]].note_value(column, value, number)


def _is_shown(type_: DataType) -> bool:
    return not (type_.children or type_.is_binary)


def _sums(of: IntArray, values: pa.Array, signs: pa.Array) -> Iterator[tuple[int, Any, int]]:
    """Yields the sums of signs by job and value."""
    rows = pa.table({"job": pa.array(of), "value": values, "sign": signs})
    sums = rows.group_by(["job", "value"]).aggregate([("sign", "sum")])
    columns = (sums[name].to_pylist() for name in ("job", "value", "sign_sum"))
    yield from zip(*columns, strict=True)


def signs_of(rows: Batch) -> pa.Array:
    """Returns 1 for each row that is there from now on, -1 for each that is not any more."""
    if rows.kinds is None:
        return pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
    added = np.isin(rows.kinds, (RowKind.INSERT, RowKind.UPDATE_AFTER))
    return pa.array(np.where(added, 1, -1).astype(np.int64))


def times_of(rows: Batch) -> pa.Array:
    """Returns the time of each row (ms)."""
    return rows.column(TIME).cast(pa.timestamp("ms")).cast(pa.int64())


def days_of(rows: Batch, now: int | None) -> pa.Array:
    """Returns the day of each row since 1970; that of `now` (ms), or NULL, where it has no time."""
    times = times_of(rows)
    times = times if now is None else pc.fill_null(times, now)
    days = np.asarray(pc.fill_null(times, 0)) // DAY_MS
    return pa.array(days, pa.int64(), mask=np.asarray(pc.is_null(times)))


def alerts_of(rows: Batch) -> Iterator[tuple[RowKind, int | None, Row]]:
    """Yields the rows as JSON has them, each with its kind and its time (ms)."""
    shown = Schema(tuple(c for c in rows.schema if c.name != TIME))
    columns = tuple(rows.column(c.name) for c in shown)
    found = rows_of(Batch(shown, columns, rows.num_rows, kinds=rows.kinds))
    for (kind, row), time in zip(found, times_of(rows).to_pylist(), strict=True):
        yield kind, time, row
