"""`sql jobs` on how far jobs are: the list, one job, and every table that jobs read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import Sql
from tests.service.harness import TIMED, WINDOW, User
from tests.support import eventually

LOST = WINDOW.replace("INSERT", "SET 'job.late-rows' = 'dead-letter';\nINSERT")


def own(text: str, job: str) -> str:
    """The text over tables of another name, whose topics are the test's own."""
    for old, new in {"timed": "readings", "counts": "sums"}.items():
        text = text.replace(f"'topic' = '{old}'", f"'topic' = '{new}_{job}'").replace(old, new)
    return text


@pytest.fixture
def job(request: pytest.FixtureRequest) -> str:
    """A name of its own for each test: one that comes again goes on counting."""
    return str(request.node.name)[5:15]


@pytest.fixture
def timed(user: User, job: str) -> Iterator[User]:
    """A job with windows over a topic of two shards, one of which is silent."""
    user.topic(f"readings_{job}", 2)
    user.topic(f"sums_{job}")
    user.submit("definitions", own(TIMED, job))
    user.submit(job, own(LOST, job))
    rows = [{"id": n, "ts": f"2024-05-01 12:00:{s:02}"} for n, s in enumerate((1, 3, 2))]
    user.write(f"readings_{job}", *rows)
    eventually(lambda: tables(user, job)[0]["behind"] == 0)
    yield user
    for path in (f"jobs/{job}", "jobs/definitions"):
        user.client.delete(f"/api/v1/{path}")


def tables(user: User, job: str) -> list[dict[str, object]]:
    found: Any = user.client.get(f"/api/v1/jobs/{job}")["tables"]
    return list(found)


def shown(served: Sql, *arguments: str) -> str:
    result = served("jobs", *arguments)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def lines_with(text: str, word: str) -> list[str]:
    """The lines with a word, with two spaces between their cells."""
    return [line for line in re.sub(" {2,}", "  ", text).splitlines() if word in line]


def test_the_list_says_what_a_job_waits_for(served: Sql, timed: User, job: str) -> None:
    wanted = "waits for watermark 2024-05-01T12:00:10, has none yet"
    # Watermarks are up to half a second old.
    eventually(lambda: lines_with(shown(served), job)[0].endswith(wanted))
    timed.write(f"readings_{job}", {"id": 9, "ts": "2024-05-01 12:00:04"}, shard=1)
    eventually(lambda: "has 12:00:03" in shown(served))
    timed.write(f"readings_{job}", {"id": 9, "ts": "2024-05-01 12:00:10"}, shard=0)
    timed.write(f"readings_{job}", {"id": 9, "ts": "2024-05-01 12:00:10"}, shard=1)
    eventually(lambda: "2024-05-01T12:00:20, has 12:00:10" in shown(served))
    assert eventually(lambda: timed.read(f"sums_{job}"))[0]["n"] == 4


def test_one_job_says_how_far_each_table_is_and_what_holds_it_back(
    served: Sql, timed: User, job: str
) -> None:
    timed.write(f"readings_{job}", {"id": 9, "ts": "2024-05-01 12:00:15"}, shard=0)
    read = "readings  0  4  4  2024-05-01T12:00:15"
    eventually(lambda: lines_with(shown(served, job), read))
    text = shown(served, job)
    assert lines_with(text, "rows ")[0] == "rows  0"
    assert lines_with(text, "records") == ["readings  0 records  -  -  0  -"]
    assert lines_with(text, "readings  1  0") == ["readings  1  0  0  -"]
    assert "waits for watermark 2024-05-01T12:00:10, has none yet (2 windows)" in text
    assert "  shard 1 of table 'readings' has given no row, and others wait for it:" in text
    assert "'scan.watermark.idle-timeout' = '1 min' in the WITH of the table" in text


def test_wide_shows_every_table_of_every_job(served: Sql, timed: User, job: str) -> None:
    for second in (30, 31):
        timed.write(f"readings_{job}", {"id": 9, "ts": f"2024-05-01 12:00:{second}"}, shard=0)
        timed.write(f"readings_{job}", {"id": 9, "ts": f"2024-05-01 12:00:{second}"}, shard=1)
    timed.write(f"readings_{job}", {"id": 9, "ts": "2024-05-01 12:00:05"}, shard=1)
    eventually(lambda: "12:00:31" in shown(served, "--wide"))
    (line,) = eventually(lambda: lines_with(shown(served, "--wide"), "12:00:31  "))
    assert re.fullmatch(
        rf"{job}  readings  0 records  2024-05-01T12:00:31  [\d,]+ d  1  -", line
    ), line
    text = shown(served, job)
    assert lines_with(text, "rows ")[0] == "rows  1, 1 late, 1 dead letter"


def test_metrics_have_them_by_job_and_table(timed: User, job: str) -> None:
    metrics = timed.client.get_text("/metrics")
    assert f'sqlengine_job_behind{{job="{job}",table="readings",unit="records"}} 0.0' in metrics
    assert f'sqlengine_job_late_rows_total{{job="{job}"}} 0.0' in metrics
    timed.write(f"readings_{job}", {"id": 9, "ts": "2024-05-01 12:00:04"}, shard=1)
    wanted = (
        f'sqlengine_watermark_timestamp_seconds{{job="{job}",table="readings"}} 1.714564803e+09'
    )
    eventually(lambda: wanted in timed.client.get_text("/metrics"))
    metrics = timed.client.get_text("/metrics")
    assert f'sqlengine_watermark_lag_seconds{{job="{job}",table="readings"}} ' in metrics
    assert f'sqlengine_idle_shards{{job="{job}",table="readings"}} 0.0' in metrics
    assert f'sqlengine_waiting{{job="{job}",unit="window"}} 1.0' in metrics
