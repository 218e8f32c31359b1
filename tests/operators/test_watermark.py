"""Watermarks: which inputs hold them back, idle shards, rows without a row time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parser.types import BIGINT, STRING, Schema, timestamp
from planner.logical import Tumble, WindowAssign
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch, empty, from_pydict
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.expressions import evaluate
from sqlengine.operators.watermark import NULL_ROWTIME, WatermarkOperator
from sqlengine.operators.windows.aggregate import WindowAggregateOperator
from sqlengine.operators.windows.assign import WindowAssignOperator
from tests.operators.windows import (
    Chain,
    aggregate,
    delayed,
    end_of_input,
    operators_of,
    rows,
    tumbling,
)

SCHEMA = Schema.of(ts=timestamp(3), k=STRING)


def batch(shard: str, times: list[int | None]) -> Batch:
    return replace(
        from_pydict(SCHEMA, {"ts": times, "k": ["x"] * len(times)}), origin=shard, proctime=5
    )


def chain(delay: int = 0) -> Chain:
    return Chain([WatermarkOperator(delayed(SCHEMA, "ts", delay), evaluate)])


def before(output: list[Batch]) -> tuple[list[int | None], int | None]:
    (one,) = output
    return [none_at_start(w) for w in one.watermarks().tolist()], none_at_start(one.watermark)


def none_at_start(watermark: int) -> int | None:
    return None if watermark == MIN_WATERMARK else watermark


def test_a_row_is_judged_by_the_rows_before_it() -> None:
    operators = chain(delay=2)
    assert before(operators.push(batch("a", [10, 7, 12]))) == ([None, 8, 8], 10)
    assert before(operators.push(batch("a", [3]))) == ([10], 10)
    (tick,) = operators.push(empty(SCHEMA, proctime=9))
    assert (tick.num_rows, tick.proctime) == (0, 9)


def test_the_slowest_shard_decides_and_a_new_one_takes_nothing_back() -> None:
    operators = chain()
    for shard in ("a", "b"):
        operators.push(replace(empty(SCHEMA), origin=shard))
    assert before(operators.push(batch("a", [10, 20]))) == ([None, None], None), (
        "b is known and silent"
    )
    assert before(operators.push(batch("b", [5, 15, 30]))) == ([None, 5, 15], 20)
    assert before(operators.push(replace(empty(SCHEMA), origin="c"))) == ([], 20)
    assert before(operators.push(batch("a", [40]))) == ([20], 20), "c holds it back now"
    assert before(operators.push(batch("c", [25, 50]))) == ([20, 25], 30)
    again = Chain(
        [WatermarkOperator(delayed(SCHEMA, "ts", 0), evaluate)],
        TaskContext({name: table.dump() for name, table in operators.context.tables.items()}),
    )
    assert before(again.push(batch("b", [60]))) == ([30], 40)
    (end,) = again.push(end_of_input(SCHEMA))
    assert end.watermark == MAX_WATERMARK
    assert before(again.push(batch("a", [1])))[0] == [MAX_WATERMARK]


def test_a_shard_that_is_silent_for_long_holds_nothing_back() -> None:
    node = replace(delayed(SCHEMA, "ts", 0), idle_ms=100)
    operator = WatermarkOperator(node, evaluate)
    operators = Chain([operator])

    def at(now: int, shard: str, *times: int) -> tuple[list[int | None], int | None, bool]:
        some = batch(shard, list(times)) if times else replace(empty(SCHEMA), origin=shard)
        (one,) = operators.push(replace(some, proctime=now))
        return *before([one]), one.idle

    for shard in ("a", "b"):
        at(0, shard)
    assert at(1_000, "a", 10, 20) == ([None, None], None, False), "b counts as silent from now on"
    assert operator.timer() == 1_100
    assert at(1_060, "a", 30) == ([None], None, False)
    assert at(1_100, "a") == ([], 30, False), "the tick that was asked for"
    assert operator.timer() == 1_160
    assert at(1_130, "b", 25, 40) == ([30, 30], 30, False), (
        "b is there again, and its first row late"
    )
    assert operator.timer() == 1_160
    assert at(1_160, "a") == ([], 40, False)
    assert at(1_230, "a") == ([], 40, True), "all are silent: time stands still, at the furthest"
    assert operator.timer() is None
    assert at(9_000, "b", 50) == ([40], 40, False), (
        "nobody looked: whether a is silent is to be seen"
    )
    assert at(9_100, "a") == ([], 50, True), "it was, and b, which was not, is silent now, too"


def test_rows_that_come_seldom_do_not_wait_for_silent_shards() -> None:
    """Between two rows of b is much more silence than the timeout; a never has any rows."""
    node = replace(delayed(SCHEMA, "ts", 0), idle_ms=100)
    operators = Chain([WatermarkOperator(node, evaluate)])

    def watermark(now: int, shard: str, *times: int) -> int | None:
        some = batch(shard, list(times)) if times else replace(empty(SCHEMA), origin=shard)
        return before(operators.push(replace(some, proctime=now)))[1]

    for shard in ("a", "b"):
        watermark(0, shard)
    for now in range(1_000, 10_000, 1_000):
        watermark(now, "b", now)
        assert watermark(now + 150, "a") == now


def test_a_watermark_waits_for_the_interval_unless_it_is_that_much_ahead() -> None:
    operator = WatermarkOperator(replace(delayed(SCHEMA, "ts", 0), interval_ms=100), evaluate)
    operators = Chain([operator])

    def at(now: int, *times: int) -> tuple[list[int | None], int | None, int | None]:
        some = batch("a", list(times)) if times else replace(empty(SCHEMA), origin="a")
        return *before(operators.push(replace(some, proctime=now))), operator.timer()

    assert at(1_000, 50, 100) == ([None, None], None, 1_100), (
        "no more than the interval behind 1970"
    )
    assert at(1_050, 101, 150, 210) == ([None, 101, 101], 210, None)
    assert at(1_060, 220) == ([210], 210, 1_160)
    assert at(1_090, 230) == ([210], 210, 1_160)
    again = WatermarkOperator(operator._node, evaluate)
    Chain(
        [again],
        TaskContext({name: table.dump() for name, table in operators.context.tables.items()}),
    )
    assert again.timer() == 1_160, "a restart takes up what waits"
    assert at(1_160) == ([], 230, None), "the tick that was asked for"
    assert at(1_170, 235) == ([230], 230, 1_270)
    assert at(1_300, 240) == ([235], 235, 1_400)
    (end,) = operators.push(end_of_input(SCHEMA))
    assert (end.watermark, operator.timer()) == (MAX_WATERMARK, None)


def test_rows_without_a_time_are_set_aside() -> None:
    operators = chain()
    output = operators.push(batch("a@0", [1, None, 3, None]))
    assert rows(output) == [(1, "x"), (3, "x")]
    assert before(output) == ([None, 1], 3)
    (letters,) = operators.letters
    assert rows([letters])[0][:5] == (
        "",
        "a@0",
        "WATERMARK FOR ts AS ts",
        NULL_ROWTIME,
        '{"ts": null, "k": "x"}',
    )
    assert operators.context.counters["rows_in_error"] == letters.num_rows == 2
    assert output[0].schema.type("ts").is_rowtime


@pytest.mark.parametrize("size", [1, 2, 100])
def test_windows_over_windows(size: int) -> None:
    """What a window gives is in time for the next one, however far one batch moves the
    watermark."""
    inner = tumbling(SCHEMA, "ts", 0, 5, ["k"], ["COUNT(*)"])
    assigned = WindowAssign(inner, Tumble("window_time", 10), ("start", "end", "time"))
    outer = replace(aggregate(assigned, [], "SUM(COUNT(*))"), window_columns=assigned.names)
    operators = Chain(
        [*operators_of(inner), WindowAssignOperator(assigned), WindowAggregateOperator(outer)]
    )
    output: list[Batch] = []
    times: list[int | None] = [1, 2, 6, 11, 9, 16, 17, 31, 12, 48]
    for start in range(0, len(times), size):
        output += operators.push(batch("a", times[start : start + size]))
    output += operators.push(end_of_input(SCHEMA))
    assert [(r[0], r[1], r[2]) for r in rows(output)] == [
        (3, 0, 10),
        (3, 10, 20),
        (1, 30, 40),
        (1, 40, 50),
    ]
    assert operators.context.counters["late_rows"] == 2
    assert BIGINT.same_as(output[0].schema.type("SUM(COUNT(*))"))
    assert np.unique([b.proctime for b in output]).tolist() == [0, 5]
