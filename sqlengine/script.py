"""What a script runs on: a broker of its own and the embedded executor, or Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.connectors.base import Environment
from sqlengine.executors.build import OperatorFactory
from sqlengine.session import EmbeddedRunner, Runner


def wall_clock() -> int:
    """ms since 1970."""
    return time.time_ns() // 1_000_000


@contextmanager
def open_runner(data: Path, rows_per_read: int = 4096, where: str = "embedded") -> Iterator[Runner]:
    """Opens `data` (topics live there) for the length of a script."""
    if where == "spark":
        from sqlengine.executors.spark_runner import spark_runner

        with spark_runner(data, rows_per_read) as runner:
            yield runner
        return
    broker = EmbeddedBroker(data, fsync="none", clock=wall_clock)
    try:
        environment = Environment(broker, wall_clock, f"script-{time.time_ns()}")
        yield EmbeddedRunner(environment, OperatorFactory(), rows_per_read, lambda: _idle(broker))
    finally:
        broker.close()


def _idle(broker: EmbeddedBroker) -> None:
    broker.wait_for_data(0.005)
