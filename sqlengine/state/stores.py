"""Where the checkpoints of all graphs are: a store for each."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Protocol

from sqlengine.state.store import CheckpointStore, RocksStore


class CheckpointStores(Protocol):
    """Stores by the names of their graphs."""

    def names(self) -> list[str]:
        """Those that there are, in order."""

    def open(self, name: str) -> CheckpointStore:
        """The store of that name, made if there is none. ServiceError when it cannot be opened."""

    def remove(self, name: str) -> None:
        """Removes a store that is closed, if it is there."""


class RocksStores:
    """A RocksDB folder for each, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        return sorted(p.name for p in self._folder.glob("*"))

    def open(self, name: str) -> CheckpointStore:
        return RocksStore(self._folder / name)

    def remove(self, name: str) -> None:
        shutil.rmtree(self._folder / name, ignore_errors=True)
