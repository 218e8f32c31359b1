"""What a small process does without: a library that it never uses, memory that is free but not
given back, and memory that is given back to be asked for again at once."""

from __future__ import annotations

import ctypes
import gc
import importlib.abc
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    """Keeps Arrow from loading pandas (35 MB, 0.2 s), which it does wherever it is installed when
    the first value is converted, only to recognise its objects. It looks once; `to_pandas` finds it
    all the same."""
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
    """For imports that are for good: the cyclic collector, which finds nothing there, neither runs
    meanwhile (a fifth of their time) nor looks at what came of them afterwards."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def keep_for_reuse() -> None:
    """Lets malloc keep up to 32 MB that are free. A batch needs the same few megabytes as the one
    before; glibc gives them back to the system each time, and the system clears their pages again:
    a third of the time of reading JSON. Who sets `MALLOC_TRIM_THRESHOLD_` or
    `MALLOC_MMAP_THRESHOLD_` keeps what they say."""
    if sys.platform != "linux" or any(name in os.environ for name in _SET_OUTSIDE):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc alone has it
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 8 << 20)
        mallopt(_TRIM_THRESHOLD, 32 << 20)


def give_back() -> None:
    """Returns to the system what compiling rules has used and freed. A few ms per 100 MB, so not
    for small changes."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
        if trim is not None:
            trim(0)


@dataclass(frozen=True)
class Usage:
    """What a process takes: resident memory, and seconds of CPU since it began."""

    pid: int
    memory_bytes: int
    cpu_s: float


def usage() -> Usage:
    """Of this process."""
    return Usage(os.getpid(), resident_bytes(), time.process_time())


def resident_bytes() -> int:
    """Resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
