"""The example runs, and gives what the same computation gives in plain Python; a server that dies
takes its workers along."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import psutil

from tests.service.harness import TABLES, Process, rule
from tests.support import PATIENCE_S, ROOT, eventually

SCRIPT = ROOT / "examples" / "functions" / "payments_python.sql"
DATA = ROOT / "examples" / "data"


def test_example(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sqlengine.cli",
        "run",
        str(SCRIPT),
        "-D",
        f"DATA={DATA}",
        "--output",
        "events",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    rows: dict[int, list[list[object]]] = defaultdict(list)
    for event in map(json.loads, done.stdout.splitlines()):
        if event["kind"] == "row":
            rows[event["stmt"]].append(event["row"])
    payments = [json.loads(line) for line in (DATA / "payments.json").read_text().splitlines()]
    euros, limits, spreads = (rows[stmt] for stmt in sorted(rows))
    assert [r[0] for r in euros] == [
        p["payment_id"] for p in payments if p["amount"] == int(p["amount"])
    ]
    assert [r[1:] for r in limits] == [
        [p["account"], p["amount"]] for p in payments if p["amount"] > 1000
    ]
    windows: dict[tuple[str, str], list[float]] = defaultdict(list)
    for payment in payments:
        windows[payment["account"], payment["ts"][:15]].append(payment["amount"])
    wide = sorted(
        (a, t) for (a, t), amounts in windows.items() if max(amounts) - min(amounts) > 500
    )
    assert sorted((str(r[0]), str(r[1])[:15].replace("T", " ")) for r in spreads) == wide


def test_a_function_that_hangs_dies_with_its_server(tmp_path: Path) -> None:
    (tmp_path / "functions").mkdir()
    text = (
        "import time\nfrom sqlengine import udf\n\n@udf\ndef hangs(n: int) -> int:\n   "
        " time.sleep(1000)\n    return n\n"
    )
    (tmp_path / "functions" / "slow.py").write_text(text)
    options = (
        f"functions=Path({str(tmp_path / 'functions')!r}), "
        "function_limits=__import__('sqlengine.functions.limits').functions.limits.FunctionLimits(row_s=100.0)"
    )
    with Process(tmp_path / "data", options=options) as server:
        user = server.user()
        for topic in ("events", "alerts"):
            user.topic(topic)
        user.submit("tables", TABLES)
        create = "CREATE TEMPORARY FUNCTION hangs AS 'slow.hangs' LANGUAGE PYTHON;"
        user.submit("hanging", create + rule("hanging", "hangs(amount) > 0"))
        (worker,) = psutil.Process(server.process.pid).children()
        user.write("events", user.event(amount=1))
        server.end(signal.SIGKILL)
        eventually(lambda: not psutil.pid_exists(worker.pid), "the end of the worker")
