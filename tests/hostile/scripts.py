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


# The peak of its own memory, written when it ends: what the system tells of an ended process may be
# that of the one that started it.
_PROGRAM = """
import atexit, runpy, sys
def peak():
    lines = open("/proc/self/status").read().splitlines()
    (size,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    open("peak.txt", "w").write(size)
atexit.register(peak)
sys.argv = ["sql", "run", "s.sql", "--output", "json"]
runpy.run_module("sqlengine.cli", run_name="__main__")
"""


def run_script(folder: Path, script: str, *, limits: str | None = None) -> Run:
    """Runs a script with `sql run` in its folder, under these limits or those of this process."""
    (folder / "s.sql").write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if limits is not None:
        environment["SQLENGINE_LIMITS"] = limits
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    memory = int((folder / "peak.txt").read_text()) * 1024
    return Run(done.returncode, done.stdout, done.stderr, memory, time.monotonic() - began)
