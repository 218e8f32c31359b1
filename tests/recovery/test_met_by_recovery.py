"""What a recovery meets that is no longer as it was: definitions, topics, tables of state; and
errors of our own."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from parser.errors import JobError, ServiceError
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.failures import GraphBroken, SourceFailed
from sqlengine.jobs.job import JobState, Origin
from sqlengine.jobs.planning import JobText
from sqlengine.machine import Machine
from tests.engine.by_hand import EVENTS, WINDOW, append, die, of_job, open_engine, rows, step
from tests.support import PATIENCE_S, eventually


def again(engine: Engine, folder: Path) -> Engine:
    die(engine)
    return open_engine(folder)


def test_epochs_are_repeated_with_the_definitions_of_their_time(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("wide", "CREATE VIEW wide AS SELECT id AS n FROM events")
    engine.submit("a", "INSERT INTO outs SELECT 'a', n FROM wide")
    append(engine, 1)
    step(engine)
    engine.graph.runner.checkpoint(wait=True)
    append(engine, 2)
    step(engine)
    texts = {
        "wide": JobText("wide", "CREATE VIEW wide AS SELECT id + 100 AS m FROM events"),
        "a": JobText("a", "INSERT INTO outs SELECT 'a', m FROM wide"),
    }
    assert [o.error for o in engine.change(Request(Origin.SDK, texts)).values()] == [None, None]
    append(engine, 3)
    step(engine)
    engine = again(engine, tmp_path)
    append(engine, 4)
    step(engine)
    assert of_job(engine, "a") == [1, 2, 103, 104]
    engine.close()


def test_a_failed_job_goes_on_defining_what_others_use(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("all", EVENTS + "INSERT INTO outs SELECT 'all', id FROM events")
    engine.submit("a", "INSERT INTO outs SELECT 'a', id FROM events")
    engine._failures._fail(frozenset({"all"}), "a test says so", True)
    engine = again(engine, tmp_path)
    append(engine, 1)
    step(engine)
    assert engine.job("all").state is JobState.FAILED
    assert of_job(engine, "a") == [1]
    engine.close()


def test_a_job_that_cannot_be_planned_any_more_fails_alone(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    for name in ("a", "b"):
        engine.submit(name, WINDOW.format(name=name))
    append(engine, 100)
    step(engine)
    engine.graph.runner.checkpoint(wait=True)
    append(engine, 200)
    step(engine)
    spoilt = json.loads(
        next(v for k, v in engine.broker.read_latest("_jobs").items() if k == b"version:a@1")
    )
    spoilt["sql"] = "INSERT INTO outs SELECT 'a', WITHDRAWN(id) FROM events"
    engine.broker.append(
        "_jobs", 0, [json.dumps(spoilt).encode()], keys=[b"version:a@1"], timestamp_ms=0
    )
    engine = again(engine, tmp_path)
    assert engine.job("a").state is JobState.FAILED
    assert "WITHDRAWN" in str(engine.job("a").reason)
    append(engine, 1100)
    step(engine)
    assert rows(engine) == [["b", 2]]
    engine.close()


def test_a_topic_that_is_gone_fails_those_who_read_it_and_no_others(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.broker.create_topic("more")
    engine.submit(
        "b",
        """
    CREATE TEMPORARY TABLE more (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'more', 'format' = 'json');
    INSERT INTO outs SELECT 'b', id FROM more""",
    )
    engine.submit("a", "INSERT INTO outs SELECT 'a', id FROM events")
    append(engine, 1)
    engine.broker.append("more", 0, [b'{"id": 1}'], timestamp_ms=0)
    step(engine)
    engine.broker.delete_topic("more")
    engine = again(engine, tmp_path)
    with pytest.raises(SourceFailed) as failure:
        step(engine)
    assert failure.value.jobs == {"b"}
    engine._failures._fail(failure.value.jobs, str(failure.value), False)
    append(engine, 2)
    step(engine)
    assert of_job(engine, "a") == [1, 2]
    engine.close()


def test_state_of_a_node_that_went_and_came_again_is_its_own(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("w", WINDOW.format(name="w"))
    append(engine, *range(50_000, 60_000, 100))
    step(engine)
    engine.graph.runner.checkpoint(wait=True)
    engine.remove("w")
    engine.submit("w", WINDOW.format(name="again"))
    append(engine, 100)
    step(engine)
    engine.graph.runner.checkpoint(wait=True)
    engine = again(engine, tmp_path)
    append(engine, 200, 1100)
    step(engine)
    assert of_job(engine, "again") == [2]
    engine.close()


def test_an_internal_error_stops_the_graph_and_a_restart_repeats_the_epoch_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("a", "INSERT INTO outs SELECT 'a', id FROM events")
    engine.submit("w", WINDOW.format(name="w"))
    append(engine, 100)
    step(engine)
    engine.start()
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedExecutor, "push", lambda *_: 1 // 0)  # outside of any operator
        append(engine, 200)
        assert eventually(lambda: engine.graphs.broken)
        with pytest.raises(GraphBroken):
            engine.submit("b", "INSERT INTO outs SELECT 'b', id FROM events")
    append(engine, 1100)
    time.sleep(0.05)
    engine.close()
    engine = open_engine(tmp_path)
    step(engine)
    assert of_job(engine, "a") == [100, 200, 1100]
    assert of_job(engine, "w") == [2]
    engine.close()


def test_an_error_that_comes_again_in_the_recovery_leaves_a_server_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("a", "INSERT INTO outs SELECT 'a', id FROM events")
    append(engine, 1)
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedExecutor, "push", lambda *_: 1 // 0)  # outside of any operator
        with pytest.raises(ZeroDivisionError):
            step(engine)
        engine = again(engine, tmp_path)
        assert engine.graphs.broken
        assert "ZeroDivisionError" in str(engine.graphs.problem)
        assert [j.state for j in engine.jobs()] == [JobState.RUNNING, JobState.DEFINED]
        engine.close()
    engine = open_engine(tmp_path)
    step(engine)
    assert of_job(engine, "a") == [1]
    engine.close()


def test_a_change_whose_turn_does_not_come_is_never_made(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.start()
    going = threading.Event()
    blocked = threading.Thread(
        target=lambda: engine.graph.loop.call(lambda: going.wait(PATIENCE_S))
    )
    blocked.start()
    made: list[int] = []
    with pytest.raises(ServiceError, match="busy"):
        engine.graph.loop.call(lambda: made.append(1), timeout=0.05)
    going.set()
    blocked.join()
    engine.close()
    assert not made


def test_a_job_that_waits_keeps_its_version(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    for n in range(3):
        engine.change(
            Request(
                Origin.FOLDER, {"a": JobText("a", "INSERT INTO outs SELECT 'a', id FROM events")}
            )
        )
        engine.submit(f"other{n}", f"CREATE VIEW v{n} AS SELECT {n} AS n FROM (VALUES (1)) AS t(x)")
    assert len(engine.history("a")) == 1
    engine.submit("tables", EVENTS)
    assert engine.job("a").state is JobState.RUNNING
    engine.close()


def test_a_definition_is_not_replaced_under_a_job_whose_new_text_is_refused(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("v", "CREATE VIEW v AS SELECT id AS n FROM events")
    engine.submit("a", "INSERT INTO outs SELECT 'a', n FROM v")
    texts = {
        "v": JobText("v", "CREATE VIEW v AS SELECT id AS m FROM events"),
        "a": JobText("a", "INSERT INTO outs SELECT 'a', no_such_column FROM v"),
    }
    outcomes = engine.change(Request(Origin.SDK, texts))
    assert {n: o.status for n, o in outcomes.items()} == {"v": "refused", "a": "refused"}
    assert isinstance(outcomes["v"].error, JobError)
    engine.close()


def test_an_idle_graph_gets_its_checkpoint(tmp_path: Path) -> None:
    now = [0]
    engine = Engine(Config(data=tmp_path), Machine(clock=lambda: now[0]))
    engine.broker.create_topic("events")
    engine.broker.create_topic("out")
    engine.submit("tables", EVENTS)
    engine.submit("a", "INSERT INTO outs SELECT 'a', id FROM events")
    append(engine, 1)
    step(engine)
    now[0] += 60_000
    step(engine)
    engine.graph.checkpoints._writer.wait()
    stored = engine.graph.checkpoints._writer.stored
    assert stored is not None
    assert stored["epoch"] == engine.graph.runner.epoch
    engine.close()
