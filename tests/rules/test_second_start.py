"""A server that starts again finds the compiled databases of its rules on disk, whatever became of
them meanwhile."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from tests.conformance.sigma import counters
from tests.support import eventually

TABLES = """
CREATE TABLE events (word STRING, line STRING)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE alerts (word STRING)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json', 'topic.auto-create' = 'true');
"""
RULES, CHANGES = 60, 150


def rule(number: int, version: int) -> str:
    where = (
        f"LOWER(line) LIKE '%a{number}b{version}%' OR word LIKE '%{number}x{version}' OR"
        f" REGEXP(word, '{number}+$')"
    )
    return f"INSERT INTO alerts SELECT word FROM events WHERE {where}"


@pytest.mark.slow
def test_all_databases_are_there_at_the_second_start(tmp_path: Path) -> None:
    config = Config(data=tmp_path)
    with (
        patch("sqlengine.graphs.rebuild.QUIET_S", 0.1),
        patch("sqlengine.graphs.rebuild.QUIET_FACTOR", 0.1),
    ):
        engine = Engine(config)
        engine.broker.create_topic("events")
        jobs = {"tables": TABLES, **{f"r{n}": rule(n, 0) for n in range(RULES)}}
        engine.change(Request(Origin.SDK, {n: JobText(n, sql) for n, sql in jobs.items()}))
        engine.start()
        for i in range(CHANGES):
            engine.submit(f"r{i * 7 % RULES}", rule(i * 7 % RULES, i + 1))
        for i in range(10):
            engine.remove(f"r{i}")
        eventually(lambda: _is_whole(engine))
        engine.close()
    again = Engine(config)
    again.start()
    found = counters(again)
    again.close()
    assert (found["compiled"], found["loaded"]) == (0, 5)


def _is_whole(engine: Engine) -> bool:
    (ruleset,) = (
        node.operator.compiled.ruleset
        for node in engine.graph.executor.running.values()
        if hasattr(node.operator, "compiled")
    )
    return bool(ruleset.is_freshly_compiled)
