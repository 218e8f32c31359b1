"""Makes calls of a connector go wrong: beneath the boundary, in what a real connector has opened.

A fault is switched on for one method of the tables whose names it knows. Every call of that method
then raises, hangs until it is released, or answers what cannot be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pytest

from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.registry import get_connector

HANG = "hang"
RAISES: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("a\x1b[31m bad\nvalue"),
    "OSError": lambda: OSError(5, "Input/output error", "/mnt/data"),
    "MemoryError": MemoryError,
    "SystemExit": lambda: SystemExit(3),
}
SOURCE_METHODS = (
    "open", "bounded", "shards", "start", "end", "read", "resume", "marks", "closed", "forget",
    "expect", "notify_checkpoint", "close",
)  # fmt: skip
# Of a table that is read as a whole, for a version of it.
VERSION_METHODS = ("content_stamp", "open", "bounded", "shards", "start", "end", "read")
SINK_METHODS = ("open", "last_epoch", "write", "commit", "roll", "roll_is_due", "close")


def chunk(**changes: Any) -> Chunk:
    """A chunk of one record of shard 's', or with something in it that does not fit."""
    records, offsets = pa.array([b"{}"], pa.binary()), np.array([0], np.int64)
    return replace(Chunk("s", 0, 1, 1, records, offsets=offsets), **changes)


# Answers that cannot be, by method; of the others any.
NONSENSE: dict[str, tuple[object, ...]] = {
    "read": (
        "rows", 7, chunk(), chunk(end=-5), chunk(num_rows=1 << 70), chunk(records=None),
        chunk(records=pa.array(["text"])), chunk(offsets=[0]), chunk(kinds="+I"),
        chunk(columns={"x": 1}), chunk(metadata=None, shard=""),
    ),
    "shards": (None, 5, [None], ["a", "a"], "abc"),
    "closed": (None, [3]), "marks": (3, {"a": 5}),
    "commit": (None, "many", -1, True), "last_epoch": ("x", -3),
    "start": (None, -1, 1 << 70, "0"), "end": ("far", -7, 1.5),
    "content_stamp": (3, b"x"),
    "bounded": (None, "yes"), "roll_is_due": (None,),
}  # fmt: skip


@dataclass
class Fault:
    """What goes wrong: `how` is the name of an exception, HANG, or 'nonsense' with its answer;
    `after` calls that still go right."""

    method: str
    how: str
    answer: object = None
    after: int = 0
    calls: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def strike(self, work: Callable[[], Any]) -> Any:
        self.calls += 1
        if self.calls <= self.after or self.released.is_set():
            return work()
        if self.how in RAISES:
            error = RAISES[self.how]()
            raise error
        if self.how == HANG:
            assert self.released.wait(120), "nobody released it"
            return work()
        return self.answer


class Faulty:
    """What a connector has opened, with the fault of its table."""

    def __init__(self, real: Any, fault_of: Callable[[], Fault | None]) -> None:
        self.__dict__.update(_real=real, _fault_of=fault_of)

    def __getattr__(self, name: str) -> Any:
        real, fault = self.__dict__["_real"], self.__dict__["_fault_of"]()
        if fault is None or fault.method != name:
            return getattr(real, name)
        if not callable(getattr(real, name)):
            return fault.strike(lambda: getattr(real, name))
        return lambda *args, **options: fault.strike(lambda: getattr(real, name)(*args, **options))


class Injector:
    """Stands in all connectors as long as it is entered. `faults`: by name of table."""

    def __init__(self) -> None:
        self.faults: dict[str, Fault] = {}
        self._all: list[Fault] = []
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Self:
        for name in ("filesystem", "jdbc", "datagen", "topic", "blackhole", "print", "python"):
            connector = get_connector(name)
            assert connector is not None
            for end in ("source", "sink"):
                self._patch.setattr(connector, end, self._opens(getattr(connector, end)))
            self._patch.setattr(connector, "content_stamp", self._stamps(connector.content_stamp))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for fault in self._all:
            fault.released.set()
        self._patch.undo()

    def _opens(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def opened(table: Any, environment: Any) -> Any:
            name = table.name[-1]
            fault = self.faults.get(name)
            if fault is not None and fault.method == "open":
                found = fault.strike(lambda: real(table, environment))
                if fault.how == "nonsense" and not fault.released.is_set():
                    return found
                return Faulty(found, lambda: self.faults.get(name))
            return Faulty(real(table, environment), lambda: self.faults.get(name))

        return opened

    def _stamps(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def stamp(table: Any, environment: Any) -> Any:
            fault = self.faults.get(table.name[-1])
            if fault is None or fault.method != "content_stamp":
                return real(table, environment)
            return fault.strike(lambda: real(table, environment))

        return stamp

    def switch_on(self, table: str, fault: Fault) -> None:
        self.faults[table] = fault
        self._all.append(fault)

    def switch_off(self, table: str) -> None:
        """The host is back: what hung returns."""
        fault = self.faults.pop(table, None)
        if fault is not None:
            fault.released.set()
