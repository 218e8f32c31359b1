"""Keeps processes small: imports, the cyclic collector, and what malloc keeps or returns."""

from __future__ import annotations

import ctypes
import gc
import importlib.abc
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa

# As in <malloc.h>: with values of bytes, and the variables of the environment that say the same.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_SET_OUTSIDE = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


class _NoPandas(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ImportError("pandas is not wanted yet", name=name)
        return None


def forget_pandas() -> None:
    """Keeps Arrow from importing pandas (35 MB, 0.2 s).

    Arrow imports it, if it is installed, when the first value is converted, only to recognise its
    objects. It tries that once; `to_pandas` still finds it later."""
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def importing() -> Iterator[None]:
    """Runs imports without pandas and without the cyclic collector, which finds nothing there and
    takes a fifth of their time. Afterwards it ignores the imported objects for good."""
    forget_pandas()
    known = len(sys.modules)
    gc.disable()
    try:
        yield
        if len(sys.modules) > known:
            gc.freeze()
    finally:
        gc.enable()


_OWN_PROCESS = threading.Event()


@contextmanager
def own_process() -> Iterator[None]:
    """Says that this process runs an engine and nothing else."""
    _OWN_PROCESS.set()
    try:
        yield
    finally:
        _OWN_PROCESS.clear()


def settle() -> None:
    """Keeps the cyclic collector from what was made until now, after a start or a large change: it
    would traverse the plans of thousands of rules again and again (0.1 s).

    Does nothing in a program that has an engine among other things: what it drops later must be
    found, and a collection of all that it has may take seconds."""
    if _OWN_PROCESS.is_set():
        gc.collect()
        gc.freeze()


def keep_for_reuse() -> None:
    """Lets malloc keep up to 32 MB of free memory.

    Each batch needs the same few megabytes. glibc would return them to the system after each, which
    then clears their pages again: a third of the time of reading JSON. Does nothing if
    `MALLOC_TRIM_THRESHOLD_` or `MALLOC_MMAP_THRESHOLD_` is set."""
    if sys.platform != "linux" or any(name in os.environ for name in _SET_OUTSIDE):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc alone has it
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 8 << 20)
        mallopt(_TRIM_THRESHOLD, 32 << 20)


def give_back() -> None:
    """Returns free memory to the system, after large rule sets were compiled. Takes a few ms per
    100 MB, so it is not for small changes."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
        if trim is not None:
            trim(0)


@dataclass(frozen=True)
class Usage:
    """Resources of a process: resident memory, and CPU time (s) since its start."""

    pid: int
    memory_bytes: int
    cpu_s: float


def usage() -> Usage:
    """Measures this process."""
    return Usage(os.getpid(), resident_bytes(), time.process_time())


# The memory of the container that this process is in, by version of cgroups.
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def usable_bytes() -> int:
    """Returns the memory of the machine, or of the container that has less, in bytes."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _CGROUPS:
        with suppress(OSError, ValueError), open(path) as file:  # ValueError: 'max'
            most = min(most, int(file.read()))
    return most


def resident_bytes() -> int:
    """Returns the resident memory of this process in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
