"""Time-based joins with late rows: same output for any batch size and after a restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.types import BOOLEAN, INT, STRING, Schema, TimeAttribute, timestamp
from planner.logical import IntervalJoin, JoinKind, TemporalJoin
from planner.logical.change_kinds import ModifyKindSet
from planner.scalar import Call, ColumnRef
from sqlengine.batch import MAX_WATERMARK, Batch, empty
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.operators.base import Operator
from sqlengine.operators.joins.interval import IntervalJoinOperator
from sqlengine.operators.joins.temporal import TemporalJoinOperator
from tests.operators.test_joins import Source

ROWTIME = timestamp(3).as_attribute(TimeAttribute.ROWTIME)
LEFT = Schema.of(id=INT, k=STRING, t=ROWTIME)
RIGHT = Schema.of(rid=INT, rk=STRING, rt=ROWTIME)
SIDES = (Source(LEFT, ModifyKindSet.NONE), Source(RIGHT, ModifyKindSet.NONE, (frozenset({"rk"}),)))
EQUAL = Call("=", (ColumnRef("k", STRING), ColumnRef("rk", STRING)), BOOLEAN)
# How far the watermark of each side is behind its greatest time.
DELAYS = (2, 1)

Row = tuple[int, int, str | None, int]  # port, id, key, time


def interval(kind: JoinKind) -> Operator:
    return IntervalJoinOperator(IntervalJoin(*SIDES, kind, EQUAL, "t", "rt", -3, 5))


def temporal(kind: JoinKind) -> Operator:
    return TemporalJoinOperator(TemporalJoin(*SIDES, kind, EQUAL, "t", "rt"))


OPERATORS: list[tuple[Callable[[JoinKind], Operator], JoinKind]] = [
    *((interval, kind) for kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)),
    *((temporal, kind) for kind in (JoinKind.INNER, JoinKind.LEFT)),
]
arrivals = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["a", "b", None]),
        st.integers(0, 3),
        st.sampled_from([0, 0, 1, 4, 9]),
    ),
    max_size=30,
)


def feed(given_rows: Sequence[tuple[int, str | None, int, int]]) -> list[Row]:
    """Rows whose times go on, and jump back at times."""
    now, rows = 20, []
    for number, (port, key, more, back) in enumerate(given_rows):
        now += more
        rows.append((port, number, key, now - back))
    return rows


def batches(rows: Sequence[Row], most: int) -> Iterator[tuple[int, Batch]]:
    reached = [0, 0]
    for port, part in groupby(rows, lambda r: r[0]):
        pending = list(part)
        for start in range(0, len(pending), most):
            chunk = pending[start : start + most]
            times = np.array([r[3] for r in chunk])
            after = np.maximum.accumulate(np.maximum(times - DELAYS[port], reached[port]))
            before = np.concatenate([[reached[port]], after[:-1]])
            reached[port] = int(after[-1])
            schema = (LEFT, RIGHT)[port]
            plain = ([r[1] for r in chunk], [r[2] for r in chunk], times)
            columns = tuple(
                pa.array(v).cast(c.type.arrow) for v, c in zip(plain, schema, strict=True)
            )
            yield port, Batch(schema, columns, len(chunk), 0, reached[port], before)
    for port, schema in enumerate((LEFT, RIGHT)):
        yield port, empty(schema, watermark=MAX_WATERMARK)


def run(
    make: Callable[[], Operator], rows: Sequence[Row], most: int, restart: int = -1
) -> Counter[tuple[object, ...]]:
    memory, operator = TaskContext(), make()
    operator.open(memory)
    found: Counter[tuple[object, ...]] = Counter()
    for number, (port, batch) in enumerate(batches(rows, most)):
        if number == restart:
            memory, operator = (
                TaskContext({name: t.dump() for name, t in memory.tables.items()}),
                make(),
            )
            operator.open(memory)
        for _, out in operator.process(port, batch):
            found.update(zip(*(c.to_pylist() for c in out.columns), strict=True))
    assert all(
        len(t) == 0
        for name, t in memory.tables.items()
        if name != "watermarks" and name != "versions"
    )
    return found


@pytest.mark.parametrize(
    ("make", "kind"), OPERATORS, ids=lambda v: getattr(v, "value", getattr(v, "__name__", ""))
)
@settings(max_examples=25, deadline=None)
@given(arrivals, st.integers(2, 9), st.integers(0, 9))
def test_batches_and_restarts_change_nothing(
    make: Callable[[JoinKind], Operator],
    kind: JoinKind,
    given_rows: list[tuple[int, str | None, int, int]],
    most: int,
    restart: int,
) -> None:
    rows = feed(given_rows)
    single = run(lambda: make(kind), rows, 1)
    assert run(lambda: make(kind), rows, most) == single
    assert run(lambda: make(kind), rows, most, restart) == single
    # As if these were too many pairs to be held at once.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sqlengine.operators.joins.rows.MOST_PAIRS", 2)
        assert run(lambda: make(kind), rows, most) == single


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1), st.sampled_from(["a", "b", None]), st.integers(0, 3), st.just(0)
        ),
        max_size=30,
    )
)
def test_rows_in_time_meet_all_that_are_near(
    given_rows: list[tuple[int, str | None, int, int]],
) -> None:
    rows = feed(given_rows)
    sides = [[r for r in rows if r[0] == port] for port in (0, 1)]
    pairs = [
        (a, b)
        for a in sides[0]
        for b in sides[1]
        if a[2] == b[2] is not None and -3 <= a[3] - b[3] <= 5
    ]
    wanted: Counter[tuple[int | None, int | None]] = Counter((a[1], b[1]) for a, b in pairs)
    wanted.update((a[1], None) for a in sides[0] if a not in [p[0] for p in pairs])
    wanted.update((None, b[1]) for b in sides[1] if b not in [p[1] for p in pairs])
    found = run(lambda: interval(JoinKind.FULL), rows, 4)
    assert Counter({(r[0], r[3]): n for r, n in found.items()}) == wanted
