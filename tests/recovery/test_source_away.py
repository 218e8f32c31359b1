"""A server that died finds the source of a job away when it starts again: the job waits for it apart
from the others, and repeats then what the log has of it, so that each row is there once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from parser.errors import ServiceError, SqlError
from planner.catalog import Table
from sqlengine.connectors.base import Source
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import get_connector
from sqlengine.engine import Engine
from sqlengine.jobs.job import JobState
from tests.engine.by_hand import EVENTS, WINDOW, append, die, lines, of_job, open_engine, rows, step

FAR = """
CREATE TABLE {name} (id BIGINT, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = '{name}', 'format' = 'json');
CREATE TABLE {name}_outs (job STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = '{name}_out', 'format' = 'json');
"""
SUMS = "INSERT INTO {to} SELECT '{job}', SUM(id) OVER (ORDER BY ts) FROM {of}"


class Reach:
    """Which tables can be opened for reading: those that are `away` cannot."""

    def __init__(self, opens: Callable[[Table, Environment], Source]) -> None:
        self.away: set[str] = set()
        self._opens = opens

    def source(self, table: Table, environment: Environment) -> Source:
        if table.name[-1] in self.away:
            raise ServiceError(f"nobody answers for table '{table.name[-1]}'")
        return self._opens(table, environment)


@pytest.fixture
def reach(monkeypatch: pytest.MonkeyPatch) -> Reach:
    connector = get_connector("topic")
    assert connector is not None
    reach = Reach(connector.source)
    monkeypatch.setattr(connector, "source", reach.source)
    return reach


def _open(folder: Path) -> Engine:
    engine = open_engine(folder)
    for topic in ("far", "far_out", "other", "other_out"):
        engine.broker.create_topic(topic, if_not_exists=True)
    return engine


def _start(folder: Path) -> Engine:
    engine = _open(folder)
    engine.submit("tables", EVENTS + FAR.format(name="far") + FAR.format(name="other"))
    return engine


def _send(engine: Engine, topic: str, *ids: int) -> None:
    records = [b'{"id": %d, "ms": %d}' % (n, n) for n in ids]
    engine.broker.append(topic, 0, records, timestamp_ms=0)


def _checkpoint(engine: Engine) -> None:
    for graph in engine.graphs.by_name.values():
        graph.runner.checkpoint(wait=True)


def _written(engine: Engine, topic: str) -> list[object]:
    return [n for _, n in rows(engine, topic)]


def test_rows_are_there_once(tmp_path: Path, reach: Reach) -> None:
    """State, rows that were out, and those of an epoch that was read and not written."""
    engine = _start(tmp_path)
    engine.submit("near", WINDOW.format(name="near"))
    engine.submit("far", SUMS.format(to="far_outs", job="far", of="far"))
    _send(engine, "far", 1, 2)
    step(engine)
    _checkpoint(engine)
    _send(engine, "far", 3, 4)
    append(engine, 0, 1000)
    step(engine)
    assert _written(engine, "far_out") == [1, 3, 6, 10]
    die(engine)
    reach.away = {"far"}
    engine = _open(tmp_path)
    far = engine.job("far")
    assert (far.state, engine.job("near").state) == (JobState.RESTARTING, JobState.RUNNING)
    assert "nobody answers for table 'far'" in (far.reason or "")
    append(engine, 2000)
    step(engine)
    assert of_job(engine, "near") == [1, 1]
    with pytest.raises(SqlError, match="nobody answers"):
        engine.start_job("far")
    reach.away = set()
    engine.start_job("far")
    _send(engine, "far", 5)
    step(engine)
    assert _written(engine, "far_out") == [1, 3, 6, 10, 15]
    engine.close()
