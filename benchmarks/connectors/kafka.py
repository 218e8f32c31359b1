"""Kafka in and out: rows per CPU second of this process, beside the bare client's over the same records
on the same server."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.connectors import flink
from benchmarks.measure import in_a_process
from benchmarks.page import Section, Table
from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.servers.kafka import KafkaServer
from tests.servers.process import Missing

if TYPE_CHECKING:
    from confluent_kafka import Producer

NAME: Final = "connectors_kafka"
COUNT: Final = 1_000_000
# Seconds for which a server may do nothing.
_PATIENCE_S: Final = 60.0
# Those of tests are short: a busy broker that misses one is fenced by its own controller.
_TIMEOUTS: Final = {"broker.heartbeat.interval.ms": "2000", "broker.session.timeout.ms": "60000"}
_MODULE: Final = "benchmarks.connectors.kafka"
_COLUMNS: Final = "id BIGINT, host STRING, v DOUBLE, pad STRING"
_READ: Final = """
CREATE TABLE events ({columns}) WITH ('connector' = 'kafka', 'topic' = 'events', 'format' = 'json',
  'properties.bootstrap.servers' = '{server}', 'scan.startup.mode' = 'earliest-offset');
"""
_WRITTEN: Final = """
CREATE TABLE found ({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',
  'properties.bootstrap.servers' = '{server}', 'sink.delivery-guarantee' = '{guarantee}',
  'sink.transactional-id-prefix' = '{topic}');
"""
_INTO: Final = "INSERT INTO found SELECT * FROM events WHERE id >= 0 AND MOD(id, {one_in}) = 0;"
_NOTHING: Final = "CREATE TABLE found ({columns}) WITH ('connector' = 'blackhole');"


def record(number: int) -> bytes:
    """Returns an event of 200 bytes."""
    text = b'{"id":%d,"host":"host-%03d","v":%d.5,"pad":"%s"}'
    return text % (number, number % 500, number % 100, b"x" * 145)


# ---- what runs in processes of its own -----------------------------------------------------------


def produce(server: str, topic: str) -> float:
    """Writes all records with the bare client; returns CPU seconds."""
    from confluent_kafka import Producer

    records = [record(n) for n in range(COUNT)]
    settings = {
        "bootstrap.servers": server, "compression.type": "lz4", "enable.idempotence": True,
        "linger.ms": 5, "delivery.report.only.error": True, "queue.buffering.max.kbytes": 65_536,
    }  # fmt: skip
    producer = Producer(settings)
    begin = time.process_time()
    for value in records:
        deadline = time.monotonic() + _PATIENCE_S
        while not _produced(producer, topic, value):
            # Full: it does not tell when it has space.
            producer.poll(0.01)
            if time.monotonic() > deadline:
                raise SystemExit("Kafka takes no records")
    if producer.flush(_PATIENCE_S):
        raise SystemExit("Kafka does not confirm records")
    return time.process_time() - begin


def _produced(producer: Producer, topic: str, value: bytes) -> bool:
    try:
        producer.produce(topic, value)
    except BufferError:
        return False
    return True


def consume(server: str) -> float:
    """Reads all records with the bare client, 10,000 at a time; returns CPU seconds."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {
        "bootstrap.servers": server, "group.id": "bare", "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 5, "queued.max.messages.kbytes": 32_768,
    }  # fmt: skip
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("events", 0, 0)])
    count, begin = 0, time.process_time()
    while count < COUNT:
        count += len([m.value() for m in consumer.consume(10_000, 1.0)])
    took = time.process_time() - begin
    consumer.close()
    return took


def job(server: str, topic: str, guarantee: str, one_in: int) -> float:
    """Runs a job over all records that writes one of so many to a topic ('': to nothing); returns
    the CPU seconds of all that the process does."""
    write = _WRITTEN if topic else _NOTHING
    text = (_READ + write + _INTO).format(
        columns=_COLUMNS, server=server, topic=topic, guarantee=guarantee, one_in=one_in
    )
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(Config(data=Path(folder)))
        engine.start()
        begin = time.process_time()
        engine.submit("j", text)
        _until(lambda: engine.rows_of("j") >= -(-COUNT // one_in))
        took = time.process_time() - begin
        engine.close()
    return took


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.02)


# ---- the section ---------------------------------------------------------------------------------


def run() -> Section:
    """Measures reading, writing and both, with both guarantees."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with KafkaServer(Path(folder) / "kafka", settings=_TIMEOUTS) as server:
                rows = _measured(server)
        except Missing as error:
            raise SystemExit(str(error)) from None
    about = (
        f"{COUNT:,} records of 200 bytes of JSON in one partition, on a broker of the same machine."
        " A job decodes them, filters, and encodes what it writes; the bare client does neither. Flink: the whole JVM, in its second run."
    )
    columns = ["what", "by", "records per CPU second"]
    return Section(NAME, "Kafka", about, [Table("Kafka", columns, rows)])


def _measured(broker: KafkaServer) -> list[list[str]]:
    from tests.connectors.kafka.clients import Kafka

    kafka, server = Kafka(broker), broker.address
    # A broker that has just started has no ids for producers until its controller gives it some, and
    # tells them that a coordinator loads. Nobody's time is to have that wait in it.
    kafka.warm()
    for name in ("events", "few", "found", "all", "once", "flink"):
        kafka.topic(name=name)
    rows = [_row("produced", "the bare client", in_a_process(_MODULE, "produce", server, "events"))]
    rows.append(_row("consumed", "the bare client", in_a_process(_MODULE, "consume", server)))
    runs = (
        ("read, one filter", "", "at-least-once", 1),
        ("read, a tenth written, at least once", "few", "at-least-once", 10),
        ("read, a tenth written, exactly once", "found", "exactly-once", 10),
        ("read, all written, at least once", "all", "at-least-once", 1),
        ("read, all written, exactly once", "once", "exactly-once", 1),
    )
    for what, *given in runs:
        rows.append(_row(what, "a job", in_a_process(_MODULE, "job", server, *given)))
    for what, topic in (("read, one filter", ""), ("read, all written, at least once", "flink")):
        found = flink.rate(_flinks(server, topic), COUNT)
        rows.append([what, "Flink", "not there" if found is None else f"{found:,}"])
    return rows


def _flinks(server: str, topic: str) -> str:
    """Returns a script that does for Flink what `job` does."""
    read = _READ.replace(
        "'earliest-offset'", "'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"
    )
    write = _WRITTEN.replace("'{topic}');", "'{topic}', 'properties.compression.type' = 'lz4');")
    return (read + (write if topic else _NOTHING) + _INTO).format(
        columns=_COLUMNS, server=server, topic=topic, guarantee="at-least-once", one_in=1
    )


def _row(what: str, who: str, seconds: object) -> list[str]:
    return [what, who, f"{COUNT / float(str(seconds)):,.0f}"]


if __name__ == "__main__":
    who, *given = sys.argv[1:]
    arguments = [int(a) if a.isdecimal() else a for a in given]
    print(json.dumps(globals()[who](*arguments)))
