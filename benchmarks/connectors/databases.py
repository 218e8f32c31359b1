"""Rows into and out of PostgreSQL, by the connectors and by the bare client: rows per CPU second of
this process, on the same server in the same run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg

from benchmarks.connectors import flink
from benchmarks.nexmark.run import Quiet
from benchmarks.page import Section
from benchmarks.page import Table as Figures
from parser.types import BIGINT, DOUBLE, STRING, Schema, timestamp
from planner.catalog import Table
from sqlengine.batch import Batch, from_pydict
from sqlengine.connectors.base import Sink
from sqlengine.connectors.changes.options import Account
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.jdbc.connector import JdbcConnector
from sqlengine.connectors.postgres_cdc.database import Place
from sqlengine.connectors.postgres_cdc.receiver import PostgresReceiver
from sqlengine.connectors.receivers.base import Stream, Taken
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.servers.postgresql import PostgresServer

ROWS = 200_000
SCHEMA = Schema.of(id=BIGINT, name=STRING, v=DOUBLE, ts=timestamp(3))
COLUMNS = "(id bigint PRIMARY KEY, name text, v float8, ts timestamp)"
# What Flink does beside: rows of its generator, updated by their keys, and a table that is read.
_PEER = """
CREATE TABLE t (id BIGINT, name STRING, v DOUBLE, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = '{url}', 'username' = 'postgres', 'password' = '-', 'table-name' = 't');
CREATE TABLE made (id BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'datagen', 'rows-per-second' = '10000000',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{rows}');
CREATE TABLE nothing (id BIGINT, name STRING, v DOUBLE, ts TIMESTAMP(3)) WITH ('connector' = 'blackhole');
"""
_WRITES = """INSERT INTO t SELECT id, 'name ' || CAST(id AS STRING), id / 7.0, TIMESTAMP '2024-01-01 00:00:00'
FROM made;"""
_READS = "INSERT INTO nothing SELECT * FROM t;"
# 50,000 keys, each asked for several times: by us in batches, by Flink one by one.
_LOOKUPS = """
CREATE TABLE asks (id BIGINT, now AS PROCTIME()) WITH ('connector' = 'datagen', 'rows-per-second' = '10000000',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{rows}');
CREATE TABLE dim (id BIGINT, name STRING, v DOUBLE, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = '{url}', 'username' = 'postgres', 'password' = '-', 'table-name' = 't',
  'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '{kept}');
INSERT INTO nothing SELECT d.id, d.name, d.v, d.ts FROM asks AS a
JOIN dim FOR SYSTEM_TIME AS OF a.now AS d ON MOD(a.id * 7919, 50000) = d.id;
"""


def run() -> Section:
    """Measures."""
    with tempfile.TemporaryDirectory() as folder, PostgresServer(Path(folder) / "s") as server:
        rows = list(_measured(server))
    texts = [
        [name, *("" if rate is None else f"{rate:,}" for rate in rates)] for name, *rates in rows
    ]
    return Section(
        "connectors_databases",
        "Tables of PostgreSQL, and their changes",
        f"{ROWS:,} rows of 4 columns from and to PostgreSQL on the same machine. Bare client: psycopg with"
        " binary COPY, `unnest` … ON CONFLICT, fetchall. Flink: the whole JVM, in its second run.",
        [
            Figures(
                "rows per CPU second of the client",
                ("", "connector", "bare client", "Flink"),
                texts,
            )
        ],
    )


def _measured(server: PostgresServer) -> list[tuple[str, int, int | None, int | None]]:
    ids = list(range(ROWS))
    names = [f"name {i}" for i in ids]
    values = [i / 7 for i in ids]
    times = [1_700_000_000_000 + i for i in ids]
    batch = from_pydict(SCHEMA, {"id": ids, "name": names, "v": values, "ts": times})
    with psycopg.connect(
        host="127.0.0.1", port=server.port, user="postgres", autocommit=True
    ) as bare:
        bare.execute(f"CREATE TABLE t {COLUMNS}")
        found = []
        for key, what in (((), "insert"), (("id",), "insert by key"), (("id",), "update by key")):
            if what != "update by key":
                bare.execute("TRUNCATE t")
            sink = JdbcConnector().sink(_table(server, key), _environment(what))

            found.append((what, _rate(partial(_written, sink, batch))))
            sink.close()
        unnest = (
            "INSERT INTO t SELECT * FROM unnest(%b::bigint[], %b::text[], %b::float8[], %b::timestamp[])"
            " ON CONFLICT (id) DO UPDATE SET name = excluded.name, v = excluded.v, ts = excluded.ts"
        )
        stamps = batch.column("ts").to_pylist()
        bare_update = _rate(lambda: bare.execute(unnest, (ids, names, values, stamps)))
        bare.execute("TRUNCATE t")
        bare_insert = _rate(lambda: _copy(bare, list(zip(ids, names, values, stamps, strict=True))))
        read = _rate(lambda: JdbcConnector().source(_table(server, ("id",)), _environment("r")))
        bare_read = _rate(lambda: bare.execute("SELECT * FROM t ORDER BY id").fetchall())
        asked = [_looked_up(server, kept) for kept in (1_000_000, 1)]
        changes = _changes(server, bare)
    bares = (bare_insert, None, bare_update)
    peers = (None, None, _flink(server, _WRITES))
    return [
        *(
            (what, *rates)
            for (what, *rates) in zip(*zip(*found, strict=True), bares, peers, strict=True)
        ),
        ("read", read, bare_read, _flink(server, _READS)),
        (
            "looked up by key, answers kept",
            asked[0],
            None,
            _flink(server, _lookups(server, 1_000_000)),
        ),
        ("looked up by key, none kept", asked[1], None, _flink(server, _lookups(server, 1))),
        ("changes (update, REPLICA IDENTITY FULL)", changes, None, None),
    ]


def _lookups(server: PostgresServer, kept: int) -> str:
    return _LOOKUPS.format(url=server.url, rows=ROWS, kept=kept)


def _looked_up(server: PostgresServer, kept: int) -> int:
    text = _PEER.format(url=server.url, rows=ROWS) + _lookups(server, kept)
    with tempfile.TemporaryDirectory() as folder, open_runner(Path(folder)) as runner:
        return _rate(lambda: Session(runner, Quiet()).run(text))


def _flink(server: PostgresServer, script: str) -> int | None:
    return flink.rate(_PEER.format(url=server.url, rows=ROWS) + script, ROWS)


def _written(sink: Sink, batch: Batch) -> None:
    sink.write(batch)
    sink.commit(1)


def _copy(bare: psycopg.Connection, rows: list[tuple[object, ...]]) -> None:
    with bare.cursor() as cursor, cursor.copy("COPY t FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int8", "text", "float8", "timestamp"])
        for row in rows:
            copy.write_row(row)


def _changes(server: PostgresServer, bare: psycopg.Connection) -> int:
    bare.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    what = {
        "schema": "public", "table": "t", "columns": '["id", "name", "v", "ts"]', "key": '["id"]',
        "changelog": "all", "startup": "latest-offset",
    }  # fmt: skip
    stream = Stream("bench", what, 1 << 30, 0, 0, 0)
    place = Place(Account("127.0.0.1", server.port, "postgres", None, 10), "postgres")
    receiver = PostgresReceiver(place, "bench", "bench", temporary=True, skips=False)
    receiver.connect([stream], [], lambda topic, count: Taken())
    receiver.take(1)
    bare.execute("UPDATE t SET v = v + 1")

    def take() -> None:
        count = 0
        while count < 2 * ROWS:
            for taken in receiver.take(1).values():
                count += len(taken.values)
            receiver.acknowledge()

    rate = _rate(take)
    receiver.close()
    return rate


def _rate(work: Callable[[], object]) -> int:
    started = time.process_time()
    work()
    return round(ROWS / (time.process_time() - started))


def _table(server: PostgresServer, key: tuple[str, ...]) -> Table:
    options = {"connector": "jdbc", "url": server.url, "username": "postgres", "table-name": "t"}
    name = ("default_catalog", "default_database", "t")
    return Table(name, SCHEMA, SCHEMA, options, primary_key=key)


def _environment(writer: str) -> Environment:
    return Environment(None, lambda: 0, writer)
