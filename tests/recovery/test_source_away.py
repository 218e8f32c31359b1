"""A server that died finds the source of a job away when it starts again: the job waits for it apart
from the others, and repeats then what the log has of it, so that each row is there once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from parser.errors import ServiceError, SqlError
from planner.catalog import Table
from sqlengine.config import Config
from sqlengine.connectors.base import Source
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import get_connector
from sqlengine.engine import Engine
from sqlengine.engine.dead_letters import DeadLetterFilter
from sqlengine.engine.job_lifecycle import JobLifecycle
from sqlengine.engine.migration.keeping import Keeping
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import JobState, Origin
from sqlengine.machine import THIS
from sqlengine.snapshots.migrations import MigrationStore
from tests.engine.by_hand import EVENTS, WINDOW, append, die, of_job, open_engine, rows, step
from tests.spark.staged import Staged

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


def _log_epoch(engine: Engine) -> None:
    """Writes the record of an epoch, of which nothing else is done."""
    runner = engine.graph.runner
    record, _ = runner.polling.poll(runner.graph.version, paused=False)
    assert record is not None
    runner.epochs.append(record)


def _dies(*_: object, **__: object) -> None:
    raise SystemExit("died here")


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


def test_a_row_that_was_read_and_not_written_is_written(tmp_path: Path, reach: Reach) -> None:
    engine = _start(tmp_path)
    engine.submit("far", SUMS.format(to="far_outs", job="far", of="far"))
    _send(engine, "far", 1)
    step(engine)
    _send(engine, "far", 2)
    _log_epoch(engine)
    die(engine)
    reach.away = {"far"}
    engine = _open(tmp_path)
    reach.away = set()
    _send(engine, "far", 3)
    engine.start_job("far")
    step(engine)
    assert _written(engine, "far_out") == [1, 3, 6]
    engine.close()


def test_jobs_that_write_to_one_table_wait_together(tmp_path: Path, reach: Reach) -> None:
    """The table knows one last epoch of their graph; a third job of the graph goes on."""
    engine = _start(tmp_path)
    engine.submit("far", SUMS.format(to="outs", job="far", of="far"))
    engine.submit("near", "INSERT INTO outs SELECT 'near', id FROM events")
    engine.submit("other", SUMS.format(to="other_outs", job="other", of="other"))
    _checkpoint(engine)
    _send(engine, "far", 1)
    append(engine, 10)
    step(engine)
    _send(engine, "far", 2)
    append(engine, 20)
    _log_epoch(engine)
    die(engine)
    reach.away = {"far"}
    engine = _open(tmp_path)
    states = {name: engine.job(name).state for name in ("far", "near", "other")}
    assert states == {
        "far": JobState.RESTARTING, "near": JobState.RESTARTING, "other": JobState.RUNNING,
    }  # fmt: skip
    assert "table 'outs' with job 'far'" in (engine.job("near").reason or "")
    append(engine, 30)
    _send(engine, "other", 7)
    step(engine)
    assert _written(engine, "other_out") == [7]
    reach.away = set()
    engine.start_job("near")
    step(engine)
    assert of_job(engine, "near") == [10, 20, 30]
    assert of_job(engine, "far") == [1, 3]
    assert engine.job("far").state is JobState.RESTARTING
    engine.start_job("far")
    _send(engine, "far", 3)
    step(engine)
    assert of_job(engine, "far") == [1, 3, 6]
    engine.close()


@pytest.mark.slow
def test_each_source_is_waited_for_by_its_own_jobs(tmp_path: Path, reach: Reach) -> None:
    engine = _start(tmp_path)
    for name in ("far", "other"):
        engine.submit(name, SUMS.format(to=f"{name}_outs", job=name, of=name))
        _send(engine, name, 1, 2)
    step(engine)
    die(engine)
    reach.away = {"far", "other"}
    engine = _open(tmp_path)
    reach.away = {"other"}
    engine.start_job("far")
    with pytest.raises(SqlError, match="nobody answers for table 'other'"):
        engine.start_job("other")
    die(engine)
    engine = _open(tmp_path)
    assert (engine.job("far").state, engine.job("other").state) == (
        JobState.RUNNING,
        JobState.RESTARTING,
    )
    reach.away = set()
    engine.start_job("other")
    for name in ("far", "other"):
        _send(engine, name, 3)
    step(engine)
    assert _written(engine, "far_out") == _written(engine, "other_out") == [1, 3, 6]
    assert not engine.graphs.apart.stored()
    engine.close()


def test_changes_since_the_checkpoint_are_made_again(tmp_path: Path, reach: Reach) -> None:
    """A job came, got another text, another name, and one of its kind left."""
    engine = _start(tmp_path)
    _checkpoint(engine)
    engine.submit("far", SUMS.format(to="far_outs", job="far", of="far"))
    engine.submit("gone", SUMS.format(to="other_outs", job="gone", of="far"))
    _send(engine, "far", 1)
    step(engine)
    engine.submit("far", SUMS.format(to="far_outs", job="more", of="far"))
    _send(engine, "far", 2)
    step(engine)
    engine.remove("gone")
    engine.change(Request(Origin.SDK, renames={"far": "farther"}))
    _send(engine, "far", 3)
    step(engine)
    assert _written(engine, "far_out") == [1, 3, 6]
    die(engine)
    reach.away = {"far"}
    engine = _open(tmp_path)
    assert engine.job("farther").state is JobState.RESTARTING
    reach.away = set()
    engine.start_job("farther")
    _send(engine, "far", 4)
    step(engine)
    assert _written(engine, "far_out") == [1, 3, 6, 10]
    assert _written(engine, "other_out") == [1, 3]
    engine.close()


def test_dead_letters_are_there_once(tmp_path: Path, reach: Reach) -> None:
    """Of an epoch that was complete, and of one that was not, though their graph has gone on."""
    engine = _start(tmp_path)
    engine.submit(
        "far", "INSERT INTO far_outs SELECT 'far', CAST(10 / (id - 1) AS BIGINT) FROM far"
    )
    engine.submit(
        "near", "INSERT INTO outs SELECT 'near', CAST(10 / (id - 1) AS BIGINT) FROM events"
    )
    _checkpoint(engine)
    _send(engine, "far", 1, 2)
    step(engine)
    _send(engine, "far", 1, 3)
    append(engine, 1)
    _log_epoch(engine)
    die(engine)
    reach.away = {"far"}
    engine = _open(tmp_path)
    append(engine, 1)
    step(engine)
    reach.away = set()
    engine.start_job("far")
    step(engine)
    letters = Counter(letter.job for letter in engine.dead_letters.read(DeadLetterFilter()))
    assert letters == {"far": 2, "near": 2}
    assert _written(engine, "far_out") == [10, 5]
    engine.close()


@pytest.mark.parametrize("dies", ["before the job log", "while it is repeated"])
def test_it_dies_again(
    tmp_path: Path, reach: Reach, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    engine = _start(tmp_path)
    engine.submit("far", SUMS.format(to="far_outs", job="far", of="far"))
    _send(engine, "far", 1, 2)
    step(engine)
    die(engine)
    reach.away = {"far"}
    with monkeypatch.context() as patch:
        if dies == "before the job log":
            patch.setattr(JobLifecycle, "keep_departed", _dies)
            with pytest.raises(SystemExit):
                _open(tmp_path)
        engine = _open(tmp_path) if dies != "before the job log" else engine
        if dies == "while it is repeated":
            patch.setattr(MigrationStore, "replace", _dies)
            reach.away = set()
            with pytest.raises(SystemExit):
                engine.start_job("far")
            die(engine)
    reach.away = set()
    engine = _open(tmp_path)
    assert engine.job("far").state is JobState.RESTARTING
    engine.start_job("far")
    _send(engine, "far", 3)
    step(engine)
    assert _written(engine, "far_out") == [1, 3, 6]
    engine.close()


@pytest.mark.slow
def test_a_recovery_of_a_running_server_takes_it_out_too(tmp_path: Path, reach: Reach) -> None:
    engine = _start(tmp_path)
    engine.submit("far", SUMS.format(to="far_outs", job="far", of="far"))
    engine.submit("near", "INSERT INTO outs SELECT 'near', id FROM events")
    _send(engine, "far", 1, 2)
    append(engine, 1)
    step(engine)
    _send(engine, "far", 3)
    append(engine, 2)
    _log_epoch(engine)
    reach.away = {"far"}
    engine.graph.runner.broken = True
    engine._failures._fail(frozenset({"near"}), "a test says so", False)
    assert engine.job("far").state is engine.job("near").state is JobState.RESTARTING
    engine.start_job("near")
    reach.away = set()
    engine.start_job("far")
    step(engine)
    assert _written(engine, "far_out") == [1, 3, 6]
    assert of_job(engine, "near") == [1, 2]
    engine.close()


def test_what_waits_no_more_holds_up_nobody(tmp_path: Path, reach: Reach) -> None:
    engine = _start(tmp_path)
    engine.submit("far", SUMS.format(to="outs", job="far", of="far"))
    engine.submit("near", "INSERT INTO outs SELECT 'near', id FROM events")
    _send(engine, "far", 1)
    append(engine, 10)
    step(engine)
    _checkpoint(engine)
    _send(engine, "far", 2)
    append(engine, 20)
    step(engine)
    die(engine)
    reach.away = {"far"}
    engine = _open(tmp_path)
    with pytest.raises(SqlError, match="nobody answers for table 'far'"):
        engine.start_job("near")
    renamed = engine.change(Request(Origin.SDK, renames={"near": "nearer"}))
    assert "cannot be renamed while it waits" in str(renamed["nearer"].error)
    engine.remove("far")
    engine.start_job("near")
    append(engine, 30)
    step(engine)
    assert of_job(engine, "near") == [10, 20, 30]
    assert of_job(engine, "far") == [1, 3]
    engine.close()


@pytest.mark.slow
def test_it_goes_away_again_before_the_job_goes_on(
    tmp_path: Path, reach: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the job was to repeat it has repeated by then."""
    engine = _start(tmp_path)
    engine.submit("far", SUMS.format(to="far_outs", job="far", of="far"))
    _send(engine, "far", 1, 2)
    step(engine)
    die(engine)
    reach.away = {"far"}
    engine = _open(tmp_path)
    reach.away = set()
    with monkeypatch.context() as patch:

        def lost(*_: object) -> None:
            raise ServiceError("it is away again")

        patch.setattr(Keeping, "_without_lost_records", lost)
        assert "away again" in str(engine._lifecycle.restart([engine.job("far")]))
    assert engine.job("far").state is JobState.RESTARTING
    assert engine._lifecycle.restart([engine.job("far")]) is None
    _send(engine, "far", 3)
    step(engine)
    assert _written(engine, "far_out") == [1, 3, 6]
    engine.close()


