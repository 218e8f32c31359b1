"""Jobs over topics of Kafka whose graph runs in several parts: where they would begin is looked at
before they are accepted, by the leader, for all parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parser.errors import OptionError
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from tests.cluster.leader import SHARED, LeaderHarness, leading
from tests.connectors.kafka.clients import Kafka, Record
from tests.connectors.kafka.test_kafka_jobs import source
from tests.connectors.tables import json_rows
from tests.support import eventually

PARTITIONS = 2


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LeaderHarness]:
    with leading(tmp_path, "one", "two") as harness:
        yield harness


def job(kafka: Kafka, topic: str, offsets: str) -> str:
    begins = {
        "scan_startup_mode": "specific-offsets",
        "scan_startup_specific__offsets": offsets,
    }
    tables = source(kafka, topic, **begins).replace(" TABLE", " TEMPORARY TABLE", 1)
    return f"{tables}INSERT INTO found SELECT id, name FROM source;"


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """Three rows in each of two partitions."""
    name = kafka.topic(PARTITIONS)
    for number in range(PARTITIONS):
        write(kafka, name, number, *range(3 * number, 3 * number + 3))
    return name


def write(kafka: Kafka, topic: str, partition: int, *numbers: int) -> None:
    kafka.write(topic, (Record(row, partition=partition) for row in json_rows(numbers)))


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ("partition:0,offset:1;partition:1,offset:9", "cannot begin at offset 9 of partition"),
        ("partition:0,offset:9;partition:1,offset:1", "cannot begin at offset 9 of partition"),
        ("partition:0,offset:1;partition:7,offset:1", "names partition 7"),
    ],
)
def test_a_job_that_cannot_begin_is_refused(
    kafka: Kafka, topic: str, harness: LeaderHarness, offsets: str, message: str
) -> None:
    text = job(kafka, topic, offsets)
    good = job(kafka, topic, "partition:0,offset:1;partition:1,offset:2")
    texts = {"bad": JobText("bad", text, None), "good": JobText("good", good, None)}
    for dry_run in (True, False):
        outcomes = harness.engine.change(Request(Origin.SDK, texts, dry_run=dry_run))
        error = outcomes["bad"].error
        assert isinstance(error, OptionError)
        assert message in error.message
        assert error.position is not None
        line = text.split("\n")[error.position.line - 1]
        assert line[error.position.column - 1 :].startswith("'scan.startup.specific-offsets'")
        assert outcomes["good"].error is None
    assert harness.engine.job("good").graph == SHARED
    eventually(lambda: harness.found() == [1, 2, 5], harness.found)
    assert [j.name for j in harness.engine.jobs()] == ["good", "tables"]


def test_a_job_that_goes_on_is_not_asked(kafka: Kafka, topic: str, harness: LeaderHarness) -> None:
    """Its offsets of the beginning may be gone by now: an instance that comes later goes on from
    what was read."""
    text = job(kafka, topic, "partition:0,offset:1;partition:1,offset:1")
    harness.engine.submit("all", text)
    eventually(lambda: harness.found() == [1, 2, 4, 5], harness.found)
    kafka.delete(topic, 3)
    harness.stop("two")
    harness.start("three")
    write(kafka, topic, 1, 6)
    eventually(lambda: harness.found() == [1, 2, 4, 5, 6], harness.found)
    harness.engine.submit("all", text.replace("SELECT id, name", "SELECT id, UPPER(name)"))
    write(kafka, topic, 0, 7)
    eventually(lambda: harness.found() == [1, 2, 4, 5, 6, 7], harness.found)
