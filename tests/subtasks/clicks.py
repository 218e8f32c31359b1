"""Clicks of seven keys in a topic of four shards, and jobs that add them up by key."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlengine.broker.embedded import EmbeddedBroker

CLICKS = """
    CREATE TEMPORARY TABLE clicks (k STRING, v INT) WITH ('connector' = 'topic', 'topic' = 'clicks', 'format' = 'json',
      'scan.startup.mode' = 'earliest-offset');
    CREATE TEMPORARY TABLE {out} (k STRING, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'topic',
      'topic' = '{out}', 'format' = 'json', 'upsert' = 'true');
"""
SUMS = CLICKS + "INSERT INTO {out} SELECT k, COUNT(*), SUM(v) FROM clicks {where} GROUP BY k;"


def click(broker: EmbeddedBroker, first: int, count: int) -> None:
    """Row i has key i modulo 7 and value i."""
    for i in range(first, first + count):
        record = json.dumps({"k": f"k{i % 7}", "v": i}).encode()
        broker.append("clicks", i % 4, [record], timestamp_ms=0)


def sums(rows: range) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for i in rows:
        n, s = found.get(f"k{i % 7}", (0, 0))
        found[f"k{i % 7}"] = (n + 1, s + i)
    return found


def left(broker: EmbeddedBroker, topic: str) -> Mapping[str, tuple[int, int]]:
    rows = map(json.loads, broker.read_latest(topic).values())
    return {r["k"]: (r["n"], r["s"]) for r in rows}
