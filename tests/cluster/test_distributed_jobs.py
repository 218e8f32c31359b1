"""What jobs that run in subtasks can do as others do: savepoints, a look at their state, moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from parser.errors import JobError
from sqlengine.engine.dead_letters import DeadLetterFilter
from sqlengine.engine.views.job_progress import JobProgress
from sqlengine.jobs.job import JobState
from tests.cluster.leader import ALL, SHARED, LeaderHarness, leading
from tests.support import eventually

COUNTS = """
CREATE TEMPORARY TABLE counts (word STRING, n BIGINT, least BIGINT, PRIMARY KEY (word) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'json', 'upsert' = 'true');
INSERT INTO counts SELECT word, COUNT(*), MIN(id) FROM events GROUP BY word
"""
WINDOWS = """
CREATE TEMPORARY TABLE timed (id BIGINT, word STRING, ts AS TO_TIMESTAMP_LTZ(id * 1000, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TEMPORARY TABLE windows (word STRING, n BIGINT) WITH ('connector' = 'topic', 'topic' = 'windows', 'format' = 'json');
INSERT INTO windows SELECT word, COUNT(*) FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '1' HOUR))
GROUP BY word, window_start, window_end
"""


def counted(harness: LeaderHarness) -> dict[str, int]:
    return {str(r["word"]): int(str(r["n"])) for r in harness.latest("counts")}


def test_a_savepoint_is_of_all_parts_and_no_number_of_them(tmp_path: Path) -> None:
    with leading(tmp_path, "one", "two") as harness:
        harness.engine.broker.create_topic("counts", compacted=True)
        harness.engine.submit("count", COUNTS)
        assert harness.engine.job("count").graph == SHARED
        harness.write(*range(6), *range(6))
        eventually(lambda: counted(harness) == {f"w{n}": 2 for n in range(6)})
        (aggregate,) = harness.engine.state.operations("count")
        assert (aggregate.state.rows, aggregate.keys) == (6, 6)
        (table,) = harness.engine.state.rows("count", 1, 4)
        assert (table.columns[0], len(table.rows), table.total) == ("word", 4, 6)
        with pytest.raises(JobError, match="has no operation 2"):
            harness.engine.state.rows("count", 2, 4)
        path = harness.engine.save_job("count").savepoint
        harness.write(0, 7)
        eventually(lambda: counted(harness)["w0"] == 3)
        stopped = harness.engine.save_job("count", stop=True)
        assert harness.engine.job("count").state is JobState.STOPPED
        assert [
            s.rows for s in harness.engine.savepoints.all() if not isinstance(s, Exception)
        ] == [
            6,
            7,
        ]
        harness.write(0, 8)
        harness.engine.start_job("count", stopped.savepoint)
        eventually(
            lambda: (
                counted(harness) == {"w0": 4, **{f"w{n}": 2 for n in range(1, 6)}, "w7": 1, "w8": 1}
            )
        )
        harness.engine.stop_job("count")
        harness.engine.start_job("count", path)
        eventually(lambda: counted(harness)["w0"] == 4 and counted(harness)["w8"] == 1)


def written(harness: LeaderHarness, *numbers: int) -> None:
    """Rows of these words, and as many of each in `counts` as were written in all."""
    harness.write(*numbers)
    harness.numbers += numbers
    wanted = {f"w{n}": harness.numbers.count(n) for n in harness.numbers}
    eventually(lambda: counted(harness) == wanted, lambda: (counted(harness), wanted))


def told(harness: LeaderHarness, rows: int) -> None:
    """So many rows of the job are counted, wherever it was when it wrote them."""
    eventually(lambda: harness.engine.rows_of("count") == rows, harness.engine.counts)


def moved(harness: LeaderHarness, graph: str, job: str = "count") -> None:
    """Looks until the job is in that graph, with all that it has."""

    def there() -> bool:
        harness.look()
        return harness.engine.job(job).graph == graph

    eventually(there)


def test_a_job_leaves_its_parts_and_comes_back_with_its_state(tmp_path: Path) -> None:
    with leading(tmp_path, "one", "two") as harness:
        harness.engine.broker.create_topic("counts", compacted=True)
        harness.engine.submit("all", ALL)
        harness.engine.submit("count", COUNTS)
        written(harness, *range(6))
        assert harness.engine.isolate("count").status == "isolated"
        assert not harness.engine.graphs.of("count").distributed
        written(harness, 1, 2)
        harness.engine.merge("count")
        moved(harness, SHARED)
        written(harness, 1, 3)
        harness.stop("one")
        written(harness, 1, 8)
        eventually(lambda: len(harness.found()) == len(harness.numbers))


@pytest.mark.slow
def test_jobs_that_ran_before_there_were_instances_go_into_parts_and_back(tmp_path: Path) -> None:
    numbers: list[int] = []
    given = 0
    for instances, parts in ((0, None), (1, 2), (1, 3), (0, None), (1, None)):
        harness = LeaderHarness(tmp_path / "data", parts, instances)
        harness.numbers = numbers
        try:
            if not numbers:
                harness.prepare(tmp_path)
                harness.engine.broker.create_topic("counts", compacted=True)
                harness.engine.submit("count", COUNTS)
            for graph in [g.name for g in harness.engine.graphs.by_name.values() if g.distributed]:
                harness.start(f"one of {graph}", graph=graph)
            shared = harness.engine.graphs.distributed
            home = "main" if shared is None else shared.name
            assert home == {0: "main", 2: "shared", 3: "shared.3"}[parts or 2 * instances]
            moved(harness, home)
            written(harness, *range(4))
            given += 4
            told(harness, given)
        finally:
            harness.close()


def test_a_job_whose_state_grows_too_large_ends_alone(tmp_path: Path) -> None:
    with leading(tmp_path, "one", "two") as harness:
        harness.engine.broker.create_topic("counts", compacted=True)
        harness.engine.submit("all", ALL)
        harness.engine.submit("count", "SET 'memory.limit' = '200 kb';\n" + COUNTS)
        harness.write(*range(12_000))
        eventually(lambda: harness.engine.job("count").state is JobState.FAILED)
        assert "state of job 'count' takes" in str(harness.engine.job("count").reason)
        harness.write(-1)
        eventually(lambda: harness.engine.rows_of("all") == 12_001)
        assert harness.engine.job("all").state is JobState.RUNNING


def test_letters_are_replayed_where_the_job_has_left_its_parts(tmp_path: Path) -> None:
    with leading(tmp_path, "one") as harness:
        harness.engine.submit("job", ALL.replace("id,", "1 / (id - 4),"))
        harness.write(4)
        eventually(
            lambda: len(harness.engine.dead_letters.last(DeadLetterFilter(job="job"), 9)) == 1
        )
        harness.engine.submit("job", ALL)
        with pytest.raises(JobError, match="a replay is not possible") as refused:
            harness.engine.replay("job")
        assert "sql isolate job" in str(refused.value.hint)
        harness.engine.isolate("job")
        assert len(harness.engine.replay("job").letters) == 1
        eventually(lambda: harness.found() == [4])
        harness.engine.merge("job")
        moved(harness, SHARED, "job")


def test_a_job_in_parts_is_drained_in_a_graph_of_its_own(tmp_path: Path) -> None:
    with leading(tmp_path, "one", "two") as harness:
        harness.engine.broker.create_topic("windows")
        harness.engine.submit("windows", WINDOWS)
        harness.engine.submit("other", COUNTS)
        harness.write(1, 2, 2, 11, 12)
        eventually(lambda: counted(harness) == {"w1": 1, "w2": 2, "w11": 1, "w12": 1})
        assert harness.engine.job("windows").graph == SHARED
        outcome = harness.engine.drain_job("windows")
        assert harness.engine.job("windows").state is JobState.STOPPED
        assert outcome.savepoint is not None
        assert harness.engine.savepoints.show(outcome.savepoint).drained
        reports = harness.engine.broker.read("windows", 0, 0)
        assert reports is not None
        assert sorted(reports.values.to_pylist()) == [
            b'{"word":"w1","n":1}',
            b'{"word":"w11","n":1}',
            b'{"word":"w12","n":1}',
            b'{"word":"w2","n":2}',
        ]
        harness.write(1)
        eventually(lambda: counted(harness)["w1"] == 2, "the other goes on in its parts")
        assert harness.engine.job("other").graph == SHARED


def test_a_stopped_job_goes_on_with_its_state_and_comes_back_into_the_parts(tmp_path: Path) -> None:
    with leading(tmp_path, "one", "two") as harness:
        harness.engine.broker.create_topic("counts", compacted=True)
        harness.engine.submit("count", COUNTS)
        assert harness.engine.job("count").graph == SHARED
        harness.write(*range(6), *range(6))
        eventually(lambda: counted(harness) == {f"w{n}": 2 for n in range(6)})
        harness.engine.stop_job("count")
        harness.write(*range(6))
        assert harness.engine.start_job("count").status == "started"
        eventually(lambda: counted(harness) == {f"w{n}": 3 for n in range(6)})
        moved(harness, SHARED)
        harness.write(0)
        eventually(lambda: counted(harness)["w0"] == 4)


def test_a_job_in_parts_says_how_far_it_is(tmp_path: Path) -> None:
    with leading(tmp_path, "one", "two") as harness:
        harness.engine.broker.create_topic("windows")
        harness.engine.submit("job", WINDOWS)
        harness.write(4, 5, 6, 7)

        def progress() -> JobProgress:
            return harness.engine.progress.of(harness.engine.job("job"))

        (wait,) = eventually(lambda: progress().waits, progress)
        assert str(wait.until) == "1970-01-01T01:00:00Z"
        eventually(lambda: [t.behind for t in progress().tables] == [0], progress)
