"""HOP, CUMULATE and SESSION against plain Python, row by row: any batch size, dumps after each
batch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pytest

from parser.types import BIGINT, INT, STRING, Schema, timestamp
from planner.logical import (
    AggregateCall,
    AlignedWindow,
    AssignWatermark,
    Cumulate,
    Hop,
    LogicalPlan,
    Session,
    SessionAssign,
    WindowAggregate,
    WindowAssign,
)
from sqlengine.batch import Batch, from_pydict
from sqlengine.executors.build_windows import window_operator
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.expressions import evaluate
from sqlengine.operators.base import Operator
from sqlengine.operators.watermark import WatermarkOperator
from tests.operators.windows import Chain, aggregate, delayed, end_of_input, rows

SCHEMA = Schema.of(ts=timestamp(3), k=STRING, v=INT, s=STRING)
DELAY = 2_000
Row = tuple[int, str | None, int, str | None]
CALLS = ("COUNT(*)", "SUM(v)", "MIN(v)", "LISTAGG(s)")
DISTINCT = AggregateCall("distinct", "COUNT DISTINCT", "v", BIGINT.with_nullable(False), INT)


def feed(seed: int, count: int = 150) -> list[Row]:
    """Rows that run ahead and jump back: for some windows they are late, for others not."""
    rng, time, found = random.Random(seed), 100_000, list[Row]()
    for number in range(count):
        time += rng.choice([0, 0, 100, 700, 1_000, 2_500])
        back = rng.choice([0, 0, 0, 500, 2_000, 4_000, 9_000])
        text = None if number % 7 == 0 else str(number)
        found.append((time - back, rng.choice([None, "a", "b", "c"]), rng.randint(-9, 9), text))
    return found


def windows_of(window: AlignedWindow, time: int) -> Iterator[tuple[int, int]]:
    if isinstance(window, Hop):
        start = time - time % window.slide_ms
        while start > time - window.size_ms:
            yield start, start + window.size_ms
            start -= window.slide_ms
    if isinstance(window, Cumulate):
        start, end = time - time % window.size_ms, time - time % window.step_ms + window.step_ms
        yield from ((start, e) for e in range(end, start + window.size_ms + 1, window.step_ms))


@dataclass
class Open:
    start: int
    end: int
    key: str | None
    rows: list[Row]


def naive(feed: Sequence[Row], window: AlignedWindow | Session) -> tuple[list[Open], int]:
    """Returns the windows in the order in which they fire, with their rows, and the number of late
    rows."""
    reached, late, held, done = -(2**63), 0, list[Open](), list[Open]()
    for row in feed:
        found = session(row, held, window.gap_ms, reached) if isinstance(window, Session) else []
        if not isinstance(window, Session):
            for start, end in windows_of(window, row[0]):
                if end - 1 > reached:
                    same = [o for o in held if (o.start, o.end, o.key) == (start, end, row[1])]
                    found.append(same[0] if same else Open(start, end, row[1], []))
                    held += [] if same else found[-1:]
        for one in found:
            one.rows.append(row)
        late += not found
        reached = max(reached, row[0] - DELAY)
        done += sorted((o for o in held if o.end - 1 <= reached), key=lambda o: o.end)
        held = [o for o in held if o.end - 1 > reached]
    return done + sorted(held, key=lambda o: o.end), late


def session(row: Row, held: list[Open], gap_ms: int, reached: int) -> list[Open]:
    own = Open(row[0], row[0] + gap_ms, row[1], [])
    touched = [o for o in held if o.key == own.key and o.start <= own.end and own.start <= o.end]
    if not touched and own.end - 1 <= reached:
        return []
    for other in touched:
        own.start, own.end = min(own.start, other.start), max(own.end, other.end)
        own.rows += other.rows
        held.remove(other)
    held.append(own)
    return [own]


def operators(plan: LogicalPlan) -> list[Operator]:
    made: list[Operator] = []
    while isinstance(plan, WindowAggregate | WindowAssign | SessionAssign):
        made.append(window_operator(plan))
        plan = plan.input
    assert isinstance(plan, AssignWatermark)
    return [WatermarkOperator(plan, evaluate), *reversed(made)]


def run(
    plan: LogicalPlan, feed: Sequence[Row], size: int, restart: bool
) -> tuple[list[tuple[object, ...]], int]:
    """Returns the output, and the number of late rows."""
    chain, found, late = Chain(operators(plan)), list[Batch](), 0
    batches = [batch(feed[i : i + size]) for i in range(0, len(feed), size)]
    for part in [*batches, end_of_input(SCHEMA)]:
        found += chain.push(part)
        late += chain.context.counters.pop("late_rows", 0)
        if restart:
            held = {name: table.dump() for name, table in chain.context.tables.items()}
            chain = Chain(operators(plan), TaskContext(held))
    return rows(b for b in found if b.num_rows), late


def batch(feed: Sequence[Row]) -> Batch:
    return from_pydict(SCHEMA, {n: [r[i] for r in feed] for i, n in enumerate(SCHEMA.names)})


def shared(window: Hop | Cumulate) -> WindowAggregate:
    assigned = WindowAssign(delayed(SCHEMA, "ts", DELAY), window, sliced=True)
    plan = aggregate(assigned, ["k"], *CALLS)
    return WindowAggregate(plan.input, plan.keys, (*plan.aggregates, DISTINCT), shared=window)


def by_session(window: Session) -> WindowAggregate:
    plan = aggregate(delayed(SCHEMA, "ts", DELAY), ["k"], *CALLS)
    return WindowAggregate(plan.input, plan.keys, (*plan.aggregates, DISTINCT), session=window)


WINDOWS = (
    Hop("ts", 1_000, 6_000),
    Hop("ts", 4_000, 10_000),
    Hop("ts", 7_000, 5_000),
    Cumulate("ts", 1_000, 5_000),
    Session("ts", 1_500, ("k",)),
    Session("ts", 4_000, ("k",)),
)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_aggregates(window: Hop | Cumulate | Session, seed: int) -> None:
    plan = by_session(window) if isinstance(window, Session) else shared(window)
    given = feed(seed)
    done, _ = naive(given, window)
    wanted = sorted((shown(o) for o in done), key=repr)
    first: list[tuple[object, ...]] | None = None
    for size, restart in ((1, False), (7, False), (50, True), (1_000, False)):
        found, _ = run(plan, given, size, restart)
        assert sorted((unordered(r) for r in found), key=repr) == wanted
        ends = [cast(int, r[-2]) for r in found]
        assert ends == sorted(ends)
        first = first or found
        kept = (lambda r: r) if isinstance(window, Session) else unordered
        assert list(map(kept, found)) == list(map(kept, first))


def shown(one: Open) -> tuple[object, ...]:
    values = [r[2] for r in one.rows]
    text = [r[3] for r in one.rows if r[3] is not None]
    return (
        one.key,
        len(values),
        sum(values),
        min(values),
        len(text),
        len(set(values)),
        one.start,
        one.end,
        one.end - 1,
    )


def unordered(row: tuple[object, ...]) -> tuple[object, ...]:
    """The row with the length of the list: its order says in which one slices were merged."""
    text = row[4]
    assert text is None or isinstance(text, str)
    return (*row[:4], len(text.split(",")) if text else 0, *row[5:])


@pytest.mark.parametrize("gap_ms", [1_500, 4_000])
@pytest.mark.parametrize("seed", range(2))
def test_rows_with_their_session(gap_ms: int, seed: int) -> None:
    window, given = Session("ts", gap_ms, ("k",)), feed(seed)
    done, late = naive(given, window)
    wanted = sorted(((*r, o.start, o.end, o.end - 1) for o in done for r in o.rows), key=repr)
    for size, restart in ((1, False), (7, True), (1_000, False)):
        found, dropped = run(
            SessionAssign(delayed(SCHEMA, "ts", DELAY), window), given, size, restart
        )
        assert sorted(found, key=repr) == wanted
        assert dropped == late


@pytest.mark.parametrize("window", [Hop("ts", 1_000, 2_000), Session("ts", 1_500, ("k",))], ids=str)
def test_late_rows_become_dead_letters(window: Hop | Session) -> None:
    plan = replace(
        by_session(window) if isinstance(window, Session) else shared(window), tells_late=True
    )
    given = feed(1)
    _, late = naive(given, window)
    chain = Chain(operators(plan))
    for i in range(0, len(given), 40):
        chain.push(batch(given[i : i + 40]))
    letters = [reason for b in chain.letters for reason in b.column("reason").to_pylist()]
    assert late > 0
    assert letters == ["late: its window was over"] * late
