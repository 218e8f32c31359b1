"""Scripts that run in a process of their own, whose memory and time are measured."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

MB = 1 << 20


@dataclass(frozen=True)
class Run:
    """What a script printed, the most memory that it had (bytes), and how long it took (s)."""

    code: int
    out: str
    err: str
    memory: int
    seconds: float


def run_script(folder: Path, script: str, *, limits: str = "") -> Run:
    """Runs a script with `sql run` in its folder."""
    (folder / "s.sql").write_text(script)
    out, err = folder / "out.txt", folder / "err.txt"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SQLENGINE_LIMITS": limits}
    began = time.monotonic()
    with open(out, "wb") as to, open(err, "wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "sqlengine.cli", "run", "s.sql", "--output", "json"],
            cwd=folder, env=environment, stdout=to, stderr=errors,
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    return Run(
        process.returncode, out.read_text(), err.read_text(), usage.ru_maxrss * 1024, seconds
    )
