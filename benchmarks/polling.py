"""200 clients that ask a server for results again and again, each over a connection of its own, while
1,000 rules run over a steady stream: how long a call takes, and what it does to the stream.

The clients are a process of their own: python -m benchmarks.polling PORT EVERY_S SECONDS. The same
clients ask a bare server beside it, which answers at once (python -m benchmarks.polling): what they
see of that is the machine's."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.measure import in_a_process, percentile
from benchmarks.paced import Feeder, Load, Pace, serving
from benchmarks.page import Section, Table
from sqlengine.api.access import admission
from sqlengine.api.app import create_app
from sqlengine.api.server import HttpServer
from sqlengine.engine import Engine

CLIENTS: Final = 200
RULES: Final = 1_000
PACE: Final = Pace(2_000, 40, 15)
EVERY_S: Final = (1.0, 0.5)
_TABLES: Final = """
CREATE TABLE log (id BIGINT, host STRING, usr STRING, amount INT)
WITH ('connector' = 'topic', 'topic' = 'log', 'format' = 'json');
CREATE TABLE hits (rule STRING, id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'hits', 'format' = 'json');
"""


@dataclass(frozen=True)
class Calls:
    """What clients saw: milliseconds of each call, and the CPU seconds that they took."""

    ms: Sequence[float]
    cpu_s: float


def run() -> Section:
    """Measures the stream without clients, and with them at some rates."""
    jobs = {"tables": _TABLES, **{f"rule-{n}": _rule(n) for n in range(RULES)}}
    with serving(jobs, ["log", "hits"]) as engine:
        feeder = Feeder(engine, "log", _records)
        feeder.load(Pace(PACE.rate, PACE.append, 5))  # warms up
        alone = feeder.load(PACE)
        rows = [["none", "", "", "", *_stream(alone), ""]]
        with _bare() as port:
            calls, load = _polled(engine, feeder, port, EVERY_S[0])
            rows.append(_row("a bare server", EVERY_S[0], calls, load, alone))
        server = HttpServer(create_app(engine), "127.0.0.1", 0, admit=admission(engine.config))
        server.start()
        try:
            for every_s in EVERY_S:
                calls, load = _polled(engine, feeder, server.port, every_s)
                rows.append(_row("the server", every_s, calls, load, alone))
        finally:
            server.stop()
    columns = ["", "calls/s", "p50 ms", "p99 ms", "stream p50", "stream p99", "cores"]
    return Section(
        "polling",
        "Clients that poll results",
        f"{CLIENTS} clients, each with a connection of its own, ask for what {RULES:,} rules have written since they asked"
        f" last (`GET /api/v1/topics/hits/records?offset=N`), while {PACE.rate:,} rows a second come in, {PACE.append} an"
        " append. A call is measured by its client, in another process; the stream's latency is that from an append to the"
        " end of its epoch. CPU is the server's, with the engine. A bare server is a process that answers at once, which the"
        " same clients ask beside the stream: what they wait for it is the machine's.",
        [Table("Calls and the stream", [*columns, "CPU µs a call"], rows)],
        [f"Load of the machine meanwhile: {os.getloadavg()[0]:.0f}."],
    )


def _rule(n: int) -> str:
    return (
        f"INSERT INTO hits SELECT 'rule-{n}', id FROM log"
        f" WHERE host = 'host-{n}' AND amount > {n % 50} AND usr LIKE 'u%{n % 10}'"
    )


def _records(begin: int, end: int) -> list[bytes]:
    return [
        b'{"id": %d, "host": "host-%d", "usr": "u-%d", "amount": %d}'
        % (n, n * 7919 % RULES, n % 100, n % 60)
        for n in range(begin, end)
    ]


def _polled(engine: Engine, feeder: Feeder, port: int, every_s: float) -> tuple[Calls, Load]:
    found: list[Calls] = []

    def ask() -> None:
        seconds = PACE.seconds
        found.append(Calls(**in_a_process("benchmarks.polling", port, every_s, seconds)))

    load = feeder.load(PACE, ask)
    return found[0], load


def _stream(load: Load) -> list[str]:
    return [f"{load.p50:.1f} ms", f"{load.p99:.1f} ms", f"{load.cores:.2f}"]


def _row(of: str, every_s: float, calls: Calls, load: Load, alone: Load) -> list[str]:
    rate = len(calls.ms) / PACE.seconds
    p50, p99 = (f"{percentile(calls.ms, share):.1f}" for share in (0.5, 0.99))
    each = (load.cores - alone.cores) / rate * 1e6
    return [f"{of}, every {every_s:g} s", f"{rate:,.0f}", p50, p99, *_stream(load), f"{each:,.0f}"]


@contextmanager
def _bare() -> Iterator[int]:
    command = [sys.executable, "-m", "benchmarks.polling"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


# ---- the process of the clients ------------------------------------------------------------------


async def _poll(port: int, every_s: float, ends: float, found: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    offset = "latest"
    await asyncio.sleep(random.random() * every_s)
    while time.perf_counter() < ends:
        asked = time.perf_counter()
        path = f"/api/v1/topics/hits/records?offset={offset}&limit=100"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        body = await _body(reader)
        found.append((time.perf_counter() - asked) * 1000)
        offset = str(json.loads(body)["next_offset"])
        await asyncio.sleep(max(0.0, asked + every_s - time.perf_counter()))
    writer.close()


async def _body(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return await reader.readexactly(int(length))


async def _clients(port: int, every_s: float, seconds: float) -> list[float]:
    found: list[float] = []
    ends = time.perf_counter() + seconds
    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(_poll(port, every_s, ends, found))
    return found


async def _answer_at_once() -> None:
    body = b'{"records": [], "next_offset": 0}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 16):
            writer.write(answer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        asyncio.run(_answer_at_once())
    to_port, each_s, for_s = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    taken = asyncio.run(_clients(to_port, each_s, for_s))
    print(json.dumps({"ms": taken, "cpu_s": time.process_time()}))
