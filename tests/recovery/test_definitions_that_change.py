"""Shared definitions change while jobs use them, in two graphs, and the life ends at writes on the
way: after each the old definition holds for all jobs or the new one, and no row is missing, doubled
or out of order."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from sqlengine.engine import Engine
from tests.recovery.crash_points import CrashAtWrite, Life, Outputs, check_every_death
from tests.recovery.test_crash_points import act, open_engine, outputs

TABLES = """
CREATE TABLE events (id BIGINT, {more}ts TIMESTAMP(3), host STRING, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE alerts (rule STRING, id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json'{option});
CREATE TABLE totals (host STRING, n BIGINT, s TIMESTAMP(3))
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json'{option});
CREATE TABLE late (id BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{{folder}}/late', 'format' = 'csv'{roll});"""
FIRST = TABLES.format(more="", option="", roll="")
SECOND = TABLES.format(
    more="amount INT, ",
    option=", 'json.encode.ignore-null-fields' = 'true'",
    roll=", 'sink.rolling-policy.file-size' = '1 mb'",
)
WINDOW = """INSERT INTO totals SELECT host, COUNT(*), window_start
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY host, window_start, window_end"""
OPERATIONS: tuple[tuple[str, object], ...] = (
    ("submit", {"tables": FIRST}),
    ("submit", {"rule": "INSERT INTO alerts SELECT 'rule', id FROM events WHERE host = 'h1'",
                "files": "INSERT INTO late SELECT id FROM events WHERE host <> 'h0'",
                "window": WINDOW}),
    ("feed", 1),
    ("isolate", "window"),
    ("feed", 2),
    ("checkpoint", None),
    ("feed", 3),
    ("submit", {"tables": SECOND}),
    ("feed", 4),
    ("submit", {"tables": FIRST,
                "rule": "INSERT INTO alerts SELECT 'again', id FROM events WHERE host = 'h1'"}),
    ("feed", 5),
    ("feed", 6),
)  # fmt: skip


def operation(folder: Path, kind: str, what: object, engine: Engine) -> None:
    if kind == "isolate":
        engine.isolate(str(what))
    else:
        act(folder, kind, what, engine)


def live(folder: Path, chosen: CrashAtWrite) -> Outputs:
    operations = [partial(operation, folder, kind, what) for kind, what in OPERATIONS]

    def found(engine: Engine) -> Outputs:
        versions = {j.name: [f"{j.version} {j.state.value}"] for j in engine.jobs()}
        parts = {n: rows for n, rows in outputs(folder, engine).items() if n != "too_late"}
        # The names of files, by which their rows are found, follow no order.
        return {**parts, "late": sorted(parts["late"]), **versions}

    return Life(lambda: open_engine(folder), operations, found).live(chosen)


@pytest.mark.slow
def test_a_death_at_every_31st_write_changes_nothing(tmp_path: Path) -> None:
    quiet = check_every_death(tmp_path, live, lambda writes: range(1, writes + 1, 31))
    assert quiet["window"] == ["3 running"]


@pytest.mark.slow
@pytest.mark.parametrize("eighth", range(8))
def test_a_death_at_any_write_changes_nothing(tmp_path: Path, eighth: int) -> None:
    check_every_death(tmp_path, live, lambda writes: range(1 + eighth, writes + 1, 8))
