"""The users' functions that tasks call: they travel with the plan, with their sources, so that a
task needs no folder of the driver. Does not import Spark."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
import pyarrow as pa

from sqlengine.functions.callable_here import function_named, is_callable, make_callable
from sqlengine.functions.limits import FunctionLimits
from sqlengine.functions.pool import POOL
from sqlengine.functions.store import ModuleStore
from udf.user import UserFunction


class Losses(msgspec.Struct, frozen=True):
    """The crashes, hangs and lacks of memory of a module in a task, each with the place of the
    function and the reason; those of its functions that are `switched_off` in the process, also
    since a task before. `forgiven`: see `ModuleHost`, of the driver."""

    content: str
    forgiven: str
    losses: list[tuple[str, str]]
    switched_off: dict[str, str]


# Workers of tasks. Where tasks run in the process of their driver, it has others.
_GROUP: Final = "tasks"
# The graphs whose modules keep their workers in this process, those that ran last.
_GRAPHS_KEPT: Final = 8


@dataclass(frozen=True)
class ShippedModule:
    """A module: its `sources` by path, and its `limits`. `forgiven`: see `ModuleHost`, of the
    driver."""

    sources: Mapping[str, bytes]
    limits: FunctionLimits
    forgiven: str


@dataclass(frozen=True)
class TaskFunctions:
    """The functions of one plan, and their modules by content."""

    functions: tuple[UserFunction, ...] = ()
    modules: Mapping[str, ShippedModule] = field(default_factory=dict)

    @classmethod
    def of_driver(cls, identities: Iterable[str]) -> TaskFunctions:
        """Returns functions that can be called in this process, for its tasks."""
        functions = tuple(map(function_named, sorted(set(identities))))
        hosts = {f.content: POOL.host(f.content) for f in functions}
        modules = {
            content: ShippedModule(_read(host.folder), host.limits, host.forgiven)
            for content, host in hosts.items()
        }
        return cls(functions, modules)

    def renewed(self) -> TaskFunctions:
        """Returns the functions as they are in the driver now, where something may have been
        forgiven for another graph."""
        if all(POOL.host(c).forgiven == m.forgiven for c, m in self.modules.items()):
            return self
        return self.of_driver(f.identity for f in self.functions)

    @property
    def varying(self) -> bool:
        """True if a function is not deterministic."""
        return not all(f.deterministic for f in self.functions)

    # ---- in a task -------------------------------------------------------------------------------

    def around(self, graph: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields what is computed, where these functions can be called. They are those that `graph`
        calls now: the workers of others that it has called stop."""
        with POOL.group(_GROUP):
            self._make_callable(graph)
        while True:
            with POOL.group(_GROUP):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _make_callable(self, graph: str) -> None:
        forgiven = {content: module.forgiven for content, module in self.modules.items()}
        known = _put(graph, forgiven)
        for content, module in self.modules.items():
            folder = ModuleStore(_folder()).put_as(content, module.sources)
            host = POOL.add(content, folder, module.limits)
            if known.get(content) != module.forgiven:
                host.forgive()
        for function in self.functions:
            if not is_callable(function):
                make_callable(function)
        if known.keys() != forgiven.keys():
            POOL.keep(graph, forgiven)

    def take_losses(self) -> list[Losses]:
        """Returns the losses since the last call, of modules that have any."""
        taken = []
        with POOL.group(_GROUP):
            for content, module in self.modules.items():
                host = POOL.host(content)
                losses = [host.losses.popleft() for _ in range(len(host.losses))]
                if losses or host.switched_off:
                    off = dict(host.switched_off)
                    taken.append(Losses(content, module.forgiven, losses, off))
        return taken


def note_losses(told: Iterable[Losses]) -> None:
    """Counts losses of tasks in the driver: a function that has too many is switched off, in
    whichever of them they were."""
    for losses in told:
        host = POOL.host(losses.content)
        if host.forgiven == losses.forgiven:
            for place, reason in losses.losses:
                host.note(place, reason)
            for place, why in losses.switched_off.items():
                host.switch_off(place, why)


# By graph and content: what was forgiven last.
_graphs: dict[str, Mapping[str, str]] = {}
_lock: Final = Lock()


def _put(graph: str, forgiven: Mapping[str, str]) -> Mapping[str, str]:
    """Notes what a graph calls now, and lets go of those that did not run for long; returns what it
    called before."""
    with _lock:
        known = _graphs.pop(graph, {})
        if forgiven:
            _graphs[graph] = forgiven
        past = list(_graphs)[:-_GRAPHS_KEPT]
        for name in past:
            del _graphs[name]
    for name in past:
        POOL.leave(name)
    return known


@lru_cache(maxsize=1)
def _folder() -> Path:
    """Returns the folder for the sources of this process, which goes with the application: Spark
    names those of its own to its workers."""
    if own := os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]:
        return Path(own) / "modules"
    folder = tempfile.mkdtemp(prefix="modules-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _read(folder: Path) -> dict[str, bytes]:
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and "__pycache__" not in p.parts)
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}
