"""A batch of rows with everything that processing them may depend on besides state."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import Column, Schema
from planner.logical.change_kinds import RowKind as RowKind

# Before the first row of a source nothing is late; after its last one everything has happened.
MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1

# A row that came with others out of one record.
NO_OFFSET = -1

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows in order of arrival. An empty batch that carries time is a *tick*.

    `columns` are plain Arrow arrays (no dictionaries, no chunks) by `schema`, which holds the
    columns that somebody reads. `kinds` holds a RowKind per row, None when all are +I. `proctime`
    is the epoch's processing time in ms and `seed` its random seed: all that is random or reads the
    clock is a function of them. `watermark` (ms) holds after the last row; `row_watermarks[i]` held
    before row i, None when it was `watermark` throughout; `since` held before the whole batch;
    `steps` are watermarks that held before rows which are elsewhere (sorted; None: there are none).
    `idle`: for now nothing comes from where these rows are from, and who has other inputs goes on
    without it. `origin` is the shard that the rows come from ('' behind the first exchange or
    union), `offsets` the record that each comes from: NO_OFFSET where others come from it, too,
    None where nobody knows. `memo` keeps what several consumers compute from these rows
    (expressions by digest, distinct values)."""

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

    def column(self, name: str) -> pa.Array:
        return self.columns[self.schema.index(name)]

    def watermarks(self) -> IntArray:
        """The watermark before each row."""
        if self.row_watermarks is not None:
            return self.row_watermarks
        return np.full(self.num_rows, self.watermark, np.int64)

    def watermarks_before(self, instants: IntArray) -> IntArray:
        """The watermark that held when the one came that reached each of these instants: what fires
        then goes out before that one, so that an operator behind it still takes rows of what the
        new one ends."""
        known = [np.array([self.since, self.watermark]), self.row_watermarks, self.steps]
        steps = np.unique(np.concatenate([k for k in known if k is not None]))
        at = np.searchsorted(steps, instants)
        return np.where(at > 0, steps[np.maximum(at - 1, 0)], instants - 1)

    def with_columns(self, schema: Schema, columns: Sequence[pa.Array]) -> Batch:
        """The same rows and times with other columns."""
        return replace(self, schema=schema, columns=tuple(columns), memo={})

    def take(self, rows: npt.NDArray[np.integer], names: Sequence[str] | None = None) -> Batch:
        """The rows at `rows`, in that order, with all columns or those of `names`."""
        schema = self.schema if names is None else self.schema.select(tuple(names))
        index = pa.array(rows)
        return replace(
            self,
            schema=schema,
            columns=tuple(self.column(c.name).take(index) for c in schema),
            num_rows=len(rows),
            row_watermarks=None if self.row_watermarks is None else self.row_watermarks[rows],
            kinds=None if self.kinds is None else self.kinds[rows],
            offsets=None if self.offsets is None else self.offsets[rows],
            memo={},
        )

    def slice(self, start: int, length: int) -> Batch:
        """Rows `start` to `start + length`, with the watermark that held behind the last of
        them."""
        end = start + length
        last = end >= self.num_rows or self.row_watermarks is None
        return replace(
            self,
            columns=tuple(c.slice(start, length) for c in self.columns),
            num_rows=length,
            since=self.since
            if not start
            else int(self.watermarks()[start])
            if start < self.num_rows
            else self.watermark,
            watermark=self.watermark if last else int(self.watermarks()[end]),
            row_watermarks=None if self.row_watermarks is None else self.row_watermarks[start:end],
            kinds=None if self.kinds is None else self.kinds[start:end],
            offsets=None if self.offsets is None else self.offsets[start:end],
            memo={},
        )._with_its_steps()

    def between(self, since: int, watermark: int) -> Batch:
        """The same rows, before which `since` held and behind which `watermark` holds."""
        return replace(self, since=since, watermark=watermark)._with_its_steps()

    def _with_its_steps(self) -> Batch:
        if self.steps is None:
            return self
        low, high = np.searchsorted(self.steps, [self.since, self.watermark])
        return replace(self, steps=self.steps[low:high])

    def tick(self, schema: Schema) -> Batch:
        """An empty batch of `schema` with this one's time."""
        tick = empty(schema, proctime=self.proctime, watermark=self.watermark)
        return replace(tick, since=self.since, seed=self.seed, idle=self.idle)

    def result(self, schema: Schema, columns: Sequence[pa.Array], num_rows: int) -> Batch:
        """Other rows with this one's time; all are +I and come with its last watermark."""
        return Batch(
            schema, tuple(columns), num_rows, self.proctime, self.watermark,
            seed=self.seed, since=self.since, idle=self.idle,
        )  # fmt: skip

    def to_table(self) -> pa.Table:
        return pa.Table.from_arrays(list(self.columns), schema=self.schema.arrow)


def empty(schema: Schema, *, proctime: int = 0, watermark: int = MIN_WATERMARK) -> Batch:
    """A tick."""
    return Batch(schema, tuple(pa.array([], c.type.arrow) for c in schema), 0, proctime, watermark)


def from_pydict(schema: Schema, data: Mapping[str, Sequence[object]]) -> Batch:
    """A batch from Python values by column name (tests, VALUES)."""
    columns = tuple(pa.array(data[c.name], c.type.arrow) for c in schema)
    return Batch(schema, columns, len(columns[0]) if columns else 0)


def concat(batches: Sequence[Batch]) -> Batch:
    """Batches of one schema and one graph as one, rows in order; each keeps its row watermarks."""
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
    )


def merge_runs(batches: Sequence[Batch]) -> list[Batch]:
    """Batches that come one after the other as few of many rows: those of one schema, unless one of
    them says that its source has fallen silent or speaks again."""
    runs: list[list[Batch]] = []
    for batch in batches:
        last = runs[-1][-1] if runs else None
        if last is not None and (last.schema, last.idle) == (batch.schema, batch.idle):
            runs[-1].append(batch)
        else:
            runs.append([batch])
    return [_one(run) for run in runs]


def _one(run: Sequence[Batch]) -> Batch:
    """Rows before which a tick came know of the time that it told of."""
    made = concat(run)
    if len(run) == 1:
        return made
    steps = joined_steps([np.array([b.watermark for b in run]), *(b.steps for b in run)])
    origin = made.origin if all(b.origin == made.origin for b in run) else ""
    return replace(made, origin=origin, steps=steps)


def joined_steps(steps: Sequence[IntArray | None]) -> IntArray | None:
    """Those of several batches, for `Batch.steps`."""
    known = [s for s in steps if s is not None]
    return np.unique(np.concatenate(known)) if known else None


def named(schema: Schema, names: Sequence[str]) -> Schema:
    """`schema` with other names, by position."""
    return Schema(tuple(Column(n, c.type) for n, c in zip(names, schema, strict=True)))
