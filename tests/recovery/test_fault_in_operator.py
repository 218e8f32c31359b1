"""An operator that raises (a fault of ours, put there by hand) costs the jobs behind it, never the
graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sqlengine.batch import Batch
from sqlengine.engine import Engine
from sqlengine.executors.failures import GraphBroken
from sqlengine.jobs.job import JobState
from sqlengine.operators.base import Output, Stream
from sqlengine.operators.project import ProjectOperator
from sqlengine.operators.union import UnionOperator
from sqlengine.operators.windows.aggregate import WindowAggregateOperator
from tests.engine.by_hand import EVENTS, WINDOW, append, die, of_job, open_engine, rows, step
from tests.support import eventually

BY_HOST = WINDOW.replace("GROUP BY", "GROUP BY host,")


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Window aggregates by host raise once host h2 comes."""
    sound = WindowAggregateOperator.process

    def process(self: WindowAggregateOperator, port: int, batch: Batch) -> Stream:
        if "host" in batch.schema and "h2" in batch.column("host").to_pylist():
            raise ZeroDivisionError("put there by hand")
        return sound(self, port, batch)

    monkeypatch.setattr(WindowAggregateOperator, "process", process)


def _start(folder: Path) -> Engine:
    engine = open_engine(folder)
    engine.submit("tables", EVENTS)
    engine.submit("good", WINDOW.format(name="good"))
    engine.submit("bad", BY_HOST.format(name="bad"))
    return engine


def _wait_for(engine: Engine, job: str, count: int) -> None:
    eventually(lambda: len(of_job(engine, job)) >= count)


@pytest.mark.usefixtures("fault")
def test_a_running_graph_goes_on_without_the_jobs_behind_the_fault(tmp_path: Path) -> None:
    engine = _start(tmp_path)
    engine.start()
    append(engine, 0, 999, 1000)
    _wait_for(engine, "good", 1)
    append(engine, 1001, 1004, 2001)  # 1001 is the first of h2
    _wait_for(engine, "good", 2)
    assert of_job(engine, "good") == [2, 3]
    # It is written down once the graph goes on.
    eventually(lambda: engine.job("bad").state is JobState.RESTARTING)
    bad = engine.job("bad")
    assert "internal error in WindowAggregate: ZeroDivisionError: put there by hand" in (
        bad.reason or ""
    )
    assert not engine.graphs.broken
    engine.submit("later", WINDOW.format(name="later"))
    assert engine.job("later").state is JobState.RUNNING
    engine.close()


