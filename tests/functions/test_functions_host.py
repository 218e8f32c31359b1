"""The host and its worker without a server: any values there and back, rows at fault wherever they
are, content by hash."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parser.errors import Position
from parser.statements import CreateFunction
from sqlengine.functions.aggregates import UserAggregate
from sqlengine.functions.kernels import ScalarKernel, TableKernel
from sqlengine.functions.library import Library
from sqlengine.functions.limits import FunctionLimits
from sqlengine.functions.pool import POOL
from sqlengine.functions.store import ModuleStore, Sources, collect
from sqlengine.system.interrupts import Interrupts
from tests.support import eventually
from udf.aggregates.accumulators import empty_accumulator
from udf.user import UserFunction
from udf.vector import Vector

MODULE = """
import os, time
from collections.abc import Iterator
import pyarrow as pa, pyarrow.compute as pc
from sqlengine import udaf, udf, udtf

def fate(n: int) -> None:
    if n == 1:
        raise ValueError("raised")
    if n == 2:
        os._exit(2)

@udf
def echo(n: int | None, text: str | None, items: list[int | None] | None) -> str:
    return repr((n, text, items))

@udf
def risky(n: int) -> int:
    fate(n)
    return n * 10

@udf(vectorized=True)
def risky_column(n: int) -> int:
    for value in n.to_pylist():
        fate(value)
    return pc.multiply(n, 10)

@udtf
def risky_rows(n: int) -> Iterator[int]:
    fate(n)
    yield from range(n % 4)

@udf
def pid() -> int:
    return os.getpid()


@udf
def slow(path: str) -> str:
    open(path, "w").close()
    time.sleep(1)
    return path

@udaf
class Total:
    def create_accumulator(self) -> int:
        return 0

    def accumulate(self, acc: int, n: int) -> int:
        fate(n)
        return acc + n

    def retract(self, acc: int, n: int) -> int:
        return acc - n

    def merge(self, acc: int, other: int) -> int:
        return acc + other

    def get_value(self, acc: int) -> int:
        return acc
