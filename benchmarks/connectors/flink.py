"""Flink with its own connectors, in a JVM beside the engine: CPU for the same rows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks.rules_gen import ORACLE

_POM: Final = Path(__file__).with_name("flink.pom.xml")


def rate(script: str, rows: int) -> int | None:
    """Returns how many rows a CPU second of the whole JVM takes in the second run of the script's
    INSERT; None where Flink or its connectors are not there."""
    jars = _jars()
    if jars is None or not (ORACLE / "flink_oracle.py").exists():
        return None
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        file = Path(name) / "job.sql"
        file.write_text(script)
        command = [sys.executable, str(ORACLE / "flink_oracle.py"), "--time", "--repeat", "2"]
        done = subprocess.run(
            [*command, "--rows", str(rows), "--heap", "2g", str(file)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "FLINK_EXTRA_JARS": f"{jars}/*"},
        )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    timing = [e for e in events if e["kind"] == "timing"]
    if not timing:
        failed = [e["message"] for e in events if e["kind"] == "error"] or [done.stderr]
        raise RuntimeError(f"Flink: {failed[0][:2000]}")
    cpu_us: float = timing[-1]["cpu_us_per_row"]
    return round(1e6 / cpu_us)


@cache
def _jars() -> Path | None:
    """Returns the folder with the connectors, which Maven fetches once; None without Maven."""
    maven = shutil.which("mvn")
    folder = Path.home() / ".cache" / "sqlengine" / "servers" / "flink-connectors"
    if maven is not None and not folder.exists():
        command = [maven, "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies"]
        subprocess.run([*command, f"-DoutputDirectory={folder}"], check=True)
    return folder if folder.exists() else None
