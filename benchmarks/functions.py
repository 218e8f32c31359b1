"""What a user's function in Python costs: CPU per row, row by row and vectorised, and how long a
lone row takes."""

from __future__ import annotations

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
from parser.types import BIGINT, STRING
from sqlengine.functions.kernels import ScalarKernel, TableKernel
from sqlengine.functions.library import Library
from sqlengine.functions.pool import POOL
from udf import registry
from udf.registry import KernelContext
from udf.user import UserFunction
from udf.vector import Vector

MODULE = """
from collections.abc import Iterator

import pyarrow.compute as pc

from sqlengine import udf, udtf

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
            for name in ("plus_one", "upper", "plus_one_column", "upper_column", "words")
        }
        start_s = time.perf_counter() - began
        try:
            rows = [_row(n, users[n]) for n in users]
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
