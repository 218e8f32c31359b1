"""Tasks of Spark read by themselves what the server has received: the rows are those that it reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from parser.types import STRING, Schema
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.connectors.registry import connector_of, open_source
from tests.connectors.tables import Clock, environment, table

BODY = Schema.of(body=STRING)
TABLES = {
    "http-push": {"connector": "http-push", "format": "json"},
    "otlp": {"connector": "otlp"},
    "syslog": {"connector": "syslog", "format": "raw", "listen": "udp://:5514"},
    "http": {
        "connector": "http",
        "format": "json",
        "url": "http://h/",
        "scan.poll-interval": "1 s",
    },
}


@pytest.mark.parametrize("name", TABLES)
def test_linked_rows_are_the_rows(tmp_path: Path, name: str) -> None:
    received = table({**TABLES[name], "scan.startup.mode": "earliest-offset"}, BODY)
    broker = EmbeddedBroker(tmp_path / "data", clock=Clock(1000))
    try:
        here = replace(environment(), broker=broker)
        plain, linking = open_source(received, here), open_source(received, here)
        (topic,) = [one.name for one in broker.topics() if one.name.startswith("_received_")]
        for batch in range(8):
            values = [b'{"body": "%d"}' % (1000 * batch + i) for i in range(1000)]
            broker.append(topic, 0, values, keys=[b""] * 1000, timestamp_ms=1)
        (tmp_path / "links").mkdir()
        linking.link(tmp_path / "links", 2000)
        (shard,) = plain.shards()
        rows = plain.read(shard, 0, max_rows=8000)
        links = linking.read(shard, 0, max_rows=8000)
        assert rows is not None
        assert links is not None
        assert len(links.places) > 1
        found = [connector_of(received).linked(received, at) for _, at in links.places]
        told = [c.records or (c.columns or {})["body"] for c in (rows, *found)]
        assert [v for part in told[1:] for v in part.to_pylist()] == told[0].to_pylist()
        assert found[-1].end == rows.end
    finally:
        broker.close()
