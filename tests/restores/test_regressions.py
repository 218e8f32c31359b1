"""Statements that gave something else after a restore, or none at all, before that was mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.restores.running import thorough
from tests.sql.golden import Script

ONCE_LOST = {
    "a sum that is wider than its type": (
        """
        SELECT SUM(t), AVG(t) FROM (VALUES (CAST(100 AS TINYINT)), (CAST(100 AS TINYINT)), (CAST(-3 AS TINYINT))) AS v(t);
        CREATE TABLE s (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
        SELECT k, SUM(CAST(100 AS TINYINT)) FROM s GROUP BY k;
        SELECT k, SUM(CAST(20000 AS SMALLINT)) OVER (PARTITION BY k ORDER BY ts) FROM s;
        SELECT k, SUM(2000000000) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR))
        GROUP BY k, window_start, window_end;
    """
    ),
}


@pytest.mark.parametrize("name", ONCE_LOST)
def test_nothing_is_lost_any_more(name: str, tmp_path: Path) -> None:
    script = Script(tmp_path / "script.sql")
    script.path.write_text(ONCE_LOST[name])
    report = thorough(script, tmp_path / "run")
    assert not report.failures, "\n".join(report.failures)
    assert report.done["kills"] > 0
