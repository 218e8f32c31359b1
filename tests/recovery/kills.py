"""Lives that are killed at random moments, and the comparison of what came out with an undisturbed run.

Runs as a process of its own: lives are forked, and only a process without threads and open databases can fork."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq

from sqlengine.broker.embedded import EmbeddedBroker
from tests.recovery.workload import EVENTS_PER_BATCH, event, live


def one_life(folder: Path, batches: int, pause_s: float, kill_after_s: float | None) -> bool:
    """Runs one life in a forked child; True when it ended by itself. A forked child starts in milliseconds, where a new
    interpreter takes a second: so most kills fall into work and not into imports."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            live(folder, batches, pause_s, writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    try:
        if kill_after_s is not None and os.read(reading, 1) == b"r":
            time.sleep(kill_after_s)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(reading)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, "a life ended with an error"
    return not os.WIFSIGNALED(status)


def outputs(folder: Path) -> dict[str, list[str]]:
    """Everything that came out: both topics in order, the lines of the files, the rows of Parquet files, what the upserts of the third topic leave,
    and the tables of the database."""
    broker = EmbeddedBroker(folder / "data", fsync="none", clock=lambda: 0)
    try:
        found = {}
        for topic in ("alerts", "totals"):
            found[topic] = []
            offset = 0
            while (records := broker.read(topic, 0, offset)) is not None:
                found[topic] += [v.decode() for v in records.values.to_pylist()]
                offset = records.next_offset
        files = sorted(p for p in (folder / "lines").rglob("*") if p.is_file() and not p.name.startswith("."))
        found["lines"] = [line for p in files for line in p.read_text().splitlines()]
        found["lake"] = lake(folder / "lake")
        return found | {"counts": latest(broker, "counts")} | rows(folder / "app.db")
    finally:
        broker.close()


def lake(folder: Path) -> list[str]:
    """The rows of Parquet files by partition, those of a partition in the order of its files' numbers."""
    files = sorted(folder.glob("*/part-*.parquet"), key=lambda p: (p.parent, int(p.stem.rpartition("-")[2])))
    return [f"{p.parent.name} {row}" for p in files for row in pq.ParquetFile(p).read().to_pylist()]


def latest(broker: EmbeddedBroker, topic: str) -> list[str]:
    """The last record of each key. A changelog is valid if no count falls."""
    left: dict[bytes, tuple[int, bytes]] = {}
    offset = 0
    while (records := broker.read(topic, 0, offset)) is not None:
        assert records.keys is not None
        for key, value in zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True):
            n = json.loads(value)["n"]
            assert key not in left or left[key][0] < n
            left[key] = n, value
        offset = records.next_offset
    return sorted(value.decode() for _, value in left.values())


def rows(file: Path) -> dict[str, list[str]]:
    """The rows of the tables; those that are added stay in order."""
    with closing(sqlite3.connect(file)) as database:
        hosts = database.execute("SELECT * FROM hosts ORDER BY host").fetchall()
        seen = database.execute("SELECT * FROM seen ORDER BY rowid").fetchall()
    return {"hosts": [json.dumps(r) for r in hosts], "seen": [json.dumps(r) for r in seen]}


def expected_alerts(events: int) -> set[tuple[str, int]]:
    """The alerts, found by plain Python."""
    found = set()
    for number in range(events):
        e = event(number)
        command, amount, host = str(e["command"]), int(str(e["amount"])), e["host"]
        tests = {
            "curl": "curl" in command.lower(),
            "shadow": "/etc/shadow" in command and amount > 10,
            "pattern": any(f"{w} -{c}" in command for w in ("bash", "base64") for c in "abcdefghijklmnopqrstuvwxyz"),
            "hosts": host in ("h1", "h3") and 5 <= amount <= 9,
            "null": host is None,
        }
        found |= {(rule, number) for rule, hit in tests.items() if hit}
    return found


def run_with_kills(tmp_path: Path, kills: int, batches: int, pause_s: float, seed: int) -> int:
    """Kills lives until one ends by itself or enough were killed; compares with an undisturbed run; gives the kills."""
    moments = random.Random(seed)
    quiet, killed = tmp_path / "quiet", tmp_path / "killed"
    done = 0
    while done < kills and not one_life(killed, batches, pause_s, moments.uniform(0.0, 0.25)):
        done += 1
    one_life(killed, batches, pause_s, None)
    one_life(quiet, batches, 0.0, None)
    ours, theirs = outputs(killed), outputs(quiet)
    alerts = [(a["rule"], a["id"]) for a in map(json.loads, ours["alerts"])]
    assert len(alerts) == len(set(alerts))
    assert set(alerts) == expected_alerts(batches * EVENTS_PER_BATCH)
    assert ours == theirs
    assert all(ours.values())
    return done


if __name__ == "__main__":
    folder, kills, batches, pause_s, seed = sys.argv[1:]
    print(run_with_kills(Path(folder), int(kills), int(batches), float(pause_s), int(seed)))
