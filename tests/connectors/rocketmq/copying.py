"""An engine that copies a topic of RocketMQ to another."""

from __future__ import annotations

from pathlib import Path

from sqlengine.config import Config
from sqlengine.engine import Engine

TABLES = """
CREATE TABLE taken (id BIGINT, name STRING) WITH ('connector' = 'rocketmq', 'topic' = '{taken}',
  'nameServerAddress' = '{address}', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE given (id BIGINT, name STRING) WITH ('connector' = 'rocketmq', 'topic' = '{given}',
  'nameServerAddress' = '{address}', 'keyColumns' = 'id', 'format' = 'json');
"""
COPY = "INSERT INTO given SELECT id, name FROM taken"


def copying(folder: Path, address: str, taken: str, given: str) -> Engine:
    """Returns an engine that runs the job, which it may know already."""
    engine = Engine(Config(data=folder, checkpoint_ms=300))
    engine.submit("tables", TABLES.format(address=address, taken=taken, given=given))
    engine.submit("copy", COPY)
    engine.start()
    return engine
