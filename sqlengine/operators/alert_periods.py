"""SUPPRESSION: rows that are alerts, counted in periods that end with a row of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema, TimeAttribute
from planner.graph.family_members import number_columns
from planner.logical import AlertPeriods
from sqlengine.batch import MAX_WATERMARK, Batch, IntArray
from sqlengine.operators.base import Context, Output, Rest, expiry
from sqlengine.operators.member_counts import HELD_BACK, count_rows
from sqlengine.state.columns import distinct, milliseconds
from sqlengine.state.keys import batch_keys
from sqlengine.state.table import KeyedTable

# Of a key: the time of the row that began its period (ms), how many rows have passed and are held
# back in it, when the last of these goes on with their number, and when a row came (by the clock).
_BEGAN, _PASSED, _HELD, _DUE, _USED = "#began", "#passed", "#held", "#due", "#used"
_COUNTS: Final = (_BEGAN, _PASSED, _HELD, _DUE)
# Row time waits for rows that come later than the end of their period.
_LATER_MS: Final = 86_400_000
_NO_SLOTS: Final[IntArray] = np.empty(0, np.int64)


@dataclass(slots=True)
class _Period:
    """The period of a key; `last`: the place of the last row that is held back."""

    began: int | None
    passed: int
    held: int
    due: int
    last: int


@dataclass(frozen=True)
class _Part:
    """Rows of the result: their columns, their values of the new one, and the watermark before
    each."""

    columns: Sequence[pa.Array]
    values: Sequence[int | None]
    watermarks: IntArray


class AlertPeriodsOperator:
    """Walks over the rows of each key as they come; counter `held_back`.

    A row that is no less than the period away from the one that began the last period begins
    another one, in which so many rows pass. A period in which rows were held back ends with the
    last of them and their number: before a row that begins another one, once the watermark (or the
    clock) is past its end, with the end of all input, and before its key is forgotten. Rows behind
    the watermark are held back with the others, and told a period later. A row without a time
    passes, and counts for nothing.

    State: table `keys`, key -> `#began`, `#passed`, `#held`, `#due`, `#used` and the columns of the
    last row that is held back; until no row came for the period, and a day where the watermark
    counts. Timers: `#due`, `#used`."""

    def __init__(self, node: AlertPeriods) -> None:
        self._node = node
        below = node.input.schema
        plain = (Column(c.name, c.type.as_attribute(TimeAttribute.NONE)) for c in below)
        self._columns = Schema(tuple(plain))
        self._row = tuple(n for n in below.names if n not in node.partition)
        self._kept_ms = node.period_ms + (0 if node.time is None else _LATER_MS)
        self._member = number_columns(node.partition)[:1]

    def open(self, context: Context) -> None:
        self._counters = context.counters
        numbers = (Column(n, BIGINT) for n in (*_COUNTS, _USED))
        row = (Column(c.name, c.type.with_nullable(True)) for c in self._columns.select(self._row))
        keys = self._columns.select(self._node.partition)
        self._table: KeyedTable = context.table(
            "keys", keys, Schema((*numbers, *row)), self._node.partition
        )

    def process(self, port: int, batch: Batch) -> Output:
        parts = [self._forget(batch)]
        if batch.num_rows:
            parts.append(self._judged(batch))
        parts.append(self._ended(self._over(batch), batch.watermark))
        return [(0, self._result(batch, [p for p in parts if len(p.values)]))]

    def rest(self) -> Rest:
        due = self._table.earliest(_DUE)
        forgotten = expiry(self._table, _USED, self._kept_ms)
        if due is None:
            return forgotten
        if self._node.time is not None:
            return forgotten._replace(watermark=due)
        return Rest(proctime=min(due, forgotten.proctime))

    def timer(self) -> int | None:
        """Returns when the first period ends by the clock; None where the watermark ends it."""
        return self._table.earliest(_DUE) if self._node.time is None else None

    def close(self) -> None: ...

    # ---- periods that end ------------------------------------------------------------------------

    def _forget(self, batch: Batch) -> _Part:
        """Ends the periods that the clock ends, and forgets keys that no row has touched."""
        table = self._table
        forgotten = table.due(_USED, batch.proctime - self._kept_ms)
        ended = _NO_SLOTS if self._node.time is not None else table.due(_DUE, batch.proctime)
        part = self._ended(np.union1d(forgotten, ended), batch.since)
        table.remove(forgotten)
        return part

    def _over(self, batch: Batch) -> IntArray:
        """The slots of keys whose periods the last watermark ends."""
        if self._node.time is not None:
            return self._table.due(_DUE, batch.watermark)
        at_end = batch.watermark == MAX_WATERMARK > batch.since
        return self._table.due(_DUE, MAX_WATERMARK) if at_end else _NO_SLOTS

    def _ended(self, slots: IntArray, watermark: int) -> _Part:
        """The rows that end the periods of keys, where any were held back."""
        table = self._table
        slots = slots[table.columns[_DUE + "?"][slots].astype(np.bool_)]
        slots = table.in_order(slots, _DUE)
        columns = [table.array(n, slots) for n in self._columns.names]
        numbers = table.columns[_HELD][slots].tolist()
        table.blank(slots, (_HELD, _DUE, *self._row))
        table.mark(slots)
        return _Part(columns, numbers, np.full(len(slots), watermark, np.int64))

    # ---- rows ------------------------------------------------------------------------------------

    def _judged(self, batch: Batch) -> _Part:
        table = self._table
        slots, _ = table.slots_for(batch_keys(batch, self._node.partition), batch.num_rows)
        touched = distinct(slots)
        stored = [table.array(n, touched) for n in self._columns.names]
        periods = dict(zip(touched.tolist(), self._periods(touched, batch), strict=True))
        rows, values, watermarks = self._walk(batch, slots, periods)
        self._keep(batch, touched, list(periods.values()))
        at = pa.array(rows, pa.int64())
        pairs = zip(batch.columns, stored, strict=True)
        columns = [pa.concat_arrays(pair).take(at) for pair in pairs]
        return _Part(columns, values, np.array(watermarks, np.int64))

    def _periods(self, slots: IntArray, batch: Batch) -> list[_Period]:
        """The periods of keys; rows that are stored have their places behind those of the batch."""
        columns = (self._table.array(n, slots).to_pylist() for n in _COUNTS)
        return [
            _Period(began, passed or 0, held or 0, due or 0, batch.num_rows + place)
            for place, (began, passed, held, due) in enumerate(zip(*columns, strict=True))
        ]

    def _walk(
        self, batch: Batch, slots: IntArray, periods: dict[int, _Period]
    ) -> tuple[list[int], list[int | None], list[int]]:
        """Returns the places of the rows that come, with their values and watermarks."""
        rows, values, watermarks = list[int](), list[int | None](), list[int]()
        before, held = batch.watermarks().tolist(), list[int]()
        given = zip(slots.tolist(), self._times(batch), before, strict=True)
        for place, (slot, time, watermark) in enumerate(given):
            period = periods[slot]
            if self._ends(period, time, watermark):
                rows.append(period.last)
                values.append(period.held)
                watermarks.append(watermark)
                period.held = 0
            passes = self._passes(period, time)
            if not passes:
                self._hold(period, place, watermark)
                held.append(place)
            rows.append(place)
            values.append(0 if passes else None)
            watermarks.append(watermark)
        numbers = batch.column(self._member[0]).to_numpy()[held] if self._member else None
        count_rows(self._counters, HELD_BACK, len(held), numbers)
        return rows, values, watermarks

    def _times(self, batch: Batch) -> list[int | None]:
        if self._node.time is None:
            return [batch.proctime] * batch.num_rows
        at, known = milliseconds(batch.column(self._node.time))
        return [t if k else None for t, k in zip(at.tolist(), known.tolist(), strict=True)]

    def _ends(self, period: _Period, time: int | None, watermark: int) -> bool:
        """True if a period in which rows were held back ends before a row."""
        if not period.held:
            return False
        by_watermark = self._node.time is not None and period.due <= watermark
        return by_watermark or self._begins(period, time)

    def _begins(self, period: _Period, time: int | None) -> bool:
        """True if a row begins another period."""
        if time is None:
            return False
        return period.began is None or abs(time - period.began) >= self._node.period_ms

    def _passes(self, period: _Period, time: int | None) -> bool:
        if self._begins(period, time):
            period.began, period.passed = time, 0
        passes = time is None or period.passed < self._node.rows
        period.passed += passes and time is not None
        return passes

    def _hold(self, period: _Period, place: int, watermark: int) -> None:
        if not period.held:
            assert period.began is not None
            # The last instant of the period; the clock is at its end a millisecond later.
            by_clock = self._node.time is None
            end = period.began + self._node.period_ms - (not by_clock)
            is_past = not by_clock and end <= watermark
            period.due = min(watermark + self._node.period_ms, MAX_WATERMARK) if is_past else end
        period.held, period.last = period.held + 1, place

    def _keep(self, batch: Batch, slots: IntArray, periods: Sequence[_Period]) -> None:
        table = self._table
        quiet = np.array([not p.held for p in periods], np.bool_)
        counts = zip(*((p.began, p.passed, p.held, p.due) for p in periods), strict=True)
        written = {n: pa.array(v, pa.int64()) for n, v in zip(_COUNTS, counts, strict=True)}
        table.write(slots, {**written, _USED: np.full(len(slots), batch.proctime)})
        table.blank(slots[quiet], (_HELD, _DUE, *self._row))
        last = np.array([p.last for p in periods], np.int64)
        new = np.flatnonzero(~quiet & (last < batch.num_rows))
        at = pa.array(last[new])
        table.write(slots[new], {n: batch.column(n).take(at) for n in self._row})
        table.mark(slots)

    def _result(self, batch: Batch, parts: Sequence[_Part]) -> Batch:
        tick = batch.tick(self._node.schema)
        if not parts:
            return tick
        values = [value for part in parts for value in part.values]
        columns = [
            pa.concat_arrays(arrays) for arrays in zip(*(p.columns for p in parts), strict=True)
        ]
        return replace(
            tick,
            columns=(*columns, pa.array(values, pa.int64())),
            num_rows=len(values),
            row_watermarks=np.concatenate([p.watermarks for p in parts]),
        )
