"""One source on both sides of a UNION ALL: late rows are judged by the row, wherever a batch ends.

(Flink gives another result with every run here: it reads the two sides in turns of its buffers.)"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sqlengine.session.environment import open_runner
from sqlengine.session.output import EventOutput
from sqlengine.session.session import Session

TIMES = (1, 4, 14, 5, 13, 24, 3)
SCRIPT = """
CREATE TABLE e (ts TIMESTAMP(3), k STRING, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');
CREATE VIEW u AS SELECT ts, k FROM e UNION ALL SELECT ts, 'all' FROM e WHERE k <> 'c';
SELECT window_start, k, COUNT(*) FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '3' SECOND))
GROUP BY window_start, window_end, k;
"""


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_lateness_is_judged_by_the_row(rows: int, tmp_path: Path) -> None:
    events = [{"ts": f"2025-01-01 00:00:{t:02}", "k": "abc"[i % 3]} for i, t in enumerate(TIMES)]
    path = tmp_path / "events.json"
    path.write_text("".join(json.dumps(e) + "\n" for e in events))
    out = io.StringIO()
    with open_runner(tmp_path / "data", rows) as runner:
        assert Session(runner, EventOutput(out)).run(SCRIPT.format(path=path))
    found = [json.loads(line)["row"] for line in out.getvalue().splitlines()[1:]]
    in_time = [
        (t, e["k"]) for i, (t, e) in enumerate(zip(TIMES, events, strict=True)) if _in_time(i)
    ]
    expected = {(t // 3 * 3, k) for t, k in in_time} | {
        (t // 3 * 3, "all") for t, k in in_time if k != "c"
    }
    assert {(int(r[0][-2:] if r[0].count(":") == 2 else 0), r[1]) for r in found} == expected


def _in_time(number: int) -> bool:
    """Whether the window of the row is open when it comes: its last second is not behind the
    watermark."""
    before = max(TIMES[:number], default=-10) - 2
    return TIMES[number] // 3 * 3 + 3 - 0.001 > before
