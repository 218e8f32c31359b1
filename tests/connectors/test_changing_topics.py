"""Topics whose records are changes: of other databases, and upserts by key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.connectors.environment import Environment
from sqlengine.executors.build import OperatorFactory
from sqlengine.session.runner import EmbeddedRunner
from sqlengine.session.session import Session
from tests.connectors.test_memory import Collected

TOTALS = """
CREATE TABLE totals (k STRING, n BIGINT NOT NULL, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'upsert' = 'true',
      'scan.bounded.mode' = 'latest-offset');
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    made = EmbeddedBroker(tmp_path / "data")
    yield made
    made.close()


def run(broker: EmbeddedBroker, text: str) -> Collected:
    output = Collected()
    Session(EmbeddedRunner(Environment(broker, lambda: 0, "w"), OperatorFactory()), output).run(
        text
    )
    return output


def test_the_last_row_of_each_key_is_in_the_topic(broker: EmbeddedBroker) -> None:
    written = run(
        broker,
        TOTALS
        + """
        CREATE VIEW t AS SELECT k, COUNT(*) AS n FROM (VALUES ('a', 1), ('b', 1), ('a', 2)) AS v(k, x) GROUP BY k;
        INSERT INTO totals SELECT * FROM t WHERE n < 2;
        """,
    )
    assert not written.errors
    records = broker.read("totals", 0, 0)
    assert records is not None
    assert records.keys is not None
    pairs = list(zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True))
    assert pairs == [
        (b'{"k":"a"}', b'{"k":"a","n":1}'),
        (b'{"k":"b"}', b'{"k":"b","n":1}'),
        (b'{"k":"a"}', None),
    ]
    assert broker.topic("totals").compacted
    read = run(broker, TOTALS + "SELECT * FROM totals; SELECT SUM(n) FROM totals;")
    assert not read.errors
    assert read.rows_seen == [
        ("+I", ["a", 1]),
        ("+I", ["b", 1]),
        ("-D", ["a", 1]),
        ("+I", [1]),
        ("-U", [1]),
        ("+U", [2]),
        ("-U", [2]),
        ("+U", [1]),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("PRIMARY KEY (k) NOT ENFORCED", "has no primary key"),
        ("'format' = 'json'", "needs the format 'json'"),
        ("'upsert' = 'true'", "takes new rows only"),
    ],
)
def test_what_upserts_need(broker: EmbeddedBroker, change: str, message: str) -> None:
    other = {"PRIMARY KEY (k) NOT ENFORCED": "x INT", "'format' = 'json'": "'format' = 'csv'"}.get(
        change, "'topic.auto-create' = 'true'"
    )
    text = TOTALS.replace(change, other)
    columns = "k, COUNT(*), 1" if "x INT" in other else "k, COUNT(*)"
    errors = run(
        broker,
        text + f"INSERT INTO totals SELECT {columns} FROM (VALUES ('a')) AS v(k) GROUP BY k;",
    ).errors
    assert message in errors[0]


def test_metadata_of_changes(broker: EmbeddedBroker) -> None:
    broker.create_topic("changes")
    source = b'"source":{"db":"ops","table":"hosts","ts_ms":1714557600000},"ts_ms":1714557600100'
    records = [
        b'{"before":null,"after":{"id":1},%s,"op":"c"}' % source,
        None,
        b'{"before":{"id":1},"after":{"id":2},"op":"u"}',
    ]
    broker.append("changes", 0, records, timestamp_ms=7)
    found = run(
        broker,
        """
        CREATE TABLE changes (
          id INT, place STRING METADATA FROM 'value.source.table' VIRTUAL, nth BIGINT METADATA FROM 'offset' VIRTUAL,
          seen TIMESTAMP_LTZ(3) METADATA FROM 'value.ingestion-timestamp' VIRTUAL,
          `all` MAP<STRING, STRING> METADATA FROM 'value.source.properties' VIRTUAL
        ) WITH ('connector' = 'topic', 'topic' = 'changes', 'format' = 'debezium-json',
                'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');
        SELECT * FROM changes;
        """,
    )
    assert not found.errors
    properties = [["db", "ops"], ["table", "hosts"], ["ts_ms", "1714557600000"]]
    kinds, rows = zip(*found.rows_seen, strict=True)
    assert kinds == ("+I", "-U", "+U")
    assert rows[0][:4] == [1, "hosts", 0, "2024-05-01T10:00:00.100Z"]
    assert sorted(rows[0][4]) == properties
    assert rows[1:] == ([1, None, 2, None, None], [2, None, 2, None, None])
