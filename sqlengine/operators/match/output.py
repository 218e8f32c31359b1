"""Builds the output rows of MATCH_RECOGNIZE for the matches of one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from planner.logical import MatchRecognize, PatternItem, PatternValue
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.match.heap import Part
from sqlengine.operators.match.rows import RowStore
from sqlengine.operators.match.runs import Run
from sqlengine.operators.match.values import Spans, bound_aggregate
from sqlengine.state.keys import encode
from udf.aggregates.accumulators import empty_accumulator
from udf.vector import Errors, Vector, merge_errors

# The handle of no row. A row of the batch has its place as its handle, a stored row -2 or less.
NO_ROW = -1


def handle_of(slot: int) -> int:
    return -2 - slot


def slot_of(handle: int) -> int:
    """Reverses `handle_of`."""
    return -2 - handle


@dataclass
class _MeasureRows:
    """The rows that one measure reads, for all matches; for aggregates with the match of
    each row."""

    value: PatternValue
    spans: Spans
    rows: list[int] = field(default_factory=list)
    matches: list[int] = field(default_factory=list)


class Matches:
    """Collects the matches of one batch and the rejected rows."""

    def __init__(self, node: MatchRecognize, store: RowStore) -> None:
        self._node = node
        self._store = store
        self._measures = [_MeasureRows(m, _spans(node.pattern, m)) for m in node.measures]
        self._first: list[int] = []
        self._found_at: list[tuple[int, int]] = []
        self._times: list[int] = []
        self._now = (0, 0)
        self._rejected: list[tuple[int, str, str]] = []

    def set_time(self, tick: int, time: int) -> None:
        """Sets the number of the tick and the time (ms) at which the following matches are
        found."""
        self._now = tick, time

    def add(self, run: Run, part: Part, time: int) -> None:
        """Adds a match, with the rows that its measures read."""
        # The handles are taken now: the run may drop these rows before the batch ends.
        start, counts = part[0] - run.base, part[2]
        number = len(self._first)
        self._first.append(run.rows[start])
        self._found_at.append(self._now)
        self._times.append(time)
        for measure in self._measures:
            value, spans = measure.value, measure.spans
            if value.function == "FIRST":
                row = spans.first(counts, value.offset)
            elif value.function == "LAST":
                row = spans.last(counts, value.offset)
            else:
                if value.aggregates:
                    rows = [run.rows[start + n] for n in spans.rows(counts)]
                    measure.rows += rows
                    measure.matches += [number] * len(rows)
                continue
            measure.rows.append(NO_ROW if row is None else run.rows[start + row])

    def reject(self, handle: int, subject: str, reason: str) -> None:
        """Records a row as a dead letter."""
        self._rejected.append((handle, subject, reason))

    # ---- rows ------------------------------------------------------------------------------------

    def result(self, batch: Batch, pool: Batch) -> Batch:
        """Returns the output rows of the matches, in order."""
        count = len(self._first)
        tick = batch.tick(self._node.schema)
        if not count:
            return tick
        columns = [self._column(k, self._first, pool) for k in self._node.partition]
        order = self._order(columns, count)
        vectors = [Vector(c) for c in columns] + [
            self._measure(a, count, pool) for a in self._measures
        ]
        errors = merge_errors([v.errors for v in vectors])
        if errors is not None:
            order = self._without_failed(errors, order)
        index = pa.array(order)
        result = replace(
            tick,
            columns=tuple(v.array(count).take(index) for v in vectors),
            num_rows=len(order),
            proctime=batch.proctime,
            seed=batch.seed,
        )
        if not self._by_event:
            return result
        before = batch.watermarks_before(
            np.array([self._found_at[i][1] for i in order.tolist()], np.int64)
        )
        # A match may be found by a later tick, but with an earlier time: the watermark before a row
        # must not exceed that of any row after it.
        return replace(result, row_watermarks=np.minimum.accumulate(before[::-1])[::-1])

    @property
    def _by_event(self) -> bool:
        return self._node.by_event

    def _order(self, keys: Sequence[pa.Array], count: int) -> IntArray:
        """Orders matches by the tick at which they were found, the time of the row that completed
        them, and their key."""
        types = [self._node.input.schema.type(k) for k in self._node.partition]
        names = encode(types, list(keys), count)
        return np.array(
            sorted(range(count), key=lambda i: (*self._found_at[i], names[i], i)), np.int64
        )

    def _measure(self, measure: _MeasureRows, count: int, pool: Batch) -> Vector:
        value = measure.value
        if value.function == "ROWTIME":
            return Vector(
                pa.array(np.array(self._times, np.int64))
                .cast(pa.timestamp("ms"))
                .cast(value.type.arrow)
            )
        rows = None if value.column is None else self._column(value.column, measure.rows, pool)
        if value.navigates:
            return Vector(rows)
        bound = bound_aggregate(value)
        accumulator = empty_accumulator(bound.accumulators, count)
        slots = np.array(measure.matches, np.int64)
        failed = bound.update(accumulator, slots, rows, np.ones(len(slots), np.bool_))
        result = bound.result(accumulator, np.arange(count))
        vector = result if isinstance(result, Vector) else Vector(result)
        if failed is None:
            return vector
        return replace(
            vector, errors=merge_errors([_by_match(failed, slots, count), vector.errors])
        )

    def _column(self, name: str, handles: Sequence[int], pool: Batch) -> pa.Array:
        rows = np.array(handles, np.int64)
        is_stored = rows < NO_ROW
        if not is_stored.any():
            index = pa.array(rows, mask=rows == NO_ROW)
            return pool.column(name).take(index)
        # Rows of the batch are taken from the pool; stored ones are read from the state once, and
        # appended to it.
        slots = -2 - rows[is_stored]
        rows[is_stored] = pool.num_rows + np.arange(len(slots))
        both = pa.concat_arrays([pool.column(name), self._store.array(name, slots)])
        return both.take(pa.array(rows, mask=rows == NO_ROW))

    def _without_failed(self, errors: Errors, order: IntArray) -> IntArray:
        for match in np.flatnonzero(errors.mask).tolist():
            self.reject(self._first[match], "MEASURES", errors.reason(match))
        good: IntArray = order[~errors.mask[order]]
        return good

    def rejected(self, batch: Batch, pool: Batch) -> tuple[Batch, list[str], list[str]] | None:
        """Returns the rejected rows, with subject and reason of each; None if there are none."""
        if not self._rejected:
            return None
        rejected_rows = list(dict.fromkeys(self._rejected))
        handles = [h for h, _, _ in rejected_rows]
        schema = self._store.schema
        columns = tuple(self._column(n, handles, pool) for n in schema.names)
        rows = replace(batch.tick(schema), columns=columns, num_rows=len(rejected_rows))
        return rows, [s for _, s, _ in rejected_rows], [r for _, _, r in rejected_rows]


def _spans(items: Sequence[PatternItem], value: PatternValue) -> Spans:
    return Spans(items, value.variables)


def _by_match(errors: Errors, matches: IntArray, count: int) -> Errors:
    """Maps errors of rows to their matches."""
    mask, codes = np.zeros(count, np.bool_), np.zeros(count, np.int32)
    at = np.flatnonzero(errors.mask)
    mask[matches[at]], codes[matches[at]] = True, errors.codes[at]
    return Errors(mask, codes, errors.reasons)
