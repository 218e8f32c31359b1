"""What Spark cannot run is refused by name, with what to do instead, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlengine.session.session import Session
from sqlengine.session.spark import script_runner
from tests.spark.scripting import Collected
from tests.spark.staged import Staged

REFUSED = {
    "batch mode": (
        """SET 'execution.runtime-mode' = 'batch';
        CREATE TEMPORARY TABLE t (v INT) WITH ('connector' = 'datagen'); SELECT v FROM t;""",
        "table 't' has no end, and batch mode waits for it",
        "'streaming'",
    ),
    "watermarks at intervals": (
        """SET 'pipeline.auto-watermark-interval' = '200 ms';
        CREATE TEMPORARY TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen',
        'scan.watermark.emit.strategy' = 'on-periodic'); SELECT ts FROM t;""",
        "watermarks at intervals are not supported on Spark yet, where input has no end",
        "leave out 'pipeline.auto-watermark-interval'",
    ),
    "two idle timeouts": (
        """CREATE TEMPORARY TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'datagen', 'scan.watermark.idle-timeout' = '1 min');
        CREATE TEMPORARY TABLE u WITH ('scan.watermark.idle-timeout' = '2 min') LIKE t;
        SELECT COUNT(*) FROM TABLE(TUMBLE((SELECT ts FROM t UNION ALL SELECT ts FROM u), DESCRIPTOR(ts),
        INTERVAL '5' SECOND)) GROUP BY window_start, window_end;""",
        "rows of tables with different idle timeouts cannot come together on Spark yet",
        "write the same 'scan.watermark.idle-timeout' for each",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    text, message, hint = REFUSED[name]
    collected = Collected(text)
    with script_runner(tmp_path / "data", 100, Staged()) as runner:
        Session(runner, collected).run(text)
    (error,) = collected.outcome.errors.values()
    assert message in error
    assert hint in error
