"""NEW_TERM gives what a memory of all rows gives, wherever batches end, and forgets in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.types import INT, STRING, Schema, TimeAttribute, timestamp
from planner.logical import NewTerm
from planner.logical.change_kinds import ModifyKindSet
from sqlengine.batch import MIN_WATERMARK, Batch
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.operators.new_terms import NewTermOperator
from tests.operators.test_joins import Source

Row = tuple[str | None, int | None, int | None]  # two terms, and a time (ms)
SCHEMA = Schema.of(k=STRING, i=INT, ts=timestamp(3).as_attribute(TimeAttribute.ROWTIME))
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([1, 2, 2, None]),
        st.sampled_from([*range(1, 40), None]),
    ),
    max_size=30,
)


def watermarks_of(rows: Sequence[Row], delay: int) -> list[int]:
    """The watermark before each row, and behind the last."""
    found = [MIN_WATERMARK]
    for _, _, time in rows:
        found.append(found[-1] if time is None else max(found[-1], time - delay))
    return found


def expected(rows: Sequence[Row], marks: Sequence[int], memory: int) -> list[bool | None]:
    answers: list[bool | None] = []
    for at, (k, i, time) in enumerate(rows):
        if k is None or i is None or time is None:
            answers.append(None)
            continue
        seen = [t for a, b, t in rows[:at] if (a, b) == (k, i) and t is not None]
        now = max(time, marks[at])
        answers.append(not any(memory == 0 or t >= now - memory for t in seen))
    return answers


def batch_of(rows: Sequence[Row], marks: Sequence[int], clock: int) -> Batch:
    columns = [pa.array([r[n] for r in rows], c.type.arrow) for n, c in enumerate(SCHEMA)]
    batch = Batch(SCHEMA, tuple(columns), len(rows), clock, marks[-1], since=marks[0])
    return replace(batch, row_watermarks=np.array(marks[:-1], np.int64))


@given(
    rows=ROWS,
    size=st.integers(1, 9),
    delay=st.integers(0, 9),
    memory=st.sampled_from([0, 3, 10]),
)
@settings(max_examples=300, deadline=None)
def test_it_is_a_memory_of_all_rows(
    rows: Sequence[Row], size: int, delay: int, memory: int
) -> None:
    node = NewTerm(Source(SCHEMA, ModifyKindSet.NONE), ("k", "i"), memory, "new", "ts")
    operator, context = NewTermOperator(node), TaskContext()
    operator.open(context)
    marks, answers = watermarks_of(rows, delay), []
    for start in range(0, len(rows), size):
        piece = rows[start : start + size]
        batch = batch_of(piece, marks[start : start + len(piece) + 1], 0)
        ((_, output),) = operator.process(0, batch)
        answers += output.column("new").to_pylist()
        horizon = batch.watermark - memory
        left = operator._table.columns["#last"][operator._table.live()]
        assert memory == 0 or all(last >= horizon for last in left.tolist())
    assert answers == expected(rows, marks, memory)


def test_the_clock_is_the_time_of_rows_without_one() -> None:
    node = NewTerm(Source(SCHEMA, ModifyKindSet.NONE), ("k",), 10, "new")
    operator = NewTermOperator(node)
    operator.open(TaskContext())
    answers = []
    for clock in (0, 10, 20, 31):
        batch = batch_of([("a", 1, 5), ("a", 1, 5)], [0, 0, 0], clock)
        answers += operator.process(0, batch)[0][1].column("new").to_pylist()
    assert answers == [True, False, False, False, False, False, True, False]
    assert operator.rest().proctime == 42
