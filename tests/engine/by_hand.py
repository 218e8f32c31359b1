"""An engine whose graphs are stepped by hand: nothing happens but what a test says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.functions.pool import POOL
from sqlengine.graphs.running import RunningGraph
from sqlengine.machine import THIS, Machine

EVENTS = """
CREATE TABLE events (id BIGINT, ms BIGINT, host STRING, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE outs (job STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');
"""
# Seconds between two looks for an answer of a table; one that never comes ends as a failure.
_ANSWER_S = 10.0
WINDOW = """
INSERT INTO outs SELECT '{name}', COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
GROUP BY window_start, window_end
"""


def open_engine(folder: Path, shards: int = 1, settings: dict[str, str] | None = None) -> Engine:
    """An engine with the topics `events` and `out`. It writes a checkpoint when it is closed or
    told to, and else none."""
    config = Config(data=folder / "data", checkpoint_ms=1 << 60, savepoints=(folder / "kept",))
    engine = Engine(config if settings is None else replace(config, settings=settings))
    engine.broker.create_topic("events", shards, if_not_exists=True)
    engine.broker.create_topic("out", if_not_exists=True)
    return engine


def append(engine: Engine, *times: int, shard: int = 0) -> None:
    """One event for each time, in ms, which is its id too."""
    lines = [json.dumps({"id": t, "ms": t, "host": f"h{t % 3}"}).encode() for t in times]
    engine.broker.append("events", shard, lines, timestamp_ms=0)


def step(engine: Engine) -> None:
    """Until no graph has anything to do, nor waits for an answer of a table or its version."""
    for graph in list(engine.graphs.by_name.values()):
        inputs = graph.runner.inputs
        # On a busy machine a file is late at times, and nothing else is read before it.
        while (
            graph.runner.step()
            or inputs.wait_for_late(_ANSWER_S)
            or inputs.wait_for_versions(_ANSWER_S)
        ):
            pass


def rows(engine: Engine, topic: str = "out") -> list[list[object]]:
    """The rows of a topic, in order."""
    records = engine.broker.read(topic, 0, 0)
    return (
        [list(json.loads(v).values()) for v in records.values.to_pylist()]
        if records is not None
        else []
    )


def of_job(engine: Engine, job: str) -> list[object]:
    """What one job wrote."""
    return [n for name, n in rows(engine) if name == job]


def die(engine: Engine) -> None:
    """As if the process had died: no last epoch, no checkpoint, no more threads.

    What a thread has in its hands is done before: nothing can end a thread in the middle. An engine
    dies once."""
    if engine._failures.closed.is_set():
        return
    engine._failures.closed.set()
    for watch in engine._watches():
        watch.stop()
    engine._thread.executor.shutdown(wait=True, cancel_futures=True)
    for managed in list(engine.graphs.by_name.values()):
        graph = managed._replica if isinstance(managed, DistributedGraph) else managed
        assert isinstance(graph, RunningGraph)
        graph.loop.stop()
        graph._rebuilder.close()
        graph._writer.shutdown(wait=True)  # a store cannot be closed while it is written
        graph.store.close()
        graph.runner.outputs.close()
    engine._steps.close_watch()
    POOL.leave(engine)
    engine.broker.close()


@contextmanager
def next_life(engine: Engine, machine: Machine = THIS) -> Iterator[Engine]:
    """Opens another engine over the folder of one that has died; it dies at the end."""
    risen = Engine(engine.config, machine)
    try:
        yield risen
    finally:
        die(risen)


def lines(*values: Sequence[object]) -> list[bytes]:
    return [json.dumps(v).encode() for v in values]
