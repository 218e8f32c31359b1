"""A batch of rows with everything that processing them may depend on, besides state."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from operator import attrgetter
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import Column, Schema
from planner.logical.change_kinds import RowKind as RowKind

# The watermark before the first row of a source, and after its last one (ms).
MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1

# In `Batch.offsets`: a row that comes from a record with other rows.
NO_OFFSET = -1

# In the name of a shard that is one of the files which a log has been, one after the other: follows
# the path under which it is written.
ROTATED = "//"

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Writers:
    """The job that writes each row to a table of several: `jobs[of[row]]`."""

    jobs: tuple[str, ...]
    of: IntArray

    def take(self, rows: npt.NDArray[np.integer]) -> Writers:
        """Returns those of the rows at these indexes."""
        return Writers(self.jobs, self.of[rows])

    def rows_by_job(self) -> dict[str, int]:
        """Returns the number of rows of each job that has any."""
        counts, rows = np.bincount(self.of), dict[str, int]()
        for number in counts.nonzero()[0].tolist():
            job = self.jobs[number]
            rows[job] = rows.get(job, 0) + int(counts[number])
        return rows


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows in order of arrival. A batch without rows that carries time is a *tick*.

    `columns`: plain Arrow arrays (no dictionaries, no chunks) by `schema`, which has the columns
    that are read downstream. `kinds`: a RowKind for each row, None if all are +I. `proctime` (ms)
    and `seed` are those of the epoch: all that is random or reads the clock is a function of them.

    Watermarks are in ms. `watermark` is the one after the last row, `since` the one before the
    batch, `row_watermarks[i]` the one before row i (None: `watermark` before all rows). `steps`:
    sorted watermarks between rows that went to other batches, None if there are none. `idle`: the
    input is idle, as Flink's WatermarkStatus.IDLE, and holds back no watermark.

    `origin`: the shard of the rows, '' after an exchange or a union. `offsets`: the record of each
    row, NO_OFFSET if other rows come from it, too, None if unknown. `memo`: values that several
    consumers compute from these rows (expressions by digest, distinct values). `writers`: on the
    way to a table that several jobs write to."""

    schema: Schema
    columns: tuple[pa.Array, ...]
    num_rows: int
    proctime: int = 0
    watermark: int = MIN_WATERMARK
    row_watermarks: IntArray | None = None
    kinds: npt.NDArray[np.int8] | None = None
    origin: str = ""
    seed: int = 0
    offsets: IntArray | None = field(default=None, compare=False)
    memo: dict[Hashable, object] = field(default_factory=dict, compare=False, repr=False)
    since: int = MIN_WATERMARK
    steps: IntArray | None = None
    idle: bool = False
    writers: Writers | None = field(default=None, compare=False)

    def column(self, name: str) -> pa.Array:
        """The column of that name."""
        return self.columns[self.schema.index(name)]

    @property
    def nbytes(self) -> int:
        """The bytes of the columns."""
        return sum(column.nbytes for column in self.columns)

    def watermarks(self) -> IntArray:
        """The watermark before each row."""
        if self.row_watermarks is not None:
            return self.row_watermarks
        return np.full(self.num_rows, self.watermark, np.int64)

    def watermarks_before(self, instants: IntArray) -> IntArray:
        """Returns, for each instant, the last watermark before the first one at or past it (ms).

        Results of a timer are emitted at that watermark, before the one that fires it: an operator
        downstream still accepts rows of the window that the new watermark closes."""
        known = (np.array([self.since, self.watermark]), self.row_watermarks, self.steps)
        steps = np.unique(np.concatenate([k for k in known if k is not None]))
        at = np.searchsorted(steps, instants)
        return np.where(at > 0, steps[np.maximum(at - 1, 0)], instants - 1)

    def with_columns(self, schema: Schema, columns: Sequence[pa.Array]) -> Batch:
        """Returns the same rows and times with other columns."""
        return replaced(self, schema=schema, columns=tuple(columns), memo={})

    def take(self, rows: npt.NDArray[np.integer], names: Sequence[str] | None = None) -> Batch:
        """Returns the rows at these indexes, in that order, with all columns or only `names`."""
        schema = self.schema if names is None else self.schema.select(tuple(names))
        columns = [self.column(c.name) for c in schema]
        if not len(rows):
            columns = [column.slice(0, 0) for column in columns]
        elif len(rows) > 1 or self.num_rows > 1:  # else it is the one row
            index = pa.array(rows)
            columns = [column.take(index) for column in columns]
        return replaced(
            self,
            schema=schema,
            columns=tuple(columns),
            num_rows=len(rows),
            row_watermarks=None if self.row_watermarks is None else self.row_watermarks[rows],
            kinds=None if self.kinds is None else self.kinds[rows],
            offsets=None if self.offsets is None else self.offsets[rows],
            memo={},
            writers=None if self.writers is None else self.writers.take(rows),
        )

    def slice(self, start: int, length: int) -> Batch:
        """Returns the rows `start` to `start + length`, between the watermarks around them."""
        end = start + length
        return replace(
            self,
            columns=tuple(c.slice(start, length) for c in self.columns),
            num_rows=length,
            since=self._watermark_before(start) if start else self.since,
            watermark=self._watermark_before(end),
            row_watermarks=None if self.row_watermarks is None else self.row_watermarks[start:end],
            kinds=None if self.kinds is None else self.kinds[start:end],
            offsets=None if self.offsets is None else self.offsets[start:end],
            memo={},
            writers=None if self.writers is None else self.writers.take(np.arange(start, end)),
        )._clip_steps()

    def _watermark_before(self, row: int) -> int:
        if row >= self.num_rows or self.row_watermarks is None:
            return self.watermark
        return int(self.row_watermarks[row])

    def between(self, since: int, watermark: int) -> Batch:
        """Returns the same rows with other watermarks before and after them."""
        return replaced(self, since=since, watermark=watermark)._clip_steps()

    def _clip_steps(self) -> Batch:
        """Drops steps that are not between `since` and `watermark`."""
        if self.steps is None:
            return self
        low, high = np.searchsorted(self.steps, [self.since, self.watermark])
        return replace(self, steps=self.steps[low:high])

    def tick(self, schema: Schema) -> Batch:
        """Returns a batch of `schema` without rows, with this one's time."""
        columns = tuple(_no_values(c.type.arrow) for c in schema)
        return Batch(
            schema, columns, 0, self.proctime, self.watermark,
            seed=self.seed, since=self.since, idle=self.idle,
        )  # fmt: skip

    def result(self, schema: Schema, columns: Sequence[pa.Array], num_rows: int) -> Batch:
        """Returns other rows, all +I, with this batch's time and its last watermark."""
        return Batch(
            schema, tuple(columns), num_rows, self.proctime, self.watermark,
            seed=self.seed, since=self.since, idle=self.idle,
        )  # fmt: skip

    def to_table(self) -> pa.Table:
        """Returns the columns as an Arrow table."""
        return pa.Table.from_arrays(list(self.columns), schema=self.schema.arrow)


