"""Instances in tasks of Spark beside instances in processes, and jobs in the server: how old a total
is when it can be read, and how long a new rule takes until it has its first row."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import Final

from benchmarks.instances import KEYS, SHARDS, TABLES, TOTALS, Flow, Server, read, send, serving
from benchmarks.measure import percentile
from benchmarks.page import Section, Table
from sqlengine.broker.remote.client import connect

RATE, SECONDS, CHANGES, INSTANCES = 2_000, 20.0, 20, 2
_ON_SPARK: Final = ("--instances-on", "spark", "--checkpoints", "topic")
_PLACES: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "in the server": (0, ()),
    "2 processes": (INSTANCES, ("--checkpoints", "topic")),
    "2 tasks of Spark": (INSTANCES, _ON_SPARK),
}
_RULE: Final = "INSERT INTO found SELECT {}, k FROM events WHERE k < 100"


@dataclass
class Seen:
    """What one place gave. `changes`: seconds from a request to the first row of its rule."""

    flow: Flow
    changes: list[float]


def run() -> Section:
    seen = {name: _measure(count, options) for name, (count, options) in _PLACES.items()}
    rows = [
        [
            name,
            *(f"{1000 * percentile(s.flow.latencies, p):.0f}" for p in (0.5, 0.99)),
            *(f"{1000 * percentile(s.changes, p):.0f}" for p in (0.5, 0.9)),
            f"{s.flow.server:.2f}",
            f"{s.flow.instances:.2f}",
        ]
        for name, s in seen.items()
    ]
    headers = [
        "",
        "p50 ms",
        "p99 ms",
        "change p50 ms",
        "change p90 ms",
        "server: cores",
        "instances",
    ]
    return Section(
        "placed",
        "Instances on Spark",
        f"COUNT and MAX by {KEYS:,} keys of {RATE:,} rows a second for {SECONDS:.0f} s over {SHARDS}"
        " shards, as for instances; then, while rows flow, a rule comes and goes"
        f" {CHANGES} times: from the request until its first row can be read.",
        [Table("Latency", headers, rows)],
        [
            "Of the server's cores on Spark some are those of its Java process.",
            (
                f"Load of the machine meanwhile: {os.getloadavg()[0]:.0f}. Where it is above 1,"
                " times are upper bounds."
            ),
        ],
    )


def _measure(count: int, options: tuple[str, ...]) -> Seen:
    tables = TABLES.replace("earliest-offset", "latest-offset")
    with serving(count, *options, tables=tables) as server:
        server.broker.create_topic("found")
        server.submit("totals", TOTALS)
        send(server.broker, 5.0, RATE)
        time.sleep(1)
        flow = _flow(server)
        stopping = threading.Event()
        sender = threading.Thread(target=_send_on, args=(server, stopping))
        sender.start()
        changes = [_change(server, number) for number in range(CHANGES)]
        stopping.set()
        sender.join()
        return Seen(flow, changes)


def _flow(server: Server) -> Flow:
    flow, stopping = Flow(), threading.Event()
    reader = threading.Thread(target=read, args=(server, flow, stopping))
    before, began = server.cpu_s(), time.monotonic()
    reader.start()
    send(server.broker, SECONDS, RATE)
    after, took = server.cpu_s(), time.monotonic() - began
    stopping.set()
    reader.join()
    flow.server, flow.instances = ((b - a) / took for a, b in zip(before, after, strict=True))
    return flow


def _send_on(server: Server, stopping: threading.Event) -> None:
    broker = connect(server.client.server)
    while not stopping.is_set():
        send(broker, 0.5, RATE)
    broker.close()


def _change(server: Server, number: int) -> float:
    """Seconds until a rule that is submitted now has its first row."""
    offset = server.broker.end_offset("found", 0)
    began = time.monotonic()
    server.submit("rule", _RULE.format(number))
    while server.broker.read("found", 0, offset, max_records=1) is None:
        time.sleep(0.002)
    took = time.monotonic() - began
    server.client.delete("/api/v1/jobs/rule")
    time.sleep(0.5)
    return took
