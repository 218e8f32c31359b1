"""HTTP and syslog, in and out: rows per CPU second of this process, beside bare clients that move the
same bytes."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import in_a_process
from benchmarks.page import Section, Table
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.service import Service
from tests.servers.process import free_ports
from tests.servers.webhook import WebhookServer

NAME: Final = "connectors_http"
ROWS: Final = 200_000
FEW: Final = 5_000  # where each row is a request
_MODULE: Final = "benchmarks.connectors.http"
_TABLES: Final = """
CREATE TABLE nothing (device STRING, v DOUBLE) WITH ('connector' = 'blackhole');
CREATE TABLE numbers (device STRING, v DOUBLE, pad STRING)
WITH ('connector' = 'topic', 'topic' = 'numbers', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
"""
_TAKES: Final = {
    "push": "(device STRING, v DOUBLE) WITH ('connector' = 'http-push', 'format' = 'json')",
    "otlp": "(body STRING, severity_number INT) WITH ('connector' = 'otlp')",
    "syslog": "(line STRING) WITH ('connector' = 'syslog', 'listen' = '{listen}', 'format' = 'raw')",
}
_READS: Final = {
    "push": "SELECT device, v FROM taken WHERE v >= 0",
    "otlp": "SELECT body, severity_number FROM taken WHERE severity_number > 0",
    "syslog": "SELECT line, 1 FROM taken WHERE line <> ''",
}


def row(number: int) -> bytes:
    """A row of 150 bytes."""
    return b'{"device":"d%03d","v":%d.5,"pad":"%s"}' % (number % 1000, number % 100, b"x" * 112)


# ---- out ----------------------------------------------------------------------------------------


@contextmanager
def _receiver() -> Iterator[WebhookServer]:
    with tempfile.TemporaryDirectory() as folder, WebhookServer(Path(folder) / "r") as server:
        yield server


def hook(batch: int, count: int) -> float:
    """Sends rows of a topic to a webhook; returns CPU seconds."""
    with _receiver() as server:
        to = f"'connector' = 'webhook', 'url' = '{server.url}', 'sink.batch.max-rows' = '{batch}'"
        return _sent(to, count, lambda: _rests(server.folder / "requests"))


def _rests(file: Path) -> bool:
    """True once a file has not grown for a second."""
    return file.exists() and time.time() - file.stat().st_mtime > 1


def syslog_out(count: int) -> float:
    """Sends rows of a topic to a process that takes them; returns CPU seconds."""
    command = [sys.executable, "-m", _MODULE, "drain", str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as drain:
        assert drain.stdout is not None
        port = drain.stdout.readline().strip()
        to = f"'connector' = 'syslog', 'server' = 'tcp://127.0.0.1:{port}'"
        return _sent(to, count, lambda: drain.poll() is not None)


def drain(count: int) -> None:
    """Takes messages of syslog until so many have come."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        connection, _ = listening.accept()
        found, rest, mark = 0, b"", b"<13>1 "
        while found < count:
            data = rest + connection.recv(1 << 20)
            found += data.count(mark)
            rest = data[-len(mark) + 1 :]


def _sent(to: str, count: int, done: Callable[[], bool]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(Config(data=Path(folder)))
        engine.start()
        engine.broker.create_topic("numbers")
        for at in range(0, count, 5_000):
            values = [row(n) for n in range(at, at + 5_000)]
            engine.broker.append("numbers", 0, values, timestamp_ms=0)
        out = f"CREATE TABLE sent (device STRING, v DOUBLE, pad STRING) WITH ({to}, 'format' = 'json');"
        begin = time.process_time()
        engine.submit("j", f"{_TABLES}{out} INSERT INTO sent SELECT * FROM numbers;")
        _until(lambda: engine.rows_of("j") >= count and done())
        took = time.process_time() - begin
        engine.close()
    return took


def bare(library: str, batch: int, count: int) -> float:
    """Sends the same bodies with a client alone; returns CPU seconds."""
    with _receiver() as server:
        send = _client(library, server.url)
        begin = time.process_time()
        for at in range(0, count, batch):
            values = [row(n) for n in range(at, at + batch)]
            send(values[0] if batch == 1 else b"[" + b",".join(values) + b"]")
        return time.process_time() - begin


def _client(library: str, url: str) -> Callable[[bytes], object]:
    headers = {"Content-Type": "application/json"}
    if library == "urllib3":
        import urllib3

        pool = urllib3.PoolManager()
        return lambda body: pool.request("POST", url, body=body, headers=headers).data
    connection = http.client.HTTPConnection(url.removeprefix("http://"))

    def send(body: bytes) -> object:
        connection.request("POST", "/", body, headers)
        return connection.getresponse().read()

    return send


# ---- in -----------------------------------------------------------------------------------------


def taken(what: str, transport: str) -> float:
    """Takes rows that another process sends, for a job that drops them; returns CPU seconds."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Config(data=Path(folder), port=0))
        service.start()
        engine = service.engine
        listen = f"{transport}://127.0.0.1:{port}"
        table = _TAKES[what].format(listen=listen)
        engine.submit(
            "j", f"{_TABLES}CREATE TABLE taken {table}; INSERT INTO nothing {_READS[what]};"
        )
        _until(lambda: any(view.connected for view in engine.receivers.views()))
        begin = time.process_time()
        to = port if what == "syslog" else service.port
        client = subprocess.Popen([sys.executable, "-m", _MODULE, "send", what, transport, str(to)])
        _until(lambda: _all_taken(engine, client))
        took = (time.process_time() - begin) / engine.rows_of("j") * ROWS
        service.stop()
    return took


def _all_taken(engine: Engine, client: subprocess.Popen[bytes]) -> bool:
    """True once all is there; of datagrams some may be lost."""
    rows = engine.rows_of("j")
    return rows >= ROWS or (client.poll() is not None and rows > 0 and _still(engine, rows))


def _still(engine: Engine, rows: int) -> bool:
    time.sleep(2)
    return engine.rows_of("j") == rows


def send(what: str, transport: str, port: int) -> None:
    """Sends all rows, as clients do."""
    if what == "syslog":
        _send_lines(transport, port)
        return
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for at in range(0, ROWS, 1000):
        if what == "push":
            path, kind = "/api/v1/tables/taken/rows", "application/x-ndjson"
            body = b"\n".join(row(n) for n in range(at, at + 1000))
        else:
            path, kind, body = "/v1/logs", "application/x-protobuf", _log_records(1000)
        connection.request("POST", path, body, {"Content-Type": kind})
        answer = connection.getresponse()
        assert (answer.status, answer.read()) is not None


def _log_records(count: int) -> bytes:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for number in range(count):
        record = scope.log_records.add(time_unix_nano=number + 1, severity_number=9)
        record.body.string_value = "x" * 100
        pair = record.attributes.add(key="device")
        pair.value.string_value = f"d{number}"
    found: bytes = request.SerializeToString()
    return found


def _send_lines(transport: str, port: int) -> None:
    lines = [b"<13>1 - h app - - - " + row(n) for n in range(1000)]
    if transport == "tcp":
        with socket.create_connection(("127.0.0.1", port)) as connection:
            for _ in range(ROWS // 1000):
                connection.sendall(b"\n".join(lines) + b"\n")
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        for number in range(ROWS):
            udp.sendto(lines[number % 1000], ("127.0.0.1", port))
            if number % 500 == 0:
                time.sleep(0.002)  # not more than can be taken


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.02)


# ---- the section --------------------------------------------------------------------------------


def run() -> Section:
    """Measures each in a process of its own."""

    def rate(count: int, *arguments: object) -> str:
        return f"{count / in_a_process(_MODULE, *arguments):,.0f}"

    out = [
        [f"webhook, {name}", rate(count, "hook", batch, count)]
        + [rate(count, "bare", library, batch, count) for library in ("urllib3", "stdlib")]
        for name, batch, count in (("500 rows a request", 500, ROWS), ("a row a request", 1, FEW))
    ]
    out.append(["syslog over TCP", rate(ROWS, "syslog_out", ROWS), "", ""])
    into = [
        [name, rate(ROWS, "taken", what, transport)]
        for name, what, transport in (
            ("http-push, 1,000 rows of JSON a request", "push", "http"),
            ("otlp, 1,000 records of protobuf a request", "otlp", "http"),
            ("syslog over TCP", "syslog", "tcp"),
            ("syslog over UDP", "syslog", "udp"),
        )
    ]
    return Section(
        NAME,
        "HTTP and syslog",
        f"{ROWS:,} rows of 150 bytes, {FEW:,} where each is a request. Rows for each CPU second of the"
        " process of the engine: out of a topic to a host in another process, and in from a client in"
        " another process, through the log, to a job that drops them.",
        (
            Table("Rows out per CPU second", ("", "engine", "urllib3 alone", "http.client alone"), out),
            Table("Rows in per CPU second", ("", "engine"), into),
        ),
    )  # fmt: skip


_WORK: Final[dict[str, Callable[..., Any]]] = {
    "hook": lambda batch, count: hook(int(batch), int(count)),
    "bare": lambda library, batch, count: bare(library, int(batch), int(count)),
    "syslog_out": lambda count: syslog_out(int(count)),
    "drain": lambda count: drain(int(count)),
    "taken": taken,
    "send": lambda what, transport, port: send(what, transport, int(port)),
}

if __name__ == "__main__":
    print(json.dumps(_WORK[sys.argv[1]](*sys.argv[2:])))
