"""The server's start and its memory: `sql serve` with 100 and with 1,414 rules in its folder, and
started again."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import sigma
from benchmarks.measure import resident_mb, tree_cpu_s
from benchmarks.page import Section, Table
from tests.conformance.sigma import ALERTS, table_of

SETTLE_S = 2.0
COUNTERS = ("rules_compiled", "rules_loaded")


@dataclass(frozen=True)
class Start:
    """Until /readyz says yes, and what there is a moment later."""

    rules: int
    wall_s: float
    cpu_s: float
    memory_mb: float
    compiled: int
    loaded: int
    idle_cpu: float


def run() -> Section:
    starts: list[tuple[str, Start]] = []
    for rules in (0, 100, len(sigma.all_rules())):
        with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
            folder = Path(name)
            _write(folder / "jobs", rules)
            starts.append(("first", _start(folder, rules)))
            if rules:
                starts.append(("again", _start(folder, rules)))
    rows = [
        [
            f"{s.rules:,} rules, {when}",
            f"{s.wall_s:.2f}",
            f"{s.cpu_s:.2f}",
            f"{s.memory_mb:.0f}",
            f"{s.compiled}",
            f"{s.loaded}",
            f"{s.idle_cpu:.1%}",
        ]
        for when, s in starts
    ]
    few, many = (next(s for _, s in starts if s.rules == n) for n in (100, len(sigma.all_rules())))
    beyond = (many.memory_mb - few.memory_mb) / (many.rules - few.rules) * 1024
    columns = [
        "",
        "ready after s",
        "CPU s",
        "memory MB",
        "compiled",
        "loaded from disk",
        "CPU when idle",
    ]
    return Section(
        "footprint",
        "Start and memory of the server",
        "`sql serve` with SigmaHQ rules as files in its folder, until `/readyz` answers; CPU"
        " includes the child process that plans. Memory is resident memory two seconds later.",
        [Table("Start", columns, rows)],
        [
            f"Memory of a rule beyond the first 100: {beyond:.0f} KB (13 predicates on average).",
        ],
    )


def _write(folder: Path, rules: int) -> None:
    """The tables in one file, each rule in its own."""
    folder.mkdir()
    wanted = sigma.all_rules()[:rules]
    table = table_of(sigma.TABLE, sigma.log(), sigma.all_rules())
    table = table.replace("'format' =", "'topic.auto-create' = 'true', 'format' =")
    (folder / "tables.sql").write_text(f"{table};\n{ALERTS};\n", encoding="utf-8")
    for rule in wanted:
        (folder / f"{rule.job}.sql").write_text(rule.sql, encoding="utf-8")


@contextmanager
def started(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server over a data folder, and its address, once it is ready; it is ended afterwards."""
    sql = str(Path(sys.executable).parent / "sql")
    command = [sql, "serve", "--data", str(folder), "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            yield server, _ready(server)
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)


def _start(folder: Path, rules: int) -> Start:
    began = time.perf_counter()
    with started(folder) as (server, url):
        wall, cpu = time.perf_counter() - began, tree_cpu_s(server.pid)
        time.sleep(SETTLE_S)
        idle = (tree_cpu_s(server.pid) - cpu) / SETTLE_S
        memory = resident_mb(server.pid)
        compiled, loaded = (_counter(url, name) for name in COUNTERS)
        if _counter(url, "rules") != rules:
            raise RuntimeError(f"{_counter(url, 'rules')} rules run, not {rules}")
    return Start(rules, wall, cpu, memory, compiled, loaded, idle)


def _ready(server: subprocess.Popen[str]) -> str:
    """The server's address, once it is ready."""
    assert server.stderr is not None
    said = []
    for line in server.stderr:
        said.append(line)
        if found := re.search(r"ready on (http://\S+?),", line):
            break
    else:
        raise RuntimeError("the server ended: " + "".join(said)[-1000:])
    while True:
        try:
            urllib.request.urlopen(f"{found[1]}/readyz", timeout=5).close()
            return found[1]
        except urllib.error.HTTPError:
            time.sleep(0.01)


def _counter(url: str, name: str) -> int:
    with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    found = re.search(rf"^sqlengine_{name}(?:_total)? (\S+)$", text, re.MULTILINE)
    return int(float(found[1])) if found else 0
