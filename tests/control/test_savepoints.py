"""A job is stopped with a savepoint, or saved while it runs, and goes on exactly there: what it
writes is what it would have written without."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from parser.errors import JobError, SqlError
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import JobState, Origin
from sqlengine.jobs.planning import JobText
from sqlengine.snapshots.savepoint_files import METADATA, Savepoint
from tests.engine.by_hand import EVENTS, WINDOW, append, die, of_job, open_engine, rows, step

COUNT = """CREATE TEMPORARY TABLE counts (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'json', 'upsert' = 'true');
INSERT INTO counts SELECT host, COUNT(*) FROM events WHERE id > {} GROUP BY host"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return opened(tmp_path)


def opened(folder: Path) -> Engine:
    engine = open_engine(folder)
    engine.broker.create_topic("counts", if_not_exists=True)
    engine.submit("tables", EVENTS)
    return engine


def feed(engine: Engine, *times: int) -> None:
    append(engine, *times)
    step(engine)


def counts(engine: Engine) -> list[object]:
    return [n for _, n in rows(engine, "counts")]


def stopped(engine: Engine, name: str) -> str:
    outcome = engine.save_job(name, stop=True)
    assert (outcome.status, engine.job(name).state) == ("stopped", JobState.STOPPED)
    assert outcome.savepoint is not None
    assert outcome.savepoint in str(engine.job(name).reason)
    return outcome.savepoint


def test_a_window_goes_on_half_full_with_its_watermark(engine: Engine, tmp_path: Path) -> None:
    for name in ("saved", "other"):
        engine.submit(name, WINDOW.format(name=name))
    feed(engine, 100, 200, 1300, 1400)
    path = stopped(engine, "saved")
    feed(engine, 1500, 700)  # the second one is late
    assert engine.start_job("saved", path).savepoint == path
    assert engine.job("saved").graph != "main"
    feed(engine, 1600, 2100)
    assert of_job(engine, "saved") == of_job(engine, "other") == [2, 4]
    die(engine)  # no checkpoint was made since: the start is there all the same
    again = opened(tmp_path)
    feed(again, 3100)
    assert of_job(again, "saved") == of_job(again, "other") == [2, 4, 1]
    again.close()
    last = opened(tmp_path)
    feed(last, 4200)
    assert of_job(last, "saved") == of_job(last, "other") == [2, 4, 1, 1]
    last.close()


def test_where_no_row_is_late_the_watermark_begins_anew(engine: Engine, tmp_path: Path) -> None:
    engine.submit(
        "saved",
        "INSERT INTO outs SELECT 'saved', COALESCE(id, -1) FROM events WHERE CURRENT_WATERMARK(ts)"
        " IS NULL",
    )
    feed(engine, 100, 200)
    path = stopped(engine, "saved")
    engine.start_job("saved", path)
    feed(engine, 300, 400)
    assert of_job(engine, "saved") == [100, 300]
    die(engine)
    again = opened(tmp_path)
    feed(again, 500)
    assert of_job(again, "saved") == [100, 300], "after a crash it goes on where it was"
    again.close()


def test_a_savepoint_of_a_job_that_runs_on_is_a_place_to_go_back_to(engine: Engine) -> None:
    engine.submit("a", COUNT.format(0))
    feed(engine, 3, 6)
    outcome = engine.save_job("a")
    assert (outcome.status, engine.job("a").state) == ("saved", JobState.RUNNING)
    feed(engine, 9)
    engine.remove("a")
    assert counts(engine) == [2, 3]
    assert engine.submit("a", COUNT.format(0), savepoint=outcome.savepoint).status == "added"
    step(engine)
    assert counts(engine) == [2, 3, 3]
    feed(engine, 12)
    assert counts(engine) == [2, 3, 3, 4]
    engine.close()


