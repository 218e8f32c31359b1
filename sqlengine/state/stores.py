"""Where the checkpoints of all graphs are: a store for each."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from sqlengine.state.rocks_store import RocksStore
from sqlengine.state.store import CheckpointStore
from sqlengine.system.durability import Fsync


class CheckpointStores(Protocol):
    """Stores by the names of their graphs."""

    def names(self) -> list[str]:
        """Those that there are, in order."""

    def open(self, name: str) -> CheckpointStore:
        """The store of that name, made if there is none. ServiceError when it cannot be opened."""

    def remove(self, name: str) -> None:
        """Removes a store that is closed, if it is there."""


# What begins so is being removed: no store has such a name.
_GONE = ".gone-"


class RocksStores:
    """A RocksDB folder for each, in `folder`; `fsync` as for `RocksStore`. One that is removed
    loses its name first: what a death leaves of a folder is no store, and goes with the next
    start."""

    def __init__(self, folder: Path, fsync: Fsync = "none") -> None:
        self._folder = folder
        self._fsync = fsync
        for left in folder.glob(f"{_GONE}*"):
            shutil.rmtree(left, ignore_errors=True)

    def names(self) -> list[str]:
        return sorted(p.name for p in self._folder.glob("*") if not p.name.startswith(_GONE))

    def open(self, name: str) -> CheckpointStore:
        return RocksStore(self._folder / name, self._fsync)

    def remove(self, name: str) -> None:
        gone = self._folder / f"{_GONE}{name}"
        with suppress(FileNotFoundError):
            (self._folder / name).rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
