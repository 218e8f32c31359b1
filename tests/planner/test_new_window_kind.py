"""A new kind of window is one class: this one is aligned to calendar months, which no length in ms
describes. Nothing else in the planner or in the operators knows of it."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Self

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser import parse
from parser.errors import PlanError
from parser.types import Root
from planner import bind
from planner.catalog import Catalog, Table
from planner.logical.window_specs import DisjointWindow, Times, WindowFunction
from sqlengine.session.environment import open_runner
from sqlengine.session.output import EventOutput
from sqlengine.session.session import Session


@dataclass(frozen=True)
class Months(DisjointWindow):
    """Windows of `months` calendar months; one begins with January 1970."""

    name: ClassVar[str] = "MONTHS"
    function: ClassVar[WindowFunction] = WindowFunction(
        ("SIZE",),
        "MONTHS(TABLE t, DESCRIPTOR(time column), INTERVAL '1' MONTH)",
        unit=Root.INTERVAL_YEAR_MONTH,
    )

    months: int
    zone: str = "UTC"

    @classmethod
    def of_lengths(cls, time_column: str, zone: str, lengths: Mapping[str, int]) -> Self:
        return cls(time_column, lengths["SIZE"], zone)

    def slice_numbers(self, times: Times) -> Times:
        months = times.astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64)
        return months // self.months

    def slice_ends(self, times: Times) -> Times:
        return self._first_instants(self.slice_numbers(times) + 1)

    def slice_starts(self, ends: Times) -> Times:
        return self._first_instants(self.slice_numbers(ends - 1))

    def _first_instants(self, numbers: Times) -> Times:
        months = (numbers * self.months).astype("datetime64[M]")
        return months.astype("datetime64[ms]").astype(np.int64)

    def __str__(self) -> str:
        return f"MONTHS({self.time_column}, {self.months} months)"


TABLE = """
CREATE TABLE e (id INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '40' DAY)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');
"""
WINDOWS = "TABLE(MONTHS(TABLE e, DESCRIPTOR(ts), INTERVAL '{months}' MONTH))"
TIMES = st.lists(
    st.datetimes(datetime(1969, 1, 1), datetime(2026, 12, 31)), min_size=1, max_size=30
)


def run(folder: Path, times: Sequence[datetime], query: str) -> list[list[object]]:
    """The rows of a query over events with these times, which come in order."""
    path = folder / "events.json"
    events = [
        {"id": i, "k": "ab"[i % 2], "ts": f"{t:%Y-%m-%d %H:%M:%S}"}
        for i, t in enumerate(sorted(times))
    ]
    path.write_text("".join(json.dumps(e) + "\n" for e in events))
    out = io.StringIO()
    with open_runner(folder / "data", 7) as runner:
        session = Session(runner, EventOutput(out))
        assert session.run(f"{TABLE.format(path=path)}{query};"), out.getvalue()
    return [e["row"] for e in map(json.loads, out.getvalue().splitlines()) if "row" in e]


def window(time: datetime, months: int) -> tuple[str, str]:
    """Start and end as a calendar counts them."""
    number = ((time.year - 1970) * 12 + time.month - 1) // months * months
    bounds = (datetime(1970 + n // 12, n % 12 + 1, 1) for n in (number, number + months))
    start, end = (f"{b:%Y-%m-%dT%H:%M}" for b in bounds)
    return start, end


@given(times=TIMES, months=st.sampled_from([1, 3, 12]))
@settings(max_examples=8, deadline=None)
def test_rows_are_counted_in_their_months(times: list[datetime], months: int) -> None:
    query = f"""
        SELECT k, window_start, window_end, COUNT(*)
        FROM {WINDOWS.format(months=months)} GROUP BY k, window_start, window_end
    """
    with TemporaryDirectory() as folder:
        rows = run(Path(folder), times, query)
    model = Counter(
        ("ab"[i % 2], *window(t.replace(microsecond=0), months))
        for i, t in enumerate(sorted(times))
    )
    assert {tuple(row[:3]): row[3] for row in rows} == model
    ends = [str(row[2]) for row in rows]
    assert ends == sorted(ends)


def test_ranks_and_joins_within_months(tmp_path: Path) -> None:
    times = [datetime(2024, m, d) for m in (1, 2, 3) for d in (1, 15, 28)]
    source = WINDOWS.format(months=1)
    first = f"""
        SELECT id FROM (
          SELECT id, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY id) AS n
          FROM {source}) WHERE n = 1
    """
    assert run(tmp_path, times, first) == [[0], [3], [6]]
    pairs = f"""
        SELECT a.id, b.id FROM (SELECT * FROM {source}) a JOIN (SELECT * FROM {source}) b
        ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.id < b.id
    """
    expected = [[i, j] for m in (0, 3, 6) for i in range(m, m + 3) for j in range(i + 1, m + 3)]
    assert sorted(run(tmp_path, times, pairs)) == expected


def test_its_lengths_are_checked() -> None:
    catalog = Catalog()
    (statement,) = parse(TABLE.format(path="/x"))
    table = bind(statement, catalog, {})
    assert isinstance(table, Table)
    (query,) = parse(f"SELECT * FROM {WINDOWS.format(months=1).replace('MONTH)', 'DAY)')};")
    with pytest.raises(PlanError, match="must be an interval of years to months"):
        bind(query, catalog.put(table), {})


def test_it_knows_its_bounds_on_whole_columns() -> None:
    kind = Months("ts", 2)
    times = np.array(["1969-12-31", "1970-01-01", "2024-02-29", "2024-03-01"], "datetime64[ms]")
    ends = kind.slice_ends(times.astype(np.int64))
    shown = ends.astype("datetime64[ms]").astype("datetime64[D]").astype(str).tolist()
    assert shown == ["1970-01-01", "1970-03-01", "2024-03-01", "2024-05-01"]
    starts = kind.starts(ends).astype("datetime64[ms]").astype("datetime64[D]").astype(str)
    assert starts.tolist() == ["1969-11-01", "1970-01-01", "2024-01-01", "2024-03-01"]
