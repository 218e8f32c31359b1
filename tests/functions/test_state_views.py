"""Views of state: entries that are read one by one, whatever happens to the worker and the time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from parser.errors import SqlError
from parser.types import INT, STRING, Column, Schema
from sqlengine import ListView, MapView, ValueView
from sqlengine.batch import Batch
from sqlengine.functions.library import Library
from sqlengine.functions.limits import FunctionLimits
from sqlengine.functions.pool import POOL
from sqlengine.session.session import Session
from tests.functions.sessions import opened, run
from tests.functions.test_process_jobs import operator_of

MODULE = '''
from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from sqlengine import ListView, MapView, ProcessContext, TableRow, ValueView, process_function


@dataclass
class Many:
    n: int = 0
    of: MapView[str, int] = field(default_factory=MapView)
    names: ListView[str] = field(default_factory=ListView)
    last: ValueView[dict[str, int]] = field(default_factory=ValueView)


@process_function(output="ROW<said STRING>")
class held:
    """Does with its state what the rows say."""

    State = Many

    def eval(self, ctx: ProcessContext[Many], input: TableRow) -> Iterator[str]:
        state = ctx.state
        state.n += 1
        match input.what.split():
            case ["put", name, n]:
                state.of[name] = int(n)
                state.names.append(name)
                state.last.value = {name: int(n)}
            case ["add", name]:
                state.of[name] = state.of.get(name, 0) + 1
            case ["drop", name]:
                del state.of[name]
                state.names.remove(name)
            case ["clear"]:
                state.of.clear()
                state.names.clear()
                state.last.value = None
            case ["forget"]:
                ctx.clear_state()
            case ["raise", name]:
                state.of[name] = -1
                state.names.clear()
                raise ValueError(name)
            case ["exit", name]:
                state.of[name] = -2
                os._exit(7)
        state = ctx.state
        yield f"{state.n} {dict(state.of)} {list(state.names)} {state.last.value}"


@dataclass
class Brief:
    short: Annotated[MapView[str, int], dt.timedelta(seconds=10)] = field(default_factory=MapView)
    long: MapView[str, int] = field(default_factory=MapView)
    flag: Annotated[ValueView[bool], dt.timedelta(seconds=5)] = field(default_factory=ValueView)


@process_function(output="ROW<said STRING>")
class brief:
    State = Brief

    def eval(self, ctx: ProcessContext[Brief], input: TableRow) -> Iterator[str]:
        yield f"{sorted(ctx.state.short)} {sorted(ctx.state.long)} {ctx.state.flag.value}"
        if input.n:
            ctx.state.short[f"k{input.n}"] = ctx.state.long[f"k{input.n}"] = input.n
            ctx.state.flag.value = True


@process_function(output="ROW<n BIGINT>", optional_partition=True)
class huge:
    """Asks for one entry of many."""

    @dataclass
    class State:
        seen: MapView[str, int] = field(default_factory=MapView)

    def eval(self, ctx: ProcessContext[State], input: TableRow) -> Iterator[int]:
        seen = ctx.state.seen
        known = 0 if input.n else seen.get(input.name, 0)
        seen[input.name] = known + 1
        yield known


@process_function
class timed_field:
    @dataclass
    class State:
        n: Annotated[int, dt.timedelta(hours=1)] = 0

    def eval(self, ctx: ProcessContext[State], input: TableRow) -> Iterator[int]:
        yield 1


@process_function
class bare_view:
    @dataclass
    class State:
        n: MapView = field(default_factory=MapView)

    def eval(self, ctx: ProcessContext[State], input: TableRow) -> Iterator[int]:
        yield 1
'''
NAMES = ("held", "brief", "huge")
MOVES = [
    ("a", "put x 1"),
    ("b", "put x 7"),
    ("a", "put y 2"),
    ("a", "raise y"),
    ("a", "add y"),
    ("a", "exit y"),
    ("a", "drop x"),
    ("b", "drop nothing"),
    ("b", "add x"),
    ("b", "clear"),
    ("b", "put z 9"),
    ("b", "raise w"),
    ("b", "see"),
    ("a", "forget"),
    ("a", "put v 3"),
]
SAID = [
    ("a", "1 {'x': 1} ['x'] {'x': 1}"),
    ("b", "1 {'x': 7} ['x'] {'x': 7}"),
    ("a", "2 {'x': 1, 'y': 2} ['x', 'y'] {'y': 2}"),
    ("a", "3 {'x': 1, 'y': 3} ['x', 'y'] {'y': 2}"),
    ("a", "4 {'y': 3} ['y'] {'y': 2}"),
    ("b", "2 {'x': 8} ['x'] {'x': 7}"),
    ("b", "3 {} [] None"),
    ("b", "4 {'z': 9} ['z'] {'z': 9}"),
    ("b", "5 {'z': 9} ['z'] {'z': 9}"),
    ("a", "0 {} [] None"),
    ("a", "1 {'v': 3} ['v'] {'v': 3}"),
]


@pytest.fixture(scope="module", params=[1, 1000])
def session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("views")
    path = folder / "moves.json"
    path.write_text("".join(json.dumps({"name": n, "what": w}) + "\n" for n, w in MOVES))
    table = f"""CREATE TABLE moves (name STRING, what STRING)
        WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');"""
    limits = FunctionLimits(row_s=2, failures=100)
    with opened(folder, MODULE, NAMES, limits, table, request.param) as session:
        yield session


