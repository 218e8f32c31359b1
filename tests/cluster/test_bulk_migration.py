"""Hundreds of jobs that go into subtasks at once: in few steps, each with its own state, over a server
that dies on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from sqlengine.cluster.control_log import Switch
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import MAIN, Origin
from sqlengine.jobs.planning import JobText
from tests.cluster.leader import SHARED, LeaderHarness
from tests.engine.by_hand import die
from tests.subtasks.group import Killed
from tests.support import eventually

RULES, COUNTS = 250, 50
TABLE = """
CREATE TEMPORARY TABLE counts (zero BIGINT, n BIGINT, PRIMARY KEY (zero) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = '{job}', 'format' = 'json', 'upsert' = 'true');
"""
# Rows that have come since the last job came, whose aggregate is that of an earlier one, and not
# what it has counted.
LATE = 7
# In which they all go: nearly all of them in one and the last one in another, or twice as many
# where the first fails.
STEPS = 4


def counting(job: str, where: str) -> JobText:
    """All rows that are so: equal conditions are equal aggregates."""
    sql = (
        f"INSERT INTO counts SELECT MOD(id, 1), COUNT(*) FROM events WHERE {where} GROUP BY"
        " MOD(id, 1)"
    )
    return JobText(job, TABLE.format(job=job) + sql)


def alone(folder: Path) -> LeaderHarness:
    """A server without instances, with the jobs, which have read some rows."""
    harness = LeaderHarness(folder / "data", instances=0)
    harness.prepare(folder)
    texts = [
        JobText(f"rule{n}", f"INSERT INTO found SELECT id, word FROM events WHERE id = {n}")
        for n in range(RULES)
    ]
    texts += [counting(f"count{n}", f"id >= {n}") for n in range(COUNTS)]
    done = harness.engine.change(Request(Origin.SDK, {text.name: text for text in texts}))
    assert {(outcome.status, str(outcome.error)) for outcome in done.values()} == {
        ("added", "None")
    }
    written(harness, *range(0, RULES, 10))
    harness.engine.submit("late", counting("late", "id >= 0").sql)
    written(harness, *range(LATE))
    return harness


def written(harness: LeaderHarness, *numbers: int) -> None:
    """Rows, and what all jobs together must have given by then."""
    harness.write(*numbers)
    harness.numbers += numbers
    eventually(
        lambda: Counter(harness.found()) == Counter(harness.numbers), lambda: harness.found()
    )
    wanted = {f"count{n}": sum(i >= n for i in harness.numbers) for n in range(COUNTS)}
    if "late" in harness.engine.log.jobs:
        wanted["late"] = len(harness.numbers) - len(range(0, RULES, 10))
    eventually(lambda: counts(harness, wanted) == wanted, lambda: (counts(harness, wanted), wanted))


def counts(harness: LeaderHarness, jobs: Iterable[str]) -> dict[str, object]:
    return {job: row["n"] for job in jobs for row in harness.latest(job)}


def in_parts(harness: LeaderHarness) -> bool:
    harness.look()
    return {j.graph for j in harness.engine.jobs() if j.name != "tables"} == {SHARED}


@pytest.mark.slow
def test_hundreds_of_jobs_go_into_parts_in_few_steps(tmp_path: Path) -> None:
    harness = alone(tmp_path)
    numbers = harness.numbers
    harness.close()
    harness = LeaderHarness(tmp_path / "data")
    harness.numbers = numbers
    try:
        harness.start("one")
        harness.start("two")
        _wait_for_parts(harness)
        eventually(lambda: in_parts(harness))
        assert harness.graph.runner.graph.version <= STEPS, (
            "each version is one change of all parts"
        )
        assert harness.graph.pauses.stats.count <= STEPS
        written(harness, *range(RULES))
    finally:
        harness.close()


@pytest.mark.slow
@pytest.mark.parametrize("has_left", [False, True])
def test_jobs_whose_server_dies_while_they_move_go_on_together(
    tmp_path: Path, has_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before they leave they stay; what has left goes on in a graph of its own, and from there into
    subtasks."""
    harness = alone(tmp_path)
    numbers = harness.numbers
    harness.close()
    harness = LeaderHarness(tmp_path / "data")
    harness.numbers = numbers
    harness.start("one")
    _wait_for_parts(harness)
    owner, name = (
        (harness.graph.control, "append")
        if has_left
        else (harness.engine._migrations._store, "put")
    )
    whole = getattr(owner, name)

    def die_instead(entry: object, *rest: object) -> object:
        if isinstance(entry, Switch | str):
            raise Killed
        return whole(entry, *rest)

    monkeypatch.setattr(owner, name, die_instead)
    with pytest.raises(Killed):
        eventually(lambda: in_parts(harness))
    _end(harness)
    harness = LeaderHarness(tmp_path / "data")
    harness.numbers = numbers
    try:
        graphs = {
            j.graph for j in harness.engine.jobs() if j.name not in ("tables", "late", "count0")
        }
        assert len(graphs) == 1
        assert (graphs == {MAIN}) is not has_left
        assert SHARED not in graphs
        harness.start("one")
        eventually(lambda: in_parts(harness))
        written(harness, *range(RULES))
    finally:
        harness.close()


def _wait_for_parts(harness: LeaderHarness) -> None:
    """Until the leader has heard of all: before that no job goes to them, or only those that it
    looks at later."""
    eventually(
        lambda: (
            len(harness.graph.worker_reports.subtasks()) == harness.graph.parallelism
            and harness.graph.loop.problem is None
        )
    )


def _end(harness: LeaderHarness) -> None:
    """Of a server whose last breath that was."""
    harness.stop("one")
    harness.engine.instances.stop()
    die(harness.engine)
