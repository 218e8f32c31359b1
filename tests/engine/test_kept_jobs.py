"""A job that failed or was stopped goes on where it was: every row is written exactly once, also
those that its sink refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from parser.errors import SqlError
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import JobState, Origin
from sqlengine.jobs.planning import JobText
from tests.engine.by_hand import die
from tests.support import eventually

NEVER = {"restart-strategy.type": "none"}
SOON = {
    "restart-strategy.exponential-delay.initial-backoff": "50 ms",
    "restart-strategy.exponential-delay.max-backoff": "200 ms",
}


class Database:
    """A SQLite file whose table may be there, or not."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "alerts.db"
        self.mend()

    def run(self, sql: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.path, timeout=10)) as connection, connection:
            return list(connection.execute(sql))

    def refuse(self) -> None:
        """From now on the database refuses rows, and keeps those it has."""
        self.run(
            "CREATE TRIGGER refuse BEFORE INSERT ON alerts"
            " BEGIN SELECT RAISE(ABORT, 'the table is closed'); END"
        )

    def mend(self) -> None:
        self.run("CREATE TABLE IF NOT EXISTS alerts (rule TEXT, n BIGINT)")
        self.run("DROP TRIGGER IF EXISTS refuse")

    def rows(self, rule: str = "r") -> list[object]:
        return sorted(n for r, n in self.run("SELECT rule, n FROM alerts") if r == rule)  # type: ignore[type-var]

    def table(self) -> str:
        return (
            "CREATE TABLE alerts (rule STRING, n BIGINT) WITH ('connector' = 'jdbc',"
            f" 'url' = 'jdbc:sqlite:{self.path}', 'table-name' = 'alerts',"
            " 'sink.max-retries' = '0')"
        )


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path)


EVENTS = """CREATE TABLE events (id BIGINT, k STRING, p AS PROCTIME())
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json')"""
RULE = "INSERT INTO alerts SELECT 'r', id FROM events"
COUNTS = "INSERT INTO alerts SELECT 'c', COUNT(*) OVER (PARTITION BY k ORDER BY p) FROM events"
COPY = """CREATE TEMPORARY TABLE copies (id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'copies', 'format' = 'json');
INSERT INTO copies SELECT id FROM events"""


@contextmanager
def running(data: Path, settings: dict[str, str]) -> Iterator[Engine]:
    engine = open_engine(data, settings)
    try:
        yield engine
    finally:
        engine.close()


def open_engine(data: Path, settings: dict[str, str]) -> Engine:
    engine = Engine(
        Config(data=data / "data", checkpoint_ms=100, segment_bytes=200, settings=settings)
    )
    for name in ("events", "copies"):
        engine.broker.create_topic(name, if_not_exists=True, retention_bytes=None)
    engine.start()
    return engine


def tables(engine: Engine, database: Database) -> None:
    engine.submit("tables", f"{EVENTS};{database.table()}")


def write(engine: Engine, *numbers: int) -> None:
    lines = [json.dumps({"id": n, "k": "a"}).encode() for n in numbers]
    engine.broker.append("events", 0, lines, timestamp_ms=0)


def copies(engine: Engine) -> list[int]:
    records = engine.broker.read("copies", 0, 0)
    return [] if records is None else [json.loads(v)["id"] for v in records.values.to_pylist()]


def told(engine: Engine) -> str:
    return str([(j.name, j.state.value, j.reason, j.restarts, j.graph) for j in engine.jobs()])


def until(engine: Engine, name: str, state: JobState) -> None:
    eventually(lambda: engine.job(name).state is state, lambda: told(engine))


def test_what_a_sink_refused_comes_once_it_is_mended(tmp_path: Path, database: Database) -> None:
    with running(tmp_path, SOON) as engine:
        tables(engine, database)
        engine.submit("rule", RULE)
        engine.submit("copy", COPY)
        write(engine, 1, 2)
        eventually(lambda: database.rows() == [1, 2], lambda: told(engine))
        database.refuse()
        write(engine, 3)
        until(engine, "rule", JobState.RESTARTING)
        assert "the table is closed" in (engine.job("rule").reason or "")
        write(engine, 4)
        eventually(lambda: engine.job("rule").restarts >= 3, lambda: told(engine))
        eventually(lambda: copies(engine) == [1, 2, 3, 4], lambda: str(copies(engine)))
        database.mend()
        eventually(lambda: database.rows() == [1, 2, 3, 4], lambda: told(engine))
        until(engine, "rule", JobState.RUNNING)
        write(engine, 5)
        eventually(lambda: database.rows() == [1, 2, 3, 4, 5], lambda: told(engine))
        eventually(lambda: copies(engine) == [1, 2, 3, 4, 5], lambda: str(copies(engine)))