def test_a_fault_costs_the_entries_that_it_wrote(session: Session) -> None:
    assert run(session, "SELECT * FROM held(TABLE moves PARTITION BY name)") == SAID


@pytest.mark.parametrize(
    ("name", "says"),
    [("timed_field", "a time to live of its own"), ("bare_view", "does not say what its entries")],
)
def test_views_that_are_wrong(session: Session, name: str, says: str) -> None:
    with pytest.raises(SqlError) as refused:
        run(session, f"CREATE TEMPORARY FUNCTION wrong AS 'mine.{name}' LANGUAGE PYTHON")
    assert says in str(refused.value.detail)


def test_a_view_of_no_job_holds_its_entries_itself() -> None:
    of, names, last = MapView[str, int](), ListView[str](), ValueView[int]()
    of["a"] = 1
    of.update(b=2)
    assert of.pop("a") == 1
    assert (dict(of), "a" in of, of.get("a"), len(of)) == ({"b": 2}, False, None, 1)
    names.extend("xyx")
    names.remove("x")
    assert list(names) == ["y", "x"]
    last.value = 3
    assert last.value == 3
    for view in (of, names, last):
        view.clear()
    emptied: object = last.value
    assert (len(of), len(names), emptied) == (0, 0, None)
    with pytest.raises(ValueError, match="not in the list"):
        names.remove("x")


# ---- the operator --------------------------------------------------------------------------------

ROWS = Schema((Column("name", STRING), Column("n", INT)))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("process")
    (folder / "mine.py").write_text(MODULE)
    yield Library(folder / "modules", (folder,), anywhere=True)
    POOL.stop()


def batch(names: list[str], numbers: list[int], clock: int) -> Batch:
    return Batch(ROWS, (pa.array(names), pa.array(numbers, pa.int32())), len(names), clock)


def test_each_entry_has_its_time(library: Library) -> None:
    operator = operator_of(library, "brief", ROWS)
    said = []
    for clock, n in ((0, 1), (4_000, 2), (9_500, 0), (10_500, 0), (14_500, 0)):
        ((_, output),) = operator.process(0, batch(["a"], [n], clock))
        said += output.column("said").to_pylist()
    assert said == [
        "[] [] None",
        "['k1'] ['k1'] True",
        "['k1', 'k2'] ['k1', 'k2'] None",
        "['k2'] ['k1', 'k2'] None",
        "[] ['k1', 'k2'] None",
    ]
    assert operator.rest().proctime > 1 << 60


def test_a_row_costs_the_same_beside_a_hundred_thousand_entries(library: Library) -> None:
    operator = operator_of(library, "huge", ROWS, keys=())

    def took(first: int) -> float:
        """Seconds of the server's CPU for rows that come one by one."""
        began = time.process_time()
        for i in range(first, first + 20):
            ((_, output),) = operator.process(0, batch([f"n{i}"], [0], 0))
            assert output.column("n").to_pylist() == [int(i < 100_000)]
        return time.process_time() - began

    few = max(took(100_000), 0.02)
    names = [f"n{i}" for i in range(100_000)]
    list(operator.process(0, batch(names, [1] * len(names), 0)))
    assert min(took(1_000 * i) for i in range(3)) < 4 * few
