"""OVER with RANGE frames gives what Flink's function gives, timer by timer, wherever batches end:
also for late rows of keys that were forgotten within a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parser.types import BIGINT, DOUBLE, INT, STRING, Schema, TimeAttribute, timestamp
from planner.logical import Frame, Over, OverCall, SortKey
from planner.logical.change_kinds import ModifyKindSet
from sqlengine.batch import MAX_WATERMARK, Batch
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.operators.over.by_time import OverOperator
from tests.operators.test_alert_periods import watermarks_of
from tests.operators.test_joins import Source

Row = tuple[str, int]  # a key, and a time (ms)
Result = tuple[int, int, float]  # the number of the row, COUNT(*) and SUM(x)
SCHEMA = Schema.of(k=STRING, i=INT, x=DOUBLE, ts=timestamp(3).as_attribute(TimeAttribute.ROWTIME))
CALLS = (
    OverCall("n", "COUNT", (), BIGINT),
    OverCall("s", "SUM", ("x",), DOUBLE, DOUBLE),
)
FORGOTTEN: Sequence[Row] = [("a", 1), ("b", 80), ("a", 80), ("a", 80), ("a", 40)]
ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60)), max_size=40)


@dataclass
class Key:
    """What Flink's RowTimeRangeBoundedPrecedingFunction keeps of a key; `removed_at`: its
    cleanupTsState."""

    rows: dict[int, list[int]] = field(default_factory=dict)
    emitted: int = 0
    removed_at: int | None = None
    total: float = 0.0
    timers: set[int] = field(default_factory=set)

    def take(self, number: int, time: int, reach: int) -> None:
        if time <= self.emitted:
            return
        self.rows.setdefault(time, []).append(number)
        self.timers.add(time)
        if self.removed_at is None or self.removed_at < time + reach + 1:
            self.removed_at = time + reach * 3 // 2 + 1
            self.timers.add(self.removed_at)

    def fire(self, watermark: int, reach: int) -> Iterator[Result]:
        for timer in sorted(t for t in self.timers if t <= watermark):
            self.timers.remove(timer)
            if self.removed_at is not None and self.removed_at <= timer:
                self.rows, self.emitted, self.removed_at, self.total = {}, 0, None, 0.0
                continue
            if timer in self.rows:
                yield from self._emit(timer, reach)
            self.emitted = timer

    def _emit(self, now: int, reach: int) -> Iterator[Result]:
        for time in sorted(t for t in self.rows if t < now - reach):
            for number in self.rows.pop(time):
                self.total -= value_of(number)
        for number in self.rows[now]:
            self.total += value_of(number)
        counted = sum(len(rows) for time, rows in self.rows.items() if time <= now)
        yield from ((number, counted, self.total) for number in self.rows[now])


def value_of(number: int) -> float:
    return number / 10


def expected(rows: Sequence[Row], marks: Sequence[int], reach: int) -> Iterator[Result]:
    keys: dict[str, Key] = {}
    for number, (name, time) in enumerate(rows):
        if number and marks[number] > marks[number - 1]:  # only a watermark that moves fires
            for key in keys.values():
                yield from key.fire(marks[number], reach)
        keys.setdefault(name, Key()).take(number, time, reach)
    for key in keys.values():
        yield from key.fire(MAX_WATERMARK, reach)


def batch_of(rows: Sequence[Row], first: int, marks: Sequence[int]) -> Batch:
    numbers = range(first, first + len(rows))
    values: tuple[Iterable[object], ...] = (
        [k for k, _ in rows],
        numbers,
        map(value_of, numbers),
        [t for _, t in rows],
    )
    columns = [pa.array(list(v), c.type.arrow) for v, c in zip(values, SCHEMA, strict=True)]
    batch = Batch(SCHEMA, tuple(columns), len(rows), 0, marks[-1], since=marks[0])
    return replace(batch, row_watermarks=np.array(marks[:-1], np.int64))


def results(operator: OverOperator, batch: Batch) -> Iterator[Result]:
    for _, output in operator.process(0, batch):
        columns = [output.column(n).to_pylist() for n in ("i", "n", "s")]
        yield from zip(*columns, strict=True)


def over(rows: Sequence[Row], size: int, delay: int, reach: int) -> list[Result]:
    by_time = (SortKey("ts"),)
    source = Source(SCHEMA, ModifyKindSet.NONE)
    operator = OverOperator(Over(source, ("k",), by_time, Frame(preceding=reach), CALLS))
    operator.open(TaskContext())
    marks, came = watermarks_of(rows, delay), list[Result]()
    for start in range(0, len(rows), size):
        piece = rows[start : start + size]
        came += results(operator, batch_of(piece, start, marks[start : start + len(piece) + 1]))
    return came + list(results(operator, batch_of([], 0, [marks[-1], MAX_WATERMARK])))


@given(
    rows=ROWS, size=st.integers(1, 40), delay=st.sampled_from([0, 2, 9]), reach=st.integers(0, 12)
)
@example(rows=FORGOTTEN, size=5, delay=2, reach=50)
@settings(max_examples=100, deadline=None)
def test_it_does_what_flink_does_row_by_row(
    rows: Sequence[Row], size: int, delay: int, reach: int
) -> None:
    wanted = list(expected(rows, watermarks_of(rows, delay), reach))
    row_by_row = over(rows, 1, delay, reach)
    assert sorted(row_by_row) == sorted(wanted)
    assert over(rows, size, delay, reach) == row_by_row


@pytest.mark.parametrize("size", range(1, 6))
def test_a_late_row_finds_its_key_forgotten(size: int) -> None:
    found = over(FORGOTTEN, size, 2, 50)
    assert [(number, count) for number, count, _ in found] == [
        (0, 1),
        (4, 1),
        (1, 1),
        (2, 3),
        (3, 3),
    ]
