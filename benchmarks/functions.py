"""What a user's function in Python costs: CPU per row, row by row and vectorised, and how long a
lone row takes."""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks.measure import percentile, resident_mb, tree_cpu_s
from benchmarks.page import Section, Table
from parser.errors import Position
from parser.statements import CreateFunction
from parser.types import BIGINT, STRING, Column, Schema, TimeAttribute, timestamp
from planner.logical import ProcessFunction, ProcessTable, Values
from sqlengine.batch import Batch
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.functions.kernels import ScalarKernel, TableKernel
from sqlengine.functions.library import Library
from sqlengine.functions.pool import POOL
from sqlengine.operators.functions.process_function import ProcessFunctionOperator
from udf import registry
from udf.registry import KernelContext
from udf.user import UserFunction
from udf.vector import Vector

MODULE = """
import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.compute as pc

from sqlengine import ProcessContext, TableRow, async_udf, process_function, udf, udtf

@async_udf()
async def waits(n: int) -> int:
    return n + 1

@process_function
class plain:
    def eval(self, row: TableRow) -> Iterator[int]:
        yield row.n + 1

@process_function
class counts:
    @dataclass
    class State:
        count: int = 0

    def eval(self, ctx: ProcessContext[State], row: TableRow) -> Iterator[int]:
        ctx.state.count += 1
        yield ctx.state.count

@process_function
class watches:
    @dataclass
    class State:
        count: int = 0

    def eval(self, ctx: ProcessContext[State], row: TableRow) -> Iterator[int]:
        ctx.state.count += 1
        ctx.set_timer(ctx.time + dt.timedelta(minutes=1), "silent")
        return ()

    def on_timer(self, ctx: ProcessContext[State], name: str | None) -> Iterator[int]:
        yield ctx.state.count
        ctx.clear()

@udf
def plus_one(n: int) -> int:
    return n + 1

@udf
def upper(text: str) -> str:
    return text.upper()

@udf(vectorized=True)
def plus_one_column(n: int) -> int:
    return pc.add(n, 1)

@udf(vectorized=True)
def upper_column(text: str) -> str:
    return pc.utf8_upper(text)

@udtf
def words(text: str) -> Iterator[str]:
    return text.split(" ")
"""
ROWS = 400_000
KEYS = 1_000
ROW_SCHEMA = Schema(
    (
        Column("k", BIGINT),
        Column("n", BIGINT),
        Column("ts", timestamp(3).as_attribute(TimeAttribute.ROWTIME)),
    )
)
TEXT = "powershell.exe -NoProfile -Command Get-Item "
NUMBERS = pa.array(range(4096), pa.int64())
TEXTS = pa.array([f"{TEXT}{i}" for i in range(4096)])


def run() -> Section:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        (folder / "measured.py").write_text(MODULE)
        library = Library(folder / "store", (folder,))
        began = time.perf_counter()
        users = {
            name: _load(library, name)
            for name in ("plus_one", "upper", "plus_one_column", "upper_column", "words", "waits")
        }
        processes = {name: _load(library, name) for name in ("plain", "counts", "watches")}
        start_s = time.perf_counter() - began
        try:
            rows = [_row(n, users[n]) for n in users]
            processed = [[n, *_figures(_process(processes[n]))] for n in processes]
            (host,) = POOL.hosts()
            memory = resident_mb(host.pid or 0)
        finally:
            POOL.stop()
    builtin = [
        ["n + 1", *_built_in("+", (NUMBERS, pa.scalar(1, pa.int64())))],
        ["UPPER(text)", *_built_in("UPPER", (TEXTS,))],
    ]
    return Section(
        "functions",
        "Functions of users in Python",
        "A kernel is called with batches of the size in the head of the column; CPU of the"
        f" server's side and of the worker together, in µs per row. Texts of {len(TEXT) + 4}"
        " characters. The last columns: one row at a time.",
        [
            Table(
                "CPU µs per row",
                ["function", "4,096 rows", "100 rows", "1 row: p50 µs", "p99 µs"],
                rows,
            ),
            Table(
                f"Process functions over {KEYS:,} keys: without state, with a counter, with a"
                " timer for each key",
                ["function", "4,096 rows", "100 rows", "1 row: p50 µs", "p99 µs"],
                processed,
            ),
            Table(
                "The same built in",
                ["function", "4,096 rows", "100 rows", "1 row: p50 µs", "p99 µs"],
                builtin,
            ),
        ],
        [f"the worker starts in {start_s:.2f} s beside the stream, and takes {memory:.0f} MB"],
    )


