"""A job is drained: its windows are told before their time, once, also over deaths; then it stops
with a savepoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parser.errors import JobError, SqlError
from sqlengine.connectors.topic.sink import TopicSink
from sqlengine.engine import Engine
from sqlengine.engine.statements import execute
from sqlengine.executors.epochs import EPOCHS, decode_record
from sqlengine.executors.pipeline import Pipeline
from sqlengine.executors.runner import GraphRunner
from sqlengine.jobs.job import JobState
from sqlengine.jobs.log import JobLog
from tests.engine.by_hand import EVENTS, WINDOW, append, die, of_job, open_engine, step


class Killed(BaseException):
    """The server ends here."""


def opened(folder: Path) -> Engine:
    engine = open_engine(folder)
    engine.submit("tables", EVENTS)
    return engine


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = opened(tmp_path)
    for name in ("ends", "other"):
        engine.submit(name, WINDOW.format(name=name))
    return engine


def feed(engine: Engine, *times: int) -> None:
    append(engine, *times)
    step(engine)


def ends_written(engine: Engine) -> int:
    """Epochs in which sources end."""
    records = engine.broker.read(EPOCHS, 0, 0)
    assert records is not None
    return sum(bool(decode_record(v).ended) for v in records.values.to_pylist())


def test_all_windows_are_told_and_other_jobs_go_on(engine: Engine) -> None:
    feed(engine, 100, 200, 1300, 1400)
    assert of_job(engine, "ends") == [2]
    outcome = engine.drain_job("ends")
    assert (outcome.status, engine.job("ends").state) == ("stopped", JobState.STOPPED)
    assert str(outcome.savepoint) in str(engine.job("ends").reason)
    assert of_job(engine, "ends") == [2, 2]
    feed(engine, 1500, 2100)
    assert (of_job(engine, "ends"), of_job(engine, "other")) == ([2, 2], [2, 3])
    assert list(engine.graphs.by_name) == ["main"]
    engine.close()


def test_the_statement_says_where_the_savepoint_is(engine: Engine, tmp_path: Path) -> None:
    feed(engine, 100)
    folder = tmp_path / "kept"
    _, answer = execute(
        engine,
        f"SET 'state.savepoints.dir' = '{folder}'; STOP JOB 'ends' WITH SAVEPOINT WITH DRAIN",
    )
    ((path,),) = answer.rows
    assert str(path).startswith(f"{folder}/savepoint-ends-")
    assert engine.savepoints.show(str(path)).drained
    assert of_job(engine, "ends") == [1]
    engine.close()


def test_who_starts_from_it_begins_a_time_anew(engine: Engine) -> None:
    feed(engine, 100, 1100)
    path = engine.drain_job("ends").savepoint
    append(engine, 1200, 2300)
    engine.start_job("ends", path)
    step(engine)
    assert of_job(engine, "ends") == [1, 1, 1], (
        "the rows behind it are not late, and windows that were told have only them"
    )
    feed(engine, 3300)
    assert of_job(engine, "ends") == [1, 1, 1, 1]
    engine.close()


def test_a_job_that_does_not_run_or_a_folder_that_is_none_is_refused(engine: Engine) -> None:
    feed(engine, 100)
    with pytest.raises(JobError, match="not in a folder for savepoints"):
        engine.drain_job("ends", "/elsewhere")
    assert (engine.job("ends").graph, of_job(engine, "ends")) == ("main", [])
    engine.stop_job("ends")
    with pytest.raises(JobError, match="does not run"):
        engine.drain_job("ends")
    engine.close()


def test_where_no_savepoint_can_be_written_it_has_ended_and_is_stopped_later(
    engine: Engine, tmp_path: Path
) -> None:
    feed(engine, 100)
    (tmp_path / "kept").write_text("no folder")
    with pytest.raises(SqlError, match="cannot be written"):
        engine.drain_job("ends", str(tmp_path / "kept"))
    job = engine.job("ends")
    assert (job.state, job.reason) == (
        JobState.RUNNING,
        "it has ended, and was not stopped: stop it again, with drain",
    )
    feed(engine, 200, 1100)
    assert (of_job(engine, "ends"), of_job(engine, "other")) == ([1], [2])
    outcome = engine.drain_job("ends")
    assert outcome.savepoint is not None
    assert engine.savepoints.show(outcome.savepoint).drained
    assert (of_job(engine, "ends"), ends_written(engine)) == ([1], 1)
    engine.close()


DEATHS: list[tuple[str, type, str, bool]] = [
    ("the job is in its own graph", JobLog, "begin", False),
    ("it stands in the job log that it ends", GraphRunner, "drain", False),
    ("its end is written down", Pipeline, "process", False),
    ("its end is processed", TopicSink, "commit", False),
    ("its windows are told", TopicSink, "commit", True),
    ("all is out", GraphRunner, "drain", True),
    ("the savepoint is written", GraphRunner, "apply", False),
    ("it has left its graph", GraphRunner, "apply", True),
    ("it has left its graph, and that is not in the job log", JobLog, "complete", False),
]


@contextmanager
def dying(where: type, what: str, behind: bool, when: Callable[[object], bool]) -> Iterator[None]:
    sound = getattr(where, what)

    def deadly(self: object, *given: object, **named: object) -> object:
        if not when(self):
            return sound(self, *given, **named)
        if behind:
            sound(self, *given, **named)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, what, deadly)
        yield


@pytest.mark.parametrize(("place", "where", "what", "behind"), DEATHS, ids=[d[0] for d in DEATHS])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_deaths(
    engine: Engine,
    tmp_path: Path,
    place: str,
    where: type,
    what: str,
    behind: bool,
    checkpoint: bool,
) -> None:
    feed(engine, 100, 200, 1300, 1400)
    engine.isolate("ends")
    if checkpoint:
        for graph in engine.graphs.by_name.values():
            graph.runner.checkpoint(wait=True)
    with dying(where, what, behind, lambda _: True), pytest.raises(Killed):
        engine.drain_job("ends")
    die(engine)
    again = opened(tmp_path)
    step(again)
    ended = place != DEATHS[0][0]
    assert of_job(again, "ends") == ([2, 2] if ended else [2])
    assert (again.job("ends").state is JobState.STOPPED) == ended
    assert ends_written(again) == ended
    feed(again, 2100)
    assert of_job(again, "ends") == of_job(again, "other") == [2, 2]
    if ended:
        last = again.savepoints.all()[-1]
        assert not isinstance(last, JobError)
        assert last.drained
        again.start_job("ends", last.path)
        feed(again, 3100)
        assert of_job(again, "ends") == of_job(again, "other") == [2, 2, 1]
    again.close()
