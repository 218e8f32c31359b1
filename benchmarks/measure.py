"""CPU seconds and memory, of this process and of others with all their children."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
_TICK = os.sysconf("SC_CLK_TCK")


def cpu_of(work: Callable[[], T]) -> tuple[T, float]:
    """What `work` returns, and the CPU seconds that all threads of this process took meanwhile."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def in_a_process(module: str, *arguments: object) -> Any:
    """Runs `python -m MODULE ARGUMENTS…`, which is warm with nothing else and has its memory for
    itself; returns the JSON of its last line. CalledProcessError where it fails."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def tree_cpu_s(pid: int) -> float:
    """CPU seconds of a process, of its children, and of those that have ended."""
    total = 0.0
    for process in _tree(pid):
        fields = _stat(process)
        total += sum(int(f) for f in (fields[11:15] if process == pid else fields[11:13])) / _TICK
    return total


def resident_mb(pid: int) -> float:
    """Resident memory of a process and its children in MB."""
    return sum(_memory(p) for p in _tree(pid)) / 1024


def own_mb() -> float:
    """Resident memory of this process in MB."""
    return _memory(os.getpid()) / 1024


def percentile(values: Sequence[float], share: float) -> float:
    return float(np.percentile(values, 100 * share)) if len(values) else 0.0


def machine() -> str:
    """What the figures were taken on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GB, Python"
        f" {platform.python_version()}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _tree(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += _tree(int(child))
    return found


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat behind the name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _memory(pid: int) -> int:
    """KB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)
