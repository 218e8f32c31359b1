"""The rows that MATCH_RECOGNIZE gives for the matches of one batch."""

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

# The handle of no row. Rows of the batch at hand have their places as handles, those of state -2
# and below.
NO_ROW = -1


def handle_of(slot: int) -> int:
    return -2 - slot


def slot_of(handle: int) -> int:
    """The reverse of `handle_of`."""
    return -2 - handle


@dataclass
class _Answers:
    """What the matches say to one measure: rows, of aggregates with the match that each is of."""

    value: PatternValue
    spans: Spans
    rows: list[int] = field(default_factory=list)
    matches: list[int] = field(default_factory=list)


class Found:
    """The matches of one batch, and the rows that were refused."""

    def __init__(self, node: MatchRecognize, store: RowStore) -> None:
        self._node = node
        self._store = store
        self._answers = [_Answers(m, _spans(node.pattern, m)) for m in node.measures]
        self._first: list[int] = []
        self._known: list[tuple[int, int]] = []
        self._times: list[int] = []
        self._now = (0, 0)
        self._bad: list[tuple[int, str, str]] = []

    def at(self, tick: int, time: int) -> None:
        """What is found from here on is known at the tick of that number, by what happened at
        `time`."""
        self._now = tick, time

    def add(self, run: Run, part: Part, time: int) -> None:
        start, counts = part[0] - run.base, part[2]
        number = len(self._first)
        self._first.append(run.rows[start])
        self._known.append(self._now)
        self._times.append(time)
        for answers in self._answers:
            value, spans = answers.value, answers.spans
            if value.function == "FIRST":
                row = spans.first(counts, value.offset)
            elif value.function == "LAST":
                row = spans.last(counts, value.offset)
            else:
                if value.aggregates:
                    rows = [run.rows[start + n] for n in spans.rows(counts)]
                    answers.rows += rows
                    answers.matches += [number] * len(rows)
                continue
            answers.rows.append(NO_ROW if row is None else run.rows[start + row])

    def refuse(self, handle: int, subject: str, reason: str) -> None:
        self._bad.append((handle, subject, reason))

    # ---- rows ------------------------------------------------------------------------------------

    def result(self, batch: Batch, pool: Batch) -> Batch:
        """The rows of the matches, in order."""
        count = len(self._first)
        tick = batch.tick(self._node.schema)
        if not count:
            return tick
        columns = [self._column(k, self._first, pool) for k in self._node.partition]
        order = self._order(columns, count)
        vectors = [Vector(c) for c in columns] + [
            self._measure(a, count, pool) for a in self._answers
        ]
        errors = merge_errors([v.errors for v in vectors])
        if errors is not None:
            order = self._without(errors, order)
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
            np.array([self._known[i][1] for i in order.tolist()], np.int64)
        )
        return replace(result, row_watermarks=np.minimum.accumulate(before[::-1])[::-1])

    @property
    def _by_event(self) -> bool:
        return self._node.by_event

    def _order(self, keys: Sequence[pa.Array], count: int) -> IntArray:
        """By the tick at which a match is known, the time of what made it known, and its key."""
        types = [self._node.input.schema.type(k) for k in self._node.partition]
        names = encode(types, list(keys), count)
        return np.array(
            sorted(range(count), key=lambda i: (*self._known[i], names[i], i)), np.int64
        )

    def _measure(self, answers: _Answers, count: int, pool: Batch) -> Vector:
        value = answers.value
        if value.function == "ROWTIME":
            return Vector(
                pa.array(np.array(self._times, np.int64))
                .cast(pa.timestamp("ms"))
                .cast(value.type.arrow)
            )
        rows = None if value.column is None else self._column(value.column, answers.rows, pool)
        if value.navigates:
            return Vector(rows)
        bound = bound_aggregate(value)
        held = empty_accumulator(bound.accumulators, count)
        slots = np.array(answers.matches, np.int64)
        failed = bound.update(held, slots, rows, np.ones(len(slots), np.bool_))
        result = bound.result(held, np.arange(count))
        vector = result if isinstance(result, Vector) else Vector(result)
        if failed is None:
            return vector
        return replace(
            vector, errors=merge_errors([_by_match(failed, slots, count), vector.errors])
        )

    def _column(self, name: str, handles: Sequence[int], pool: Batch) -> pa.Array:
        rows = np.array(handles, np.int64)
        held = rows < NO_ROW
        if not held.any():
            index = pa.array(rows, mask=rows == NO_ROW)
            return pool.column(name).take(index)
        slots = -2 - rows[held]
        rows[held] = pool.num_rows + np.arange(len(slots))
        both = pa.concat_arrays([pool.column(name), self._store.array(name, slots)])
        return both.take(pa.array(rows, mask=rows == NO_ROW))

    def _without(self, errors: Errors, order: IntArray) -> IntArray:
        for match in np.flatnonzero(errors.mask).tolist():
            self.refuse(self._first[match], "MEASURES", errors.reason(match))
        good: IntArray = order[~errors.mask[order]]
        return good

    def refused(self, batch: Batch, pool: Batch) -> tuple[Batch, list[str], list[str]] | None:
        """The refused rows, each with what refuses it and why."""
        if not self._bad:
            return None
        bad = list(dict.fromkeys(self._bad))
        handles = [h for h, _, _ in bad]
        schema = self._store.schema
        columns = tuple(self._column(n, handles, pool) for n in schema.names)
        rows = replace(batch.tick(schema), columns=columns, num_rows=len(bad))
        return rows, [s for _, s, _ in bad], [r for _, _, r in bad]


def _spans(items: Sequence[PatternItem], value: PatternValue) -> Spans:
    return Spans(items, value.variables)


def _by_match(errors: Errors, matches: IntArray, count: int) -> Errors:
    """Errors of rows as those of the matches that they are of."""
    mask, codes = np.zeros(count, np.bool_), np.zeros(count, np.int32)
    at = np.flatnonzero(errors.mask)
    mask[matches[at]], codes[matches[at]] = True, errors.codes[at]
    return Errors(mask, codes, errors.reasons)
