"""Metadata in another type than the connector's: where the cast is, in plans and in cases of
rules. What comes of it is in tests/sql/tables/metadata_casts.sql."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from parser.parsing import parse
from parser.statements import CreateTable
from planner import bind
from planner.catalog import Catalog, Table
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.cli import cli
from sqlengine.config import Config
from sqlengine.connectors.registry import declared
from sqlengine.connectors.shadow import SHADOW_ROWS
from sqlengine.engine import Engine
from sqlengine.trial.recorded import TableRecords
from sqlengine.trial.rules import in_memory
from tests.support import eventually

TABLE = """CREATE TABLE f (id INT, t TIMESTAMP(3) METADATA FROM 'timestamp', o STRING METADATA FROM 'offset')
WITH ('connector' = 'topic', 'topic' = 'x', 'format' = 'json');
"""


def planned(folder: Path, statements: str) -> str:
    (folder / "plan.sql").write_text(statements)
    done = CliRunner().invoke(cli, ["explain", str(folder / "plan.sql")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output.partition("merged into the graph")[2]


@pytest.mark.parametrize("read", ["f", "v"])
def test_a_scan_gives_times_without_a_zone_itself_in_utc(tmp_path: Path, read: str) -> None:
    """So a job that was there before other types could be declared is the same job."""
    script = f"{TABLE}CREATE VIEW v AS SELECT * FROM f;\n"
    query = f"CREATE TABLE s (t TIMESTAMP(3)) WITH ('connector' = 'blackhole');\nINSERT INTO s SELECT t FROM {read};"
    assert "CAST" not in planned(tmp_path, script + query)
    zone = "SET 'table.local-time-zone' = 'Asia/Shanghai';\n"
    assert "CAST(t AS TIMESTAMP(3))" in planned(tmp_path, script + zone + query)


def test_a_case_of_a_rule_has_the_declared_type(tmp_path: Path) -> None:
    (tmp_path / "late.sql").write_text(
        f"{TABLE}CREATE TABLE alerts (o STRING, t TIMESTAMP(3)) WITH ('connector' = 'topic', 'topic' = 'alerts',"
        " 'format' = 'json');\nINSERT INTO alerts SELECT o, t FROM f WHERE t > TIMESTAMP '2026-01-01 00:00:00';"
    )
    row = '{"o": "seven", "t": "2026-02-03 04:05:06"}'
    cases = f"- {{events: {{f: [{row}]}}, alerts: {{alerts: [{row}]}}}}\n"
    (tmp_path / "late.test.yaml").write_text(cases)
    done = CliRunner().invoke(cli, ["test", str(tmp_path / "late.sql")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "1 case" in done.output


def test_records_of_a_topic_that_are_read_again_have_the_declared_types(tmp_path: Path) -> None:
    (statement,) = parse(TABLE)
    assert isinstance(statement, CreateTable)
    bound = bind(statement, Catalog(), {}, job="")
    assert isinstance(bound, Table)
    written = declared(bound)
    broker = EmbeddedBroker(tmp_path, fsync="none", clock=lambda: 0)
    with closing(broker):
        broker.create_topic("x", 1)
        broker.append("x", 0, [b'{"id": 1}', b'{"id": 2}'], timestamp_ms=1_700_000_000_123)
        records = TableRecords(in_memory(written), written, broker)
        rows = records.rows(0, 0, 2).rows
    assert rows.column("o").to_pylist() == ["0", "1"]
    assert str(rows.column("t")[0]) == "2023-11-14 22:13:20.123000"


def test_a_shadow_keeps_what_would_be_written(tmp_path: Path) -> None:
    """Of a table whose connector takes another type: it is not opened."""
    text = """-- @rule
-- title: late
-- status: shadow
CREATE TEMPORARY TABLE rows_in (t TIMESTAMP(3)) WITH ('connector' = 'topic', 'topic' = 'x', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset');
CREATE TEMPORARY TABLE late (id INT, t TIMESTAMP(3) METADATA FROM 'timestamp') WITH ('connector' = 'kafka',
  'topic' = 'y', 'format' = 'json', 'properties.bootstrap.servers' = 'localhost:1');
INSERT INTO late SELECT 1, t FROM rows_in;
"""
    engine = Engine(Config(data=tmp_path))
    engine.start()
    with closing(engine):
        engine.broker.create_topic("x", 1)
        engine.broker.append("x", 0, [b'{"t": "2026-01-02 03:04:05"}'], timestamp_ms=0)
        engine.submit("late", text)
        found = eventually(lambda: engine.broker.read(SHADOW_ROWS, 0, 0), "a row")
    assert json.loads(found.values[0].as_py())["row"] == {"id": 1, "t": "2026-01-02 03:04:05Z"}
