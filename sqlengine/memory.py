"""What a small server does without: a library that it never uses, and memory that is free but not given back."""

from __future__ import annotations

import ctypes
import gc
import importlib.abc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa


class _NoPandas(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ImportError("pandas is not wanted yet", name=name)
        return None


def forget_pandas() -> None:
    """Keeps Arrow from loading pandas (35 MB, 0.2 s), which it does wherever it is installed when the first value is
    converted, only to recognise its objects. It looks once; `to_pandas` finds it all the same."""
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
    """For imports that are for good: the cyclic collector, which finds nothing there, neither runs meanwhile (a fifth of
    their time) nor looks at what came of them afterwards."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def give_back() -> None:
    """Returns to the system what compiling rules has used and freed. A few ms per 100 MB, so not for small changes."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
        if trim is not None:
            trim(0)
