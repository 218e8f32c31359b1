"""Jobs with settings and options that nobody reads: refused or noted, by the server's setting; and
jobs that were accepted before go on."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from parser.errors import OptionError, SqlError
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import JobState, Origin
from sqlengine.jobs.planning import JobText
from tests.engine.by_hand import step

TABLES = """CREATE TABLE events (id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json'{});
CREATE TABLE outs (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');"""
COPY = "SET 'my.own' = '1';\nINSERT INTO outs SELECT id FROM events"


def opened(folder: Path, **settings: str) -> Engine:
    engine = Engine(Config(data=folder / "data", settings=settings))
    for topic in ("events", "out"):
        engine.broker.create_topic(topic, if_not_exists=True)
    return engine


def append(engine: Engine, number: int) -> None:
    engine.broker.append("events", 0, [json.dumps({"id": number}).encode()], timestamp_ms=0)


def written(engine: Engine) -> list[int]:
    records = engine.broker.read("out", 0, 0)
    values = [] if records is None else records.values.to_pylist()
    return [json.loads(v)["id"] for v in values]


def test_jobs_that_were_accepted_go_on(tmp_path: Path) -> None:
    ignoring = {"job.unknown-options": "ignore"}
    engine = opened(tmp_path, **ignoring)
    tables = engine.submit("tables", TABLES.format(", 'scan.startup.mod' = 'x'"))
    assert tables.warnings == (
        "2:69: unknown option 'scan.startup.mod' of table 'events' is ignored",
    )
    assert engine.submit("copy", COPY).warnings == ("1:5: unknown setting 'my.own' is ignored",)
    append(engine, 1)
    step(engine)
    engine.close()
    engine = opened(tmp_path)
    append(engine, 2)
    step(engine)
    assert written(engine) == [1, 2]
    engine.stop_job("copy")
    assert engine.start_job("copy").status == "started"
    with pytest.raises(SqlError, match=r"1:5: unknown setting 'my\.own'"):
        engine.submit("other", COPY)
    assert {j.name: j.state for j in engine.jobs()} == {
        "tables": JobState.DEFINED,
        "copy": JobState.RUNNING,
    }
    engine.close()


def test_a_setting_of_the_server_that_is_misspelt(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        opened(tmp_path, **{"job.on-eror": "fail"})
    assert caught.value.hint == "did you mean 'job.on-error'?"


def test_many_jobs_are_one_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = opened(tmp_path)
    engine.submit("tables", TABLES.format(""))
    copy = COPY.replace("my.own", "parallelism.default")
    texts = {f"copy-{i}": JobText(f"copy-{i}", copy) for i in range(8)}
    with caplog.at_level(logging.WARNING, "sqlengine"):
        outcomes = engine.change(Request(Origin.REST, texts))
    note = "1:5: 'parallelism.default' has no effect here: it says how Flink runs a plan"
    assert {o.warnings for o in outcomes.values()} == {(note,)}
    assert [r.getMessage() for r in caplog.records if "no effect" in r.getMessage()] == [
        f"8 jobs (copy-0, copy-1, copy-2, copy-3, copy-4 and 3 more): {note}"
    ]
    engine.close()
