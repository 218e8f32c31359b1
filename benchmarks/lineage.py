"""`sql why --alert` over a million records: what it takes to find the events behind an alert, and
what the stream pays for it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import cpu_of
from benchmarks.page import Section, Table
from sqlengine.broker.base import Broker
from sqlengine.client import Client
from sqlengine.config import Config
from sqlengine.service import Service

RECORDS, _BATCH = 1_000_000, 10_000
# Every so many records a login of the host fails five times within seconds; the host that is looked
# for all over the history fails five times in all.
_BURST, _RARE = 100_000, 200_000
_LOGINS = """CREATE TABLE logins (host STRING, who STRING, ok BOOLEAN, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'topic', 'topic' = 'logins', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
"""
_FOUND = """CREATE TABLE {0} (host STRING, n BIGINT{1})
WITH ('connector' = 'topic', 'topic' = '{0}', 'format' = 'json'{2});
"""
RULES = {
    "bursts": _LOGINS
    + _FOUND.format("bursts", "", "")
    + """INSERT INTO bursts SELECT host, COUNT(*) FROM TABLE(TUMBLE(TABLE logins, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
WHERE NOT ok GROUP BY host, window_start, window_end HAVING COUNT(*) >= 5""",
    "totals": _LOGINS
    + _FOUND.format("totals", ", PRIMARY KEY (host) NOT ENFORCED", ", 'upsert' = 'true'")
    + "INSERT INTO totals SELECT host, COUNT(*) FROM logins WHERE who = 'rare' GROUP BY host HAVING COUNT(*) = 5",
}


def run() -> Section:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        rows, found = _measured(Path(folder))
    about = (
        f"A rule over {RECORDS:,} logins counts failures by host and minute, another one those of a"
        " user since ever; `sql why --alert` is asked for the events behind their alerts: the whole"
        " command, beside the server, from reading its topics to the set that cannot be smaller."
    )
    note = (
        "The stream records nothing for this: no operator, source or sink knows of lineage, so that"
        " its CPU seconds are the same with and without it."
    )
    tables = [
        Table("the stream", ["", "CPU s", "records a CPU second"], rows),
        Table("`sql why --alert`", ["", "events behind it", "records read", "CPU s"], found),
    ]
    return Section("lineage", "The events behind an alert", about, tables, [note])


def _measured(folder: Path) -> tuple[list[list[str]], list[list[str]]]:
    service = Service(Config(data=folder / "data", port=0))
    service.start()
    try:
        client = Client(f"http://127.0.0.1:{service.port}")
        client.post("/api/v1/topics", {"name": "logins"})
        _fill(service.engine.broker)
        rows = [_streamed(client, name) for name in RULES]
        found = [
            _asked(client, "the last minute with failures", "bursts", -1),
            _asked(client, "the first one", "bursts", 0),
            _asked(client, "a count over all records", "totals", -1),
        ]
        return rows, found
    finally:
        service.stop()


def _fill(broker: Broker) -> None:
    now = int(time.time() * 1000)
    records = _records()
    for start in range(0, RECORDS, _BATCH):
        values = [next(records) for _ in range(_BATCH)]
        broker.append("logins", 0, values, timestamp_ms=now + start // 1000)


def _records() -> Iterator[bytes]:
    for number in range(RECORDS):
        second = number // 100
        at = f"2026-01-01 {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        burst = number % _BURST
        rare = number % _RARE == 777
        row = {
            "host": "h-rare" if rare else f"h{number % 200}",
            "who": "rare" if rare else f"u{number % 997}",
            "ok": not (50_000 <= burst < 51_000 and number % 200 == 7),
            "ts": at,
        }
        yield json.dumps(row).encode()


def _streamed(client: Client, name: str) -> list[str]:
    """Runs a rule over all records; what that took."""

    def work() -> None:
        client.put(f"/api/v1/jobs/{name}", RULES[name].encode())
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            told = client.get(f"/api/v1/jobs/{name}")["tables"]
            assert isinstance(told, list)
            if told and told[0]["behind"] == 0:
                return
            time.sleep(0.1)
        raise TimeoutError(name)

    _, cpu = cpu_of(work)
    return [f"rule '{name}'", f"{cpu:.1f}", f"{RECORDS / cpu:,.0f}"]


def _asked(client: Client, what: str, topic: str, which: int) -> list[str]:
    body = client.get(f"/api/v1/topics/{topic}/records", offset="earliest", limit=1000)
    records = body["records"]
    assert isinstance(records, list)
    offset = [r["offset"] for r in records if r["value"] is not None][which]
    command = [sys.executable, "-m", "sqlengine.cli", "why", "--alert", f"{topic}@{offset}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*command, "--output", "json", "--limit", str(2 * RECORDS), "--seconds", "300"],
        check=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "SQLENGINE_SERVER": client.server},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = json.loads(done.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    number = len(answer["events"])
    return [what, str(number), f"{answer['read']:,}", f"{cpu:.1f}"]