@pytest.mark.parametrize("killed", [False, True])
def test_over_a_restart_of_the_server(tmp_path: Path, database: Database, killed: bool) -> None:
    engine = open_engine(tmp_path, NEVER)
    tables(engine, database)
    engine.submit("rule", RULE)
    engine.submit("counts", COUNTS)
    write(engine, 1)
    eventually(lambda: database.rows() == [1], lambda: told(engine))
    database.refuse()
    write(engine, 2)
    until(engine, "rule", JobState.FAILED)
    until(engine, "counts", JobState.FAILED)
    write(engine, 3)
    if killed:
        die(engine)
    else:
        engine.close()
    with running(tmp_path, NEVER) as again:
        assert again.job("rule").state is JobState.FAILED
        database.mend()
        for name in ("rule", "counts"):
            assert again.start_job(name).status == "started"
        eventually(lambda: database.rows() == [1, 2, 3], lambda: told(again))
        eventually(lambda: 3 in database.rows("c"), lambda: told(again))
        assert database.rows("c") == [1, 2, 3]
        write(again, 4)
        eventually(lambda: database.rows("c") == [1, 2, 3, 4], lambda: told(again))
        eventually(lambda: database.rows() == [1, 2, 3, 4], lambda: told(again))


def test_a_stopped_job_goes_on_with_its_state(tmp_path: Path, database: Database) -> None:
    with running(tmp_path, NEVER) as engine:
        tables(engine, database)
        engine.submit("counts", COUNTS)
        write(engine, 1, 2)
        eventually(lambda: 2 in database.rows("c"), lambda: told(engine))
        engine.stop_job("counts")
        write(engine, 3)
        engine.start_job("counts")
        eventually(lambda: 3 in database.rows("c"), lambda: told(engine))
        engine.stop_job("counts")
        write(engine, 4)
        engine.start_job("counts", begin="earliest")
        eventually(lambda: 4 in database.rows("c"), lambda: told(engine))
        counted = len(database.rows("c"))
        engine.stop_job("counts")
        write(engine, 5)
        engine.start_job("counts", begin="latest")
        write(engine, 6)
        eventually(lambda: len(database.rows("c")) > counted, lambda: told(engine))
        assert database.rows("c")[0] == 1
        assert database.rows("c").count(1) == 3


def test_a_job_that_is_removed_keeps_nothing(tmp_path: Path, database: Database) -> None:
    with running(tmp_path, NEVER) as engine:
        tables(engine, database)
        engine.submit("rule", RULE)
        engine.stop_job("rule")
        kept = engine.job("rule").kept
        assert kept in engine._migrations._store.names
        engine.remove("rule")
        eventually(lambda: kept not in engine._migrations._store.names, lambda: told(engine))
        engine.submit("rule", RULE)
        write(engine, 1)
        eventually(lambda: database.rows() == [1], lambda: told(engine))


def test_records_that_retention_took_are_told(tmp_path: Path, database: Database) -> None:
    with running(tmp_path, NEVER) as engine:
        tables(engine, database)
        engine.submit("rule", RULE)
        write(engine, 1)
        eventually(lambda: database.rows() == [1], lambda: told(engine))
        engine.stop_job("rule")
        for n in range(2, 20):
            write(engine, n)
        engine.broker.trim("events", 0, 15)
        first = engine.broker.begin_offset("events", 0)
        assert first > 1
        engine.start_job("rule")
        reason = engine.job("rule").reason or ""
        assert f"{first - 1} records of table 'events' were gone" in reason
        left = [1, *range(first + 1, 20)]
        eventually(lambda: database.rows() == left, lambda: told(engine))


@pytest.mark.slow
def test_jobs_whose_sink_failed_start_together(tmp_path: Path, database: Database) -> None:
    with running(tmp_path, SOON) as engine:
        tables(engine, database)
        for n in range(20):
            engine.submit(f"r{n}", RULE.replace("'r'", f"'r{n}'"))
        database.refuse()
        write(engine, 1)
        for n in range(20):
            eventually(lambda n=n: engine.job(f"r{n}").restarts > 0, lambda: told(engine))  # type: ignore[misc]
        database.mend()
        write(engine, 2)
        for n in range(20):
            eventually(lambda n=n: database.rows(f"r{n}") == [1, 2], lambda: told(engine))  # type: ignore[misc]


