"""Processes that kill themselves at a place which a test has named.

What an engine changes for good it changes through the disk, the checkpoint stores and the
connections that it is given. Those here know for each change which point of the work it is, count,
and end the process with SIGKILL before, within or after one of them. They also note the last change
in memory that the parent shares: so it is known where a process was that somebody killed from
outside."""

from __future__ import annotations

import mmap
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sqlengine.state.store import CheckpointStore, Loaded, Position
from sqlengine.state.stores import CheckpointStores, RocksStores
from sqlengine.state.table import TableDelta
from sqlengine.system.disk import Data, MachineDisk
from tests.recovery.points import MOMENTS, NAMES, point_of


@dataclass(frozen=True)
class PlannedCrash:
    """The process dies at the `number`th change (from 1 on) of this point; of any for no point."""

    point: str | None
    number: int
    moment: str


class LastChange:
    """What a process has changed last, also when it is gone: two bytes of memory, at `place`."""

    def __init__(self, memory: mmap.mmap | None = None, place: int = 0) -> None:
        self._memory = memory or mmap.mmap(-1, 2)
        self._bytes = slice(place, place + 2)

    def note(self, point: str, moment: str) -> None:
        self._memory[self._bytes] = bytes((NAMES.index(point) + 1, MOMENTS.index(moment)))

    def forget(self) -> None:
        self._memory[self._bytes] = bytes(2)

    def read(self) -> tuple[str, str]:
        """Point and moment; both empty when nothing was changed."""
        point, moment = self._memory[self._bytes]
        return (NAMES[point - 1], MOMENTS[moment]) if point else ("", "")


class CrashInjector:
    """Asked at each change, by any thread. `met`: what is done when the planned crash has come."""

    def __init__(
        self, crash: PlannedCrash | None, last: LastChange, met: Callable[[], None] = lambda: None
    ) -> None:
        self._met = met
        self._last = last
        self.expect(crash, lambda: True)

    def expect(self, crash: PlannedCrash | None, begun: Callable[[], bool]) -> None:
        """A planned crash for which changes count once it has `begun`."""
        self._crash = crash
        self._begun = begun
        self._left = 0 if crash is None else crash.number

    @contextmanager
    def change(self, point: str) -> Iterator[bool]:
        """What is done within is one change. It gets whether it is to be done in part: then it
        calls `die`."""
        moment = self._moment(point)
        self._last.note(point, "before")
        if moment == "before":
            die()
        self._last.note(point, "within")
        yield moment == "within"
        self._last.note(point, "after")
        if moment is not None:
            die()

    def _moment(self, point: str) -> str | None:
        crash = self._crash
        if crash is None or crash.point not in (None, point) or not self._begun():
            return None
        self._left -= 1
        if self._left:
            return None
        self._met()
        return crash.moment


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class CrashingDisk(MachineDisk):
    """The disk of this machine, with injected crashes."""

    def __init__(self, injector: CrashInjector) -> None:
        self._injector = injector
        self._paths: dict[int, Path] = {}

    def open(
        self, path: Path, *, make: bool = False, empty: bool = False, mode: int = 0o600
    ) -> int:
        if make and not os.path.exists(path):
            with self._injector.change(point_of("make", path)):
                file = super().open(path, make=make, empty=empty, mode=mode)
        else:
            file = super().open(path, make=make, empty=empty, mode=mode)
        self._paths[file] = path
        return file

    def close(self, file: int) -> None:
        self._paths.pop(file, None)
        os.close(file)

    def pwrite(self, file: int, data: Data, position: int) -> int:
        with self._injector.change(point_of("write", self._paths[file])) as in_part:
            if in_part:
                os.pwrite(file, data[: len(data) // 2], position)
                die()
            return os.pwrite(file, data, position)

    def pwritev(self, file: int, parts: Sequence[bytes], position: int) -> int:
        return self.pwrite(file, b"".join(parts), position)

    def truncate(self, file: int, size: int) -> None:
        if os.fstat(file).st_size == size:
            return
        with self._injector.change(point_of("truncate", self._paths[file])):
            os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        with self._injector.change(point_of("sync", self._paths[file])):
            os.fdatasync(file)

    def make_folder(self, path: Path, *, parents: bool = False, mode: int = 0o777) -> None:
        with self._injector.change(point_of("folder", path)):
            super().make_folder(path, parents=parents, mode=mode)

    def rename(self, old: Path, new: Path) -> None:
        with self._injector.change(point_of("rename", new)):
            os.replace(old, new)
        self._paths.update({file: new for file, path in list(self._paths.items()) if path == old})

    def remove(self, path: Path) -> None:
        with self._injector.change(point_of("remove", path)):
            super().remove(path)

    def remove_folder(self, path: Path) -> None:
        with self._injector.change(point_of("folder", path)):
            super().remove_folder(path)


class CrashingStores:
    """RocksDB folders, with injected crashes; `point`: what a checkpoint is called."""

    def __init__(
        self, stores: CheckpointStores, injector: CrashInjector, point: str = "checkpoint"
    ) -> None:
        self._stores = stores
        self._injector = injector
        self._point = point

    def names(self) -> list[str]:
        return self._stores.names()

    def open(self, name: str) -> CheckpointStore:
        return CrashingStore(self._stores.open(name), self._injector, self._point)

    def remove(self, name: str) -> None:
        with self._injector.change("graph removed"):
            self._stores.remove(name)


class CrashingStore:
    def __init__(self, store: CheckpointStore, injector: CrashInjector, point: str) -> None:
        self._store = store
        self._injector = injector
        self._point = point

    def put(self, position: Position, changes: Mapping[str, TableDelta]) -> None:
        with self._injector.change(self._point):
            self._store.put(position, changes)

    def load(self) -> Loaded | None:
        return self._store.load()

    def drop(self, table: str) -> None:
        with self._injector.change(self._point):
            self._store.drop(table)

    def close(self) -> None:
        self._store.close()


class CrashingConnection(sqlite3.Connection):
    """A connection to SQLite, with injected crashes."""

    injector: CrashInjector

    def __init__(self, database: str | Path, **options: Any) -> None:
        super().__init__(database, **options)
        self._is_sink = "app.db" in str(database)

    def commit(self) -> None:
        if not self._is_sink:
            return super().commit()
        with self.injector.change("output of hosts and seen"):
            return super().commit()


def inject_crashes_into_databases(injector: CrashInjector) -> None:
    """All connections to SQLite that this process opens from now on."""
    CrashingConnection.injector = injector
    pytest.MonkeyPatch().setattr(
        sqlite3, "connect", partial(sqlite3.connect, factory=CrashingConnection)
    )


def stores(injector: CrashInjector, folder: Path) -> CheckpointStores:
    return CrashingStores(RocksStores(folder), injector)
