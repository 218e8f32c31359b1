"""What an epoch costs that has one row in it: for single jobs, and with 2,000 others over the same
topic that have nothing to do in it."""

from __future__ import annotations

import http.client
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.footprint import started
from benchmarks.measure import cpu_of
from benchmarks.page import Section, Table
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText

_COLUMNS: Final = "id BIGINT, ts TIMESTAMP(3), k STRING, v INT, note STRING, WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND"
TABLES: Final = f"""
CREATE TABLE events ({_COLUMNS})
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE answers ({_COLUMNS})
WITH ('connector' = 'topic', 'topic' = 'answers', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE found (id BIGINT, k STRING, v BIGINT) WITH ('connector' = 'topic', 'topic' = 'found', 'format' = 'json');
CREATE TABLE counts (k STRING, v BIGINT) WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'debezium-json');
CREATE TABLE others (v BIGINT) WITH ('connector' = 'blackhole');
"""
JOBS: Final = {
    "filter": "INSERT INTO found SELECT id, k, v FROM events WHERE v < 90",
    "window": (
        "INSERT INTO found SELECT MAX(id), k, SUM(v) FROM TABLE(TUMBLE(TABLE events,"
        " DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end"
    ),
    "group by": "INSERT INTO counts SELECT k, SUM(v) FROM events GROUP BY k",
    "join": (
        "INSERT INTO found SELECT e.id, e.k, a.v FROM events e JOIN answers a ON e.id = a.id "
        "AND a.ts BETWEEN e.ts AND e.ts + INTERVAL '1' SECOND WHERE e.v < 90"
    ),
}
TOPICS: Final = ("events", "answers", "found", "counts")
# The other jobs differ in their conditions, and in which of these they compute.
_CALLS: Final = (
    *("MAX(v)", "MIN(v)", "SUM(v)", "COUNT(v)", "COUNT(note)", "MAX(id)", "MIN(id)", "SUM(id)"),
    *("COUNT(k)", "MAX(CHAR_LENGTH(note))", "MIN(CHAR_LENGTH(k))"),
)
OTHERS, KEYS = 2_000, 100
# Epochs to warm up with, those of a turn, and turns; appends over HTTP and the time between two.
WARM, EPOCHS, TURNS = 300, 200, 7
REQUESTS, EVERY_S = 1_000, 0.006


def run() -> Section:
    rows = [_row(name) for name in JOBS]
    columns = ("job", "alone, µs", f"with {OTHERS:,} others, µs", "ratio", "over HTTP, µs")
    return Section(
        "epochs",
        "Epochs of one row",
        f"CPU of an epoch that reads one JSON row of a topic (a join: one of each of its two), exactly once: the epoch"
        f" recorded, its output in a topic, checkpoints when they are due (median of {TURNS} turns of {EPOCHS} epochs)."
        f" The {OTHERS:,} others are jobs over the same topic with state of their own (a window of a day, a GROUP BY, or an"
        " interval join with another topic, with aggregates or an interval, and a condition, that no other has), for which"
        " no row comes. Over HTTP: CPU of the server for an append of one row and for what follows of it, at"
        f" {round(1 / EVERY_S)} appends a second, the job alone.",
        [Table("CPU of an epoch with one row", columns, rows)],
        [
            (
                "The window alone has no filter before it; with the others one set of rules is"
                " evaluated for its row."
            ),
            *_busy(),
        ],
    )


def _busy() -> list[str]:
    """Says how busy the machine was, where that is more than its cores can do."""
    load, cores = os.getloadavg()[2], os.cpu_count() or 1
    if load <= cores + 1:
        return []
    where = f"a load of {load:.0f} on {cores} cores"
    return [f"Measured with {where}: CPU time is up to twice what it is on a quiet machine."]


def _row(name: str) -> list[str]:
    alone, among, sent = _epoch_us(name, 0), _epoch_us(name, OTHERS), _request_us(name)
    return [name, f"{alone:,.0f}", f"{among:,.0f}", f"{among / alone:.2f}×", f"{sent:,.0f}"]


