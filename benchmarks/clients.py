"""Rows between Python programs and an engine: out of a query, into a table; on a server, and on an
engine in the same process. Beside the query: DuckDB over the same table."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from benchmarks.client_protocols import (
    FLINK_ROWS,
    pyflink_rate,
    rows_as_events,
    rows_of_gateway,
)
from benchmarks.measure import cpu_of
from benchmarks.page import Section, Table
from sqlengine.config import Config, QueryLimits
from sqlengine.connection.base import Connection
from sqlengine.connection.connecting import connect
from sqlengine.service import Service

ROWS: Final = 200_000
ROUNDS: Final = 5
ASKED: Final = "SELECT id, word, amount * 2 AS doubled FROM events WHERE id >= 0"
COLUMNS: Final = {"id": "BIGINT", "word": "STRING", "amount": "DOUBLE"}
_PUSHED: Final = """CREATE TABLE pushed (id BIGINT, word STRING, amount DOUBLE)
    WITH ('connector' = 'http-push', 'format' = 'json');
    CREATE TEMPORARY TABLE nothing (id BIGINT) WITH ('connector' = 'blackhole');
    INSERT INTO nothing SELECT id FROM pushed"""


def run() -> Section:
    """Measures rows out and in, and how long a client takes to be there."""
    limits = QueryLimits(rows_per_second=1 << 40)
    with tempfile.TemporaryDirectory() as folder:
        config = Config(data=Path(folder) / "data", port=0, flight_port=0, queries=limits)
        service = Service(config)
        service.start()
        try:
            url = f"http://127.0.0.1:{service.port}"
            with connect(url) as server, connect() as process:
                tables = [_out(server, process, url), _in(server, process, url)]
                assert service.flight is not None
                tables.append(_flight(f"grpc://127.0.0.1:{service.flight.port}"))
        finally:
            service.stop()
    return Section(
        "clients",
        "Python programs",
        f"Queries over {ROWS:,} rows of three columns, and as many rows into a table: rows per CPU second of both"
        f" ends together, the best of {ROUNDS} rounds. The server runs in the same process, and is reached over HTTP."
        " The table on the server is a topic of JSON, which the query decodes; that of the engine in this process, and"
        " DuckDB's, is an Arrow table. PyFlink 2.3 reads"
        f" {FLINK_ROWS:,} rows of CSV in batch mode, parallelism 1; its JVM is counted.",
        [*tables, _begin()],
    )


def _events() -> pa.Table:
    ids = range(ROWS)
    return pa.table(
        {
            "id": ids,
            "word": [f"word-{n % 1000}" for n in ids],
            "amount": [n / 7 for n in ids],
        }
    )


def _dicts() -> Iterator[dict[str, object]]:
    for n in range(ROWS):
        yield {"id": n, "word": f"word-{n % 1000}", "amount": n / 7}


def _rate(work: Callable[[], int]) -> str:
    """Rows per CPU second, the best of some rounds."""
    best = 0.0
    for _ in range(ROUNDS):
        rows, seconds = cpu_of(work)
        assert rows == ROWS
        best = max(best, rows / seconds)
    return f"{best:,.0f}"


def _out(server: Connection, process: Connection, url: str) -> Table:
    events = _events()
    for connection in (server, process):
        connection.register_table("events", events).wait()
    ways: dict[str, Callable[[Connection], int]] = {
        "named tuples": lambda c: sum(1 for _ in c.sql(ASKED)),
        "dicts": lambda c: sum(1 for _ in c.sql(ASKED).dicts()),
        "Arrow (`to_arrow`)": lambda c: int(c.sql(ASKED).to_arrow().num_rows),
    }
    rows = [
        [name, *(_rate(lambda c=c, w=way: w(c)) for c in (process, server))]  # type: ignore[misc]
        for name, way in ways.items()
    ]
    others = {"Arrow (`to_arrow`)": (_duckdb(events), ""), "named tuples": ("", _pyflink())}
    rows = [[*row, *others.get(row[0], ("", ""))] for row in rows]
    protocols = {
        "events (`text/event-stream`)": rows_as_events,
        "Flink's SQL Gateway, JSON": rows_of_gateway,
    }
    for name, protocol in protocols.items():
        rows.append([name, "", _rate(lambda p=protocol: p(url, ASKED)), "", ""])  # type: ignore[misc]
    columns = ["", "in this process", "a server", "DuckDB", "PyFlink's `collect`"]
    return Table("Rows out per CPU second", columns, rows)


def _pyflink() -> str:
    lines = (f"{n},word-{n % 1000},{n / 7}\n" for n in range(FLINK_ROWS))
    return pyflink_rate(lines, ASKED, 3)


def _duckdb(events: pa.Table) -> str:
    try:
        import duckdb
    except ImportError:
        return "not installed"
    connection = duckdb.connect()
    connection.register("events", events)
    return _rate(lambda: len(connection.sql(ASKED).to_arrow_table()))


def _in(server: Connection, process: Connection, url: str) -> Table:
    names = iter(f"t{n}" for n in range(1000))
    events = _events()

    def generated(connection: Connection) -> int:
        feed = connection.register_table(next(names), _dicts(), schema=COLUMNS)
        feed.wait()
        return feed.rows

    def of_arrow(connection: Connection) -> int:
        connection.register_table(next(names), events).wait()
        return ROWS

    server.submit("pushed", _PUSHED)
    bodies = [_stream(batch) for batch in events.to_batches(max_chunksize=10_000)]

    def pushed() -> int:
        for body in bodies:
            _push(url, body)
        return ROWS

    return Table(
        "Rows in per CPU second",
        ["", "in this process", "a server"],
        [
            ["a generator of dicts", *(_rate(lambda c=c: generated(c)) for c in (process, server))],  # type: ignore[misc]
            ["an Arrow table", *(_rate(lambda c=c: of_arrow(c)) for c in (process, server))],  # type: ignore[misc]
            ["Arrow, pushed over HTTP (`/api/v1/tables/NAME/rows`)", "", _rate(pushed)],
        ],
    )


def _flight(url: str) -> Table:
    """Rows over Arrow Flight SQL: out of the table that `_out` has made, into new ones."""
    from pyarrow import flight

    from sqlengine.api.flight.messages import write_any
    from sqlengine.api.flight.wire import field

    client, names, events = flight.FlightClient(url), iter(range(1000)), _events()

    def out() -> int:
        command = write_any("CommandStatementQuery", field(1, ASKED))
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
        return int(client.do_get(info.endpoints[0].ticket).read_all().num_rows)

    def put() -> int:
        options = field(1, field(1, 1) + field(2, 2)) + field(2, f"flight_{next(names)}")
        command = write_any("CommandStatementIngest", options)
        descriptor = flight.FlightDescriptor.for_command(command)
        writer, answers = client.do_put(descriptor, events.schema)
        with writer:
            writer.write_table(events, max_chunksize=10_000)
            writer.done_writing()
            answers.read()
        return ROWS

    with client:
        rows = [["out, a query over a topic of JSON", _rate(out)], ["in, a new table", _rate(put)]]
    return Table("Arrow Flight SQL, rows per CPU second", ["", "a server"], rows)


def _stream(batch: pa.RecordBatch) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    body: bytes = out.getvalue().to_pybytes()
    return body


def _push(url: str, body: bytes) -> None:
    kind = {"Content-Type": "application/vnd.apache.arrow.stream"}
    request = urllib.request.Request(f"{url}/api/v1/tables/pushed/rows", body, kind)
    urllib.request.urlopen(request).close()


def _begin() -> Table:
    cases = {
        "`import sqlengine`": ("", "import sqlengine"),
        "`from sqlengine import connect`": ("", "from sqlengine import connect"),
        "`connect(url)`, the first": (
            "from sqlengine import connect",
            "connect('http://127.0.0.1:9')",
        ),
        "`connect(url)`, others": (
            "from sqlengine import connect; connect('http://127.0.0.1:9')",
            "connect('http://127.0.0.1:9')",
        ),
    }
    rows = [[name, f"{_cpu_ms(*case):.1f} ms"] for name, case in cases.items()]
    return Table("CPU time until a client is there", ["", "CPU"], rows)


def _cpu_ms(before: str, code: str) -> float:
    timed = (
        f"{before}\nimport time\nt = time.process_time()\n{code}\nprint(time.process_time() - t)"
    )
    command = [sys.executable, "-c", timed]
    found = []
    for _ in range(ROUNDS):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(float(done.stdout) * 1000)
        time.sleep(0.05)
    return min(found)
