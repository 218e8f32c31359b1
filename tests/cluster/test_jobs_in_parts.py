"""What jobs that run in parts can do as others do: savepoints, a look at their state, moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from parser.errors import JobError
from sqlengine.engine.dead_letters import DeadLetterFilter
from sqlengine.jobs.job import JobState
from tests.cluster.led import ALL, SHARED, Led, led
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


def counted(group: Led) -> dict[str, int]:
    return {str(r["word"]): int(str(r["n"])) for r in group.latest("counts")}


def test_a_savepoint_is_of_all_parts_and_no_number_of_them(tmp_path: Path) -> None:
    with led(tmp_path, "one", "two") as group:
        group.engine.broker.create_topic("counts", compacted=True)
        group.engine.submit("count", COUNTS)
        assert group.engine.job("count").graph == SHARED
        group.write(*range(6), *range(6))
        eventually(lambda: counted(group) == {f"w{n}": 2 for n in range(6)})
        (aggregate,) = group.engine.state.operations("count")
        assert (aggregate.state.rows, aggregate.keys) == (6, 6)
        (table,) = group.engine.state.rows("count", 1, 4)
        assert (table.columns[0], len(table.rows), table.total) == ("word", 4, 6)
        with pytest.raises(JobError, match="has no operation 2"):
            group.engine.state.rows("count", 2, 4)
        path = group.engine.save_job("count").savepoint
        group.write(0, 7)
        eventually(lambda: counted(group)["w0"] == 3)
        stopped = group.engine.save_job("count", stop=True)
        assert group.engine.job("count").state is JobState.STOPPED
        assert [s.rows for s in group.engine.savepoints.all() if not isinstance(s, Exception)] == [
            6,
            7,
        ]
        group.write(0, 8)
        group.engine.start_job("count", stopped.savepoint)
        eventually(
            lambda: (
                counted(group) == {"w0": 4, **{f"w{n}": 2 for n in range(1, 6)}, "w7": 1, "w8": 1}
            )
        )
        group.engine.stop_job("count")
        group.engine.start_job("count", path)
        eventually(lambda: counted(group)["w0"] == 4 and counted(group)["w8"] == 1)


def written(group: Led, *numbers: int) -> None:
    """Rows of these words, and as many of each in `counts` as were written in all."""
    group.write(*numbers)
    group.numbers += numbers
    wanted = {f"w{n}": group.numbers.count(n) for n in group.numbers}
    eventually(lambda: counted(group) == wanted, lambda: (counted(group), wanted))


def moved(group: Led, graph: str, job: str = "count") -> None:
    """Looks until the job is in that graph, with all that it has."""

    def there() -> bool:
        group.look()
        return group.engine.job(job).graph == graph

    eventually(there)


def test_a_job_leaves_its_parts_and_comes_back_with_its_state(tmp_path: Path) -> None:
    with led(tmp_path, "one", "two") as group:
        group.engine.broker.create_topic("counts", compacted=True)
        group.engine.submit("all", ALL)
        group.engine.submit("count", COUNTS)
        written(group, *range(6))
        assert group.engine.isolate("count").status == "isolated"
        assert not group.engine.graphs.of("count").distributed
        written(group, 1, 2)
        group.engine.merge("count")
        moved(group, SHARED)
        written(group, 1, 3)
        group.stop("one")
        written(group, 1, 8)
        eventually(lambda: len(group.found()) == len(group.numbers))


def test_jobs_that_ran_before_there_were_instances_go_into_parts_and_back(tmp_path: Path) -> None:
    numbers: list[int] = []
    for instances, parts in ((0, None), (1, 2), (1, 3), (0, None), (1, None)):
        held = Led(tmp_path / "data", parts, instances)
        held.numbers = numbers
        try:
            if not numbers:
                held.prepare(tmp_path)
                held.engine.broker.create_topic("counts", compacted=True)
                held.engine.submit("count", COUNTS)
            for graph in [g.name for g in held.engine.graphs.by_name.values() if g.distributed]:
                held.start(f"one of {graph}", graph=graph)
            shared = held.engine.graphs.distributed
            home = "main" if shared is None else shared.name
            assert home == {0: "main", 2: "shared", 3: "shared.3"}[parts or 2 * instances]
            moved(held, home)
            written(held, *range(4))
        finally:
            held.close()


def test_a_job_whose_state_grows_too_large_ends_alone(tmp_path: Path) -> None:
    with led(tmp_path, "one", "two") as group:
        group.engine.broker.create_topic("counts", compacted=True)
        group.engine.submit("all", ALL)
        group.engine.submit("count", "SET 'memory.limit' = '200 kb';\n" + COUNTS)
        group.write(*range(12_000))
        eventually(lambda: group.engine.job("count").state is JobState.FAILED)
        assert "state of job 'count' takes" in str(group.engine.job("count").reason)
        group.write(-1)
        eventually(lambda: group.engine.rows_of("all") == 12_001)
        assert group.engine.job("all").state is JobState.RUNNING


def test_letters_are_replayed_where_the_job_has_left_its_parts(tmp_path: Path) -> None:
    with led(tmp_path, "one") as group:
        group.engine.submit("job", ALL.replace("id,", "1 / (id - 4),"))
        group.write(4)
        eventually(lambda: len(group.engine.dead_letters.last(DeadLetterFilter(job="job"), 9)) == 1)
        group.engine.submit("job", ALL)
        with pytest.raises(JobError, match="a replay is not possible") as refused:
            group.engine.replay("job")
        assert "sql isolate job" in str(refused.value.hint)
        group.engine.isolate("job")
        assert len(group.engine.replay("job").letters) == 1
        eventually(lambda: group.found() == [4])
        group.engine.merge("job")
        moved(group, SHARED, "job")


def test_a_job_in_parts_is_drained_in_a_graph_of_its_own(tmp_path: Path) -> None:
    with led(tmp_path, "one", "two") as group:
        group.engine.broker.create_topic("windows")
        group.engine.submit("windows", WINDOWS)
        group.engine.submit("other", COUNTS)
        group.write(1, 2, 2, 11, 12)
        eventually(lambda: counted(group) == {"w1": 1, "w2": 2, "w11": 1, "w12": 1})
        assert group.engine.job("windows").graph == SHARED
        outcome = group.engine.drain_job("windows")
        assert group.engine.job("windows").state is JobState.STOPPED
        assert outcome.savepoint is not None
        assert group.engine.savepoints.show(outcome.savepoint).drained
        told = group.engine.broker.read("windows", 0, 0)
        assert told is not None
        assert sorted(told.values.to_pylist()) == [
            b'{"word":"w1","n":1}',
            b'{"word":"w11","n":1}',
            b'{"word":"w12","n":1}',
            b'{"word":"w2","n":2}',
        ]
        group.write(1)
        eventually(lambda: counted(group)["w1"] == 2, "the other goes on in its parts")
        assert group.engine.job("other").graph == SHARED
