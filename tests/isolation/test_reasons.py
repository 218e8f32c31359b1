"""A job that holds others up goes to a graph of its own, with a reason that people can read, and
comes back when it is well."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sqlengine.engine import Engine
from sqlengine.engine.watch.isolation import Isolation
from sqlengine.executors.progress import SlowCommit
from sqlengine.executors.steps.answers import asked_table
from sqlengine.jobs.job import MAIN, Cause
from tests.engine.by_hand import rows
from tests.isolation.workload import feed, open_engine, step, submit_tables

WINDOWS = "SELECT MAX(id) + {}, host FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND)) WHERE id > {} GROUP BY host, window_start, window_end"
DIM = """CREATE TABLE dim (host STRING, n INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/dim.db',
  'table-name' = 'dim', 'lookup.cache' = 'NONE')"""
ASKS = """INSERT INTO lines SELECT d.n, e.host FROM (SELECT *, PROCTIME() AS p FROM events) AS e
JOIN dim FOR SYSTEM_TIME AS OF e.p AS d ON d.host = e.host"""
RULE = "INSERT INTO alerts SELECT 'rule', id FROM events"


class Moment:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(tmp_path)
    submit_tables(engine, tmp_path)
    engine.submit("rule", RULE)
    yield engine
    engine.close()


def watch(engine: Engine) -> tuple[Isolation, Moment]:
    moment = Moment()
    return Isolation(
        engine._registry,
        engine.graphs,
        engine._placement,
        engine._migrations,
        engine._moves,
        moment,
    ), moment


def commit(engine: Engine, job: str, at: float, seconds: float) -> None:
    """As if a sink of the job had taken so long."""
    runner = engine.graphs.of(job).runner
    (name,) = (n for n, sink in runner.executor.plan.sinks.items() if job in sink.jobs)
    runner.progress.commits.append(SlowCommit(name, at, seconds))


def test_a_table_that_answers_slowly_costs_its_job_alone(engine: Engine, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "dim.db")) as database:
        database.execute("CREATE TABLE dim (host TEXT, n INTEGER)")
    engine.submit("dim", DIM.format(folder=tmp_path))
    engine.submit("asks", ASKS)
    isolation, moment = watch(engine)
    executor = engine.graphs.of("asks").runner.executor
    (node,) = (n.node for n in executor.running.values() if asked_table(n.node) == "dim")
    for moment.now in (1.0, 2.0, 3.0):
        assert engine.job("asks").graph == MAIN
        executor.guard.answers.note({node.id: 1.3}, {node.id: node}, moment.now)
        isolation.check()
    job = engine.job("asks")
    assert (job.graph != MAIN, job.cause) == (True, Cause.LOOKUP)
    assert job.reason == "table 'dim' took 1.3 s to answer, 3 times in a minute it took 1 s or more"


def test_a_slow_sink_costs_its_job_alone_until_it_has_been_well_for_a_while(engine: Engine) -> None:
    engine.submit("files", "INSERT INTO lines SELECT id, host FROM events")
    isolation, moment = watch(engine)
    for moment.now in (1.0, 20.0):
        commit(engine, "files", moment.now, 1.2)
        isolation.check()
        assert engine.job("files").graph == MAIN
    moment.now = 30.0
    commit(engine, "files", moment.now, 1.4)
    isolation.check()
    job = engine.job("files")
    assert job.graph != MAIN
    assert job.cause is Cause.SINK
    assert (
        job.reason == "sink 'lines' took 1.4 s to commit, 3 times in a minute it took 1 s or more"
    )
    moment.now = 629.0
    isolation.check()
    assert engine.job("files").graph != MAIN
    moment.now = 631.0
    isolation.check()
    assert (engine.job("files").graph, engine.job("files").reason) == (MAIN, None)


@pytest.mark.parametrize("query", ["SELECT id + {}, host FROM events", WINDOWS])
def test_a_slow_sink_that_many_write_to_moves_none_of_them(engine: Engine, query: str) -> None:
    """Each would have a graph that reads all rows and waits for the same sink: memory for nothing."""
    for number in range(8):
        engine.submit(f"files{number}", f"INSERT INTO lines {query.format(number, number)}")
    isolation, moment = watch(engine)
    commit(engine, "files0", moment.now, 60.0)
    isolation.check()
    assert sum(job.graph != MAIN for job in engine.jobs()) == 1
    engine.submit("files8", f"INSERT INTO lines {query.format(8, 8)}")
    engine.submit("files9", f"INSERT INTO lines {query.format(9, 9)}")
    for moment.now in (1.0, 2.0, 3.0):
        commit(engine, "files9", moment.now, 60.0)
        isolation.check()
    assert sum(job.graph != MAIN for job in engine.jobs()) == 1


def test_one_commit_that_takes_much_too_long_is_enough_and_the_next_time_the_job_stays_away_longer(
    engine: Engine,
) -> None:
    engine.submit(
        "files", "SET 'job.isolation.calm' = '1 min'; INSERT INTO lines SELECT id, host FROM events"
    )
    isolation, moment = watch(engine)
    away = []
    for begin in (0.0, 1000.0):
        moment.now = begin
        commit(engine, "files", begin, 5.2)
        isolation.check()
        assert engine.job("files").reason == "sink 'lines' took 5.2 s to commit"
        while engine.job("files").graph != MAIN:
            moment.now += 10.0
            isolation.check()
        away.append(moment.now - begin)
    assert away == [60.0, 120.0]


def test_a_job_that_asks_for_it_is_left_where_it_is(engine: Engine) -> None:
    engine.submit(
        "files", "SET 'job.isolation' = 'off'; INSERT INTO lines SELECT id, host FROM events"
    )
    isolation, _ = watch(engine)
    commit(engine, "files", 0.0, 60.0)
    isolation.check()
    assert engine.job("files").graph == MAIN


def test_a_job_with_an_error_in_each_row_leaves_the_others(engine: Engine) -> None:
    engine.submit("bad", "INSERT INTO joined SELECT 1 / (id - id), host, host FROM events")
    isolation, moment = watch(engine)
    isolation.check()
    for batch in range(1, 70):
        feed(engine, batch)
    step(engine)
    moment.now = 10.0
    isolation.check()
    job = engine.job("bad")
    assert job.graph != MAIN
    assert job.cause is Cause.ERRORS
    assert job.reason == "552 errors in 552 rows that were read in 10 s"
    feed(engine, 70)
    step(engine)
    assert len(rows(engine, "alerts")) == 70 * 8


def test_a_job_that_takes_most_of_the_time_leaves_the_others(engine: Engine) -> None:
    engine.submit(
        "dear", "INSERT INTO counts SELECT host, COUNT(*), MAX(id) FROM events GROUP BY host"
    )
    isolation, moment = watch(engine)
    isolation.check()
    executor = engine.graph.executor
    (node,) = (
        n
        for n, running in executor.running.items()
        if running.node.jobs == {"dear"} and running.context.stateful
    )
    executor.seconds[node] += 7.5
    moment.now = 10.0
    isolation.check()
    job = engine.job("dear")
    assert job.graph != MAIN
    assert job.cause is Cause.COST
    assert job.reason == "its operators took 7.5 of 10 s of their graph's time"


def test_a_job_that_catches_up_joins_the_others_by_itself(engine: Engine) -> None:
    feed(engine, 1)
    step(engine)
    engine.submit("late", "INSERT INTO joined SELECT id, host, 'late' FROM events")
    engine.submit(
        "counts", "INSERT INTO counts SELECT host, COUNT(*), MAX(id) FROM events GROUP BY host"
    )
    assert MAIN not in (engine.job("late").graph, engine.job("counts").graph)
    isolation, _ = watch(engine)
    isolation.check()
    assert set(engine.graphs.by_name) == {MAIN}
    feed(engine, 2)
    step(engine)
    records = engine.broker.read("joined", 0, 0)
    assert records is not None
    assert sorted(json.loads(v)["id"] for v in records.values.to_pylist()) == list(range(16))


def test_jobs_of_a_group_share_a_process_if_they_can_and_else_run_alone(engine: Engine) -> None:
    asked = "SET 'job.isolation' = 'error-sensitive'; "
    engine.submit("files", asked + "INSERT INTO lines SELECT id, host FROM events")
    for name in ("one", "two"):
        engine.submit(name, asked + f"INSERT INTO alerts SELECT '{name}', id FROM others")
    isolation, _ = watch(engine)
    isolation.check()
    files, one, two = (engine.job(n) for n in ("files", "one", "two"))
    assert one.graph == two.graph
    assert engine.graphs.by_name[one.graph].distributed
    assert MAIN != files.graph != one.graph
    assert one.reason == "isolation group 'error-sensitive'"
    assert files.reason == "isolation group 'error-sensitive', in the server's process"
    for name in ("one", "two"):
        engine.remove(name)
    assert one.graph not in engine.graphs.by_name
    assert not [t.name for t in engine.broker.topics() if "error-sensitive" in t.name]
