"""What jobs that run in parts can do as others do: savepoints, a look at their state, moves."""

from __future__ import annotations

from pathlib import Path

from sqlengine.jobs.log import JobState
from tests.instances.led import SHARED, Led, led
from tests.support import eventually

COUNTS = """
CREATE TEMPORARY TABLE counts (word STRING, n BIGINT, least BIGINT, PRIMARY KEY (word) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'json', 'upsert' = 'true');
INSERT INTO counts SELECT word, COUNT(*), MIN(id) FROM events GROUP BY word
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
        path = group.engine.save_job("count").savepoint
        group.write(0, 7)
        eventually(lambda: counted(group)["w0"] == 3)
        stopped = group.engine.save_job("count", stop=True)
        assert group.engine.job("count").state is JobState.STOPPED
        assert [s.rows for s in group.engine.savepoints.all() if not isinstance(s, Exception)] == [6, 7]
        group.write(0, 8)
        group.engine.start_job("count", stopped.savepoint)
        eventually(lambda: counted(group) == {"w0": 4, **{f"w{n}": 2 for n in range(1, 6)}, "w7": 1, "w8": 1})
        group.engine.stop_job("count")
        group.engine.start_job("count", path)
        eventually(lambda: counted(group)["w0"] == 4 and counted(group)["w8"] == 1)
