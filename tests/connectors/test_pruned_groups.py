"""Groups of rows of Parquet that a condition rules out are not read, and no row is missing for
that: whatever a file holds, and whatever is asked of it."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser import parse
from parser.statements import Query
from planner import bind, plan
from planner.catalog import Catalog, Table
from planner.graph.merge import Graph, merge
from planner.graph.physical import lower
from planner.graph.rule_sets import RulesPlan
from planner.graph.scan_filters import scan_filters
from planner.logical import Scan
from planner.scalar import Scalar
from sqlengine.batch import Batch
from sqlengine.connectors.base import Source
from sqlengine.connectors.boundary.openings import Openings
from sqlengine.connectors.boundary.source import WalledSource
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.registry import capabilities_of, declared, open_source
from sqlengine.expressions import compile_expression, truth
from sqlengine.system.lanes import Call
from tests.connectors.tables import environment

T = TypeVar("T")
COLUMNS = (
    "id BIGINT, i INT, d DOUBLE, n DECIMAL(8, 2), s STRING, ts TIMESTAMP(3), dt DATE, absent INT"
)
DAY = dt.date(2024, 5, 1)
NOON = dt.datetime(2024, 5, 1, 12)
EARLIER = "v < TIMESTAMP '2000-01-01 00:00:00'"
FILE_TYPES = {
    "i": [pa.int8(), pa.int32(), pa.int64(), pa.uint16()],
    "d": [pa.float64(), pa.float32()],
    "n": [pa.decimal128(8, 2), pa.decimal128(6, 1)],
    "s": [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    "ts": [pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns")],
    "dt": [pa.date32()],
}
VALUES: dict[str, st.SearchStrategy[object]] = {
    "i": st.integers(0, 9),
    "d": st.sampled_from([float("nan"), float("-inf"), -1.5, -0.0, 0.0, 1.5, 2.0]),
    "n": st.integers(-30, 30).map(lambda v: Decimal(v) / 10),
    "s": st.sampled_from(["", "a", "a ", "ab", "b", "ä", "\U0001f600", "z" * 80]),
    "ts": st.integers(-3, 3).map(lambda ms: NOON + dt.timedelta(milliseconds=ms)),
    "dt": st.integers(-3, 3).map(lambda days: DAY + dt.timedelta(days)),
}
LITERALS: dict[str, st.SearchStrategy[str]] = {
    "i": st.sampled_from(["0", "4", "9", "12", "-1", "CAST(NULL AS INT)"]),
    "d": st.sampled_from(["0.0", "-0.5", "1.5", "2", "1e300"]),
    "n": st.sampled_from(["0", "1.5", "-1.55", "3.0", "100"]),
    "s": st.sampled_from(["''", "'a'", "'a '", "'ab'", "'ä'", "'zz'"]),
    "ts": st.sampled_from(
        [f"TIMESTAMP '2024-05-01 {t}'" for t in ("11:59:59.999", "12:00:00", "12:00:00.002")]
    ),
    "dt": st.sampled_from([f"DATE '2024-0{d}'" for d in ("4-29", "5-01", "5-04")]),
    "absent": st.just("1"),
}


@st.composite
def leaves(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(LITERALS)))
    a, b, c = (draw(LITERALS[name]) for _ in range(3))
    compared = [f"{name} {op} {a}" for op in ("=", "<>", "<", "<=", ">", ">=")]
    other = [f"{name} BETWEEN {a} AND {b}", f"{name} IN ({a}, {b}, {c})", f"{a} < {name}"]
    nulls = [f"{name} IS NULL", f"{name} IS NOT NULL", f"{name} NOT IN ({a}, {b})"]
    return draw(st.sampled_from([*compared, *other, *nulls, "s LIKE 'a%'", "10 / i > 2"]))


CONDITIONS = st.recursive(
    leaves(),
    lambda below: st.builds(
        lambda parts, op, no: ("NOT " if no else "") + "(" + f" {op} ".join(parts) + ")",
        st.lists(below, min_size=2, max_size=3),
        st.sampled_from(["AND", "AND", "OR"]),
        st.integers(0, 3).map(lambda n: n == 0),
    ),
    max_leaves=5,
)


@st.composite
def files(draw: st.DrawFn) -> pa.Table:
    """Rows whose values lie close together, so that groups of them differ."""
    count = draw(st.integers(0, 24))
    columns = {"id": pa.array(range(count), pa.int64())}
    for name, values in VALUES.items():
        kind = draw(st.sampled_from(FILE_TYPES[name]))
        drawn = draw(st.lists(st.none() | values, min_size=count, max_size=count))
        if draw(st.booleans()):
            drawn.sort(key=lambda v: (v is None, "" if v is None else str(v)))
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        array = pa.array(drawn, pa.float64() if name == "d" else plain)
        columns[name] = array.cast(plain) if plain is kind else array.dictionary_encode()
    return pa.table(columns)


def table_of(path: Path, columns: str = COLUMNS, more: str = "") -> Table:
    options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet'"
    (statement,) = parse(f"CREATE TABLE t ({columns}{more}) WITH ({options})")
    made = bind(statement, Catalog(), {})
    assert isinstance(made, Table)
    return declared(made)


def planned(of: Table, *conditions: str, mode: str = "batch") -> tuple[Scalar | None, list[Scalar]]:
    """What the source is told where jobs have these conditions, and the filters themselves."""
    catalog = Catalog().put(of)
    graph = Graph()
    for number, condition in enumerate(conditions):
        (statement,) = parse(f"SELECT * FROM t {condition}")
        assert isinstance(statement, Query)
        made = plan(
            statement,
            catalog,
            {"execution.runtime-mode": mode},
            capabilities_of=capabilities_of,
        )
        graph = merge(graph, {str(number): made.sinks})
    physical = lower(graph)
    scans = [n.id for n in physical.nodes.values() if isinstance(n.plan, Scan)]
    rules = [n.plan for n in physical.nodes.values() if isinstance(n.plan, RulesPlan)]
    found = scan_filters(physical, scans)
    return next(iter(found.values()), None), [
        r.predicate for one in rules for r in one.rules.values()
    ]


def chunks(source: Source, max_rows: int) -> Iterator[Chunk]:
    """All chunks of a source; each comes again as it was."""
    for shard in source.shards():
        offset, end = 0, source.end(shard) or 0
        while offset < end:
            chunk = source.read(shard, offset, max_rows=max_rows)
            assert chunk is not None
            assert chunk.num_rows <= max_rows
            again = source.read(shard, chunk.start, max_rows=1, until=chunk.end)
            assert again is not None
            assert chunk.columns is not None
            assert again.columns is not None
            assert again.pruned == chunk.pruned
            for name, column in chunk.columns.items():  # NaN is not equal to itself
                assert repr(column.to_pylist()) == repr(again.columns[name].to_pylist())
            yield chunk
            offset = chunk.end


def passing(of: Table, predicate: Scalar, found: Sequence[Chunk]) -> list[int]:
    """The offsets of the rows that fulfil a condition, and below 0 of those for which it fails."""
    evaluate, kept = compile_expression(predicate), []
    for chunk in found:
        assert chunk.columns is not None
        columns = tuple(chunk.columns[name] for name in of.schema.names)
        batch = Batch(of.schema, columns, chunk.num_rows)
        result = evaluate(batch)
        true = truth(result, chunk.num_rows)
        for row, place in enumerate(batch.column("place").to_pylist()):
            if result.errors is not None and result.errors.mask[row]:
                kept.append(-1 - place)
            elif true[row]:
                kept.append(place)
    return kept


@settings(max_examples=120, deadline=None)
@given(
    rows=files(),
    group=st.integers(1, 8),
    statistics=st.booleans(),
    max_rows=st.integers(1, 10),
    conditions=st.lists(CONDITIONS, min_size=1, max_size=2),
)
def test_rows_are_those_of_a_reading_of_all(
    tmp_path_factory: pytest.TempPathFactory,
    rows: pa.Table,
    group: int,
    statistics: bool,
    max_rows: int,
    conditions: list[str],
) -> None:
    folder = tmp_path_factory.mktemp("in")
    written = {"row_group_size": group, "write_statistics": statistics}
    pq.write_table(rows, folder / "a.parquet", **written)
    of = table_of(folder, more=", place BIGINT METADATA FROM 'offset' VIRTUAL")
    where, predicates = planned(of, *(f"WHERE {c}" for c in conditions))
    source = open_source(of, environment())
    every = list(chunks(source, max_rows))
    source.apply_filter(where)
    some = list(chunks(source, max_rows))
    source.close()
    for predicate in predicates:
        assert passing(of, predicate, some) == passing(of, predicate, every)


HOURS = "h INT, ts TIMESTAMP(3), s STRING, x INT"


@pytest.fixture(scope="module")
def hours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten groups of ten rows: group h has hour h, and NULL for x but in the last one."""
    folder = tmp_path_factory.mktemp("hours")
    day = dt.datetime(2024, 5, 1)
    rows = {
        "h": pa.array([n // 10 for n in range(100)], pa.int32()),
        "ts": pa.array([day + dt.timedelta(minutes=6 * n) for n in range(100)], pa.timestamp("us")),
        "s": [f"{n:02}" for n in range(100)],
        "x": pa.array([n if n >= 90 else None for n in range(100)], pa.int32()),
    }
    pq.write_table(pa.table(rows), folder / "a.parquet", row_group_size=10)
    return folder


@pytest.mark.parametrize(
    ("conditions", "read"),
    [
        (["WHERE h = 3"], 1),
        (["WHERE h BETWEEN 2 AND 4 AND s < '25'"], 1),
        (["WHERE h IN (1, 8)"], 2),
        (["WHERE h <> 3"], 9),
        (["WHERE ts >= TIMESTAMP '2024-05-01 09:00:00'"], 1),
        (["WHERE x IS NOT NULL"], 1),
        (["WHERE x IS NULL AND h > 7"], 1),
        (["WHERE 95 <= x"], 1),
        (["WHERE h = 3 OR s = '95'"], 2),
        (["WHERE h = 77"], 0),
        (["WHERE h = 3 AND 1 / x > 0"], 1),
        # One rule wants what the other does not.
        (["WHERE h = 3", "WHERE h = 5"], 2),
        # Some job wants every row; a row for which a filter fails must be seen.
        (["WHERE h = 3", ""], 10),
        (["WHERE 1 / x > 0 AND h = 3"], 10),
        (["WHERE RAND() < 2 AND h = 3"], 10),
        ([f"WHERE h = {n}" for n in range(40)], 10),
    ],
)
def test_groups_that_are_read(conditions: list[str], read: int, hours: Path) -> None:
    of = table_of(hours, HOURS)
    where, _ = planned(of, *conditions)
    source = open_source(of, environment())
    source.apply_filter(where)
    found = list(chunks(source, 1000))
    assert sum(c.pruned for c in found) == 10 - read
    assert sum(c.num_rows for c in found) == read * 10
    source.close()


def test_a_watermark_sees_every_row_of_a_stream(hours: Path) -> None:
    of = table_of(hours, HOURS, ", WATERMARK FOR ts AS ts")
    condition = "WHERE ts > TIMESTAMP '2024-05-01 09:00:00'"
    assert planned(of, condition, mode="streaming")[0] is None
    assert planned(of, condition, mode="batch")[0] is not None


def test_another_condition_holds_from_the_next_read(hours: Path) -> None:
    of = table_of(hours, HOURS)
    source = open_source(of, environment())
    (shard,) = source.shards()
    source.apply_filter(planned(of, "WHERE h = 3")[0])
    first = source.read(shard, 0, max_rows=5)
    source.apply_filter(None)
    second = source.read(shard, 35, max_rows=5)
    source.apply_filter(planned(of, "WHERE h = 9")[0])
    third = source.read(shard, 40, max_rows=5)
    found = [(c.start, c.end, c.num_rows, c.pruned) for c in (first, second, third) if c]
    assert found == [(0, 35, 5, 3), (35, 40, 5, 0), (40, 95, 5, 5)]
    parts = source.parts(shard)
    assert parts is not None
    assert Counter(p.bytes > 0 for p in parts) == {False: 9, True: 1}
    source.close()


LONG = "123456789012345678901234567890123456.78"


@pytest.mark.parametrize(
    ("columns", "values", "condition"),
    [
        # NaN is in no statistics, and different from anything.
        ("v DOUBLE", pa.array([1.5, float("nan"), 1.5]), "v <> 1.5"),
        ("v DOUBLE", pa.array([float("nan")] * 3), "v <> 1.5"),
        # Unsigned numbers have the bits of signed ones.
        ("v BIGINT", pa.array([1, 2**31 + 1, 2], pa.uint32()), "v > 2000000000"),
        ("v BOOLEAN", pa.array([False, True, None]), "v"),
        ("v TIMESTAMP(3)", pa.array([NOON] * 3, pa.timestamp("us", "Asia/Tokyo")), EARLIER),
        ("v CHAR(2)", pa.array(["a ", "b ", "c "]), "v = 'c'"),
        # All 38 digits count.
        (
            "v DECIMAL(38, 2)",
            pa.array([Decimal(LONG)] * 3, pa.decimal128(38, 2)),
            f"v = CAST('{LONG}' AS DECIMAL(38, 2))",
        ),
    ],
)
def test_what_is_not_certain_is_read(
    columns: str, values: pa.Array, condition: str, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"v": values}), tmp_path / "a.parquet")
    of = table_of(tmp_path, columns)
    where, _ = planned(of, f"WHERE {condition}")
    source = open_source(of, environment())
    source.apply_filter(where)
    assert sum(c.num_rows for c in chunks(source, 10)) == len(values)
    source.close()


