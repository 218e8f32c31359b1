"""The cost of joins: a row accesses as much of a large state as of a small one, and a hot key is
emitted in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from parser.types import BOOLEAN, INT, STRING, Schema
from planner.logical import IntervalJoin, Join, JoinKind, LookupJoin, TemporalJoin
from planner.logical.change_kinds import ModifyKindSet
from planner.scalar import Call, ColumnRef
from sqlengine.batch import Batch, empty
from sqlengine.executors.dataflow import flow
from sqlengine.executors.dataflow.flow import Flow, WaitingInput
from sqlengine.executors.dataflow.running_node import RunningNode
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.operators import row_by_row
from sqlengine.operators.base import Operator
from sqlengine.operators.joins import rows as join_rows
from sqlengine.operators.joins.interval import IntervalJoinOperator
from sqlengine.operators.joins.lookup import LookupJoinOperator
from sqlengine.operators.joins.regular import JoinOperator
from sqlengine.operators.joins.temporal import TemporalJoinOperator
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.operators.state_access import count_access
from tests.operators.test_joins import LEFT, RIGHT, Source
from tests.operators.test_timed_joins import LEFT as TIMED_LEFT
from tests.operators.test_timed_joins import RIGHT as TIMED_RIGHT
from tests.sql.golden import FOLDER, Collected, Script, answers, events_of, run

EQUAL = Call("=", (ColumnRef("k", STRING), ColumnRef("rk", STRING)), BOOLEAN)
LESS = Call("<", (ColumnRef("v", INT), ColumnRef("w", INT)), BOOLEAN)
BOTH = Call("AND", (EQUAL, LESS), BOOLEAN)
PLAIN, CHANGING = (
    (Source(LEFT, c), Source(RIGHT, c)) for c in (ModifyKindSet.NONE, ModifyKindSet.ALL)
)
UNIQUE = (
    Source(LEFT, ModifyKindSet.ALL, (frozenset({"id"}),)),
    Source(RIGHT, ModifyKindSet.ALL, (frozenset({"rk"}),)),
)
TIMED = (
    Source(TIMED_LEFT, ModifyKindSet.NONE),
    Source(TIMED_RIGHT, ModifyKindSet.NONE, (frozenset({"rk"}),)),
)

OPERATORS: dict[str, Callable[[], Operator]] = {
    "inner": lambda: JoinOperator(Join(*PLAIN, JoinKind.INNER, BOTH)),
    "full": lambda: JoinOperator(Join(*CHANGING, JoinKind.FULL, EQUAL)),
    "left, unique": lambda: JoinOperator(Join(*UNIQUE, JoinKind.LEFT, EQUAL)),
    "anti": lambda: JoinOperator(Join(*CHANGING, JoinKind.ANTI, BOTH)),
    "kept for a time": lambda: JoinOperator(Join(*PLAIN, JoinKind.INNER, EQUAL, ttl_ms=10**9)),
    "look-up": lambda: LookupJoinOperator(LookupJoin(*PLAIN, JoinKind.LEFT, EQUAL)),
    "interval": lambda: IntervalJoinOperator(
        IntervalJoin(*TIMED, JoinKind.FULL, EQUAL, "t", "rt", -5, 5)
    ),
    "temporal": lambda: TemporalJoinOperator(TemporalJoin(*TIMED, JoinKind.LEFT, EQUAL, "t", "rt")),
}


def rows(schema: Schema, keys: range, each: int, watermark: int = 0) -> Batch:
    """`each` rows of each key; numbers and times go on."""
    names = np.repeat([f"k{k}" for k in keys], each)
    numbers = np.arange(len(names)) % 3 + 1
    columns = (
        np.arange(len(names)),
        names,
        watermark + 10_000 * numbers if schema in TIMES else numbers,
    )
    arrays = tuple(pa.array(v).cast(c.type.arrow) for v, c in zip(columns, schema, strict=True))
    return Batch(schema, arrays, len(names), 0, watermark)


TIMES = (TIMED_LEFT, TIMED_RIGHT)


def sides_of(name: str) -> tuple[Schema, Schema]:
    return TIMES if name in ("interval", "temporal") else (LEFT, RIGHT)


def held(name: str, keys: int) -> Iterator[tuple[int, Batch]]:
    for port, schema in reversed(list(enumerate(sides_of(name)))):
        yield port, rows(schema, range(keys), 3)
    if name == "temporal":  # the time that rows wait for, and that makes versions outdated
        for port, schema in enumerate(TIMES):
            yield port, empty(schema, watermark=40_000)


def coming(name: str) -> Iterator[tuple[int, Batch]]:
    watermark = 40_000 if name == "temporal" else 0
    for start in (0, 10, 20):
        for port, schema in enumerate(sides_of(name)):
            yield port, rows(schema, range(start, start + 10), 2, watermark)


def touched(name: str, keys: int) -> int:
    """How many rows of its state an operator touches for the rows that come, where so many keys are
    held."""
    operator = OPERATORS[name]()
    operator.open(TaskContext())
    for port, batch in held(name, keys):
        list(operator.process(port, batch))
    with count_access() as found:
        for port, batch in coming(name):
            list(operator.process(port, batch))
    return found.rows


@pytest.mark.parametrize("name", OPERATORS)
def test_a_row_accesses_no_more_of_a_larger_state(name: str) -> None:
    small, large = (touched(name, keys) for keys in (400, 800))
    assert 0 < large <= small * 1.05


@pytest.mark.parametrize("name", ["inner", "full", "left, unique", "look-up", "interval"])
def test_a_hot_key_is_emitted_in_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = OPERATORS[name]()
    operator.open(TaskContext())
    monkeypatch.setattr(join_rows, "MOST_PAIRS", 100)
    for port in (1, 0):
        told = [
            out.num_rows
            for _, out in operator.process(port, rows(sides_of(name)[port], range(1), 60))
        ]
    unique = name == "left, unique"  # one right row for each key
    assert sum(told) >= (60 if unique else 1_000)
    assert max(told) <= 130


@pytest.mark.parametrize(
    "name", ["joins/near_times", "joins/as_of", "joins/retraction", "windows/window_join"]
)
def test_pieces_change_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (join_rows, "MOST_PAIRS"), (flow, "_ROWS"), (row_by_row, "_ROWS"):
        monkeypatch.setattr(*place, 2)
    script = Script(FOLDER / f"{name}.sql")
    found, _ = run(script, tmp_path, 4096)
    wanted = answers(script, events_of(script.beside(".expected.jsonl").read_text())[1:])
    assert answers(script, found) == wanted


HOT = """
CREATE TABLE a (k INT, v INT) WITH ('connector' = 'datagen', 'number-of-rows' = '300', 'fields.k.kind' = 'sequence',
  'fields.k.start' = '1', 'fields.k.end' = '300');
CREATE TABLE b (k INT, v INT) WITH ('connector' = 'datagen', 'number-of-rows' = '200', 'fields.k.kind' = 'sequence',
  'fields.k.start' = '1', 'fields.k.end' = '200');
SELECT COUNT(*) AS n, SUM(a.k) AS s FROM a JOIN b ON a.k * 0 = b.k * 0;
"""


def test_nodes_behind_a_hot_key_take_its_pieces_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_rows, "MOST_PAIRS", 500)
    monkeypatch.setattr(flow, "_ROWS", 1_000)
    most, route = 0, Flow._route

    def watched(
        self: Flow, source: RunningNode, port: int, batch: Batch, work: WaitingInput
    ) -> None:
        nonlocal most
        route(self, source, port, batch, work)
        most = max(most, sum(b.num_rows for parts in work.inputs.values() for _, b in parts))

    monkeypatch.setattr(Flow, "_route", watched)
    collected = Collected(HOT)
    with open_runner(tmp_path) as runner:
        Session(runner, collected, settings={"table.exec.mini-batch.enabled": "true"}).run(HOT)
    assert collected.events[-1]["row"] == [60_000, 60_000 // 300 * 45_150]
    assert most <= 2_000