"""
LIMITS = FunctionLimits(row_s=2.0, failures=1000)
MANY = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("host")
    (folder / "hosted.py").write_text(MODULE)
    yield Library(folder / "store", (folder,), limits=LIMITS)
    POOL.stop()


def load(library: Library, name: str) -> UserFunction:
    user = library.load(
        CreateFunction(("f",), f"hosted.{name}", "PYTHON", position=Position(1, 1)), {}
    )
    library.activate([user])
    return user


def column(values: list[object], kind: pa.DataType) -> Vector:
    return Vector(pa.array(values, kind))


texts = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"])))
numbers = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
lists = st.one_of(st.none(), st.lists(numbers, max_size=4))


@MANY
@given(rows=st.lists(st.tuples(numbers, texts, lists), max_size=20))
def test_a_function_sees_the_values_that_there_are(
    library: Library, rows: list[tuple[object, object, object]]
) -> None:
    user = load(library, "echo")
    kinds = [pa.int64(), pa.string(), pa.list_(pa.int64())]
    args = [column([r[i] for r in rows], kind) for i, kind in enumerate(kinds)]
    result = ScalarKernel(user, user.parameter_types, user.result_type)(args, len(rows))
    assert result.errors is None
    assert result.values.to_pylist() == [repr(r) for r in rows]


# 1 raises, 2 ends the process: one of each at most, since every process takes its time to start.
fates = st.lists(st.integers(3, 9), min_size=1, max_size=40).flatmap(
    lambda good: (
        st.permutations([*good, None, 1, 2]) if len(good) % 3 == 0 else st.just([*good, 1, 1])
    )
)


@MANY
@given(rows=fates)
@pytest.mark.parametrize("name", ["risky", "risky_column"])
def test_only_the_rows_at_fault_have_errors(
    library: Library, name: str, rows: list[int | None]
) -> None:
    user = load(library, name)
    kernel = ScalarKernel(user, user.parameter_types, user.result_type)
    result = kernel([column(list(rows), pa.int64())], len(rows))
    assert result.errors is not None
    assert result.errors.mask.tolist() == [n in (1, 2) for n in rows]
    assert result.values.to_pylist() == [None if n in (None, 1, 2) else n * 10 for n in rows]
    expected = {
        1: "ValueError: raised (hosted.py, line 9)",
        2: f"hosted.{name}: its process ended with code 2",
    }
    assert all(result.errors.reason(i) == expected[n] for i, n in enumerate(rows) if n in (1, 2))


@MANY
@given(rows=fates)
def test_rows_of_a_table_function_belong_to_their_row(
    library: Library, rows: list[int | None]
) -> None:
    user = load(library, "risky_rows")
    found = TableKernel(user, user.parameter_types)([column(list(rows), pa.int64())], len(rows))
    expected = [(i, k) for i, n in enumerate(rows) if n not in (None, 1, 2) for k in range(n % 4)]
    assert list(zip(found.rows.tolist(), found.columns[0].to_pylist(), strict=True)) == expected
    assert found.errors is not None
    assert found.errors.mask.tolist() == [n in (1, 2) for n in rows]


@MANY
@given(rows=fates, data=st.data())
def test_an_aggregate_counts_every_good_row_once(
    library: Library, rows: list[int | None], data: st.DataObject
) -> None:
    user = load(library, "Total")
    total = UserAggregate(user, user.parameter_types)
    slots = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows))), np.int64
    )
    selected = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    acc, everything = empty_accumulator(total.accumulators, 3), np.arange(3)
    values = pa.array(rows, pa.int64())
    errors = total.update(acc, slots, values, selected)
    failed = errors.mask.tolist() if errors is not None else [False] * len(rows)
    assert failed == [n in (1, 2) and bool(s) for n, s in zip(rows, selected, strict=True)]
    counted = [
        (n, int(s))
        for n, s, b, f in zip(rows, slots, selected, failed, strict=True)
        if n and b and not f
    ]
    sums = [sum(n for n, s in counted if s == slot) for slot in range(3)]
    vector = total.result(acc, everything)
    assert (vector.errors, vector.values.to_pylist()) == (None, sums)

    other = empty_accumulator(total.accumulators, 3)
    total.update(other, np.array([0, 1]), pa.array([100, 200]), np.ones(2, np.bool_))
    assert total.merge(acc, everything, other, everything) is None
    assert total.result(acc, everything).values.to_pylist() == [
        sums[0] + 100,
        sums[1] + 200,
        sums[2],
    ]
    assert total.retract(acc, np.array([0]), pa.array([100]), np.ones(1, np.bool_)) is None
    assert total.result(acc, np.array([0])).values.to_pylist() == [sums[0]]


def test_a_worker_that_is_killed_is_started_again_and_no_row_pays_for_it(library: Library) -> None:
    user = load(library, "pid")
    kernel = ScalarKernel(user, (), user.result_type)
    first = kernel([], 1).values.to_pylist()[0]
    os.kill(first, signal.SIGKILL)
    again = kernel([], 3)
    if again.errors is not None:  # it died while it was asked: that row it is
        again = kernel([], 3)
    assert again.errors is None
    assert first not in again.values.to_pylist()


def test_a_call_that_is_interrupted_leaves_no_answer_for_the_next(
    library: Library, tmp_path: Path
) -> None:
    slow, risky = load(library, "slow"), load(library, "risky")
    interrupts, at_work = Interrupts(KeyboardInterrupt), tmp_path / "at work"

    def call() -> None:
        interrupts.begin()
        try:
            interrupts.permit()
            kernel = ScalarKernel(slow, slow.parameter_types, slow.result_type)
            kernel([column([str(at_work)], pa.string())], 1)
        finally:
            interrupts.permitted = False
            interrupts.end()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
        eventually(at_work.exists)
        while not future.done():  # also while its worker is ended
            interrupts.ask()
            time.sleep(0.001)
        assert isinstance(future.exception(), KeyboardInterrupt)
    kernel = ScalarKernel(risky, risky.parameter_types, risky.result_type)
    answer = kernel([column([3], pa.int64())], 1)
    assert (answer.values.to_pylist(), answer.errors) == ([30], None)


def test_content_is_all_that_is_imported_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import b\n\ndef f():\n    from pack.inner import x\n    import json\n"
    )
    (tmp_path / "b.py").write_text("import a\nimport no_such\n")
    (tmp_path / "unrelated.py").write_text("")
    (tmp_path / "pack").mkdir()
    for name in ("__init__.py", "inner.py", "data.csv"):
        (tmp_path / "pack" / name).write_text("")
    sources = collect("a", tmp_path)
    assert sources is not None
    assert sorted(sources.files) == [
        "a.py",
        "b.py",
        "pack/__init__.py",
        "pack/data.csv",
        "pack/inner.py",
    ]
    assert collect("missing", tmp_path) is None
    store = ModuleStore(tmp_path / "store")
    folder = store.put(sources)
    assert store.put(Sources(dict(reversed(list(sources.files.items()))))) == folder
    (tmp_path / "b.py").write_text("import a\n")
    changed = collect("a", tmp_path)
    assert changed is not None
    assert changed.content != sources.content
    assert (folder / "b.py").read_text() == "import a\nimport no_such\n"


def test_functions_of_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "packaged_tools.py").write_text(
        "from sqlengine import udf\n\n@udf\ndef shout(text: str) -> str:\n    return text + '!'\n"
    )
    about = tmp_path / "packaged_tools-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: packaged-tools\nVersion: 1.0\n")
    points = (
        "[sqlengine.functions]\nshout = packaged_tools:shout\nabsent = packaged_tools:absent\nlost"
        " = no_such_package:f\n"
    )
    (about / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = dict(Library(tmp_path / "store", ()).entry_points())
    assert isinstance(found["shout"], UserFunction)
    assert found["shout"].signature == "shout(text STRING) -> STRING"
    assert "has no 'absent'" in str(found["absent"])
    assert "is not installed" in str(found["lost"])