class HeldLanes:
    """Runs each call at once, or once it is `released`."""

    ends = float("inf")

    def __init__(self) -> None:
        self.holds = False
        self._waiting: list[Callable[[], None]] = []

    def begin(self, work: Callable[[], T]) -> Call[T]:
        call = Call(work, self)

        def run() -> None:
            call.run()
            call.finish()

        if self.holds:
            self._waiting.append(run)
        else:
            run()
        return call

    def release(self) -> None:
        self.holds = False
        for run in self._waiting:
            run()
        self._waiting.clear()

    def stop(self) -> None: ...


def test_rows_that_were_asked_for_before_are_asked_for_again(hours: Path) -> None:
    """A disk is slow, and meanwhile a job comes that wants more of its rows."""
    of, lanes = table_of(hours, HOURS), HeldLanes()
    source = open_source(of, replace(environment(), openings=Openings(lanes)))
    assert isinstance(source, WalledSource)
    positions = dict.fromkeys(source.shards(), 0)
    source.apply_filter(planned(of, "WHERE h = 3")[0])
    lanes.holds = True
    assert source.poll(positions, 1000) == ([], [])
    source.apply_filter(planned(of, "WHERE h = 3", "")[0])
    lanes.release()
    polls = [source.poll(positions, 1000)[1] for _ in range(2)]
    assert [[(c.start, c.end, c.num_rows) for c in poll] for poll in polls] == [[], [(0, 100, 100)]]
    # The same condition, planned anew, drops no answer.
    for _ in range(2):
        source.apply_filter(planned(of, "WHERE h = 5")[0])
        lanes.holds = True
        assert source.poll(positions, 1000) == ([], [])
    source.apply_filter(planned(of, "WHERE h = 5")[0])
    lanes.release()
    assert [c.num_rows for c in source.poll(positions, 1000)[1]] == [10]
    source.close()
