"""Jobs over topics of Kafka: a script from end to end, records that are no rows, passwords that nobody
sees, and servers that are killed: what comes out is there once."""

from __future__ import annotations

import json
import random
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from parser.errors import SqlError
from sqlengine.cli import cli
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import JobState, Origin
from sqlengine.jobs.planning import JobText
from sqlengine.metrics import render
from sqlengine.session import spark
from tests.connectors.kafka.clients import Kafka, Record
from tests.connectors.lives import JOB, life
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


def test_metadata_are_cast_to_and_from_the_declared_types(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic()
    written = (
        "id INT, ts TIMESTAMP(3) METADATA FROM 'timestamp', headers MAP<STRING, STRING> METADATA"
    )
    zone = "SET 'table.local-time-zone' = 'Asia/Shanghai';\n"
    run(
        tmp_path,
        zone
        + target(kafka, topic, written)
        + "INSERT INTO target VALUES (1, TIMESTAMP '2023-11-15 06:13:20.123', MAP['a', 'b']);",
    )
    (record,) = kafka.read(topic)
    assert (record.value, record.timestamp) == (b'{"id":1}', 1_700_000_000_123)
    assert record.headers == (("a", b"b"),)
    read = (
        written
        + ", `offset` INT METADATA VIRTUAL, `partition` STRING METADATA VIRTUAL, n AS `offset` + 1"
    )
    shown = run(
        tmp_path,
        zone
        + source(kafka, topic, read, **BOUNDED)
        + "SELECT ts, headers['a'] AS h, `offset`, CONCAT('p', `partition`) AS p, n FROM source;",
    )
    for text in ("2023-11-15T06:13:20.123 ", " b ", " p0 ", " 0 "):
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


def test_a_job_that_would_begin_behind_the_end_is_refused(kafka: Kafka, tmp_path: Path) -> None:
    """It does not begin elsewhere, and takes no job along that is submitted with it."""
    first, second = kafka.topic(), kafka.topic()
    kafka.write(first, json_rows(range(3)))

    def job(offset: int) -> str:
        begins = {
            "scan_startup_mode": "specific-offsets",
            "scan_startup_specific__offsets": f"partition:0,offset:{offset}",
        }
        tables = source(kafka, first, **begins) + target(kafka, second)
        tables = tables.replace(" TABLE", " TEMPORARY TABLE")
        return tables + "INSERT INTO target SELECT id, name FROM source;"

    with engine(tmp_path / "data") as server:
        texts = {name: JobText(name, job(at), None) for name, at in (("bad", 9), ("good", 2))}
        for dry_run in (True, False):
            outcomes = server.change(Request(Origin.SDK, texts, dry_run=dry_run))
            error = outcomes["bad"].error
            assert "cannot begin at offset 9" in str(error)
            assert error is not None
            assert error.position is not None
            assert outcomes["good"].error is None
        eventually(lambda: kafka.values(second) == json_rows([2]), "the row")
        assert [j.name for j in server.jobs()] == ["good"]


def test_a_job_whose_offset_is_gone_fails_and_does_not_begin_elsewhere(
    kafka: Kafka, tmp_path: Path
) -> None:
    """It was stopped, and has no state: it begins anew, again and again."""
    first, second = kafka.topic(), kafka.topic()
    kafka.write(first, json_rows(range(4)))
    begins = {
        "scan_startup_mode": "specific-offsets",
        "scan_startup_specific__offsets": "partition:0,offset:2",
    }
    text = (
        "SET 'restart-strategy.type' = 'fixed-delay';\nSET 'restart-strategy.fixed-delay.delay' = '50 ms';\n"
        + source(kafka, first, **begins)
        + target(kafka, second)
        + "INSERT INTO target SELECT id, name FROM source;"
    )  # fmt: skip
    with engine(tmp_path / "data") as server:
        server.submit(JOB, text)
        eventually(lambda: kafka.values(second) == json_rows([2, 3]), "the rows")
        server.stop_job(JOB)
        kafka.delete(first, 4)
        with pytest.raises(SqlError, match=r"cannot begin at offset 2 .* begins at 4 by now"):
            server.start_job(JOB, begin="configured")
        time.sleep(0.5)
        assert len(kafka.values(second)) == 2


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


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "of_broker"), [(3, 0), (50, 3)])
def test_rows_are_there_once_through_kills(
    kafka: Kafka, tmp_path: Path, kills: int, of_broker: int
) -> None:
    first, second = kafka.topic(2), kafka.topic(2)
    job = (
        source(kafka, first)
        + target(kafka, second, key_format="json", key_fields="name", **EXACTLY_ONCE)
        + "INSERT INTO target SELECT id, name FROM source;"
    )
    chance = random.Random(kills)
    sent = 0
    for number in range(kills):
        with life(tmp_path / "data", job, awaited=number % 3 != 0):
            until = time.monotonic() + chance.uniform(0.1, 1.0)
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
    with life(tmp_path / "data", job):
        eventually(lambda: len(kafka.values(second)) >= sent, "all rows")
        found = [json.loads(v or b"")["id"] for v in kafka.values(second)]
    assert len(found) == sent
    assert sorted(found) == list(range(sent))


