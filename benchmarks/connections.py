"""Requests over connections that are kept: a plain waitress, the server with its deadlines, limits
and decisions on heads, and the same with TLS and on the local socket."""

from __future__ import annotations

import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.measure import tree_cpu_s
from benchmarks.page import Section, Table

ROUNDS: Final = 9
SECONDS: Final = 0.7
CONNECTIONS: Final = 8
_BODY: Final = b'{"id": 7, "word": "' + b"x" * 960 + b'"}\n'
_POST: Final = (
    b"POST /api/v1/topics/t/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
)
REQUESTS: Final = {
    "small (`/healthz`)": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a record of 1 KB is written": _POST % len(_BODY) + _BODY,
    "200 KB are read": b"GET /api/v1/topics/r/records?limit=200 HTTP/1.1\r\nHost: localhost\r\n\r\n",
}
WAITRESS, PLAIN, TLS, LOCAL = "waitress alone", "the server", "with TLS", "on the local socket"
# A server in a process of its own; it ends with its standard input.
SERVER: Final = """
import sys, threading
from pathlib import Path
import waitress
from sqlengine.api.access import admission
from sqlengine.api.app import create_app
from sqlengine.api.server import HttpServer
from sqlengine.api.serving.certificates import TlsFiles
from sqlengine.api.serving.local_socket import LocalSocket
from sqlengine.config import Config
from sqlengine.engine import Engine

kind, folder = sys.argv[1], Path(sys.argv[2])
config = Config(data=folder / "data")
engine = Engine(config)
engine.start()
for topic in "tr":
    engine.broker.create_topic(topic)
engine.broker.append("r", 0, [b"x" * 1000] * 200, timestamp_ms=0)
app = create_app(engine)
if kind == "waitress alone":
    server = waitress.create_server(app, host="127.0.0.1", port=0, threads=16)
    threading.Thread(target=server.run, daemon=True).start()
    print(server.effective_port, flush=True)
else:
    tls = TlsFiles(folder / "cert.pem", folder / "key.pem") if kind == "with TLS" else None
    local = LocalSocket(folder / "socket") if kind == "on the local socket" else None
    admit = admission(config)
    server = HttpServer(app, "127.0.0.1", 0, admit=admit, tls=tls, local=local)
    server.start()
    print(server.port, flush=True)
sys.stdin.read()
import os
os._exit(0)
"""


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    kind: str
    process: subprocess.Popen[str]
    port: int
    folder: Path


def run() -> Section:
    """Measures each way with each kind of request, in turns."""
    with ExitStack() as stack:
        servers = {
            kind: stack.enter_context(serving(kind)) for kind in (WAITRESS, PLAIN, TLS, LOCAL)
        }
        tables = [_table(name, request, servers) for name, request in REQUESTS.items()]
    return Section(
        "connections",
        "Connections",
        f"Requests over {CONNECTIONS} connections that are kept, to the API of a server without jobs: one after the other on"
        " each connection. A plain waitress with the same application and 16 threads is the peer. CPU is the"
        f" server's alone; {ROUNDS} rounds, in turns, of which the median counts.",
        tables,
        (
            "The server decides on heads, has deadlines, limits and lanes; a plain waitress has none of it.",
            "The head of an answer and its first part are one packet, which pays for deadlines, limits and TLS where answers are small; what TLS costs grows with the bytes.",
            "TLS 1.3 with a certificate of P-256. A handshake is paid once for each connection.",
        ),
    )


def _table(name: str, request: bytes, servers: dict[str, Server]) -> Table:
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in servers}
    for _ in range(ROUNDS):
        for kind, server in servers.items():
            found[kind].append(_measure(server, request))
    cpu = {k: statistics.median(c for c, _ in f) for k, f in found.items()}
    rate = {k: statistics.median(r for _, r in f) for k, f in found.items()}
    peer = [c for c, _ in found[WAITRESS]]
    ratio = {
        k: statistics.median(c / p for (c, _), p in zip(f, peer, strict=True))
        for k, f in found.items()
    }
    rows = [
        (kind, f"{rate[kind]:,.0f}", f"{cpu[kind]:,.0f}", f"{ratio[kind]:.2f}×") for kind in servers
    ]
    return Table(name, ("", "requests/s", "CPU µs a request", f"of {WAITRESS}"), rows)


def _measure(server: Server, request: bytes) -> tuple[float, float]:
    """CPU µs of the server a request, and requests a second."""
    with ExitStack() as stack:
        connections = [stack.enter_context(_connected(server)) for _ in range(CONNECTIONS)]
        _ask(connections, request)
        count, cpu, begun = 0, tree_cpu_s(server.process.pid), time.perf_counter()
        while time.perf_counter() < begun + SECONDS:
            _ask(connections, request)
            count += len(connections)
        wall = time.perf_counter() - begun
        return 1e6 * (tree_cpu_s(server.process.pid) - cpu) / count, count / wall


def _ask(connections: Sequence[socket.socket], request: bytes) -> None:
    for connection in connections:
        connection.sendall(request)
    for connection in connections:
        _read_answer(connection)


def _read_answer(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _received(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), data[:500]
    left = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]) - len(body)
    while left:
        left -= len(_received(connection))


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 18)
    assert data, "the server has closed the connection"
    return data


@contextmanager
def serving(kind: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        if kind == TLS:
            _make_certificate(folder)
        command = [sys.executable, "-c", SERVER, kind, name]
        process = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Server(kind, process, port, folder)
        process.communicate("")


def _connected(server: Server) -> socket.socket:
    if server.kind == LOCAL:
        local = socket.socket(socket.AF_UNIX)
        local.connect(str(server.folder / "socket"))
        return local
    plain = socket.create_connection(("127.0.0.1", server.port))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if server.kind != TLS:
        return plain
    context = ssl.create_default_context(cafile=str(server.folder / "cert.pem"))
    return context.wrap_socket(plain, server_hostname="localhost")


def _make_certificate(folder: Path) -> None:
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
            "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem",
            "-out", folder / "cert.pem",
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
