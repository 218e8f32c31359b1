"""A graph that an internal error has broken: its jobs can be stopped and removed all the same, and
the others go on once the one at fault has left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqlengine.engine import Engine
from sqlengine.executors.pipeline import Pipeline
from sqlengine.jobs.job import JobState
from tests.engine.by_hand import EVENTS, append, of_job, open_engine
from tests.support import eventually


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """One whose graphs break with each epoch, also of a recovery, while the job 'bad' runs."""
    process: Callable[..., None] = Pipeline.process

    def breaks(self: Pipeline, *args: object) -> None:
        process(self, *args)
        if "bad" in self.jobs and any(part.end > 1 for part in args[0].ranges):  # type: ignore[attr-defined]
            raise KeyError("what nobody has thought of")

    monkeypatch.setattr(Pipeline, "process", breaks)
    engine = open_engine(tmp_path)
    engine.start()
    engine.submit("tables", EVENTS)
    for job in ("bad", "good"):
        engine.submit(job, f"INSERT INTO outs SELECT '{job}', id FROM events")
    append(engine, 0)
    eventually(lambda: of_job(engine, "good") == [0])
    append(engine, 1)
    eventually(lambda: engine.graphs.broken)
    return engine


@pytest.mark.parametrize("way", ["stop", "remove"])
def test_the_job_at_fault_leaves(engine: Engine, way: str) -> None:
    append(engine, 2)
    if way == "stop":
        assert engine.stop_job("bad").status == "stopped"
        assert engine.job("bad").state is JobState.STOPPED
    else:
        assert engine.remove("bad").status == "removed"
        assert "bad" not in engine.log.jobs
    append(engine, 3)
    eventually(lambda: len(of_job(engine, "good")) >= 4, lambda: of_job(engine, "good"))
    assert of_job(engine, "good") == [0, 1, 2, 3]
    assert not engine.graphs.broken
    engine.close()


def test_another_job_leaves(engine: Engine) -> None:
    """The graph stays broken, and that job is gone."""
    assert engine.remove("good").status == "removed"
    assert "good" not in engine.log.jobs
    assert engine.graphs.broken
    assert engine.remove("bad").status == "removed"
    eventually(lambda: not engine.graphs.broken)
    engine.close()
