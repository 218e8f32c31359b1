"""Values that are longer than 'value-size' are errors, before they take memory; all shorter ones
are what they are without a limit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from parser.limits import present, using
from parser.types import INT, STRING, DataType, array
from tests.hostile.scripts import MB, run_script
from tests.service.harness import User, rule
from tests.support import eventually
from udf.bounds import ELEMENT, row_bytes, size_of
from udf.registry import KernelContext, bind, call, lookup
from udf.vector import ColumnTooLarge, Vector

TEXTS = ["", "a", "héllo", None, "aXbXc" * 7, "漢字" * 9, "aaaa" * 20]
LISTS = [["a", None, "bb"], [], None, ["x" * 30] * 3, ["é"], [None], ["q"] * 40]
NUMBERS = [0, -3, 7, None, 2, 30, 9]
CALLS: list[tuple[str, list[DataType], list[Sequence[object]]]] = [
    ("||", [STRING, STRING], [TEXTS, TEXTS[::-1]]),
    ("CONCAT", [STRING] * 3, [TEXTS, TEXTS, TEXTS[::-1]]),
    ("CONCAT_WS", [STRING] * 3, [TEXTS[::-1], TEXTS, TEXTS]),
    ("REPEAT", [STRING, INT], [TEXTS, NUMBERS]),
    ("LPAD", [STRING, INT, STRING], [TEXTS, NUMBERS, TEXTS[::-1]]),
    ("RPAD", [STRING, INT, STRING], [TEXTS, NUMBERS, ["é", "ab", "", "x", "漢a", "b", "c"]]),
    ("REPLACE", [STRING] * 3, [TEXTS, ["", "a", "l", "X", "X", "", "aa"], TEXTS[::-1]]),
    ("REGEXP_REPLACE", [STRING] * 3, [TEXTS, ["", "a", "l+", "X", "X", "", "a"], TEXTS[::-1]]),
    ("SPLIT", [STRING, STRING], [TEXTS, ["", "a", "l", "X", "X", "", "aa"]]),
    ("ARRAY_JOIN", [array(STRING), STRING, STRING], [LISTS, TEXTS, TEXTS[::-1]]),
    ("ARRAY_CONCAT", [array(STRING), array(STRING)], [LISTS, LISTS[::-1]]),
    ("ARRAY", [STRING, STRING], [TEXTS, TEXTS[::-1]]),
    ("MAP", [STRING, STRING], [["a", "b", "c", "d", "e", "f", "g"], TEXTS]),
]


def columns(types: list[DataType], values: list[Sequence[object]]) -> list[Vector]:
    return [Vector(pa.array(v, t.arrow)) for t, v in zip(types, values, strict=True)]


def applied(name: str, types: list[DataType], args: list[Vector]) -> Vector:
    bound = bind(name, types)
    rows = next((len(a.values) for a in args if isinstance(a.values, pa.Array)), 1)
    return call(bound.definition, args, KernelContext(rows, bound.result_type, bound.arg_types))


@pytest.mark.parametrize(("name", "types", "values"), CALLS, ids=[c[0] for c in CALLS])
def test_the_declared_length_is_never_less_than_the_real_one(
    name: str, types: list[DataType], values: list[Sequence[object]]
) -> None:
    definition = lookup(name)
    assert definition is not None
    growth = definition.growth
    assert growth is not None
    args = columns(types, values)
    real = row_bytes(applied(name, types, args).array(len(TEXTS)))
    given = [a.values for a in args]
    most = growth.most(len(TEXTS), *[size_of(v, len(TEXTS), counts=growth.counts) for v in given])
    exact = growth.exact(len(TEXTS), *given)
    assert (exact >= real).all(), (exact, real)
    # Nothing shorter is refused: but for a cut text, which is no longer than it was.
    there = real > ELEMENT * 2
    assert (exact <= real + ELEMENT * 2)[there & (real > 10)].all() or name in ("LPAD", "RPAD")
    assert most >= exact.sum()
    if growth.rough is not None:
        assert (growth.rough(len(TEXTS), *given) >= exact).all()


@pytest.mark.parametrize(("name", "types", "values"), CALLS, ids=[c[0] for c in CALLS])
def test_rows_beyond_the_limit_are_errors_and_the_others_as_before(
    name: str, types: list[DataType], values: list[Sequence[object]]
) -> None:
    args = columns(types, values)
    before = applied(name, types, args).array(len(TEXTS))
    with using(value_size=60):
        after = applied(name, types, args)
    errors = np.zeros(len(TEXTS), bool) if after.errors is None else after.errors.mask
    assert errors.any() or name in ("MAP",)
    kept = pa.array(~errors)
    assert after.array(len(TEXTS)).filter(kept).equals(before.filter(kept))
    assert (row_bytes(before)[errors] > 40).all() or name in ("LPAD", "RPAD")
    if after.errors is not None:
        reason = after.errors.reason(int(np.flatnonzero(errors)[0]))
        assert reason.startswith(f"{name}: the value has ")


def test_constants_and_columns() -> None:
    args = [Vector(pa.scalar("a" * 1000)), Vector(pa.array([1, 10**9, 2], pa.int32()))]
    vector = applied("REPEAT", [STRING, INT], args)
    assert vector.errors is not None
    assert vector.errors.mask.tolist() == [False, True, False]
    assert [len(t or "") for t in vector.array(3).to_pylist()] == [1000, 0, 2000]
    with using(column_size=2500), pytest.raises(ColumnTooLarge):
        applied("REPEAT", [STRING, INT], args)
    with using(column_size=2500), pytest.raises(ColumnTooLarge):
        Vector(pa.scalar("a" * 1000)).array(3)
    assert present().column_size == 64 * MB


@pytest.mark.slow
def test_columns_that_are_too_large_are_computed_in_parts(tmp_path: Path) -> None:
    """Rows, their order and random values do not show it."""
    run = run_script(
        tmp_path,
        """SET 'execution.runtime-mode' = 'batch';
        CREATE TABLE n (i INT) WITH ('connector' = 'datagen', 'number-of-rows' = '9000',
        'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '9000');
        SELECT COUNT(*) AS n, COUNT(DISTINCT u) AS u, SUM(i) AS i, SUM(CHAR_LENGTH(s)) AS s
        FROM (SELECT i, UUID() AS u, REPEAT('a', 100000) || CAST(i AS STRING) AS s FROM n)
        WHERE s LIKE 'aa%';
        SELECT MAX(CHAR_LENGTH(s)) AS m FROM (SELECT REPEAT('b', 100000) AS s FROM n);""",
    )
    assert run.out == ('{"n": 9000, "u": 9000, "i": 40504500, "s": 900034893}\n{"m": 100000}\n'), (
        run.err
    )
    assert run.memory < 700 * MB, run


def test_one_row_never_takes_gigabytes(tmp_path: Path) -> None:
    """Calls while planning and running, chains of views, and aggregates; the row beside is there."""
    views = "".join(
        f"CREATE TEMPORARY VIEW v{i} AS SELECT s || s AS s FROM v{i - 1};" for i in range(1, 40)
    )
    run = run_script(
        tmp_path,
        f"""SET 'job.on-error' = 'dead-letter';
        SELECT REPLACE(REPEAT('a', 1000000), 'a', REPEAT('b', 10000));
        SELECT PRINTF(REPEAT('%1$65536s', 100000), 'x');
        CREATE TABLE far (s STRING) WITH ('connector' = 'datagen', 'fields.s.length' = '2000000000');
        SELECT * FROM far;
        CREATE TABLE long (s STRING)
        WITH ('connector' = 'datagen', 'fields.s.length' = '100000', 'number-of-rows' = '40');
        SELECT CHAR_LENGTH(s) AS n FROM long;
        CREATE TEMPORARY VIEW v0 AS SELECT s FROM (VALUES ('abcdefgh'), ('')) AS t (s);
        {views}
        SELECT CHAR_LENGTH(s) AS n FROM v39;
        SELECT CHAR_LENGTH(LISTAGG(REPEAT(s, 1000000))) AS n FROM v1;
        SELECT CHAR_LENGTH(LISTAGG(REPEAT(v1.s, 1000000))) AS n FROM v1, v0;
        SELECT 1 AS beside;""",
    )
    rows = run.out.splitlines()
    assert rows[:41] == ['{"n": 100000}'] * 40 + ['{"n": 0}'], run.err
    assert "values of column 's' would have 2,000,000,000 bytes" in run.err
    assert max(int(r.get("n", 0)) for r in map(json.loads, rows)) == 16_000_001
    assert rows[-1] == '{"beside": 1}'
    assert "REPLACE: the value has 10,000,000,000 bytes" in run.err
    assert "5 rows in error" in run.err
    assert run.memory < 700 * MB, run


def test_jobs_beside_are_exact(user: User) -> None:
    """Values that grow with each row, in dead letters of their own job; a dry run takes nothing."""
    huge = "REPLACE(REPEAT('a', 1000000), 'a', REPEAT('b', 10000))"
    grown = [
        f"CREATE TEMPORARY VIEW g{i} AS SELECT id, w || w AS w FROM g{i - 1};" for i in range(1, 40)
    ]
    before = user.metric("sqlengine_memory_bytes")
    user.submit("huge", f"INSERT INTO alerts SELECT {huge}, id FROM events", dry_run="true")
    user.submit("huge", f"INSERT INTO alerts SELECT {huge}, id FROM events")
    user.submit(
        "grown",
        "CREATE TEMPORARY VIEW g0 AS SELECT id, word AS w FROM events;"
        + "".join(grown)
        + "INSERT INTO alerts SELECT w, id FROM g39",
    )
    user.submit("good", rule("good", "word = 'abcd'"))
    for word in ("abcd", "b", "abcd"):
        assert user.fired(word) == ({"good"} if word == "abcd" else set())
    reasons = {
        (x["job"], x["reason"].partition(":")[0]) for x in eventually(user.letters, "letters")
    }
    assert reasons == {("huge", "REPLACE"), ("grown", "||")}
    assert user.metric("sqlengine_memory_bytes") < before + 300 * MB
