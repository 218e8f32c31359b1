"""Calls of a client of the server that keeps its connection, beside one that opens one for each."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.connections import LOCAL, PLAIN, TLS, Server, serving
from benchmarks.measure import tree_cpu_s
from benchmarks.page import Section, Table
from sqlengine.client import Client
from sqlengine.system.client_tls import ClientTls

ROUNDS: Final = 7
CALLS: Final = 100
_PATH: Final = "/api/v1/jobs"


@dataclass(frozen=True)
class _Cost:
    """What a call took: ms of the client's processor time, of the server's, and of the clock."""

    client: float
    server: float
    wall: float


def run() -> Section:
    """Measures both ways over each kind of connection, in turns."""
    with ExitStack() as stack:
        rows = []
        for kind in (PLAIN, TLS, LOCAL):
            server = stack.enter_context(serving(kind))
            client = stack.enter_context(_client(server))
            found = [(_measure(server, client, kept=False), _measure(server, client, kept=True))
                     for _ in range(ROUNDS)]  # fmt: skip
            name = {PLAIN: "plain"}.get(kind, kind)
            rows += [_row(f"{name}, a connection for each", [f[0] for f in found])]
            rows += [_row(f"{name}, kept", [f[1] for f in found])]
    columns = ("", "client, CPU ms a call", "server, CPU ms a call", "both", "ms a call")
    return Section(
        "kept_connections",
        "Connections that clients keep",
        f"`GET {_PATH}` by `sqlengine.client.Client` of a server without jobs, one call after the"
        " other: over the connection that the client keeps"
        " (`sqlengine/system/http_connections.py`), and over a new one for each call."
        f" {ROUNDS} rounds of {CALLS} calls, in turns, of which the median counts.",
        [Table("a call", columns, rows)],
        (
            "Over TLS a connection costs both ends a handshake, and the client a context with the authorities that it trusts.",
        ),
    )


def _measure(server: Server, client: Client, *, kept: bool) -> _Cost:
    client.get(_PATH)
    cpu, served, begun = time.process_time(), tree_cpu_s(server.process.pid), time.perf_counter()
    for _ in range(CALLS):
        if not kept:
            client.close()
        client.get(_PATH)
    wall = time.perf_counter() - begun
    served, cpu = tree_cpu_s(server.process.pid) - served, time.process_time() - cpu
    return _Cost(*(1000 * s / CALLS for s in (cpu, served, wall)))


def _row(name: str, found: list[_Cost]) -> tuple[str, ...]:
    client, server, both, wall = (
        statistics.median(figures)
        for figures in zip(
            *((c.client, c.server, c.client + c.server, c.wall) for c in found), strict=True
        )
    )
    return (name, f"{client:.2f}", f"{server:.2f}", f"{both:.2f}", f"{wall:.2f}")


@contextmanager
def _client(server: Server) -> Iterator[Client]:
    address, tls = f"http://127.0.0.1:{server.port}", ClientTls()
    if server.kind == TLS:
        address = f"https://localhost:{server.port}"
        tls = ClientTls(ca_file=str(server.folder / "cert.pem"))
    elif server.kind == LOCAL:
        address = f"unix:{server.folder / 'socket'}"
    client = Client(address, tls=tls)
    try:
        yield client
    finally:
        client.close()
