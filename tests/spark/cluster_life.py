"""A server on a cluster of Spark that dies and comes back: merged rules and three jobs with state
read one topic with four shards, and their rows are those of a count in plain Python."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from sqlengine.client import Client
from tests.rules import sigma
from tests.service.harness import User
from tests.spark.standalone import Standalone, end_with_parent, kill
from tests.support import ROOT, eventually

SHARDS = 4
# What runs in the cluster: micro-batches, or instances that last.
BATCHES = ("--target", "spark")
PLACED = ("--instances", "2", "--instances-on", "spark", "--checkpoints", "topic")
PER_SECOND = 20  # events, by their own time
WINDOW_S = 10
# A server starts, and goes on after several kills, in less.
_PATIENCE_S = 600
# Small, and patient with a machine that does much else.
_SETTINGS = (
    "spark.executor.memory=512m",
    "spark.driver.memory=512m",
    "spark.scheduler.maxRegisteredResourcesWaitingTime=300s",
)
PLACES = {"a": "Aachen", "b": "Bern", "c": "Celle", "d": "Dachau", "end": "nowhere"}
TABLES = """
CREATE TABLE events ({}, e_n BIGINT, e_k STRING, e_ts TIMESTAMP(3), WATERMARK FOR e_ts AS e_ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE places (k STRING, place STRING) WITH ('connector' = 'topic', 'topic' = 'places', 'format' = 'json');
CREATE TABLE alerts (rule STRING, id BIGINT) WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE totals (k STRING, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'upsert' = 'true', 'topic.auto-create' = 'true');
CREATE TABLE windows (k STRING, e TIMESTAMP(3), n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'windows', 'format' = 'json');
CREATE TABLE joined (n BIGINT, place STRING) WITH ('connector' = 'topic', 'topic' = 'joined', 'format' = 'json');
"""
JOBS = {
    "totals": "INSERT INTO totals SELECT e_k, COUNT(*), SUM(e_n) FROM events GROUP BY e_k",
    "windows": f"""INSERT INTO windows SELECT e_k, window_end, COUNT(*)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(e_ts), INTERVAL '{WINDOW_S}' SECOND)) GROUP BY e_k, window_start, window_end""",
    "joined": "INSERT INTO joined SELECT e_n, place FROM events JOIN places ON e_k = k",
}


@dataclass(frozen=True)
class Workload:
    """Events, the types of their columns, conditions by rule, and the alerts (rule, `_id`) that
    these must raise."""

    columns: dict[str, str]
    rules: dict[str, str]
    events: list[dict[str, Any]]
    alerts: set[tuple[str, int]]


def workload(table: str) -> Workload:
    """The real rules and events of a table of the corpora, or else generated ones."""
    return _of_sigma(table) if sigma.FOLDER.is_dir() else _generated()


def _of_sigma(table: str) -> Workload:
    lines = (sigma.FOLDER / f"{table}.rules.jsonl").read_text("utf-8").splitlines()
    rules = {rule["id"]: rule["where"] for rule in map(json.loads, lines)}
    events = sigma.read_events(table)
    names = sigma.fields_of(sigma.read_rules(table)) | {"_id"}
    columns = {}
    for name in sorted(names):
        values = [e[name] for e in events if e.get(name) is not None]
        columns[name] = "BIGINT" if values and all(type(v) is int for v in values) else "STRING"
    kept = [{name: e[name] for name in names & e.keys()} for e in events]
    return Workload(columns, rules, kept, sigma.read_expected(table))


def _generated() -> Workload:
    chance = random.Random(3)
    events: list[dict[str, Any]] = [
        {"_id": n, "v": chance.randrange(1000), "word": chance.choice(["ab", "bc", "cd"]) * 3}
        for n in range(4000)
    ]
    rules, alerts = {}, set()
    for number in range(200):
        least, part = 900 + number % 100, "abcd"[number % 3 :][:2]
        rules[f"r{number}"] = f"v >= {least} AND word LIKE '%{part}%'"
        alerts |= {
            (f"r{number}", e["_id"]) for e in events if e["v"] >= least and part in e["word"]
        }
    return Workload({"_id": "BIGINT", "v": "BIGINT", "word": "STRING"}, rules, events, alerts)


class Server:
    """`sql serve` as a process, in a folder of its own and with relative paths."""

    def __init__(
        self, folder: Path, master: str, number: int, conf: Sequence[str], kind: Sequence[str]
    ) -> None:
        self._log = folder / f"server-{number}.log"
        options = ["--data", "data", "--port", "0", *kind, "--master", master]
        settings = [*_SETTINGS, *conf]
        options += [part for setting in settings for part in ("--spark-conf", setting)]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SQLENGINE_")}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from sqlengine.cli import main; main()", "serve", *options],
                cwd=folder,
                env=environment | {"PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,
            )

    def said(self) -> str:
        """What it has logged."""
        return self._log.read_text(errors="replace")

    def port(self) -> int:
        """Waits until it is ready."""

        def found() -> int | None:
            assert self.process.poll() is None, self.said()
            ready = [line for line in self.said().splitlines() if "ready on " in line]
            return (
                int(ready[0].split("ready on ")[1].split(",")[0].rsplit(":", 1)[1])
                if ready
                else None
            )

        return eventually(found, self.said, _PATIENCE_S)

    def kill(self) -> None:
        """Kills the process; its Java process ends by itself."""
        kill(psutil.Process(self.process.pid))
        self.process.wait()


@dataclass
class Life:
    """The lives of a server over one folder, and what was written to it. `kind`: the options that
    say what runs in the cluster."""

    cluster: Standalone
    folder: Path
    load: Workload
    seed: int
    conf: tuple[str, ...] = ()
    kind: tuple[str, ...] = BATCHES
    written: int = 0
    lives: int = 0
    kills: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.folder.mkdir()
        self._serve()
        columns = ", ".join(f"`{name}` {type_}" for name, type_ in self.load.columns.items())
        for topic in ("alerts", "windows", "joined", "places"):
            self.user.topic(topic)
        self.user.topic("events", SHARDS)
        self.user.submit("tables", TABLES.format(columns))
        jobs = self.folder / "data" / "jobs"
        for number, (rule, where) in enumerate(self.load.rules.items()):
            text = f"INSERT INTO alerts SELECT '{rule}', `_id` FROM events WHERE {where}"
            # Complete when it appears.
            (jobs / f".rule{number}").write_text(text)
            (jobs / f".rule{number}").rename(jobs / f"rule{number}.sql")
        for name, text in JOBS.items():
            self.user.submit(name, text)
        places: list[dict[str, object]] = [{"k": k, "place": p} for k, p in PLACES.items()]
        self.user.write("places", *places)
        wanted = len(self.load.rules) + len(JOBS)
        eventually(
            lambda: list(self.user.states().values()).count("running") == wanted,
            self.said,
            _PATIENCE_S,
        )

    def _serve(self) -> None:
        self.lives += 1
        self.server = Server(self.folder, self.cluster.url, self.lives, self.conf, self.kind)
        client = Client(f"http://127.0.0.1:{self.server.port()}", origin="rest")
        if self.lives == 1:
            self.user = User(client)
        self.user.client = client

    def said(self) -> str:
        """What the server has logged, with its problems."""
        health = self.user.try_to(lambda: self.user.client.get("/healthz"))
        return f"{self.server.said()[-3000:]}\n{health}"

    # ---- events ----------------------------------------------------------------------------------

    def write(self, count: int) -> None:
        """Writes events to all shards, whose times grow with their numbers."""
        batch = range(self.written, min(self.written + count, len(self.load.events)))
        events = [(n, _event(n, self.load.events[n])) for n in batch]
        for shard in range(SHARDS):
            if mine := [event for n, event in events if n % SHARDS == shard]:
                self.user.write("events", *mine, shard=shard)
        self.written = batch.stop

    def end_time(self) -> None:
        """Writes an event to each shard whose time is behind all windows."""
        for shard in range(SHARDS):
            event = {"_id": -1, "e_n": 0, "e_k": "end", "e_ts": "2030-01-01 00:00:00"}
            self.user.write("events", event, shard=shard)

    # ---- kills -----------------------------------------------------------------------------------

    def kill(self, kind: str) -> None:
        """Kills something of that kind at a moment by chance."""
        time.sleep(self.chance.uniform(0, 1.5))
        if kind == "server":
            self.server.kill()
            self._serve()
        elif kind == "worker":
            self.cluster.replace_worker(self.chance.randrange(len(self.cluster.workers)))
        else:
            executors, workers = self.cluster.executors, self.cluster.python_workers
            found = eventually(executors if kind == "executor" else workers, self.said)
            kill(self.chance.choice(found))
        self.kills[kind] += 1

    # ---- what comes out --------------------------------------------------------------------------

    def await_rows(self, *, ended: bool = False) -> None:
        """Waits until all that must come has come, each once. `ended`: after `end_time`, with all
        windows."""
        numbers = range(self.written)
        ids = {self.load.events[n]["_id"] for n in numbers}
        alerts = Counter(a for a in self.load.alerts if a[1] in ids)
        self._await(
            "alerts",
            lambda: Counter((r["rule"], r["id"]) for r in self._rows("alerts") if r["id"] >= 0),
            alerts,
        )
        totals: dict[str, tuple[int, int]] = {}
        for n in numbers:
            count, total = totals.get(_key(n), (0, 0))
            totals[_key(n)] = count + 1, total + n
        if ended:
            totals["end"] = SHARDS, 0
        self._await(
            "totals", lambda: {r["k"]: (r["n"], r["s"]) for r in self._rows("totals")}, totals
        )
        joined = Counter((n, PLACES[_key(n)]) for n in numbers)
        self._await(
            "joined",
            lambda: Counter(
                (r["n"], r["place"]) for r in self._rows("joined") if r["place"] != "nowhere"
            ),
            joined,
        )
        if ended:
            _, windows = self.counts()
            self._await(
                "windows",
                lambda: Counter(map(_window, self._rows("windows"))),
                Counter(windows.items()),
            )

    def called(self) -> list[tuple[int, int]]:
        """What the function was called with, and what it has answered, in order."""
        return sorted((r["n"], r["m"]) for r in self._rows("answered"))

    def counts(self) -> tuple[Counter[str], Counter[tuple[str, str]]]:
        """The numbers of events that were written, by key, and by key and end of the window."""
        ends = ((n // PER_SECOND // WINDOW_S + 1) * WINDOW_S for n in range(self.written))
        keys = [_key(n) for n in range(self.written)]
        return Counter(keys), Counter(zip(keys, map(_time, ends), strict=True))

    def placed_again(self) -> int:
        """How often instances were started again."""
        views: Any = self.user.client.get("/api/v1/instances")["instances"]
        return sum(view["restarts"] for view in views)

    def _await(self, what: str, found: Callable[[], Any], wanted: Any) -> None:
        eventually(
            lambda: found() == wanted,
            lambda: f"{what}: {_difference(found(), wanted)}\n{self.said()}",
            _PATIENCE_S,
        )

    def _rows(self, topic: str) -> list[dict[str, Any]]:
        return self.user.read(topic)


def _difference(found: Any, wanted: Any) -> str:
    less, more = dict(wanted.items() - found.items()), dict(found.items() - wanted.items())
    return f"missing {len(less)}: {list(less.items())[:3]}, besides {len(more)}: {list(more.items())[:3]}"


def _window(row: dict[str, Any]) -> tuple[tuple[str, str], int]:
    return (row["k"], row["e"][:19]), row["n"]


def _key(number: int) -> str:
    return "abcd"[number * 7919 % 13 % 4]


def _time(second: int) -> str:
    return f"2024-01-01 {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def _event(number: int, event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "e_n": number, "e_k": _key(number), "e_ts": _time(number // PER_SECOND)}


@contextmanager
def living(
    folder: Path, load: Workload, seed: int, *conf: str, kind: tuple[str, ...] = BATCHES
) -> Iterator[Life]:
    """A server over a new cluster, both ended with the body."""
    (folder / "cluster").mkdir()
    with Standalone(folder / "cluster") as cluster:
        life = Life(cluster, folder / "server", load, seed, conf, kind)
        try:
            yield life
        finally:
            life.server.kill()
