"""One life of an engine that copies a topic of RocketMQ to another, made to be killed.

python -m tests.connectors.rocketmq.life FOLDER ADDRESS FROM TO"""

from __future__ import annotations

import sys
import time
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


def main() -> None:
    """Lives until it is killed."""
    copying(Path(sys.argv[1]), *sys.argv[2:])
    print("lives", flush=True)
    time.sleep(3600)


if __name__ == "__main__":
    main()