def test_the_text_names_the_savepoint(engine: Engine, tmp_path: Path) -> None:
    engine.submit("a", f"SET 'state.savepoints.dir' = '{tmp_path / 'kept'}';" + COUNT.format(0))
    feed(engine, 3)
    path = stopped(engine, "a")
    assert Path(path).parent == tmp_path / "kept"
    feed(engine, 6)
    text = f"SET 'execution.savepoint.path' = 'file://{path}';" + COUNT.format(0)
    outcome = engine.submit("a", text)
    assert (outcome.status, [s.outcome for s in outcome.state]) == ("replaced", ["kept"])
    step(engine)
    engine.submit("a", text + ";\n")  # it runs: it goes on from where it is
    feed(engine, 9)
    assert counts(engine) == [1, 2, 3]
    with pytest.raises(JobError, match="it cannot start from a savepoint"):
        engine.submit("a", text.replace(path, path + "x"))
    with pytest.raises(JobError, match="it cannot start"):
        engine.submit("a", text, savepoint=path)
    engine.close()


def test_a_changed_statement_is_refused_unless_it_says_what_becomes_of_state(
    engine: Engine,
) -> None:
    engine.submit("a", COUNT.format(0))
    feed(engine, 3, 6)
    path = stopped(engine, "a")
    with pytest.raises(JobError, match="does not take up all") as refused:
        engine.submit("a", COUNT.format(1), savepoint=path)
    assert "below it, 'Filter" in str(refused.value.detail)
    assert "job.state" in str(refused.value.hint)
    assert engine.job("a").state is JobState.STOPPED
    feed(engine, 9)
    keep = engine.submit("a", "SET 'job.state' = 'keep';" + COUNT.format(1), savepoint=path)
    assert [s.outcome for s in keep.state] == ["kept"]
    step(engine)
    engine.stop_job("a")
    reset = engine.submit("a", "SET 'job.state' = 'reset';" + COUNT.format(1), savepoint=path)
    assert [s.outcome for s in reset.state] == ["reset", "left"]
    step(engine)
    assert counts(engine) == [2, 3, 1]
    engine.close()


def test_a_dry_run_changes_nothing(engine: Engine) -> None:
    engine.submit("a", COUNT.format(0))
    feed(engine, 3)
    path = stopped(engine, "a")
    request = Request(
        Origin.SDK, {"a": JobText("a", COUNT.format(0))}, dry_run=True, savepoints={"a": path}
    )
    outcome = engine.change(request)["a"]
    assert (outcome.status, [s.outcome for s in outcome.state]) == ("valid", ["kept"])
    assert engine.job("a").state is JobState.STOPPED
    assert set(engine.graphs.by_name) == {"main"}
    engine.close()


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("format", "has format 99"),
        ("layout", "has layout 99"),
        ("state_format", "99"),
        ("bucket_hash", "99"),
    ],
)
def test_a_savepoint_of_another_format_is_refused_by_its_number(
    engine: Engine, number: str, message: str
) -> None:
    engine.submit("a", COUNT.format(0))
    feed(engine, 3)
    path = Path(stopped(engine, "a")) / METADATA
    path.write_text(json.dumps(json.loads(path.read_text()) | {number: 99}))
    with pytest.raises(JobError, match=message) as refused:
        engine.start_job("a", str(path.parent))
    assert "with the version that wrote it" in str(refused.value.hint)
    assert engine.job("a").state is JobState.STOPPED
    engine.close()


def test_a_savepoint_of_other_types_or_damaged_is_refused(engine: Engine) -> None:
    private = """CREATE TEMPORARY TABLE mine (id BIGINT, host {})
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');""" + COUNT.replace(
        "events", "mine"
    ).format(0)
    engine.submit("a", private.format("STRING"))
    feed(engine, 3)
    path = stopped(engine, "a")
    other = private.format("INT").replace("(host STRING", "(host INT")
    with pytest.raises(JobError, match="does not take up all") as refused:
        engine.submit("a", "SET 'job.state' = 'keep';" + other, savepoint=path)
    assert "its state has other columns: (host STRING" in str(refused.value.detail)
    data = min(Path(path).glob("*.arrow"))
    data.write_bytes(data.read_bytes()[:-8])
    with pytest.raises(JobError, match="is damaged"):
        engine.start_job("a", path)
    with pytest.raises(SqlError, match="does not exist"):
        engine.start_job("a", path + "x")
    for broken in (b"", b"[]", b"[" * 200_000):
        (Path(path) / "_metadata").write_bytes(broken)
        with pytest.raises(JobError, match="is damaged"):
            engine.start_job("a", path)
    assert [str(s) for s in engine.savepoints.all() if "is damaged" not in str(s)] == []
    engine.close()


