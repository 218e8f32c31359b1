"""The checkpoint stores of all graphs, one for each."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from sqlengine.state.rocks_store import RocksStore
from sqlengine.state.store import CheckpointStore
from sqlengine.system.durability import Fsync


class CheckpointStores(Protocol):
    """Opens and removes the stores of graphs, by name."""

    def names(self) -> list[str]:
        """Returns the names of the existing stores, sorted."""

    def open(self, name: str) -> CheckpointStore:
        """Opens the store of that name, and creates it if absent. ServiceError when it cannot be
        opened."""

    def remove(self, name: str) -> None:
        """Removes a closed store, if it exists."""


# The prefix of folders that are being removed; no store has such a name.
_REMOVED = ".gone-"


class RocksStores:
    """Keeps each store in a RocksDB folder below `folder`; `fsync` as for `RocksStore`.

    A store is removed by renaming its folder first: what a crash leaves of it is not a store, and
    is deleted by the next start.
    """

    def __init__(self, folder: Path, fsync: Fsync = "none") -> None:
        self._folder = folder
        self._fsync = fsync
        for left in folder.glob(f"{_REMOVED}*"):
            shutil.rmtree(left, ignore_errors=True)

    def names(self) -> list[str]:
        return sorted(p.name for p in self._folder.glob("*") if not p.name.startswith(_REMOVED))

    def open(self, name: str) -> CheckpointStore:
        return RocksStore(self._folder / name, self._fsync)

    def remove(self, name: str) -> None:
        removed = self._folder / f"{_REMOVED}{name}"
        with suppress(FileNotFoundError):
            (self._folder / name).rename(removed)
        shutil.rmtree(removed, ignore_errors=True)
