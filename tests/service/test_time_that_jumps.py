"""A row dated years ahead makes millions of windows due: they fire in steps, and nothing else waits
for them."""

from __future__ import annotations

import time
from pathlib import Path

from tests.service.harness import Process, User, rule
from tests.support import eventually

MONTH_BY_SECONDS = """INSERT INTO sums SELECT sensor, window_end, COUNT(*)
FROM HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '30' DAY)
GROUP BY sensor, window_start, window_end"""
TABLES = """
CREATE TABLE readings (sensor STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'readings', 'format' = 'json');
CREATE TABLE sums (sensor STRING, till TIMESTAMP(3), n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'sums', 'format' = 'json');
"""
MOST_MEMORY = 300 << 20


def memory_of(pid: int) -> int:
    """The resident memory of a process, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


def prepare(user: User) -> None:
    user.prepare()
    for topic in ("readings", "sums"):
        user.topic(topic)
    user.submit("readings", TABLES)
    user.submit("month", MONTH_BY_SECONDS)
    user.submit("small", rule("small", "amount < 10"))


def test_millions_of_windows_do_not_hold_up_other_jobs(tmp_path: Path) -> None:
    with Process(tmp_path / "data") as process:
        user = process.user()
        prepare(user)
        for second in range(3):
            reading: dict[str, object] = {
                "sensor": f"s{second}",
                "ts": f"2026-11-23 12:00:0{second}",
            }
            user.write("readings", reading)
        assert user.fired(amount=1) == {"small"}
        before = memory_of(process.process.pid)
        user.write("readings", {"sensor": "broken", "ts": "2030-01-01 00:00:00"})
        page = "/api/v1/topics/sums/records"
        eventually(lambda: user.client.get(page, offset=0, limit=1)["records"], "a window")
        began = time.monotonic()
        for _ in range(10):
            assert user.fired(amount=1) == {"small"}
            assert memory_of(process.process.pid) - before < MOST_MEMORY
        assert time.monotonic() - began < 20
        user.client.delete("/api/v1/jobs/month")
        assert "month" not in user.states()
        assert user.fired(amount=1) == {"small"}
