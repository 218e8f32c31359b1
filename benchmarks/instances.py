"""Jobs in parts, run by processes of their own, beside the same job in one graph of the server:
what a keyed shuffle adds in time and CPU, and what a second process adds where no row has to
move."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks.measure import percentile, tree_cpu_s
from benchmarks.page import Section, Table
from sqlengine.broker.remote.client import RemoteBroker, connect
from sqlengine.client import Client

T = TypeVar("T")
SHARDS = 8
# Of the shuffle: rows a second, in appends of so many, over so many keys.
RATE, APPEND, KEYS, SECONDS = 7_000, 70, 1_000, 20.0
# Of the throughput: rows that stand in the topic before the jobs come.
ROWS, RULES = 1_000_000, 100
TABLES = """
CREATE TABLE events (k BIGINT, sent BIGINT, word STRING)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE totals (k BIGINT, n BIGINT, sent BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE found (rule INT, k BIGINT) WITH ('connector' = 'topic', 'topic' = 'found', 'format' = 'json')
"""
# Gives a row for every append: the last one comes at the end.
LAST = "INSERT INTO found SELECT -1, k FROM events WHERE k = 9999"
TOTALS = "INSERT INTO totals SELECT k, COUNT(*), MAX(sent) FROM events GROUP BY k"


@dataclass
class Server:
    """`sql serve` as a process."""

    process: subprocess.Popen[bytes]
    client: Client
    broker: RemoteBroker

    def cpu_s(self) -> tuple[float, float]:
        """CPU seconds of the server alone, and of its instances."""
        pids = [int(str(i["pid"])) for i in self.instances()]
        instances = sum(map(tree_cpu_s, pids))
        return tree_cpu_s(self.process.pid) - instances, instances

    def instances(self) -> list[dict[str, object]]:
        found = self.client.get("/api/v1/instances")["instances"]
        assert isinstance(found, list)
        return found

    def submit(self, name: str, sql: str) -> None:
        self.client.put(f"/api/v1/jobs/{name}", sql.encode())


@dataclass
class Flow:
    """What one run of the shuffle saw: seconds from a row's append to its total, CPU seconds a
    second."""

    latencies: list[float] = field(default_factory=list)
    server: float = 0.0
    instances: float = 0.0


def run() -> Section:
    flows = {count: _flow(count) for count in (0, 1, 2)}
    rates = {count: _throughput(count) for count in (0, 1, 2)}
    alone = flows[0]
    shuffled = [
        [
            _name(n),
            *(f"{1000 * percentile(f.latencies, p):.0f}" for p in (0.5, 0.99)),
            f"{f.server:.2f}",
            f"{f.instances:.2f}",
        ]
        for n, f in flows.items()
    ]
    moved = [
        [_name(n), f"{ROWS / wall:,.0f}", f"{1e6 * cpu / ROWS:.2f}"]
        for n, (wall, cpu) in rates.items()
    ]
    added = [
        1000 * (percentile(flows[2].latencies, p) - percentile(alone.latencies, p))
        for p in (0.5, 0.99)
    ]
    cost = flows[2].server + flows[2].instances - alone.server - alone.instances
    return Section(
        "instances",
        "Instances",
        f"`sql serve`, with 2 parts where there are instances. Shuffle: COUNT and MAX by {KEYS:,}"
        f" keys of {RATE:,} rows a second for {SECONDS:.0f} s, appended over HTTP, {APPEND} at"
        f" once, to {SHARDS} shards in turn; a latency is from the append to the row's total as a"
        f" reader over HTTP sees it. Throughput: {RULES} rules over {ROWS:,} rows that are there;"
        " no row goes from part to part.",
        [
            Table(
                "Keyed shuffle",
                ["", "p50 ms", "p99 ms", "server: cores", "instances: cores"],
                shuffled,
            ),
            Table("Without moving rows", ["", "rows a second", "CPU µs a row"], moved),
        ],
        [
            (
                f"Added by two instances: {added[0]:.0f} ms (p50), {added[1]:.0f} ms (p99),"
                f" {cost:.2f} cores."
            ),
            (
                "Without moving rows: the time in which the rules are compiled counts, too, once in"
                " the server and once in each part."
            ),
            (
                "Cores of the server include what the benchmark's own appends and reads over HTTP"
                " cost it, which is the same in all runs."
            ),
            (
                f"Load of the machine meanwhile: {os.getloadavg()[0]:.0f}. Where it is above 1,"
                " rates of wall time are lower bounds, times upper ones."
            ),
        ],
    )


def _name(count: int) -> str:
    return f"{count} instance{'s' if count > 1 else ''}" if count else "in the server"


@contextmanager
def serving(count: int, *options: str, tables: str = TABLES) -> Iterator[Server]:
    """A server with so many instances and other options."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="benchmark-") as folder:
        log = Path(folder) / "log"
        command = [
            sys.executable,
            "-m",
            "sqlengine.cli",
            "serve",
            "--data",
            f"{folder}/data",
            "--port",
            "0",
        ]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, "--instances", str(count), *options], stdout=out, stderr=out
            )
        try:
            url = wait_for(lambda: _url(log.read_text()))
            server = Server(process, Client(url, origin="rest"), connect(url))
            server.broker.create_topic("events", SHARDS)
            server.submit("tables", tables)
            wait_for(lambda: all(i["parts"] for i in server.instances()))
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _url(log: str) -> str:
    return log.partition("ready on ")[2].partition(",")[0]