_FIELDS: Final = tuple(field.name for field in fields(Batch))
_SETTERS: Final = {name: getattr(Batch, name).__set__ for name in _FIELDS}
_values = attrgetter(*_FIELDS)


def replaced(batch: Batch, **changes: object) -> Batch:
    """Returns what `dataclasses.replace` does, in half of the time: for what is done with every
    batch at every operator."""
    made = object.__new__(Batch)
    for write, value in zip(_SETTERS.values(), _values(batch), strict=True):
        write(made, value)
    for name, value in changes.items():
        _SETTERS[name](made, value)
    return made


def log_of(shard: str) -> str:
    """Returns what shards that continue each other have in common: for a file of a rotated log the
    path of the log, else the shard itself. Such shards have one watermark."""
    path, separator, _ = shard.rpartition(ROTATED)
    return path if separator and path else shard


def empty(schema: Schema, *, proctime: int = 0, watermark: int = MIN_WATERMARK) -> Batch:
    """Makes a tick: a batch without rows."""
    return Batch(schema, tuple(_no_values(c.type.arrow) for c in schema), 0, proctime, watermark)


@lru_cache(maxsize=1024)
def _no_values(kind: pa.DataType) -> pa.Array:
    return pa.array([], kind)


def from_pydict(schema: Schema, data: Mapping[str, Sequence[object]]) -> Batch:
    """Makes a batch from Python values by column name (tests, VALUES)."""
    columns = tuple(pa.array(data[c.name], c.type.arrow) for c in schema)
    return Batch(schema, columns, len(columns[0]) if columns else 0)


def concat(batches: Sequence[Batch]) -> Batch:
    """Concatenates batches of one schema and one graph. Rows keep their order and watermarks."""
    if len(batches) == 1:
        return batches[0]
    first = batches[0]
    columns = [pa.concat_arrays([b.columns[i] for b in batches]) for i in range(len(first.schema))]
    kinds = None
    if any(b.kinds is not None for b in batches):
        kinds = np.concatenate(
            [b.kinds if b.kinds is not None else np.zeros(b.num_rows, np.int8) for b in batches]
        )
    constant = all(b.row_watermarks is None and b.watermark == first.watermark for b in batches)
    return replace(
        first,
        columns=tuple(columns),
        num_rows=sum(b.num_rows for b in batches),
        watermark=max(b.watermark for b in batches),
        row_watermarks=None if constant else np.concatenate([b.watermarks() for b in batches]),
        kinds=kinds,
        offsets=None,
        memo={},
        steps=joined_steps([b.steps for b in batches]),
        idle=batches[-1].idle,
        writers=None,
    )


def merge_runs(batches: Sequence[Batch]) -> list[Batch]:
    """Merges consecutive batches to few larger ones, in which schema and idleness do not change."""
    runs: list[list[Batch]] = []
    for batch in batches:
        last = runs[-1][-1] if runs else None
        if last is not None and (last.schema, last.idle) == (batch.schema, batch.idle):
            runs[-1].append(batch)
        else:
            runs.append([batch])
    return [_merge_run(run) for run in runs]


def _merge_run(run: Sequence[Batch]) -> Batch:
    merged = concat(run)
    if len(run) == 1:
        return merged
    # A tick leaves no row behind: its watermark becomes a step.
    steps = joined_steps([np.array([b.watermark for b in run]), *(b.steps for b in run)])
    origin = merged.origin if all(b.origin == merged.origin for b in run) else ""
    return replace(merged, origin=origin, steps=steps)


def joined_steps(steps: Sequence[IntArray | None]) -> IntArray | None:
    """Merges the `Batch.steps` of several batches."""
    known = [s for s in steps if s is not None]
    return np.unique(np.concatenate(known)) if known else None


def named(schema: Schema, names: Sequence[str]) -> Schema:
    """Returns `schema` with other names, by position."""
    return Schema(tuple(Column(n, c.type) for n, c in zip(names, schema, strict=True)))