def _open_in_tasks(folder: Path) -> Engine:
    config = Config(data=folder / "data", checkpoint_ms=1 << 60, target="spark")
    engine = Engine(config, replace(THIS, spark=lambda _: Staged(2)))
    for topic in ("events", "out", "far", "far_out"):
        engine.broker.create_topic(topic, if_not_exists=True)
    return engine


@pytest.mark.parametrize("removed", [False, True])
def test_a_graph_in_tasks_waits_as_a_whole(tmp_path: Path, reach: Reach, removed: bool) -> None:
    """Until the source is back, or its job is removed."""
    engine = _open_in_tasks(tmp_path)
    engine.submit("tables", EVENTS + FAR.format(name="far"))
    engine.submit("far", SUMS.format(to="far_outs", job="far", of="far"))
    engine.submit("near", "INSERT INTO outs SELECT 'near', id FROM events")
    _send(engine, "far", 1, 2)
    append(engine, 1)
    step(engine)
    die(engine)
    reach.away = {"far"}
    engine = _open_in_tasks(tmp_path)
    assert engine.job("far").state is engine.job("near").state is JobState.RUNNING
    assert "nobody answers for table 'far'" in (engine.graphs.problem or "")
    engine._recovery.reopen()
    assert "nobody answers for table 'far'" in (engine.graphs.problem or "")
    if removed:
        engine.remove("far")
    reach.away = {"far"} if removed else set()
    engine._recovery.reopen()
    assert engine.graphs.problem is None
    _send(engine, "far", 3)
    append(engine, 2)
    step(engine)
    assert _written(engine, "far_out") == ([1, 3] if removed else [1, 3, 6])
    assert of_job(engine, "near") == [1, 2]
    engine.close()