def wait_for(condition: Callable[[], T]) -> T:
    while not (found := condition()):
        time.sleep(0.02)
    return found


def _flow(count: int) -> Flow:
    """Rows at a constant rate through the aggregate."""
    with serving(count) as server:
        server.submit("totals", TOTALS)
        send(server.broker, 3.0)
        time.sleep(1)
        flow, stopping = Flow(), threading.Event()
        reader = threading.Thread(target=read, args=(server, flow, stopping))
        before, began = server.cpu_s(), time.monotonic()
        reader.start()
        send(server.broker, SECONDS)
        after, took = server.cpu_s(), time.monotonic() - began
        stopping.set()
        reader.join()
        flow.server, flow.instances = ((b - a) / took for a, b in zip(before, after, strict=True))
    return flow


def send(broker: RemoteBroker, seconds: float, rate: int = RATE) -> None:
    """Appends rows of so many a second for so long."""
    chance = random.Random(1)
    began = time.monotonic()
    for number in range(int(seconds * rate / APPEND)):
        time.sleep(max(0.0, began + number * APPEND / rate - time.monotonic()))
        now = time.time_ns() // 1_000
        rows = [
            b'{"k": %d, "sent": %d, "word": "abc"}' % (chance.randrange(KEYS), now)
            for _ in range(APPEND)
        ]
        broker.append("events", number % SHARDS, rows, timestamp_ms=now // 1000)


def read(server: Server, flow: Flow, stopping: threading.Event) -> None:
    """Notes how old each total is when it can be read."""
    broker = connect(server.client.server)
    offset = broker.end_offset("totals", 0)
    while not stopping.is_set():
        records = broker.read("totals", 0, offset)
        if records is None:
            broker.wait_for_data(0.1)
            continue
        now, offset = time.time_ns() // 1_000, records.next_offset
        flow.latencies += ((now - json.loads(v)["sent"]) / 1e6 for v in records.values.to_pylist())
    broker.close()


def _throughput(count: int) -> tuple[float, float]:
    """Wall and CPU seconds for all rows."""
    with serving(count) as server:
        chance = random.Random(2)
        for number in range(ROWS // 10_000):
            words = chance.choices(range(RULES * 20), k=10_000)
            rows = [
                b'{"k": %d, "sent": %d, "word": "w%d"}' % (n, n, word)
                for n, word in enumerate(words)
            ]
            server.broker.append("events", number % SHARDS, rows, timestamp_ms=1)
        before, began = sum(server.cpu_s()), time.monotonic()
        rules = {
            f"rule{n}": f"INSERT INTO found SELECT {n}, k FROM events WHERE word = 'w{n}'"
            for n in range(RULES)
        }
        server.client.post("/api/v1/jobs", {"jobs": {**rules, "last": LAST}})
        wait_for(lambda: _done(server))
        return time.monotonic() - began, sum(server.cpu_s()) - before


def _done(server: Server) -> bool:
    body = server.client.get("/api/v1/jobs/last")
    time.sleep(0.1)
    return body["rows"] == ROWS // 10_000