def _load(library: Library, name: str) -> UserFunction:
    user = library.load(
        CreateFunction(("f",), f"measured.{name}", "PYTHON", position=Position(1, 1)), {}
    )
    library.activate([user])
    return user


def _row(name: str, user: UserFunction) -> list[str]:
    values = TEXTS if "STRING" in user.parameters[0].type else NUMBERS
    scalar = (
        ScalarKernel(user, user.parameter_types, user.result_type)
        if user.kind == "scalar"
        else None
    )
    table = TableKernel(user, user.parameter_types) if scalar is None else None

    def call(size: int) -> None:
        args = [Vector(values.slice(0, size))]
        if scalar is not None:
            scalar(args, size)
        elif table is not None:
            table(args, size)

    return [name, *_figures(call)]


def _process(user: UserFunction) -> Callable[[int], None]:
    """Calls a process function with rows a second later each time."""
    assert user.process is not None
    made = Column("f0", BIGINT)
    node = ProcessFunction(
        Values((), ROW_SCHEMA), user.identity, user.place, (),
        (ProcessTable("row", (("k", "k"), ("n", "n"), ("ts", "ts"))),), ("k",), "ts", "uid", ("k",),
        (Column("k", BIGINT), made, ROW_SCHEMA.columns[-1]),
        user.process.state, timers=user.process.timers,
    )  # fmt: skip
    operator = ProcessFunctionOperator(node)
    operator.open(TaskContext())
    clock = itertools.count(1)
    keys = pa.array([i * 7 % KEYS for i in range(4096)])

    def call(size: int) -> None:
        at = 1_000 * next(clock)
        times = pa.array([at] * size, pa.timestamp("ms"))
        columns = (keys.slice(0, size), NUMBERS.slice(0, size), times)
        batch = Batch(ROW_SCHEMA, columns, size, at, at, since=at - 1_000)
        for _ in operator.process(0, batch):
            pass

    return call


def _built_in(name: str, values: tuple[pa.Array | pa.Scalar, ...]) -> list[str]:
    definition = registry.lookup(name)
    assert definition is not None
    kind = BIGINT if name == "+" else STRING
    types = (kind,) * len(values)

    def call(size: int) -> None:
        args = [Vector(v.slice(0, size) if isinstance(v, pa.Array) else v) for v in values]
        registry.call(definition, args, KernelContext(size, kind, types))

    return _figures(call)


def _figures(call: Callable[[int], None]) -> list[str]:
    call(4096)
    figures = [f"{_cpu_us(call, size):.2f}" for size in (4096, 100)]
    times = []
    for _ in range(2000):
        began = time.perf_counter()
        call(1)
        times.append(1e6 * (time.perf_counter() - began))
    return [*figures, f"{statistics.median(times):.0f}", f"{percentile(times, 0.99):.0f}"]


def _cpu_us(call: Callable[[int], None], size: int) -> float:
    """CPU µs per row of this process and its children, to the resolution of the system's clock
    ticks."""
    rows = ROWS if size > 1000 else ROWS // 4
    before = tree_cpu_s(os.getpid())
    for _ in range(rows // size):
        call(size)
    return 1e6 * (tree_cpu_s(os.getpid()) - before) / rows