def other_job(number: int) -> str:
    """The text of a job that no row of `line` concerns, of a shape of its own."""
    calls = [call for bit, call in enumerate(_CALLS) if (number + 1) >> bit & 1]
    rest = f"WHERE k = 'other-{number}' GROUP BY note"
    if number % 3 == 2:
        both = (f"(SELECT * FROM {t} WHERE k = 'other-{number}')" for t in TOPICS[:2])
        left, right = both
        return (
            f"INSERT INTO others SELECT e.v FROM {left} e JOIN {right} a ON e.id = a.id"
            f" AND a.ts BETWEEN e.ts AND e.ts + INTERVAL '{number // 3 % 99 + 1}' HOUR"
        )
    if number % 3:
        return f"INSERT INTO others SELECT {' + '.join(calls)} FROM events {rest}"
    windows = "TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' DAY))"
    return (
        f"INSERT INTO others SELECT {' + '.join(calls)} FROM {windows} {rest},"
        " window_start, window_end"
    )


def line(number: int, key: str | None = None) -> bytes:
    """An event, a millisecond after the one before."""
    return (
        b'{"id":%d,"ts":"2026-01-01 00:%02d:%02d.%03d","k":"%s","v":%d,"note":"what else it says"}'
        % (number, number // 60_000 % 60, number // 1000 % 60, number % 1000,
           (key or f"key-{number * 7919 % KEYS}").encode(), number * 104_729 % 90)
    )  # fmt: skip


class Stream:
    """Rows into the topics of a job, one at a time, and the epochs that read them."""

    def __init__(self, engine: Engine, job: str) -> None:
        self.runner = engine.graph.runner
        self._engine = engine
        self._topics = TOPICS[:2] if job == "join" else TOPICS[:1]
        self._sent = 0

    def append(self, key: str | None = None) -> None:
        """Appends one row to each topic."""
        for topic in self._topics:
            value = line(self._sent, key)
            self._engine.broker.append(topic, 0, [value], timestamp_ms=self._engine.now_ms())
        self._sent += 1

    def epoch_us(self) -> float:
        """CPU µs of an epoch, without the appends."""
        cpu = 0.0
        for _ in range(EPOCHS):
            self.append()
            cpu += cpu_of(self.runner.step)[1]
        return cpu / EPOCHS * 1e6

    def warm_up(self, others: int) -> None:
        """Gives each of the other jobs a row, which it keeps, and runs some epochs."""
        for number in range(others):
            self.append(f"other-{number}")
        while self.runner.step():
            pass
        for _ in range(WARM):
            self.append()
            self.runner.step()


@contextmanager
def prepared(job: str, others: int) -> Iterator[Stream]:
    """An engine with one job, so many others beside it, and what they keep."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="benchmark-") as folder:
        engine = Engine(Config(data=Path(folder), fsync="none", delivery="exactly-once"))
        with closing(engine):
            for topic in TOPICS:
                engine.broker.create_topic(topic)
            engine.submit("tables", TABLES)
            engine.submit("job", JOBS[job])
            names = {f"other{n}": JobText(f"other{n}", other_job(n)) for n in range(others)}
            outcomes = engine.change(Request(Origin.SDK, names)) if names else {}
            assert all(outcome.error is None for outcome in outcomes.values())
            stream = Stream(engine, job)
            stream.warm_up(others)
            yield stream


def _epoch_us(job: str, others: int) -> float:
    with prepared(job, others) as stream:
        return statistics.median(stream.epoch_us() for _ in range(TURNS))


def _request_us(job: str) -> float:
    """CPU µs of a server for one row that is appended over HTTP."""
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="benchmark-") as folder,
        started(Path(folder) / "data", "--fsync", "none") as (server, url),
        closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)) as connection,
    ):
        for topic in TOPICS:
            _send(connection, "POST", "/api/v1/topics", b'{"name": "%s"}' % topic.encode())
        _send(connection, "PUT", "/api/v1/jobs/tables", TABLES.encode())
        _send(connection, "PUT", "/api/v1/jobs/job", JOBS[job].encode())
        topics = TOPICS[:2] if job == "join" else TOPICS[:1]
        for number in range(WARM):
            _append(connection, topics, number)
        cpu = process_cpu_s(server.pid)
        for number in range(WARM, WARM + REQUESTS):
            _append(connection, topics, number)
        return (process_cpu_s(server.pid) - cpu) / REQUESTS * 1e6


def process_cpu_s(pid: int) -> float:
    """CPU seconds of a process, to the nanosecond: the clock that Linux has for each."""
    return time.clock_gettime(~pid << 3 | 2)


def _append(connection: http.client.HTTPConnection, topics: tuple[str, ...], number: int) -> None:
    for topic in topics:
        _send(connection, "POST", f"/api/v1/topics/{topic}/records", line(number))
    time.sleep(EVERY_S)


def _send(connection: http.client.HTTPConnection, method: str, path: str, body: bytes) -> None:
    connection.request(method, path, body)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer.status} {text!r}")
