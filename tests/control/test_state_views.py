"""What jobs keep is shown as tables, and a job that keeps more than it may is stopped, alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from parser.errors import JobError, OptionError
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.jobs.job import JobState
from sqlengine.system.sizes import size
from tests.engine.by_hand import EVENTS, append, open_engine, step
from tests.support import eventually

SINK = "CREATE TEMPORARY TABLE {name} (host STRING, n BIGINT) WITH ('connector' = 'blackhole');\n"
COUNT = SINK + "INSERT INTO {name} SELECT host, COUNT(*) FROM events GROUP BY host"
MANY = (
    SINK
    + "INSERT INTO {name} SELECT host || CAST(id AS STRING), COUNT(*) FROM events GROUP BY host ||"
    " CAST(id AS STRING)"
)
JOIN = (
    SINK + "INSERT INTO {name} SELECT a.host, b.id FROM events a JOIN events b ON a.host = b.host"
)


def test_operators_and_their_rows(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("count", COUNT.format(name="a"))
    engine.submit("join", JOIN.format(name="b"))
    append(engine, 1, 2, 3, 4, 6)
    step(engine)
    watermark, count = engine.state.operations("count")
    assert (watermark.state.job_state, count.state.job_state) == (False, True)
    assert (count.number, count.state.name, count.state.rows, count.keys) == (
        2,
        "GroupAggregate by host: COUNT(*)",
        3,
        3,
    )
    assert count.state.bytes > 0
    (table,) = engine.state.rows("count", 2, 2)
    assert (table.columns, table.rows, table.total) == (
        ("host", "#rows", "0#count"),
        (("h1", 2, 2), ("h2", 1, 1)),
        3,
    )
    join = engine.state.operations("join")[-1]
    assert ([t.rows for t in join.state.tables][1:], join.keys) == ([5, 5], 3)
    with pytest.raises(JobError, match="no operation 3"):
        engine.state.rows("count", 3, 1)
    engine.stop_job("count")
    with pytest.raises(JobError, match="does not run"):
        engine.state.operations("count")
    engine.close()


def feed(engine: Engine, start: int, end: int) -> None:
    lines = [
        json.dumps({"id": n, "ms": n, "host": f"h{n % 3}"}).encode() for n in range(start, end)
    ]
    engine.broker.append("events", 0, lines, timestamp_ms=0)


@pytest.mark.parametrize("whose", ["job", "server"])
def test_a_job_above_its_limit_is_stopped_and_the_others_run_on(tmp_path: Path, whose: str) -> None:
    limit = 1 << 20
    engine = Engine(
        Config(data=tmp_path, rows_per_read=500, memory_limit=limit if whose == "server" else None)
    )
    engine.broker.create_topic("events")
    engine.start()
    engine.submit("tables", EVENTS)
    engine.submit("count", "SET 'memory.limit' = '900 kb';" + COUNT.format(name="a"))
    own = "SET 'memory.limit' = '1 mb';" if whose == "job" else ""
    engine.submit("many", own + MANY.format(name="b"))
    for start in range(0, 40_000, 500):
        feed(engine, start, start + 500)
    assert eventually(lambda: engine.job("many").state is JobState.FAILED)
    reason = engine.job("many").reason or ""
    assert "'memory.limit' is 1.0 MB" in reason, reason
    assert "'GroupAggregate by " in reason, reason
    assert "of job 'many' holds" in reason, reason
    raised = "'memory.limit' of the job" if whose == "job" else "'sql serve --memory-limit'"
    assert f"; raise {raised}, or let state be forgotten: SET 'table.exec" in reason, reason

    def read() -> int:
        held = engine.state.operations("count")[-1].state.rows
        return held and sum(cast(int, r[1]) for r in engine.state.rows("count", 2, 9)[0].rows)

    assert eventually(lambda: read() == 40_000)
    assert engine.job("count").state is JobState.RUNNING
    assert engine.ready
    engine.close()


def test_sizes(tmp_path: Path) -> None:
    assert [size(t) for t in ("7", "2 kb", "3MB", "1 g", "5 bytes")] == [
        7,
        2048,
        3 << 20,
        1 << 30,
        5,
    ]
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    with pytest.raises(OptionError, match=r"'memory.limit' cannot be '10 apples'"):
        engine.submit("count", "SET 'memory.limit' = '10 apples';" + COUNT.format(name="a"))
    engine.close()
