"""Process functions in jobs: what a crash, a change and another job do to what they remember."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import Position, SqlError
from parser.statements import CreateFunction
from parser.types import INT, STRING, Column, Schema, TimeAttribute, timestamp
from planner.logical import ProcessFunction, ProcessTable
from planner.logical.change_kinds import ModifyKindSet
from sqlengine.batch import MIN_WATERMARK, Batch
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.functions.library import Library
from sqlengine.functions.pool import POOL
from sqlengine.machine import THIS
from sqlengine.operators.functions.process_function import ProcessFunctionOperator
from tests.functions.process_module import MODULE
from tests.functions.test_answers import die
from tests.functions.test_python_sinks import Life
from tests.operators.test_joins import Source
from tests.spark.staged import RepeatedFrames, Staged
from tests.support import eventually

TABLES = """
CREATE TABLE visits (name STRING, what STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE told (name STRING, said STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'told', 'format' = 'json');
"""
VISITS = """
import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import dataclass

from sqlengine import ProcessContext, TableRow, process_function


@process_function(deterministic=DETERMINISTIC)
class visits_of:
    @dataclass
    class State:
        STATE

    def eval(self, ctx: ProcessContext[State], input: TableRow) -> Iterator[tuple[str, int]]:
        ctx.state.count += 1
        ctx.set_timer(ctx.time + dt.timedelta(seconds=30), "gone")
        yield "WORD", ctx.state.count + NOISE

    def on_timer(self, ctx: ProcessContext[State], name: str) -> Iterator[tuple[str, int]]:
        yield "gone", ctx.state.count
        ctx.clear()
"""
JOB = """CREATE TEMPORARY FUNCTION visits_of AS 'visiting.visits_of' LANGUAGE PYTHON;
INSERT INTO told SELECT name, f0, f1 FROM visits_of(input => TABLE visits PARTITION BY name,
  on_time => DESCRIPTOR(ts), uid => 'visits')"""


def write(
    life: Life,
    word: str = "hello",
    state: str = "count: int = 0",
    noise: str = "0",
    *,
    deterministic: bool = True,
) -> None:
    text = VISITS.replace("WORD", word).replace("STATE", state).replace("NOISE", noise)
    text = text.replace("DETERMINISTIC", str(deterministic))
    (life.folder / "functions" / "visiting.py").write_text(text)


def begin(life: Life) -> None:
    for topic in ("events", "told"):
        life.engine.broker.create_topic(topic)
    life.engine.submit("tables", TABLES)


def visit(life: Life, *visits: tuple[str, int]) -> None:
    """Visits by name and second."""
    lines = [
        json.dumps({"name": n, "ts": f"2026-01-01 00:{at // 60:02}:{at % 60:02}"}).encode()
        for n, at in visits
    ]
    life.engine.broker.append("events", 0, lines, timestamp_ms=0)


def told(life: Life) -> list[tuple[str, str, int]]:
    read = life.engine.broker.read("told", 0, 0)
    values = [] if read is None else read.values.to_pylist()
    return [tuple(json.loads(v).values()) for v in values]


def wait(life: Life, rows: int) -> list[tuple[str, str, int]]:
    return eventually(lambda: (found := told(life)) and len(found) >= rows and found)


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.slow)])
def life(tmp_path: Path, request: Any) -> Iterator[Life]:
    machine = replace(THIS, spark=lambda config: Staged(2, RepeatedFrames))
    life = Life(tmp_path, request.param, machine)
    begin(life)
    yield life
    life.engine.close()


def test_a_crash_neither_loses_nor_repeats(life: Life) -> None:
    write(life)
    life.engine.submit("visits", JOB)
    expected = []
    for life_number in range(2):
        for n in range(3):
            at = life_number * 6 + n * 2
            visit(life, ("a", at), ("b", at + 1))
            expected += [
                ("a", "hello", life_number * 3 + n + 1),
                ("b", "hello", life_number * 3 + n + 1),
            ]
        wait(life, len(expected))
        die(life)
        life.opened()
    assert sorted(wait(life, len(expected))) == sorted(expected)
    visit(life, ("c", 100), ("c", 101))
    found = wait(life, len(expected) + 4)
    assert sorted(found[len(expected) :]) == [
        ("a", "gone", 6),
        ("b", "gone", 6),
        ("c", "hello", 1),
        ("c", "hello", 2),
    ]


VIEWS = """
from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlengine import ListView, MapView, ProcessContext, TableRow, process_function


@process_function
class viewed:
    @dataclass
    class State:
        last: MapView[str, int] = field(default_factory=MapView)
        all: ListView[str] = field(default_factory=ListView)

    def eval(self, ctx: ProcessContext[State], input: TableRow) -> Iterator[tuple[str, int]]:
        last = ctx.state.last
        last[input.what] = last.get(input.what, 0) + 1
        ctx.state.all.append(input.what)
        yield "".join(ctx.state.all), last[input.what]
"""
VIEWING = """CREATE TEMPORARY FUNCTION viewed AS 'viewing.viewed' LANGUAGE PYTHON;
INSERT INTO told SELECT name, f0, f1 FROM viewed(input => TABLE visits PARTITION BY name, uid => 'views')"""


def test_entries_of_views_outlive_a_crash_and_a_change_of_the_job(life: Life) -> None:
    (life.folder / "functions" / "viewing.py").write_text(VIEWS)
    life.engine.submit("views", VIEWING)
    for number, what in enumerate("xyx", start=1):
        tell(life, what)
        wait(life, number)
        if number == 2:
            die(life)
            life.opened()
    life.engine.submit("views", VIEWING.replace("TABLE visits", "(SELECT name, what FROM visits)"))
    tell(life, "y")
    assert wait(life, 4) == [
        ("a", "x", 1), ("a", "xy", 1), ("a", "xyx", 2), ("a", "xyxy", 2),
    ]  # fmt: skip
    life.engine.submit("views", VIEWING.replace("'views'", "'others'"))
    tell(life, "y")
    assert wait(life, 5)[4:] == [("a", "y", 1)]


def tell(life: Life, what: str) -> None:
    line = json.dumps({"name": "a", "what": what, "ts": "2026-01-01 00:00:00"}).encode()
    life.engine.broker.append("events", 0, [line], timestamp_ms=0)


def test_a_uid_is_one_call_of_a_job(tmp_path: Path) -> None:
    """Of another job it may be another one, and a call that is equal is the same."""
    life = Life(tmp_path)
    begin(life)
    write(life, deterministic=False)
    both = JOB + ";" + JOB.partition(";")[2]
    life.engine.submit("both", both)
    nodes = life.engine.graph.runner.graph.nodes.values()
    assert sum(isinstance(n.plan, ProcessFunction) for n in nodes) == 1
    other = JOB.partition(";")[2].replace("TABLE visits", "(SELECT * FROM visits WHERE name = 'b')")
    with pytest.raises(SqlError, match="uid 'visits' is that of two calls") as refused:
        life.engine.submit("differing", JOB + ";" + other)
    assert refused.value.position is not None
    life.engine.submit("other", JOB.partition(";")[0] + ";" + other)
    life.engine.close()


def test_state_stays_where_its_form_and_the_uid_do(life: Life) -> None:
    write(life)
    life.engine.submit("visits", JOB)
    visit(life, ("a", 1))
    assert wait(life, 1) == [("a", "hello", 1)]
    write(life, "hi")  # other code
    life.engine.submit("visits", JOB)
    visit(life, ("a", 2))
    assert wait(life, 2)[1:] == [("a", "hi", 2)]
    life.engine.submit(
        "visits", JOB.replace("TABLE visits", "TABLE (SELECT * FROM visits WHERE name <> 'b')")
    )
    visit(life, ("b", 3), ("a", 3))
    assert wait(life, 3)[2:] == [("a", "hi", 3)]
    write(life, "hi", "count: int = 0; last: str = ''")  # another state
    life.engine.submit("visits", JOB)
    visit(life, ("a", 4))
    assert wait(life, 4)[3:] == [("a", "hi", 1)]
    life.engine.submit("visits", JOB.replace("'visits'", "'others'"))
    visit(life, ("a", 5))
    assert wait(life, 5)[4:] == [("a", "hi", 1)]


def test_equal_calls_of_two_jobs_are_one(tmp_path: Path) -> None:
    life = Life(tmp_path)
    begin(life)
    write(life)
    both = (
        JOB.replace("INSERT", "BEGIN STATEMENT SET; INSERT")
        + "; "
        + JOB.partition(";")[2]
        + "; END"
    )
    life.engine.submit("visits", both)
    shown = life.engine.explain("visits")
    assert (
        shown.count(
            "ProcessFunction visits_of(input => name, what, ts) by name on time ts as 'visits'"
        )
        > 1
    )
    nodes = life.engine.graph.runner.graph.nodes.values()
    assert sum(isinstance(n.plan, ProcessFunction) for n in nodes) == 1
    life.engine.close()


# ---- batches -------------------------------------------------------------------------------------

ROWS = Schema(
    (
        Column("name", STRING),
        Column("what", STRING),
        Column("ts", timestamp(3).as_attribute(TimeAttribute.ROWTIME)),
    )
)
WORDS = ("set 1", "set 3", "x 2", "x 5", "y 2", "x", "unset 3", "clear", "set -2")
VISITORS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(WORDS), st.integers(0, 12)), max_size=12
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("process")
    (folder / "mine.py").write_text(MODULE)
    yield Library(folder / "modules", (folder,), anywhere=True)
    POOL.stop()


def operator_of(
    library: Library, name: str, schema: Schema, keys: tuple[str, ...] = ("name",)
) -> ProcessFunctionOperator:
    create = CreateFunction((name,), f"mine.{name}", "PYTHON", position=Position(1, 1))
    function = library.load(create, {})
    library.activate([function])
    assert function.process is not None
    timed = "ts" in schema.names
    row = function.result_type
    made = [Column(n, k) for n, k in zip(row.names, row.children, strict=True)]
    node = ProcessFunction(
        Source(schema, ModifyKindSet.NONE),
        function.identity,
        name,
        (),
        (ProcessTable("input", tuple((n, n) for n in schema.names)),),
        keys,
        "ts" if timed else None,
        name,
        keys,
        (*(Column(k, STRING) for k in keys), *made, *((schema.columns[-1],) if timed else ())),
        function.process.state or "timers",
        timers=function.process.timers,
        views=function.process.views,
        ttl_ms=function.process.ttl_ms,
    )
    operator = ProcessFunctionOperator(node)
    operator.open(TaskContext())
    return operator


def given_by(
    operator: ProcessFunctionOperator, rows: Sequence[tuple[Any, ...]], size: int
) -> list[tuple[Any, ...]]:
    """The rows with the watermarks before them, of batches of so many rows."""
    marks, found = [MIN_WATERMARK], list[tuple[Any, ...]]()
    for _, _, at in rows:
        marks.append(max(marks[-1], 1_000 * at))
    for start in range(0, len(rows), size):
        piece = rows[start : start + size]
        columns = (
            pa.array([r[0] for r in piece]),
            pa.array([r[1] for r in piece]),
            pa.array([1_000 * r[2] for r in piece], pa.timestamp("ms")),
        )
        batch = Batch(ROWS, columns, len(piece), 0, marks[start + len(piece)], since=marks[start])
        before = np.array(marks[start : start + len(piece)], np.int64)
        for port, output in operator.process(0, replace(batch, row_watermarks=before)):
            assert port == 0
            values = zip(*(c.to_pylist() for c in output.columns), strict=True)
            found += zip(values, output.watermarks().tolist(), strict=True)
    return found


@given(rows=VISITORS, size=st.integers(1, 5))
@settings(max_examples=15, deadline=None)
def test_it_shows_nowhere_where_a_batch_ends(
    library: Library, rows: Sequence[tuple[Any, ...]], size: int
) -> None:
    whole = given_by(operator_of(library, "timers", ROWS), rows, 100)
    assert given_by(operator_of(library, "timers", ROWS), rows, size) == whole
    marks = [mark for _, mark in whole]
    assert marks == sorted(marks)


def test_state_that_was_not_changed_is_forgotten(library: Library) -> None:
    schema = Schema((Column("name", STRING), Column("n", INT)))
    operator = operator_of(library, "fading", schema)
    counts = []
    for clock, n in ((0, 1), (5_000, 1), (12_000, 0), (16_000, 0), (17_000, 1)):
        columns = (pa.array(["a"]), pa.array([n], pa.int32()))
        batch = Batch(schema, columns, 1, clock)
        ((_, output),) = operator.process(0, batch)
        counts += output.column("f0").to_pylist()
    assert counts == [1, 2, 2, 0, 1]
    assert operator.rest().proctime == 27_000