@pytest.mark.slow
def test_a_strategy_gives_up(tmp_path: Path, database: Database) -> None:
    fixed = {
        "restart-strategy": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "2",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    with running(tmp_path, fixed) as engine:
        tables(engine, database)
        engine.submit("rule", RULE)
        with pytest.raises(SqlError, match=r"restart-strategy\.type"):
            engine.submit("bad", f"SET 'restart-strategy.type' = 'sometimes'; {RULE}")
        database.refuse()
        write(engine, 1)
        until(engine, "rule", JobState.FAILED)
        assert engine.job("rule").restarts == 3
        database.mend()
        engine.start_job("rule")
        eventually(lambda: database.rows() == [1], lambda: told(engine))
        assert engine.job("rule").restarts == 0


@pytest.mark.parametrize("mended", ["before", "after", "never"])
def test_another_text_goes_on_where_the_job_was(
    tmp_path: Path, database: Database, mended: str
) -> None:
    """Also with the rows that the sink has refused to the text before."""
    rule = "INSERT INTO alerts SELECT 'r', id FROM events WHERE id < 100"
    with running(tmp_path, NEVER) as engine:
        tables(engine, database)
        engine.submit("rule", RULE)
        write(engine, 1)
        eventually(lambda: database.rows() == [1], lambda: told(engine))
        database.refuse()
        write(engine, 2)
        until(engine, "rule", JobState.FAILED)
        write(engine, 3)
        with pytest.raises(SqlError, match="NOWHERE"):
            engine.submit("rule", rule.replace("id < 100", "NOWHERE(id)"))
        assert (engine.job("rule").state, engine.job("rule").version) == (JobState.FAILED, 1)
        if mended == "before":
            database.mend()
        assert engine.submit("rule", rule).status == "replaced"
        if mended != "before":
            until(engine, "rule", JobState.FAILED)
            assert engine.job("rule").version == 2
            if mended == "never":
                assert engine.stop_job("rule").status == "stopped"
            database.mend()
            engine.start_job("rule")
        eventually(lambda: database.rows() == [1, 2, 3], lambda: told(engine))
        write(engine, 4, 400)
        eventually(lambda: database.rows() == [1, 2, 3, 4], lambda: told(engine))


@pytest.mark.parametrize("fails_again", [False, True])
def test_a_text_with_another_place_takes_what_the_old_place_refused(
    tmp_path: Path, database: Database, fails_again: bool
) -> None:
    """The old place is gone for good, and the new one may refuse rows at first."""
    (tmp_path / "there").mkdir()
    other = Database(tmp_path / "there")
    rule = RULE.replace("alerts", "private")

    def text(place: Database) -> str:
        return f"{place.table().replace('TABLE alerts', 'TEMPORARY TABLE private')};{rule}"

    with running(tmp_path, NEVER if fails_again else SOON) as engine:
        engine.submit("tables", EVENTS)
        engine.submit("rule", text(database))
        write(engine, 1)
        eventually(lambda: database.rows() == [1], lambda: told(engine))
        database.refuse()
        write(engine, 2)
        until(engine, "rule", JobState.FAILED if fails_again else JobState.RESTARTING)
        database.path.unlink()
        database.path.mkdir()
        if fails_again:
            other.refuse()
        engine.submit("rule", text(other))
        write(engine, 3)
        if fails_again:
            until(engine, "rule", JobState.FAILED)
            other.mend()
            engine.start_job("rule")
        eventually(lambda: other.rows() == [2, 3], lambda: told(engine))


@pytest.mark.slow
def test_a_stopped_job_takes_its_state_to_another_text(tmp_path: Path, database: Database) -> None:
    with running(tmp_path, NEVER) as engine:
        tables(engine, database)
        engine.submit("counts", COUNTS)
        write(engine, 1, 2)
        eventually(lambda: database.rows("c") == [1, 2], lambda: told(engine))
        engine.stop_job("counts")
        write(engine, 3)
        outcome = engine.submit("counts", COUNTS.replace("'c'", "'d'"))
        assert [s.outcome for s in outcome.state] == ["kept"]
        eventually(lambda: database.rows("d") == [3], lambda: told(engine))


def test_a_failed_job_that_is_submitted_again_goes_on(tmp_path: Path, database: Database) -> None:
    with running(tmp_path, NEVER) as engine:
        tables(engine, database)
        engine.submit("rule", RULE)
        database.refuse()
        write(engine, 1)
        until(engine, "rule", JobState.FAILED)
        write(engine, 2)
        database.mend()
        assert engine.submit("rule", RULE).status == "started"
        assert engine.job("rule").version == 1
        eventually(lambda: database.rows() == [1, 2], lambda: told(engine))
        engine.stop_job("rule")
        assert engine.submit("rule", RULE).status == "unchanged"
        assert engine.job("rule").state is JobState.STOPPED


@pytest.mark.slow
def test_one_reason_of_several_jobs_is_logged_once(
    tmp_path: Path, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"r{n}" for n in range(7)]
    with caplog.at_level("INFO", "sqlengine"), running(tmp_path, SOON) as engine:
        tables(engine, database)
        texts = {n: JobText(n, RULE.replace("'r'", f"'{n}'")) for n in names}
        engine.change(Request(Origin.SDK, texts))
        database.refuse()
        write(engine, 1)
        eventually(
            lambda: "7 jobs (r0, r1, r2, r3, r4 and 2 more) failed" in caplog.text, "the log"
        )
        database.mend()
        eventually(lambda: all(database.rows(n) == [1] for n in names), "the rows of all")
    failed = [m for m in caplog.messages if "the table is closed" in m]
    assert all(m.startswith("7 jobs (r0, ") for m in failed), failed
    assert "7 jobs (r0, r1, r2, r3, r4 and 2 more): started again" in caplog.messages
