"""What a move of a job out of parts, and into them, costs the jobs that do not move: how long all
parts stand still for it, and how old totals of another job are meanwhile."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.instances import (
    KEYS,
    RATE,
    SHARDS,
    TOTALS,
    Flow,
    Server,
    read,
    send,
    serving,
    wait_for,
)
from benchmarks.measure import percentile
from benchmarks.page import Section, Table

# Keys that the job keeps which moves, and how often it goes out and comes back.
STATES, TIMES = (0, 10_000, 300_000), 5
# So long at the least rows come before the first move, and between moves.
SETTLED_S, BETWEEN_S = 3.0, 1.0
TABLES = """
CREATE TABLE more (k BIGINT) WITH ('connector' = 'topic', 'topic' = 'more', 'format' = 'json');
CREATE TABLE kept (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'kept', 'format' = 'json', 'upsert' = 'true')
"""
JOB = "INSERT INTO kept SELECT k, COUNT(*) FROM more GROUP BY k"
RULE = "INSERT INTO found SELECT 0, k FROM more WHERE k < 0"


def run() -> Section:
    rows = [_still(), *(_moved(keys) for keys in STATES)]
    return Section(
        "moves",
        "Jobs that go out of parts and into them",
        "`sql serve --instances 2`, 2 parts. A job without state, or with so many keys, goes into"
        f" a graph of its own (`sql isolate`) and back (`sql merge`), {TIMES} times. All parts"
        f" stand still meanwhile (`sqlengine_standstill_seconds`). Another job counts {RATE:,} rows"
        f" a second by {KEYS:,} keys, over {SHARDS} shards, and does not move: a latency is from"
        " the append of a row to its total.",
        [
            Table(
                "Pauses, and what others see of them",
                ["", "pause out ms", "pause in ms", "others: p50 ms", "p99 ms", "most ms"],
                rows,
            )
        ],
        [
            (
                "The job that moves reads a topic of its own: where it shares one with others, both"
                " are read to the same place first."
            ),
            (
                f"Load of the machine meanwhile: {os.getloadavg()[0]:.0f}. Where it is above 1,"
                " times are upper bounds."
            ),
        ],
    )


def _still() -> list[str]:
    """Nothing moves."""
    with _working(0) as (_, flow):
        time.sleep(2 * TIMES * BETWEEN_S)
    return ["nothing moves", "", "", *_latencies(flow)]


def _moved(keys: int) -> list[str]:
    out, back = 0.0, 0.0
    with _working(keys) as (server, flow):
        for _ in range(TIMES):
            out += _pause(server, "isolate", "moved@")
            back += _pause(server, "merge", "shared")
    pauses = [f"{1000 * seconds / TIMES:.0f}" for seconds in (out, back)]
    return [f"{keys:,} keys" if keys else "no state", *pauses, *_latencies(flow)]


def _latencies(flow: Flow) -> list[str]:
    return [f"{1000 * percentile(flow.latencies, p):.0f}" for p in (0.5, 0.99, 1.0)]


def _pause(server: Server, what: str, graph: str) -> float:
    """Seconds in which parts stood still for one move."""
    before = _stood(server)
    server.client.post(f"/api/v1/jobs/moved/{what}")
    wait_for(lambda: str(server.client.get("/api/v1/jobs/moved")["graph"]).startswith(graph))
    time.sleep(BETWEEN_S)
    return _stood(server) - before


def _stood(server: Server) -> float:
    name = "sqlengine_standstill_seconds_sum"
    return sum(
        float(li.rsplit(" ", 1)[1])
        for li in server.client.get_text("/metrics").splitlines()
        if li.startswith(name)
    )


@contextmanager
def _working(keys: int) -> Iterator[tuple[Server, Flow]]:
    """A server whose parts count rows that come all the while, and keep so many keys of another
    job."""
    with serving(2) as server:
        for topic in ("more", "kept"):
            server.broker.create_topic(
                topic, SHARDS if topic == "more" else 1, compacted=topic == "kept"
            )
        server.submit("tables.moved", TABLES)
        server.submit("totals", TOTALS)
        server.submit("moved", JOB if keys else RULE)
        for first in range(0, keys, 10_000):
            rows = [b'{"k": %d}' % k for k in range(first, first + 10_000)]
            server.broker.append("more", first // 10_000 % SHARDS, rows, timestamp_ms=1)
        wait_for(lambda: server.client.get("/api/v1/jobs/moved")["rows"] == keys)
        flow, stopping = Flow(), threading.Event()
        sender = threading.Thread(target=_send, args=(server, stopping))
        reader = threading.Thread(target=read, args=(server, flow, stopping))
        sender.start()
        time.sleep(SETTLED_S)
        reader.start()
        yield server, flow
        stopping.set()
        sender.join()
        reader.join()


def _send(server: Server, stopping: threading.Event) -> None:
    while not stopping.is_set():
        send(server.broker, 1.0)
