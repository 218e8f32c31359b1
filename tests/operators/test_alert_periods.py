"""SUPPRESSION gives what a walk over all rows of a key gives, wherever batches end, and counts each
row that is held back once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.types import INT, STRING, Schema, TimeAttribute, timestamp
from planner.logical import AlertPeriods
from planner.logical.change_kinds import ModifyKindSet
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.operators.alert_periods import AlertPeriodsOperator
from sqlengine.operators.base import Rest
from tests.operators.test_joins import Source

Row = tuple[str | None, int | None]  # a key, and a time (ms)
Result = tuple[str | None, int, int | None]  # a key, the number of the row, and the value
SCHEMA = Schema.of(k=STRING, i=INT, ts=timestamp(3).as_attribute(TimeAttribute.ROWTIME))
ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([*range(1, 40), None])),
    max_size=40,
)


def watermarks_of(rows: Sequence[Row], delay: int) -> list[int]:
    """The watermark before each row, and behind the last."""
    found = [MIN_WATERMARK]
    for _, time in rows:
        found.append(found[-1] if time is None else max(found[-1], time - delay))
    return found


@dataclass
class Key:
    """What is known of a key, in the words of the documentation."""

    began: int | None = None
    passed: int = 0
    held: int = 0
    last: int = 0
    due: int = 0


def expected(rows: Sequence[Row], marks: Sequence[int], period: int, most: int) -> Iterator[Result]:
    """The rows that come, but for the order of those that end periods."""
    keys: dict[str | None, Key] = {}
    for number, (name, time) in enumerate(rows):
        for other, known in keys.items():
            if known.held and known.due <= marks[number]:
                yield other, known.last, known.held
                known.held = 0
        key = keys.setdefault(name, Key())
        if time is None:
            yield name, number, 0
            continue
        if key.began is None or abs(time - key.began) >= period:
            if key.held:
                yield name, key.last, key.held
            key.began, key.passed, key.held = time, 0, 0
        if key.passed < most:
            key.passed += 1
            yield name, number, 0
            continue
        if not key.held:
            end = key.began + period - 1
            key.due = end if end > marks[number] else marks[number] + period
        key.held, key.last = key.held + 1, number
        yield name, number, None
    yield from ((name, key.last, key.held) for name, key in keys.items() if key.held)


def batch_of(rows: Sequence[Row], first: int, marks: Sequence[int], clock: int) -> Batch:
    values = ([k for k, _ in rows], [first + n for n in range(len(rows))], [t for _, t in rows])
    columns = [pa.array(v, c.type.arrow) for v, c in zip(values, SCHEMA, strict=True)]
    batch = Batch(SCHEMA, tuple(columns), len(rows), clock, marks[-1], since=marks[0])
    return replace(batch, row_watermarks=np.array(marks[:-1], np.int64))


def results(operator: AlertPeriodsOperator, batch: Batch) -> list[Result]:
    ((_, output),) = operator.process(0, batch)
    marks = output.watermarks().tolist()
    assert marks == sorted(marks), "watermarks never fall"
    columns = [output.column(n).to_pylist() for n in ("k", "i", "n")]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("keys", [("k",), ()])
@given(
    rows=ROWS,
    size=st.integers(1, 9),
    delay=st.integers(0, 9),
    period=st.sampled_from([1, 5, 12]),
    most=st.integers(1, 3),
)
@settings(max_examples=150, deadline=None)
def test_it_is_a_walk_over_the_rows(
    keys: tuple[str, ...], rows: Sequence[Row], size: int, delay: int, period: int, most: int
) -> None:
    node = AlertPeriods(Source(SCHEMA, ModifyKindSet.NONE), keys, period, most, "n", "ts")
    operator, context = AlertPeriodsOperator(node), TaskContext()
    operator.open(context)
    marks, came = watermarks_of(rows, delay), list[Result]()
    for start in range(0, len(rows), size):
        piece = rows[start : start + size]
        came += results(operator, batch_of(piece, start, marks[start : start + len(piece) + 1], 0))
    came += results(operator, batch_of([], 0, [marks[-1], MAX_WATERMARK], 0))
    walked = rows if keys else [(None, time) for _, time in rows]
    wanted = [(row, value) for _, row, value in expected(walked, marks, period, most)]
    assert sorted((row, str(value)) for _, row, value in came) == sorted(
        (row, str(value)) for row, value in wanted
    )
    assert [v for _, v in wanted].count(None) == sum(v or 0 for _, _, v in came)
    assert context.counters["held_back"] == sum(v or 0 for _, _, v in came)
    assert all(rows[row][0] == name for name, row, _ in came)


def test_the_clock_ends_periods_and_leaves_nothing() -> None:
    node = AlertPeriods(Source(SCHEMA, ModifyKindSet.NONE), ("k",), 10, 1, "n")
    operator = AlertPeriodsOperator(node)
    operator.open(TaskContext())
    assert operator.rest() == Rest()
    assert results(operator, batch_of([("a", 1), ("a", 1)], 0, [0, 0, 0], 100)) == [
        ("a", 0, 0),
        ("a", 1, None),
    ]
    assert (operator.timer(), operator.rest()) == (110, Rest(proctime=110))
    assert not results(operator, batch_of([], 0, [0, 5], 109))
    assert results(operator, batch_of([], 0, [5, 5], 110)) == [("a", 1, 1)]
    assert (operator.timer(), len(operator._table)) == (None, 0)
