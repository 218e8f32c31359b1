"""One message that carries many rows beside single ones: appended and read, in this process and by
a client over HTTP."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import tree_cpu_s
from benchmarks.page import Table
from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.remote.client import connect
from sqlengine.broker.storage.compression import COMPRESSIONS, Compression

SECONDS = 0.7
PACKED: list[tuple[int, Compression]] = [
    (1, "none"),
    *((n, c) for n in (10, 100, 1000) for c in COMPRESSIONS),
]
# A broker behind HTTP, in a process of its own; it ends with its standard input.
SERVER = """
import sys
from flask import Flask
from sqlengine.api.broker import broker_blueprint
from sqlengine.api.server import HttpServer
from sqlengine.broker.base import Broker
from sqlengine.broker.consumer import Consumer
from sqlengine.broker.embedded import EmbeddedBroker

broker = EmbeddedBroker(sys.argv[1])
app = Flask("broker")
app.register_blueprint(broker_blueprint(broker))
server = HttpServer(app, "127.0.0.1", 0)
server.start()
print(server.port, flush=True)
sys.stdin.read()
server.stop()
broker.close()
"""


def events_of(count: int) -> list[bytes | None]:
    """JSON of about 180 bytes each."""
    chance = random.Random(7)
    return [
        b'{"id":%d,"ts":"2026-01-01T%02d:%02d:%02d.%03dZ","user":"user-%d","action":"%s","host":"host-%d.example.org",'
        b'"bytes":%d,"status":%d,"path":"/api/v1/items/%d"}'
        % (
            number, chance.randrange(24), chance.randrange(60), chance.randrange(60), chance.randrange(1000),
            chance.randrange(5000), chance.choice([b"login", b"read", b"write", b"delete"]), chance.randrange(300),
            chance.randrange(10**6), chance.choice([200, 200, 200, 404, 500]), chance.randrange(10**5),
        )
        for number in range(count)
    ]  # fmt: skip


@dataclass(frozen=True)
class _Cost:
    """CPU µs a message to append and to read it, bytes that are kept of it, and how many a second
    are appended."""

    append_us: float
    read_us: float
    bytes: float
    rate: float


def in_process(folder: Path) -> Table:
    """Messages one by one and many in one, in this process."""
    with closing(EmbeddedBroker(folder / "batches")) as broker:
        costs = [_cost(broker, size, packed, time.process_time) for size, packed in PACKED]
    return _beside_single(
        "A message that carries many rows beside single ones, in this process", costs
    )


def over_http(folder: Path) -> Table:
    """The same by a client over HTTP, which packs them; CPU of both processes."""
    command = [sys.executable, "-c", SERVER, str(folder / "served")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        with closing(connect(f"http://127.0.0.1:{server.stdout.readline().strip()}")) as broker:
            cpu = lambda: tree_cpu_s(server.pid) + time.process_time()  # noqa: E731
            costs = [_cost(broker, size, packed, cpu) for size, packed in PACKED]
        server.communicate("")
    return _beside_single("The same over HTTP, CPU of client and server", costs)


def _beside_single(title: str, costs: list[_Cost]) -> Table:
    single = costs[0]
    columns = (
        "rows, packed",
        "append, CPU µs",
        "single ones",
        "read, CPU µs",
        "single ones",
        "bytes kept",
        "k/s, wall",
    )
    return Table(
        title,
        columns,
        [
            (
                *(
                    f"{size:,}, {packed}",
                    f"{cost.append_us:,.2f}",
                    f"{single.append_us / cost.append_us:,.1f}×",
                ),
                *(
                    f"{cost.read_us:,.2f}",
                    f"{single.read_us / cost.read_us:,.1f}×",
                    f"{cost.bytes:,.0f}",
                ),
                f"{cost.rate / 1000:,.1f}",
            )
            for (size, packed), cost in zip(PACKED, costs, strict=True)
        ],
    )


def _cost(broker: Broker, size: int, packed: Compression, clock: Callable[[], float]) -> _Cost:
    name, events = f"batches-{size}-{packed}", events_of(size)
    broker.create_topic(name, compression=packed)
    broker.append(name, 0, events, timestamp_ms=0)
    count, wall, cpu = 0, time.perf_counter(), clock()
    while time.perf_counter() < wall + SECONDS:
        broker.append(name, 0, events, timestamp_ms=0)
        count += size
    wall, cpu = time.perf_counter() - wall, clock() - cpu
    read, found, reading = clock(), 0, time.perf_counter()
    # Again from the beginning, so that there is something to measure.
    while time.perf_counter() < reading + SECONDS:
        found += _read_all(broker, name)
    read = clock() - read
    held = _read_all(broker, name)
    assert held == count + size, f"{held} messages were read of {count + size}"
    return _Cost(
        1e6 * cpu / count, 1e6 * read / found, broker.topic(name).bytes / held, count / wall
    )


def _read_all(broker: Broker, topic: str) -> int:
    offset = 0
    while (records := broker.read(topic, 0, offset)) is not None:
        offset = records.next_offset
    return offset
