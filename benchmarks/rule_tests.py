"""`sql test` over a thousand rules with two cases each: a start of the command, planning, and all
runs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.page import Section, Table

RULES = 1000
_TABLES = """CREATE TABLE processes (host STRING, image STRING, command STRING, parent STRING,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'topic', 'topic' = 'processes', 'format' = 'json');
CREATE TABLE alerts (rule STRING, host STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
"""
_FILTER = r"""-- @rule
-- title: {tool} is started
-- severity: high
INSERT INTO alerts SELECT RULE_NAME(), host, CAST(1 AS BIGINT) FROM processes
WHERE (LOWER(command) LIKE '%{tool} -x%' OR LOWER(image) LIKE '%\{tool}.exe')
  AND LOWER(parent) NOT LIKE '%good%'
"""
_FILTER_CASES = r"""- name: fires
  events: [{{host: a, command: 'c {tool} -x', parent: p}}, {{host: b, image: 'c:\{tool}.EXE', parent: p}}]
  alerts: [{{host: a}}, {{host: b}}]
- name: does not
  events: [{{host: a, command: 'c {tool} -x', parent: 'good'}}]
  alerts: []
"""
_WINDOW = """INSERT INTO alerts SELECT RULE_NAME(), host, COUNT(*)
FROM TABLE(TUMBLE(TABLE processes, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
WHERE LOWER(command) LIKE '%{tool}%' GROUP BY host, window_start, window_end HAVING COUNT(*) >= 2
"""
_WINDOW_CASES = """- name: fires
  events: [{{host: a, command: 'x {tool} y'}}, {{host: a, command: '{tool}'}}]
  alerts: [{{host: a, n: 2}}]
- name: does not
  events: [{{host: a, command: 'x {tool} y'}}]
  alerts: []
"""


def write_rules(folder: Path, number: int) -> None:
    """Writes rules with their cases, a window in one of ten, all different."""
    (folder / "_tables.sql").write_text(_TABLES)
    for i in range(number):
        text, cases = (_WINDOW, _WINDOW_CASES) if i % 10 == 0 else (_FILTER, _FILTER_CASES)
        (folder / f"rule{i}.sql").write_text(text.format(tool=f"tool{i}"))
        (folder / f"rule{i}.test.yaml").write_text(cases.format(tool=f"tool{i}"))


def run() -> Section:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        write_rules(Path(name), RULES)
        _measured((), Path(name))  # a package that is installed has its byte code
        rows = [_row(options, Path(name)) for options in ((), ("--coverage",), ("--mutate",))]
    about = (
        f"`sql test` over {RULES:,} rules of three conditions, one in ten with a window, with two"
        " cases each: the whole command, in as many processes as there are cores."
    )
    columns = ["", "s", "CPU s", "CPU ms a rule"]
    table = Table(f"{RULES:,} rules, {2 * RULES:,} cases", columns, rows)
    return Section("rule_tests", "Tests of rules", about, [table])


def _row(options: tuple[str, ...], folder: Path) -> list[str]:
    took, cpu = _measured(options, folder)
    title = " ".join(("sql test", *options))
    return [title, f"{took:.1f}", f"{cpu:.1f}", f"{cpu / RULES * 1000:.1f}"]


def _measured(options: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """Returns the time and the CPU time of the command (s)."""
    command = [sys.executable, "-m", "sqlengine.cli", "test", str(folder), *options]
    written = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=written)
    took, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