@pytest.mark.slow
def test_a_job_is_not_fenced_by_clients_of_its_own(
    kafka: Kafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While a server is away a sink gives its client up and makes another one, over and over."""
    topic = kafka.topic(2)
    events = "CREATE TABLE source (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');\n"
    job = (
        events
        + target(kafka, topic, "id BIGINT", **EXACTLY_ONCE)
        + "INSERT INTO target SELECT id FROM source;"
    )
    sent = 0

    def send(server: Engine, seconds: float) -> None:
        nonlocal sent
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            server.broker.append("events", 0, [b'{"id": %d}' % sent], timestamp_ms=0)
            sent += 1
            time.sleep(0.02)

    with engine(tmp_path / "data") as server:
        server.broker.create_topic("events")
        server.submit(JOB, job)
        for pauses in (False, True, False):
            send(server, 1.0)
            kafka.server.pause() if pauses else kafka.server.kill()
            send(server, 25.0)  # for two attempts, and some of a third
            kafka.server.go_on() if pauses else kafka.server.start()
            eventually(lambda: len(kafka.values(topic)) >= sent, "all rows")
        ids = [json.loads(v or b"")["id"] for v in kafka.values(topic)]
    assert sorted(ids) == list(range(sent))
    assert "another process writes" not in caplog.text


@pytest.mark.slow
def test_a_folder_that_is_older_than_a_topic_finds_the_server_away(
    kafka: Kafka, tmp_path: Path
) -> None:
    """The topic has epochs that the folder does not know, and cannot say so at the start."""
    topic, data, backup = kafka.topic(2), tmp_path / "data", tmp_path / "backup"
    events = "CREATE TABLE source (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');\n"
    insert = "INSERT INTO target SELECT id FROM source;"
    job = events + target(kafka, topic, "id BIGINT", **EXACTLY_ONCE) + insert

    def send(server: Engine, *ids: int) -> None:
        for each in ids:
            server.broker.append("events", 0, [b'{"id": %d}' % each], timestamp_ms=0)

    def has(count: int) -> bool:
        return len(kafka.values(topic)) >= count

    with engine(data) as server:
        server.broker.create_topic("events")
        server.submit(JOB, job)
        send(server, 0, 1, 2)
        eventually(lambda: has(3), "the first rows")
    shutil.copytree(data, backup)
    with engine(data) as server:
        for number in range(3, 9):  # an epoch for each
            send(server, number)
            eventually(partial(has, number + 1), "the rows of the other life")
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    kafka.server.kill()
    try:
        with engine(data) as server:
            eventually(lambda: server.job(JOB).state is JobState.RESTARTING, "the failure")
            send(server, 9)
            kafka.server.start()
            send(server, 10)
            eventually(lambda: has(11), lambda: str(server.job(JOB).reason))
            ids = [json.loads(v or b"")["id"] for v in kafka.values(topic)]
    finally:
        if not kafka.server.running:
            kafka.server.start()
    assert sorted(ids) == list(range(11))
