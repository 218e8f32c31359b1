"""Rows of a query over HTTP without a client of ours: events, Flink's SQL Gateway, and PyFlink beside
them."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

# A Python that has apache-flink, which cannot be installed beside newer packages.
PYFLINK: Final = "SQLENGINE_PYFLINK"
FLINK_ROWS: Final = 20_000
_COLLECT: Final = """
import os, sys
from pyflink.table import EnvironmentSettings, TableEnvironment

def cpu():  # of this process, and of its JVM
    used, tick = sum(os.times()[:2]), os.sysconf("SC_CLK_TCK")
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(stat[1]) == os.getpid():
            used += (int(stat[11]) + int(stat[12])) / tick
    return used

env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
env.get_config().set("parallelism.default", "1")
env.execute_sql(
    "CREATE TABLE events (id BIGINT, word STRING, amount DOUBLE)"
    f" WITH ('connector' = 'filesystem', 'path' = 'file://{sys.argv[1]}', 'format' = 'csv')"
)
for _ in range(int(sys.argv[3])):
    before = cpu()
    with env.execute_sql(sys.argv[2]).collect() as rows:
        count = sum(1 for _ in rows)
    print(count / (cpu() - before), flush=True)
"""


def rows_as_events(url: str, sql: str) -> int:
    """Returns how many rows a query sends as events."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.request("POST", "/api/v1/queries", sql, {"Accept": "text/event-stream"})
    data = (line[6:] for line in connection.getresponse() if line.startswith(b"data: "))
    rows = sum(len(json.loads(page)["rows"]) for page in data)
    connection.close()
    return rows


def rows_of_gateway(url: str, sql: str) -> int:
    """Returns how many rows a query gives over Flink's SQL Gateway, as JSON."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def ask(method: str, path: str, body: object = None) -> Any:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())

    batch = {"execution.runtime-mode": "batch"}
    session = ask("POST", "/v2/sessions", {"properties": batch})["sessionHandle"]
    one = f"/v2/sessions/{session}"
    handle = ask("POST", f"{one}/statements", {"statement": sql})["operationHandle"]
    rows, path = 0, f"{one}/operations/{handle}/result/0?rowFormat=JSON"
    while path:
        page = ask("GET", path)
        rows += len(page.get("results", {}).get("data", ()))
        path = page.get("nextResultUri")
    ask("DELETE", one)
    connection.close()
    return rows


def pyflink_rate(lines: Iterator[str], sql: str, rounds: int) -> str:
    """Returns the rows per CPU second of PyFlink's `collect` over a file of CSV, the JVM included,
    the best of some rounds in one process; '' where `SQLENGINE_PYFLINK` names no Python."""
    python = os.environ.get(PYFLINK)
    if not python:
        return ""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        path = Path(folder) / "events.csv"
        path.write_text("".join(lines), encoding="utf-8")
        command = [python, "-c", _COLLECT, str(path), sql, str(rounds)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return f"{max(map(float, done.stdout.split())):,.0f}"