def test_what_was_changed_by_hand_is_damaged(engine: Engine) -> None:
    engine.submit("a", COUNT.format(0))
    feed(engine, 3)
    path = stopped(engine, "a")
    metadata = Path(path) / "_metadata"
    metadata.write_bytes(metadata.read_bytes().replace(b'"0": 1', b'"0": 0'))
    with pytest.raises(JobError, match="is damaged"):
        engine.start_job("a", path)
    engine.close()


def test_records_that_are_gone_are_told(engine: Engine) -> None:
    engine.submit("a", COUNT.format(0))
    feed(engine, 3)
    path = stopped(engine, "a")
    engine.broker.delete_topic("events")
    engine.broker.create_topic("events")
    with pytest.raises(
        JobError,
        match=r"table 'events' cannot be read on from savepoint .*topic 'events' ends at 0",
    ):
        engine.start_job("a", path)
    assert engine.start_job("a", begin="configured").status == "started"
    engine.close()


def test_a_savepoint_outside_its_folders_is_refused(engine: Engine, tmp_path: Path) -> None:
    engine.submit("a", COUNT.format(0))
    feed(engine, 3)
    for folder in ("/tmp", str(tmp_path / "data" / "savepoints" / ".." / "..")):
        with pytest.raises(JobError, match="is not in a folder for savepoints"):
            engine.save_job("a", folder)
        with pytest.raises(JobError, match="is not in a folder for savepoints"):
            engine.savepoints.delete(folder + "/x")
    assert engine.job("a").state is JobState.RUNNING
    engine.close()


def test_an_empty_name_of_a_savepoint_is_no_start_without_one(engine: Engine) -> None:
    engine.submit("a", COUNT.format(0))
    stopped(engine, "a")
    for start in (
        partial(engine.start_job, "a", ""),
        partial(engine.submit, "a", COUNT.format(0), savepoint=" "),
    ):
        with pytest.raises(JobError, match="is empty"):
            start()
    assert engine.job("a").state is JobState.STOPPED
    engine.close()


def test_list_show_and_delete(engine: Engine, tmp_path: Path) -> None:
    engine.submit("a", COUNT.format(0))
    feed(engine, 3)
    path = Path(stopped(engine, "a"))
    assert path.parent == tmp_path / "data" / "savepoints"
    (found,) = engine.savepoints.all()
    assert isinstance(found, Savepoint)
    assert (found.job, found.version, found.sql) == ("a", 1, COUNT.format(0))
    assert engine.savepoints.show(path.name) == found
    with pytest.raises(JobError, match="does not run"):
        engine.save_job("a")
    assert engine.savepoints.delete(path.name).path == str(path)
    assert engine.savepoints.all() == []
    assert not path.exists()
    engine.close()


def test_a_crash_before_the_graph_is_there_is_made_good(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.submit("a", COUNT.format(0))
    feed(engine, 3, 6)
    path = stopped(engine, "a")
    feed(engine, 9)

    class Died(Exception):
        pass

    def dies(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr("sqlengine.state.rocks_store.RocksStore.put", dies)
        with pytest.raises(Died):
            engine.submit("a", COUNT.format(0) + " ", savepoint=path)
    die(engine)
    again = opened(tmp_path)
    assert again.job("a").state is JobState.RUNNING
    step(again)
    assert counts(again) == [2, 3]
    again.close()


def test_what_a_death_left_of_a_savepoint_goes_with_the_next_start(
    engine: Engine, tmp_path: Path
) -> None:
    engine.submit("saved", WINDOW.format(name="saved"))
    path = Path(stopped(engine, "saved"))
    torn = path.with_name(f".{path.name}.writing")
    path.rename(torn)
    kept = torn.with_name(".kept")
    kept.mkdir()
    die(engine)
    opened(tmp_path).close()
    assert sorted(p.name for p in torn.parent.iterdir()) == [".kept"]
