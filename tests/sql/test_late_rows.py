"""Rows that come too late go to a table: none is lost, none comes twice, whatever is read at a
time."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlengine.session.environment import open_runner
from sqlengine.session.output import EventOutput
from sqlengine.session.session import Session

TABLES = """
CREATE TABLE e (id INT, ts TIMESTAMP(3), k STRING, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');
CREATE TABLE late (id INT, k STRING, late_watermark TIMESTAMP_LTZ(3), late_operation STRING)
WITH ('connector' = 'memory', 'name' = 'late');
SET 'job.late-rows.table' = 'late';
"""
LATE = "SET 'job.late-rows.table' = ''; SELECT * FROM late;"
WINDOW = "TABLE({}(TABLE e, DESCRIPTOR(ts), {})) GROUP BY k, window_start, window_end"
# What each operation tells of a row that it takes: how many rows, or their ids.
COUNTED = {
    "TUMBLE": "SELECT COUNT(*) FROM " + WINDOW.format("TUMBLE", "INTERVAL '3' SECOND"),
    "GROUP BY TUMBLE": "SELECT COUNT(*) FROM e GROUP BY k, TUMBLE(ts, INTERVAL '3' SECOND)",
    "SESSION": (
        "SELECT COUNT(*) FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2'"
        " SECOND)) GROUP BY k, window_start, window_end"
    ),
    "GROUP BY SESSION": "SELECT COUNT(*) FROM e GROUP BY k, SESSION(ts, INTERVAL '2' SECOND)",
}
LISTED = {
    "OVER": "SELECT id, COUNT(*) OVER (PARTITION BY k ORDER BY ts) FROM e",
    "ORDER BY": "SELECT id, k FROM e ORDER BY ts",
    "RANK": (
        "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER"
        " BY id) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '3' SECOND))) WHERE n <="
        " 1000"
    ),
    "MATCH": (
        "SELECT * FROM e MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.id AS id PATTERN"
        " (A) DEFINE A AS TRUE)"
    ),
}
TIMES = st.lists(st.integers(0, 20), min_size=1, max_size=25)


def run(
    folder: Path, times: list[int], query: str, rows: int
) -> tuple[list[list[object]], list[list[object]]]:
    """The rows of the query, and those that were late."""
    path = folder / "events.json"
    events = [
        {"id": i, "ts": f"2025-01-01 00:00:{t:02}", "k": "ab"[i % 2]} for i, t in enumerate(times)
    ]
    path.write_text("".join(json.dumps(e) + "\n" for e in events))
    out = io.StringIO()
    with open_runner(folder / "data", rows) as runner:
        assert Session(runner, EventOutput(out)).run(
            TABLES.format(path=path) + query + ";" + LATE
        ), out.getvalue()
    found: dict[int, list[list[object]]] = {}
    for line in map(json.loads, out.getvalue().splitlines()):
        if "row" in line:
            found.setdefault(line["stmt"], []).append(line["row"])
    return found.get(3, []), found.get(5, [])


@pytest.mark.parametrize("name", [*COUNTED, *LISTED])
@given(times=TIMES)
@settings(max_examples=3, deadline=None)
def test_every_row_is_taken_or_late(
    name: str, times: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("late")
    query = COUNTED.get(name) or LISTED[name]
    taken, late = run(folder, times, query, 4096)
    ids = [r[0] for r in late]
    assert len(set(ids)) == len(ids)
    if name in COUNTED:
        assert sum(int(str(r[0])) for r in taken) + len(ids) == len(times)
    else:
        assert sorted(
            [*(int(str(r[0 if name != "MATCH" else 1])) for r in taken), *map(int, map(str, ids))]
        ) == [*range(len(times))]
    assert run(folder, times, query, 3) == (taken, late)


def test_a_late_row_tells_what_had_passed_and_who_dropped_it(tmp_path: Path) -> None:
    _, late = run(tmp_path, [1, 9, 2], COUNTED["TUMBLE"], 100)
    assert late == [[2, "a", "2025-01-01T00:00:07Z", "WindowAggregate"]]


def test_a_join_of_windows_tells_of_both_sides(tmp_path: Path) -> None:
    joined = (
        "SELECT a.id, b.id FROM (SELECT * FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '3'"
        " SECOND))) AS a JOIN (SELECT * FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '3'"
        " SECOND))) AS b ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k"
        " = b.k WHERE a.id >= 0"
    )
    taken, late = run(tmp_path, [1, 9, 2], joined, 1)
    assert sorted(map(str, taken)) == ["[0, 0]", "[1, 1]"]
    assert [r[0] for r in late] == [2, 2]


@pytest.mark.parametrize(
    ("table", "setting", "said"),
    [
        ("id INT, kk STRING", "", "late rows have no column 'kk'"),
        ("id STRING", "", "column 'id' of 'wrong' is STRING, but in late rows it is INT"),
        ("id INT, x INT NOT NULL", "", "column 'x' of 'wrong' is NOT NULL"),
        ("id INT", "SET 'job.late-rows' = 'dead-letter';", "both say where late rows go"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    table: str, setting: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "events.json").write_text("")
    script = (
        TABLES.format(path=tmp_path / "events.json")
        + f"CREATE TABLE wrong ({table}) WITH ('connector' = 'blackhole'); SET"
        " 'job.late-rows.table' = 'wrong';" + setting + COUNTED["TUMBLE"]
    )
    out = io.StringIO()
    with open_runner(tmp_path / "data", 10) as runner:
        assert not Session(runner, EventOutput(out)).run(script)
    assert said in out.getvalue()
