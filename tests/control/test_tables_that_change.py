"""The definition of a table changes while jobs read it: what they do not read changes nothing for
them, and no record is read twice or left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlengine.engine import Engine
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


@pytest.mark.parametrize("how", ["on", "dies", "closes"])
def test_a_column_that_the_job_does_not_read(tmp_path: Path, how: str) -> None:
    engine = open_engine(tmp_path)
    engine.submit("window", tables() + WINDOW)
    append(engine, 100, 200, 1100)
    step(engine)
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
    engine = open_engine(tmp_path)
    engine.submit("window", tables() + WINDOW)
    append(engine, 100, 1100)
    step(engine)
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
