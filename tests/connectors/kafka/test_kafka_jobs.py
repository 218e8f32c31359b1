"""Jobs over topics of Kafka: a script from end to end, records that are no rows, passwords that nobody
sees, and servers that are killed: what comes out is there once."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from sqlengine.cli import cli
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.metrics import render
from sqlengine.session import spark
from tests.connectors.kafka.clients import Kafka, Record
from tests.connectors.kafka.life import JOB
from tests.connectors.tables import json_rows
from tests.docs.test_documents import TOPIC, jobs_of
from tests.spark.scripting import run as run_script
from tests.spark.staged import Staged
from tests.support import ROOT, eventually

COLUMNS = "id BIGINT, name STRING"


def source(kafka: Kafka, topic: str, columns: str = COLUMNS, **more: str) -> str:
    return _table("source", columns, kafka.options(topic, _dotted(more)))


def target(kafka: Kafka, topic: str, columns: str = COLUMNS, **more: str) -> str:
    options = {k: v for k, v in kafka.options(topic, _dotted(more)).items() if "scan." not in k}
    return _table("target", columns, options)


def _dotted(options: dict[str, str]) -> dict[str, str]:
    return {k.replace("__", "-").replace("_", "."): v for k, v in options.items()}


def _table(name: str, columns: str, options: dict[str, str]) -> str:
    given = ", ".join(f"'{k}' = '{v}'" for k, v in options.items() if v)
    return f"CREATE TABLE {name} ({columns}) WITH ({given});\n"


EXACTLY_ONCE = {
    "sink_delivery__guarantee": "exactly-once",
    "sink_transactional__id__prefix": "copies",
}
BOUNDED = {"scan_bounded_mode": "latest-offset"}


def run(tmp_path: Path, script: str) -> str:
    file = tmp_path / "script.sql"
    file.write_text(script)
    done = CliRunner().invoke(cli, ["run", str(file)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_script_from_topic_to_topic(kafka: Kafka, tmp_path: Path) -> None:
    first, second = kafka.topic(3), kafka.topic(2)
    kafka.write(first, [Record(v, partition=n % 3) for n, v in enumerate(json_rows(range(30)))])
    run(
        tmp_path,
        source(kafka, first, **BOUNDED)
        + target(kafka, second, **EXACTLY_ONCE)
        + "INSERT INTO target SELECT id, name FROM source WHERE MOD(id, 2) = 0;",
    )
    found = sorted(json.loads(v or b"")["id"] for v in kafka.values(second))
    assert found == list(range(0, 30, 2))


def test_keys_and_metadata_of_rows(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic()
    headers = (("source", b"test"),)
    kafka.write(topic, [Record(b'{"n": 1}', b'{"id": 7}', timestamp=1000, headers=headers)])
    columns = (
        "k_id BIGINT, n INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', `partition` INT METADATA VIRTUAL,"
        " `offset` BIGINT METADATA VIRTUAL, headers MAP<STRING, BYTES> METADATA"
    )
    options = kafka.options(
        topic,
        {
            "format": "", "value.format": "json", "key.format": "json", "key.fields": "k_id",
            "key.fields-prefix": "k_", "value.fields-include": "EXCEPT_KEY", "scan.bounded.mode": "latest-offset",
        },
    )  # fmt: skip
    shown = run(
        tmp_path,
        _table("source", columns, options)
        + "SELECT k_id, n, ts, `partition`, `offset`, CAST(headers['source'] AS STRING) AS s FROM source;",
    )
    for text in ("7", "1970-01-01T00:00:01Z", "test"):
        assert text in shown


def test_upserts_come_back_as_rows(kafka: Kafka, tmp_path: Path) -> None:
    events, totals = kafka.topic(), kafka.topic(cleanup_policy="compact")
    kafka.write(events, [b'{"id": %d, "name": "%s"}' % (n, b"ab"[n % 2 :][:1]) for n in range(5)])
    upserts = {
        "connector": "upsert-kafka", "topic": totals, "properties.bootstrap.servers": kafka.address,
        "key.format": "json", "value.format": "json", "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "totals",
    }  # fmt: skip
    columns = "name STRING, n BIGINT, PRIMARY KEY (name) NOT ENFORCED"
    run(
        tmp_path,
        source(kafka, events, **BOUNDED)
        + _table("totals", columns, upserts)
        + "INSERT INTO totals SELECT name, COUNT(*) FROM source GROUP BY name;",
    )
    last = {r.key: r.value for r in kafka.read(totals)}
    assert last == {b'{"name":"a"}': b'{"name":"a","n":3}', b'{"name":"b"}': b'{"name":"b","n":2}'}
    kafka.write(totals, [Record(None, b'{"name":"a"}')])
    shown = run(
        tmp_path,
        "SET 'sql-client.execution.result-mode' = 'tableau';\n"
        + _table("totals", columns, {**upserts, "scan.bounded.mode": "latest-offset"})
        + "SELECT COUNT(*) AS names, SUM(n) AS rs FROM totals;",
    )
    assert shown.strip().splitlines()[-1]


@contextmanager
def engine(folder: Path, secrets: Path | None = None) -> Iterator[Engine]:
    opened = Engine(Config(data=folder, secrets=secrets))
    opened.start()
    try:
        yield opened
    finally:
        opened.close()


def test_records_that_are_no_rows_are_dead_letters(kafka: Kafka, tmp_path: Path) -> None:
    first, second = kafka.topic(), kafka.topic()
    kafka.write(first, [b'{"id": 1}', b"{", b'{"id": "x"}', b'{"id": 2}'])
    with engine(tmp_path / "data") as server:
        server.submit(
            JOB,
            source(kafka, first)
            + target(kafka, second)
            + "INSERT INTO target SELECT id, name FROM source;",
        )
        eventually(lambda: len(kafka.values(second)) == 2, "two rows")
        letters = eventually(lambda: server.broker.read("_dead_letters", 0, 0), "dead letters")
        assert letters.num_rows == 2
        metrics = render(server).decode()
        for name in ("errors", "retries", "reconnects"):
            for direction, table in (("in", "source"), ("out", "target")):
                labels = f'direction="{direction}",graph="main",table="{table}"'
                assert f"sqlengine_connector_{name}_total{{{labels}}} 0.0" in metrics
        behind = f'sqlengine_job_behind{{job="{JOB}",table="source",unit="records"}} 0.0'
        eventually(lambda: behind in render(server).decode(), "how far the job is behind")


@pytest.mark.slow
def test_a_server_that_went_away_is_told_and_the_job_goes_on(kafka: Kafka, tmp_path: Path) -> None:
    first, second = kafka.topic(), kafka.topic()
    kafka.write(first, json_rows([1]))
    with engine(tmp_path / "data") as server:
        server.submit(
            JOB,
            source(kafka, first)
            + target(kafka, second, **EXACTLY_ONCE)
            + "INSERT INTO target SELECT id, name FROM source;",
        )
        eventually(lambda: kafka.values(second) == json_rows([1]), "the first row")
        kafka.server.kill()
        eventually(lambda: "source" in server.hints().get(JOB, ""), "a word of it")
        kafka.server.start()
        kafka.write(first, json_rows([2]))
        eventually(lambda: kafka.values(second) == json_rows([1, 2]), "the second row")
        assert server.job(JOB).state.value == "running"


VALUES = {
    "BOOLEAN": "TRUE", "TINYINT": "CAST(-1 AS TINYINT)", "BIGINT": "1234567890123456789", "DOUBLE": "0.1E0",
    "DECIMAL(20, 4)": "CAST(-1.5 AS DECIMAL(20, 4))", "STRING": """'ä "€"'""", "BYTES": "X'00FF'",
    "DATE": "DATE '2026-02-28'", "TIME(0)": "TIME '23:59:59'", "TIMESTAMP(3)": "TIMESTAMP '2026-01-01 00:00:00.123'",
    "TIMESTAMP_LTZ(3)": "TO_TIMESTAMP_LTZ(1700000000123, 3)", "ARRAY<INT>": "ARRAY[1, CAST(NULL AS INT)]",
    "MAP<STRING, BIGINT>": "MAP['k', CAST(5 AS BIGINT)]", "ROW<a INT, b STRING>": "CAST(ROW(1, 'b') AS ROW<a INT, b STRING>)",
}  # fmt: skip


def test_all_types_and_nulls_come_back(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic()
    options = kafka.options(topic, {"scan.bounded.mode": "latest-offset"})
    given = ", ".join(f"{value} AS c{n}" for n, value in enumerate(VALUES.values()))
    nulls = ", ".join(f"CAST(NULL AS {kind})" for kind in VALUES)
    rows = f"CREATE VIEW made AS SELECT {given} UNION ALL SELECT {nulls};\n"
    table = _table("kept", ", ".join(f"c{n} {kind}" for n, kind in enumerate(VALUES)), options)
    insert = table + rows + "INSERT INTO kept SELECT * FROM made;"
    assert not run_script(insert, tmp_path, tmp_path / "write", "embedded").errors
    read = run_script(table + "SELECT * FROM kept;", tmp_path, tmp_path / "read", "embedded")
    made = run_script(rows + "SELECT * FROM made;", tmp_path, tmp_path / "made", "embedded")
    assert not read.errors
    found, expected = (Counter(r.partition(": ")[2] for r in done.rows) for done in (read, made))
    assert {r for r in found if r[0] == "["} == {r for r in expected if r[0] == "["}
    assert sum(r[0] == "[" for r in found) == 2


def test_a_job_that_stops_goes_on_from_its_savepoint(kafka: Kafka, tmp_path: Path) -> None:
    first, second = kafka.topic(), kafka.topic()
    kafka.write(first, json_rows(range(5)))
    with engine(tmp_path / "data") as server:
        server.submit(
            JOB,
            source(kafka, first)
            + target(kafka, second, **EXACTLY_ONCE)
            + "INSERT INTO target SELECT id, name FROM source;",
        )
        eventually(lambda: len(kafka.values(second)) == 5, "five rows")
        server.save_job(JOB, stop=True)
        kafka.write(first, json_rows(range(5, 8)))
        server.start_job(JOB)
        eventually(lambda: len(kafka.values(second)) >= 8, "the others")
    assert kafka.values(second) == json_rows(range(8))


@pytest.mark.parametrize(
    "where", ["in one process", "in stages", pytest.param("on Spark", marks=pytest.mark.spark)]
)
def test_the_same_rows_wherever_they_are_decoded(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Keys and values are decoded, counted and encoded in tasks; the driver reads and writes."""
    if where == "in stages":
        monkeypatch.setattr(spark, "OwnSpark", lambda *_: Staged(3))
    events, totals = kafka.topic(2), kafka.topic()
    kafka.write(
        events,
        [
            Record(None if n == 39 else b'{"n": %d}' % n, b'{"k": %d}' % (n % 4), n % 2)
            for n in range(40)
        ],
    )
    keyed = {
        "connector": "upsert-kafka", "properties.bootstrap.servers": kafka.address, "key.format": "json",
        "value.format": "json", "value.fields-include": "EXCEPT_KEY",
    }  # fmt: skip
    source = {**keyed, "topic": events, "scan.bounded.mode": "latest-offset"}
    target = {
        **keyed, "topic": totals, "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": where.replace(" ", "-"),
    }  # fmt: skip
    script = (
        _table("source", "k INT, n INT, PRIMARY KEY (k) NOT ENFORCED", source)
        + _table("target", "odd INT, s BIGINT, PRIMARY KEY (odd) NOT ENFORCED", target)
        + "INSERT INTO target SELECT MOD(k, 2), SUM(n) FROM source GROUP BY MOD(k, 2);"
    )
    done = run_script(script, tmp_path, tmp_path / "run", "embedded" if "one" in where else "spark")
    assert not done.errors
    last = {r.key: r.value for r in kafka.read(totals)}
    assert last == {b'{"odd":0}': b'{"s":74}', b'{"odd":1}': b'{"s":37}'}


