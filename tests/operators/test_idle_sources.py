"""Idle sources: other inputs go on without them, by the clock of the epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.settings import SOURCE_IDLE
from tests.operators.running import Running

TABLES = """
CREATE TABLE a (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '{folder}/a', 'format' = 'json', 'source.follow' = 'true' {option});
CREATE TABLE b (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '{folder}/b', 'format' = 'json', 'source.follow' = 'true' {option});
CREATE TABLE o (s TIMESTAMP(3), n BIGINT) WITH ('connector' = 'memory', 'name' = 'o');
"""
WINDOWS = (
    "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE {name}, DESCRIPTOR(ts), INTERVAL '10'"
    " SECOND)) GROUP BY window_start, window_end"
)
FIRST = ["2024-05-01T10:00", 2]


class OverFiles(Running):
    """A job over files that grow."""

    def __init__(
        self, folder: Path, query: str, option: str = "", settings: dict[str, str] | None = None
    ) -> None:
        self.folder = folder
        for name in ("a/1", "a/2", "b/1"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).touch()
        text = f"{TABLES.format(folder=folder, option=option)} INSERT INTO o {query};"
        super().__init__(text, settings=settings)

    def say(self, file: str, *seconds: int) -> None:
        with (self.folder / file).open("a") as out:
            out.writelines(f'{{"k": "x", "ts": "2024-05-01 10:00:{s:02}"}}\n' for s in seconds)


IDLE = ", 'scan.watermark.idle-timeout' = '5 s'"


@pytest.mark.parametrize(("option", "settings"), [(IDLE, {}), ("", {SOURCE_IDLE: "5 s"})])
def test_a_silent_shard_is_not_waited_for(
    option: str, settings: dict[str, str], tmp_path: Path
) -> None:
    job = OverFiles(tmp_path, WINDOWS.format(name="a"), option, settings)
    assert job.after(1_000) == []
    job.say("a/1", 1, 2, 15)
    assert job.after(2_000) == [], "the other file may still have rows of that time"
    assert job.after(5_500) == []
    assert job.after(6_100) == [FIRST]
    job.say("a/2", 3)
    assert job.after(7_000) == [FIRST], "too late"


def test_without_a_time_out_it_is(tmp_path: Path) -> None:
    job = OverFiles(tmp_path, WINDOWS.format(name="a"))
    job.say("a/1", 1, 2, 15)
    assert job.after(3_600_000) == []
    job.say("a/2", 11)
    assert job.after(3_601_000) == [FIRST]


def test_an_input_that_is_silent_as_a_whole_is_not_waited_for(tmp_path: Path) -> None:
    both = WINDOWS.format(name="c")
    job = OverFiles(
        tmp_path, f"WITH c AS (SELECT k, ts FROM a UNION ALL SELECT k, ts FROM b) {both}", IDLE
    )
    job.say("a/1", 1, 15)
    job.say("a/2", 2, 16)
    assert job.after(4_000) == []
    job.say("a/1", 17)
    job.say("a/2", 17)
    assert job.after(8_000) == []
    assert job.after(9_100) == [FIRST]


@pytest.mark.parametrize(
    "query", ["{a}", "WITH c AS (SELECT k, ts FROM b UNION ALL SELECT k, ts FROM a) {c}"]
)
def test_rows_that_come_seldom_end_windows(query: str, tmp_path: Path) -> None:
    """All shards are silent for longer than the time-out between the rows of one of them."""
    windows = {name: WINDOWS.format(name=name) for name in ("a", "c")}
    job = OverFiles(tmp_path, query.format(**windows), IDLE)
    job.say("a/1", 1, 2)
    assert job.after(60_000) == []
    assert job.after(70_000) == []
    job.say("a/1", 15)
    assert job.after(120_000) == [], "whether the other shards are silent is to be seen"
    assert job.after(126_000) == [FIRST]