def test_a_recovery_goes_on_without_the_jobs_behind_the_fault(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    engine = _start(tmp_path)
    append(engine, 0, 999, 1001, 2001)
    step(engine)
    die(engine)
    # The epoch went well, and does not in the version that repeats it.
    request.getfixturevalue("fault")
    engine = open_engine(tmp_path)
    assert engine.job("bad").state is JobState.RESTARTING
    assert engine.job("good").state is JobState.RUNNING
    append(engine, 3001)
    step(engine)
    assert of_job(engine, "good") == [2, 1, 1]
    # Its next version is not at fault, also in the next recovery.
    engine.submit("bad", WINDOW.format(name="bad"))
    append(engine, 4001, 5001)
    step(engine)
    die(engine)
    engine = open_engine(tmp_path)
    assert engine.job("bad").state is JobState.RUNNING
    assert of_job(engine, "good") == [2, 1, 1, 1, 1]
    engine.close()


def test_without_state_it_costs_the_row_at_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = ProjectOperator.process

    def process(self: ProjectOperator, port: int, batch: Batch) -> Output:
        if "id" in batch.schema and 7 in batch.column("id").to_pylist():
            raise ZeroDivisionError("put there by hand")
        return sound(self, port, batch)

    monkeypatch.setattr(ProjectOperator, "process", process)
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("ids", "INSERT INTO outs SELECT 'ids', id FROM events")
    append(engine, *range(10))
    step(engine)
    assert of_job(engine, "ids") == [n for n in range(10) if n != 7]
    (letter,) = rows(engine, "_dead_letters")
    assert "internal error: ZeroDivisionError: put there by hand" in str(letter)
    engine.close()


def test_a_fault_where_inputs_come_together_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def process_many(self: UnionOperator, parts: Sequence[tuple[int, Batch]]) -> Output:
        raise ZeroDivisionError("put there by hand")

    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("good", WINDOW.format(name="good"))
    both = "(SELECT id FROM events UNION ALL SELECT id + 1 FROM events)"
    engine.submit("bad", f"INSERT INTO outs SELECT 'bad', id FROM {both} AS both_parts")
    engine.start()
    append(engine, 0, 999, 1000)
    _wait_for(engine, "bad", 6)
    monkeypatch.setattr(UnionOperator, "process_many", process_many)
    append(engine, 1001, 2001)
    _wait_for(engine, "good", 2)
    eventually(lambda: engine.job("bad").state in (JobState.FAILED, JobState.RESTARTING))
    reason = engine.job("bad").reason or ""
    assert "internal error in Union: ZeroDivisionError: put there by hand" in reason
    engine.close()


def _by_host(engine: Engine) -> list[object]:
    return sorted(of_job(engine, "bad"), key=str)


@pytest.mark.usefixtures("fault")
def test_the_jobs_behind_the_fault_go_on_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the state of the last complete epoch, exactly once, when the fault is mended."""
    engine = _start(tmp_path)
    engine.start()
    append(engine, 0, 3, 900)  # three of h0, whose window is open
    eventually(lambda: engine.graph.runner.progress.rows_in == 3)
    append(engine, 6, 1001, 1004)  # 1001 is the first of h2
    eventually(lambda: engine.job("bad").state is JobState.RESTARTING)
    eventually(lambda: engine.job("bad").restarts > 1)
    append(engine, 2001)
    _wait_for(engine, "good", 2)
    monkeypatch.undo()
    eventually(lambda: engine.job("bad").state is JobState.RUNNING)
    # Of h0 four, of h2 two, that the fault would not have counted.
    eventually(lambda: _by_host(engine) == [2, 4], lambda: str((rows(engine), engine.jobs())))
    assert of_job(engine, "good") == [4, 2]
    engine.close()


@pytest.mark.parametrize("again", [False, True])
def test_they_go_on_after_a_recovery_that_met_the_fault(
    tmp_path: Path, request: pytest.FixtureRequest, again: bool
) -> None:
    engine = _start(tmp_path)
    append(engine, 0, 3, 900)
    step(engine)
    engine.graph.runner.checkpoint(wait=True)
    append(engine, 6)
    step(engine)
    append(engine, 1001, 1004)
    step(engine)
    die(engine)
    request.getfixturevalue("fault")
    engine = open_engine(tmp_path)
    assert engine.job("bad").state is JobState.RESTARTING
    append(engine, 2001)
    step(engine)
    if again:
        die(engine)
        engine = open_engine(tmp_path)
        assert engine.job("bad").state is JobState.RESTARTING
    assert "its last rows may come again" in (engine.job("bad").reason or "")
    request.getfixturevalue("monkeypatch").undo()
    engine.start_job("bad")
    step(engine)
    # Of h0 the rows came before the server died, and once more, as was said: the epoch was complete.
    assert _by_host(engine) == [2, 4, 4]
    assert of_job(engine, "good") == [4, 2]
    engine.close()


@pytest.mark.usefixtures("fault")
def test_a_graph_that_cannot_be_recovered_at_once_is_tried_again(tmp_path: Path) -> None:
    engine = _start(tmp_path)
    engine.start()
    append(engine, 0, 999, 1000)
    _wait_for(engine, "good", 1)
    store, away = tmp_path / "data" / "graphs" / "main", tmp_path / "away"
    store.rename(away)
    store.write_text("no store of checkpoints can be opened here")
    append(engine, 1001, 1004, 2001)
    assert eventually(lambda: "cannot be recovered" in str(engine.graphs.problem))
    with pytest.raises(GraphBroken):
        engine.submit("later", WINDOW.format(name="later"))
    store.unlink()
    away.rename(store)
    _wait_for(engine, "good", 2)
    assert of_job(engine, "good") == [2, 3]
    assert eventually(lambda: engine.job("bad").state is JobState.RESTARTING)
    # What it reports from now on is heard.
    engine.submit("bad", BY_HOST.format(name="bad").replace("COUNT", "SUM(id) + COUNT"))
    assert engine.job("bad").state is JobState.RUNNING
    append(engine, 2500, 3001, 3500, 4001)
    assert eventually(lambda: engine.job("bad").state is JobState.RESTARTING)
    engine.close()
