"""The definition of a table changes while jobs read it: what they do not read changes nothing for
them, and no record is read twice or left out."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from parser.errors import JobError, SqlError
from sqlengine.engine import Engine
from sqlengine.engine.requests import Outcome, Request
from sqlengine.engine.statements import execute
from sqlengine.jobs.job import JobState, Origin
from sqlengine.jobs.planning import JobText
from tests.engine.by_hand import append, die, open_engine, rows, step

TABLES = """
CREATE TABLE events (id BIGINT, {more}ms BIGINT, host STRING, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json'{options});
CREATE TABLE outs (n BIGINT, least BIGINT)
WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json'{out});
"""
WINDOW = """INSERT INTO outs SELECT COUNT(*), MIN(id)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end;"""
COLUMN = "amount INT, "


def tables(more: str = "", options: str = "", out: str = "") -> str:
    return TABLES.format(more=more, options=options, out=out)


def end(engine: Engine, folder: Path, how: str) -> Engine:
    """Ends the life of an engine, or lets it go on."""
    if how == "on":
        return engine
    if how == "dies":
        die(engine)
    else:
        engine.close()
    return open_engine(folder)


def with_tables(folder: Path) -> Engine:
    """An engine with a text that defines the tables."""
    engine = open_engine(folder)
    engine.submit("tables", tables())
    return engine


def with_two_texts(folder: Path, *times: int) -> Engine:
    """One text defines the tables, the job in the other has read these times."""
    engine = with_tables(folder)
    engine.submit("window", WINDOW)
    append(engine, *times)
    step(engine)
    return engine


def with_one_text(folder: Path, *times: int) -> Engine:
    """The job that has read these times defines the tables itself."""
    engine = open_engine(folder)
    engine.submit("window", tables() + WINDOW)
    append(engine, *times)
    step(engine)
    return engine


@pytest.mark.parametrize("how", ["on", "dies", "closes"])
def test_a_column_that_the_job_does_not_read(tmp_path: Path, how: str) -> None:
    engine = with_one_text(tmp_path, 100, 200, 1100)
    append(engine, 1200, 1300)  # not read yet when the table changes
    done = engine.submit("window", tables(COLUMN) + WINDOW)
    assert [(s.outcome, s.reason) for s in done.state] == [
        ("kept", "nothing that it reads has changed")
    ]
    append(engine, 150, 1400)  # 150 is late: the watermark goes on, too
    engine = end(engine, tmp_path, how)
    step(engine)
    engine = end(engine, tmp_path, how)
    append(engine, 2500)
    step(engine)
    assert rows(engine) == [[2, 100], [4, 1100]]
    engine.close()


WAITS_NO_LONGER = ", 'scan.watermark.idle-timeout' = '100 ms', 'scan.watermark.max-future' = '1 h'"


@pytest.mark.parametrize(
    ("how", "where"), [("on", "table"), ("on", "job"), ("dies", "table"), ("closes", "table")]
)
def test_a_silent_shard_is_bounded_while_windows_wait_for_it(
    tmp_path: Path, how: str, where: str
) -> None:
    """The remedy that is told to who waits for a silent shard keeps what waits."""
    engine = open_engine(tmp_path, shards=2)
    engine.submit("window", tables() + WINDOW)
    append(engine, 100, 200, 1300, 2500)
    step(engine)
    assert rows(engine) == []  # shard 1 has said nothing
    text = tables(options=WAITS_NO_LONGER) + WINDOW
    if where == "job":
        bounds = "SET 'table.exec.source.idle-timeout' = '100 ms'; SET 'table.exec.source.max-future' = '1 h';"
        text = bounds + tables() + WINDOW
    done = engine.submit("window", text)
    assert [(s.outcome, s.reason) for s in done.state] == [
        ("kept", "nothing that it reads has changed")
    ]
    engine = end(engine, tmp_path, how)
    for _ in range(2):  # the time begins to count in the first epoch
        append(engine, 2600)
        step(engine)
        time.sleep(0.11)
    append(engine, 150, 2700)  # 150 is late by now
    step(engine)
    assert rows(engine) == [[2, 100], [1, 1300]]
    engine.close()


def test_the_watermark_goes_on_where_only_its_bounds_change(tmp_path: Path) -> None:
    engine = with_one_text(tmp_path, 100, 1300)
    assert rows(engine) == [[1, 100]]
    engine.submit("window", tables(options=WAITS_NO_LONGER) + WINDOW)
    append(engine, 200, 2100)  # 200 is late, as it was before
    step(engine)
    assert rows(engine) == [[1, 100], [1, 1300]]
    engine.close()


def test_another_option_of_the_format_goes_on_at_the_same_record(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    keep = "SET 'job.state' = 'keep';"
    engine.submit("window", tables() + WINDOW)
    append(engine, 100, 1100)
    step(engine)
    append(engine, 1200)
    engine.broker.append("events", 0, [b"no json"], timestamp_ms=0)
    lenient = tables(options=", 'json.ignore-parse-errors' = 'true'")
    assert engine.validate("window", lenient + WINDOW).state[0].outcome == "reset"
    assert engine.submit("window", keep + lenient + WINDOW).state[0].outcome == "kept"
    append(engine, 1300, 2500)
    step(engine)
    assert rows(engine) == [[1, 100], [3, 1100]]
    engine.close()


def test_another_topic_is_read_from_where_a_new_job_begins(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.broker.create_topic("others")
    engine.submit("window", tables() + WINDOW)
    append(engine, 100, 1100)
    step(engine)
    engine.broker.append("others", 0, [b'{"id":7,"ms":1200,"host":"h"}'], timestamp_ms=0)
    text = (tables() + WINDOW).replace("'topic' = 'events'", "'topic' = 'others'")
    assert engine.submit("window", text).state[0].outcome == "reset"
    lines = [b'{"id":8,"ms":1300,"host":"h"}', b'{"id":9,"ms":2500,"host":"h"}']
    engine.broker.append("others", 0, lines, timestamp_ms=0)
    step(engine)
    assert rows(engine) == [[1, 100], [1, 8]]
    engine.close()


@pytest.mark.parametrize("how", ["on", "dies", "closes"])
def test_a_sink_is_opened_again_between_two_epochs(tmp_path: Path, how: str) -> None:
    engine = with_one_text(tmp_path, 100, 1100)
    out = ", 'json.encode.ignore-null-fields' = 'true'"
    assert engine.submit("window", tables(out=out) + WINDOW).state[0].outcome == "kept"
    append(engine, 2100)
    engine = end(engine, tmp_path, how)
    step(engine)
    engine = end(engine, tmp_path, how)
    append(engine, 3100)
    step(engine)
    assert rows(engine) == [[1, 100], [1, 1100], [1, 2100]]
    engine.close()


# ---- the table and the jobs that use it are different jobs ---------------------------------------

RULE = "INSERT INTO outs SELECT COUNT(*), {least} FROM events GROUP BY host;"


def told(engine: Engine, outcome: Outcome) -> dict[str, tuple[str, int]]:
    """What became of the jobs that use what was defined anew."""
    return {d.name: (d.status, d.version) for d in outcome.dependents}


def define(engine: Engine, text: str) -> dict[str, tuple[str, int]]:
    """Defines the tables anew. A dry run says the same before."""
    before = [(j.name, j.version) for j in engine.jobs()]
    foretold = engine.validate("tables", text)
    assert [(j.name, j.version) for j in engine.jobs()] == before
    done = engine.submit("tables", text)
    assert foretold.dependents == done.dependents
    return told(engine, done)


@pytest.mark.parametrize("how", ["on", "dies", "closes"])
def test_a_column_while_jobs_use_the_table(tmp_path: Path, how: str) -> None:
    engine = with_two_texts(tmp_path, 100, 200, 1100)
    append(engine, 1200, 1300)
    assert define(engine, tables(COLUMN)) == {"window": ("replanned", 2)}
    version = engine.history("window")[-1]
    assert (version.sql, version.follows) == (WINDOW, ("tables",))
    engine = end(engine, tmp_path, how)
    step(engine)
    engine.submit("amounts", "INSERT INTO outs SELECT amount, id FROM events WHERE amount > 1")
    engine = end(engine, tmp_path, how)
    line = b'{"id":7,"ms":2500,"host":"h","amount":5}'
    engine.broker.append("events", 0, [line], timestamp_ms=0)
    step(engine)
    assert sorted(rows(engine), key=str) == [[2, 100], [3, 1100], [5, 7]]
    assert len(engine.graph.runner.inputs.running) == 1  # all read the one table
    engine.close()


def test_options_of_the_sink_change_under_its_writers(tmp_path: Path) -> None:
    engine = with_two_texts(tmp_path, 100, 1100)
    out = tables(out=", 'json.encode.ignore-null-fields' = 'true'")
    assert define(engine, out) == {"window": ("replanned", 2)}
    append(engine, 2100)
    step(engine)
    assert rows(engine) == [[1, 100], [1, 1100]]
    engine.close()


def test_what_changes_no_plan_changes_no_job(tmp_path: Path) -> None:
    engine = with_tables(tmp_path)
    engine.submit("views", "CREATE VIEW seen AS SELECT id FROM events WHERE id > 1")
    engine.submit("window", WINDOW)
    reader = "INSERT INTO outs SELECT id, id FROM seen"
    engine.submit("reader", reader)
    graph = engine.graph.runner.graph.version
    assert (
        define(engine, tables() + "CREATE TABLE extra (a INT) WITH ('connector'='blackhole');")
        == {}
    )
    done = engine.submit("views", "CREATE VIEW seen AS SELECT id FROM events WHERE id > 1 OR FALSE")
    assert told(engine, done) == {"reader": ("unchanged", 1)}
    assert engine.graph.runner.graph.version == graph
    done = engine.submit("views", "CREATE VIEW seen AS SELECT id FROM events WHERE id > 2")
    assert told(engine, done) == {"reader": ("replanned", 2)}
    append(engine, 2, 3)
    step(engine)
    assert rows(engine) == [[3, 3]]
    engine.close()


def test_views_over_the_table_change_with_it(tmp_path: Path) -> None:
    engine = with_tables(tmp_path)
    engine.submit("views", "CREATE VIEW seen AS SELECT * FROM events")
    engine.submit("reader", "INSERT INTO outs SELECT id, ms FROM seen")
    done = define(engine, tables(COLUMN))
    assert done == {"reader": ("replanned", 2), "views": ("replanned", 2)}
    engine.submit("more", "INSERT INTO outs SELECT amount, id FROM seen WHERE amount > 0")
    engine.broker.append("events", 0, [b'{"id":7,"ms":25,"amount":5}'], timestamp_ms=0)
    step(engine)
    assert sorted(rows(engine), key=str) == [[5, 7], [7, 25]]
    engine.close()


def test_a_job_that_cannot_follow_refuses_the_definition(tmp_path: Path) -> None:
    engine = with_tables(tmp_path)
    engine.submit("ids", "INSERT INTO outs SELECT id, ms FROM events", file="rules/ids.sql")
    engine.submit("hosts", "INSERT INTO outs\nSELECT id, CHAR_LENGTH(host) FROM events")
    engine.submit("window", WINDOW)
    without = tables().replace(" host STRING,", "")
    before = [(j.name, j.version) for j in engine.jobs()]
    for attempt in (engine.validate, engine.submit):
        with pytest.raises(JobError) as error:
            attempt("tables", without)
        assert error.value.message == "'events' is used by hosts"
        assert "2:24" in str(error.value.detail), error.value.detail
        assert "unknown column 'host'" in str(error.value.detail)
        assert "same request" in str(error.value.hint)
    assert [(j.name, j.version) for j in engine.jobs()] == before
    append(engine, 7)
    step(engine)
    assert sorted(rows(engine), key=str) == [[7, 2], [7, 7]]
    engine.close()


def test_the_table_and_its_jobs_change_in_one_request(tmp_path: Path) -> None:
    engine = with_tables(tmp_path)
    engine.submit("all", "INSERT INTO outs SELECT ms, id FROM events")
    engine.submit("hosts", "INSERT INTO outs SELECT id, CHAR_LENGTH(host) FROM events")
    texts = {
        "tables": tables().replace("host STRING", "place STRING"),
        "hosts": "INSERT INTO outs SELECT id, CHAR_LENGTH(place) FROM events",
    }
    done = engine.change(Request(Origin.SDK, {n: JobText(n, t) for n, t in texts.items()}))
    assert {n: o.status for n, o in done.items()} == {"tables": "replaced", "hosts": "replaced"}
    assert told(engine, done["tables"]) == {"all": ("replanned", 2)}
    engine.broker.append("events", 0, [b'{"id":7,"ms":25,"place":"abc"}'], timestamp_ms=0)
    step(engine)
    assert sorted(rows(engine), key=str) == [[25, 7], [7, 3]]
    # Neither without the other: what uses the refused definition is refused with it.
    texts["tables"] = tables().replace("ms BIGINT", "millis BIGINT").replace("(ms", "(millis")
    texts["hosts"] = "INSERT INTO outs SELECT id, millis FROM events"
    done = engine.change(Request(Origin.SDK, {n: JobText(n, t) for n, t in texts.items()}))
    assert {n: o.status for n, o in done.items()} == {"tables": "refused", "hosts": "refused"}
    assert {str(o.error and o.error.message) for o in done.values()} == {"'events' is used by all"}
    engine.close()


def test_a_job_whose_new_text_is_refused_goes_on_over_the_new_table(tmp_path: Path) -> None:
    engine = with_tables(tmp_path)
    engine.submit("all", "INSERT INTO outs SELECT ms, id FROM events")
    texts = {"tables": tables(COLUMN), "all": "INSERT INTO outs SELECT amoun, id FROM events"}
    done = engine.change(Request(Origin.SDK, {n: JobText(n, t) for n, t in texts.items()}))
    assert {n: o.status for n, o in done.items()} == {"tables": "replaced", "all": "refused"}
    assert told(engine, done["tables"]) == {"all": ("replanned", 2)}
    append(engine, 7)
    step(engine)
    assert rows(engine) == [[7, 7]]
    engine.close()


LATER = TABLES.replace("WATERMARK FOR ts AS ts)", "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)")


def test_state_is_not_lost_unasked(tmp_path: Path) -> None:
    engine = with_two_texts(tmp_path, 100)
    later = LATER.format(more="", options="", out="")
    with pytest.raises(JobError) as error:
        engine.submit("tables", later)
    assert error.value.message == "'events' is used by window"
    assert "would be lost: below it," in str(error.value.detail)
    assert "'job.state'" in str(error.value.hint)
    texts = {"tables": JobText("tables", later), "window": JobText("window", WINDOW)}
    done = engine.change(Request(Origin.SDK, texts, dry_run=True))
    assert [s.outcome for s in done["window"].state] == ["reset"]
    done = engine.change(Request(Origin.SDK, texts))
    assert (done["window"].status, done["window"].version) == ("replanned", 2)
    append(engine, 200, 3100)
    step(engine)
    assert rows(engine) == [[1, 200]]
    engine.submit("window", "SET 'job.state' = 'keep';" + WINDOW)
    append(engine, 4100)
    step(engine)
    done_by = define(engine, tables())
    assert done_by == {"window": ("replanned", 4)}
    append(engine, 4200, 6100)
    step(engine)
    assert rows(engine) == [[1, 200], [1, 3100], [2, 4100]]
    engine.close()


def test_a_stopped_job_goes_on_where_it_was_and_follows_when_it_starts_anew(
    tmp_path: Path,
) -> None:
    engine = with_two_texts(tmp_path, 100)
    engine.stop_job("window")
    assert define(engine, tables(COLUMN)) == {"window": ("unchanged", 1)}
    append(engine, 200)
    engine.start_job("window")
    die(engine)
    engine = open_engine(tmp_path)
    append(engine, 1100)
    step(engine)
    assert rows(engine) == [[2, 100]]
    engine.close()
    engine = open_engine(tmp_path)
    append(engine, 2100)
    step(engine)
    assert rows(engine) == [[2, 100], [1, 1100]]
    engine.stop_job("window")
    engine.start_job("window", begin="latest")
    assert engine.job("window").version == 2
    die(engine)
    engine = open_engine(tmp_path)
    assert engine.job("window").state is JobState.RUNNING
    append(engine, 5100, 6100)
    step(engine)
    assert rows(engine)[2:] == [[1, 5100]]
    engine.close()


def test_a_stopped_job_that_could_not_follow_refuses_the_definition(tmp_path: Path) -> None:
    engine = with_tables(tmp_path)
    engine.submit("hosts", "INSERT INTO outs SELECT id, CHAR_LENGTH(host) FROM events")
    engine.stop_job("hosts")
    with pytest.raises(JobError, match="'events' is used by hosts"):
        engine.submit("tables", tables().replace(" host STRING,", ""))
    engine.close()


def test_rolling_the_definition_back_does_the_same_backwards(tmp_path: Path) -> None:
    engine = with_two_texts(tmp_path, 100)
    engine.submit("tables", tables(COLUMN))
    engine.submit("amounts", "INSERT INTO outs SELECT amount, id FROM events WHERE amount > 1")
    with pytest.raises(JobError, match="'events' is used by amounts"):
        engine.rollback("tables", 1)
    engine.remove("amounts")
    append(engine, 200)
    assert told(engine, engine.rollback("tables", 1)) == {"window": ("replanned", 3)}
    append(engine, 1100)
    step(engine)
    assert rows(engine) == [[2, 100]]
    engine.close()


def test_two_jobs_that_define_the_same_table_change_together(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    one = tables() + "INSERT INTO outs SELECT ms, id FROM events;"
    two = tables() + WINDOW
    engine.submit("one", one)
    engine.submit("two", two)
    with pytest.raises(JobError, match="'events' is defined by two"):
        engine.submit("one", one.replace(tables(), tables(COLUMN)))
    texts = {n: t.replace(tables(), tables(COLUMN)) for n, t in (("one", one), ("two", two))}
    done = engine.change(Request(Origin.SDK, {n: JobText(n, t) for n, t in texts.items()}))
    assert {o.status for o in done.values()} == {"replaced"}
    assert [s.outcome for s in done["two"].state] == ["kept"]
    engine.close()


def test_alter_table_in_the_text_that_defines_it(tmp_path: Path) -> None:
    engine = with_two_texts(tmp_path, 100)
    altered = tables() + "ALTER TABLE events ADD amount INT;"
    assert define(engine, altered) == {"window": ("replanned", 2)}
    engine.submit("amounts", "INSERT INTO outs SELECT amount, id FROM events WHERE amount > 1")
    engine.broker.append("events", 0, [b'{"id":7,"ms":1100,"amount":5}'], timestamp_ms=0)
    step(engine)
    assert sorted(rows(engine), key=str) == [[1, 100], [5, 7]]
    engine.close()


def test_alter_as_a_statement_is_a_version_of_the_job_that_defines(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", tables() + "-- the last line")
    engine.submit("window", WINDOW)
    append(engine, 100, 200)
    step(engine)
    (answer,) = execute(engine, "ALTER TABLE events ADD (amount INT);", Origin.CLI)
    assert answer.rows == (("tables", "replaced", 2), ("window", "replanned", 2))
    (_, latest) = engine.history("tables")
    assert (latest.origin, "ALTER TABLE events ADD (amount INT)" in latest.sql) == ("cli", True)
    execute(engine, "ALTER TABLE events MODIFY amount BIGINT")
    engine.submit("sums", "INSERT INTO outs SELECT amount, 0 FROM events WHERE amount > 0")
    append(engine, 1100)
    step(engine)
    assert rows(engine)[0] == [2, 100]
    engine.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ALTER TABLE nowhere ADD (a INT)", "no job defines 'nowhere'"),
        ("ALTER TABLE events DROP host", "host"),
        ("ALTER TABLE events RENAME TO other", "events"),
        ("ALTER FUNCTION f AS 'm.f' LANGUAGE PYTHON", "not altered by a statement"),
    ],
)
def test_alter_that_is_refused_changes_nothing(
    tmp_path: Path, statement: str, message: str
) -> None:
    engine = with_tables(tmp_path)
    engine.submit("hosts", "INSERT INTO outs SELECT id, 0 FROM events WHERE host = 'h1'")
    with pytest.raises(SqlError, match=message):
        execute(engine, statement)
    assert len(engine.history("tables")) == 1
    assert engine.job("hosts").state is JobState.RUNNING
    engine.close()
