"""A job in parts whose sink cannot take rows is started again where it was; the others go on."""

from __future__ import annotations

from pathlib import Path

from sqlengine.jobs.job import JobState
from tests.cluster.leader import ALL, SHARED, leading
from tests.support import eventually

COPY = """SET 'restart-strategy.exponential-delay.initial-backoff' = '300 ms';
CREATE TABLE copied (id BIGINT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'copied', 'format' = 'json', 'upsert' = 'true');
INSERT INTO copied SELECT id, COUNT(*) FROM events GROUP BY id"""


def test_a_job_in_parts_is_started_again_where_it_was(tmp_path: Path) -> None:
    with leading(tmp_path, "one") as harness:
        engine = harness.engine
        engine.broker.create_topic("copied", compacted=True)
        engine.submit("all", ALL)
        engine.submit("copy", COPY)
        assert engine.job("copy").graph == SHARED
        harness.write(1, 2)
        eventually(lambda: {row["id"] for row in harness.latest("copied")} == {1, 2})
        engine.broker.delete_topic("copied")
        harness.write(1, 2, 3)
        eventually(lambda: engine.job("copy").restarts == 1, "it fails")
        assert engine.job("all").state is JobState.RUNNING
        # The topic is made anew with the start, which is the first attempt.
        eventually(lambda: engine.job("copy").state is JobState.RUNNING, "it runs again")
        eventually(lambda: engine.restarts_by_job() == {"copy": 1}, "it is counted")
        harness.write(4)
        expected = {1: 2, 2: 2, 3: 1, 4: 1}

        def found() -> dict[object, object]:
            return {row["id"]: row["n"] for row in harness.latest("copied")}

        eventually(lambda: found() == expected, lambda: str(found()))
        eventually(lambda: harness.found() == [1, 1, 2, 2, 3, 4], "the rows of the other job")