def test_the_page(kafka: Kafka, tmp_path: Path) -> None:
    """What the page shows is submitted, with this broker in the place of those that it names."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "kafka").write_text("x")
    blocks = jobs_of((ROOT / "docs" / "connectors" / "kafka.md").read_text())
    with engine(tmp_path / "data", secrets=tmp_path / "secrets") as server:
        for number, block in enumerate(blocks):
            for topic in TOPIC.findall(block):
                kafka.topic(name=topic)
            text = re.sub("(localhost:9092|broker.example.org:9094)", kafka.address, block)
            assert server.submit(f"block{number}", text).status == "added"


class Life:
    """A server in a child process, on one data folder."""

    def __init__(self, folder: Path, script: Path) -> None:
        command = [sys.executable, "-m", "tests.connectors.kafka.life", str(folder), str(script)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.parametrize(
    ("kills", "of_broker"), [(3, 0), pytest.param(50, 3, marks=pytest.mark.slow)]
)
def test_rows_are_there_once_through_kills(
    kafka: Kafka, tmp_path: Path, kills: int, of_broker: int
) -> None:
    first, second = kafka.topic(2), kafka.topic(2)
    script = tmp_path / "job.sql"
    script.write_text(
        source(kafka, first)
        + target(kafka, second, key_format="json", key_fields="name", **EXACTLY_ONCE)
        + "INSERT INTO target SELECT id, name FROM source;"
    )
    chance = random.Random(kills)
    sent = 0
    for number in range(kills):
        life = Life(tmp_path / "data", script)
        if number % 3:
            life.wait_until_ready()
        until = time.monotonic() + chance.uniform(0.1, 2.0)
        while time.monotonic() < until:
            ids = range(sent, sent + 20)
            kafka.write(
                first,
                [Record(v, partition=i % 2) for i, v in zip(ids, json_rows(ids), strict=True)],
            )
            sent = ids.stop
            time.sleep(0.02)
        if of_broker and number % (kills // of_broker) == 1:
            kafka.server.kill()
            kafka.server.start()
        life.kill()
    life = Life(tmp_path / "data", script)
    try:
        eventually(lambda: len(kafka.values(second)) >= sent, "all rows")
        found = [json.loads(v or b"")["id"] for v in kafka.values(second)]
    finally:
        life.kill()
    assert len(found) == sent
    assert sorted(found) == list(range(sent))
