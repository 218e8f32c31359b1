"""The lock of a data folder: one server per folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from sqlengine.broker.errors import NO_SPACE, BrokerError, DataFolderLocked, raising_broker_full
from sqlengine.system.disk import MACHINE, Disk, make_folders

# A forked child inherits the lock, and would hold it beyond its parent's death.
_held: WeakSet[FolderLock] = WeakSet()


def _drop_in_child() -> None:
    for lock in list(_held):
        lock.drop()


os.register_at_fork(after_in_child=_drop_in_child)


class FolderLock:
    """Holds `folder`/lock until `release` or the death of the process.

    Raises DataFolderLocked if another process has it, and BrokerFull. With `lasting`, a folder that
    it creates survives a power failure.
    """

    def __init__(self, folder: Path, disk: Disk = MACHINE, *, lasting: bool = False) -> None:
        with raising_broker_full(f"data folder '{folder}'"):
            try:
                make_folders(disk, folder, lasting=lasting, mode=0o700)
                fd = disk.open(folder / "lock", make=True)
            except OSError as error:
                if error.errno in NO_SPACE:
                    raise
                raise _cannot_use(folder, error) from None
        if not disk.lock(fd):
            raise _locked(folder, fd, disk)
        with suppress(OSError):  # the process id is information only: no space for it is no error
            disk.truncate(fd, 0)
            disk.pwrite(fd, b"%-20d" % os.getpid(), 0)
        self._disk = disk
        self._fd: int | None = fd
        _held.add(self)

    def release(self) -> None:
        if self._fd is not None:
            self._disk.truncate(self._fd, 0)
        self.drop()

    def drop(self) -> None:
        """Closes the file only."""
        _held.discard(self)
        if self._fd is not None:
            self._disk.close(self._fd)
        self._fd = None


def _cannot_use(folder: Path, error: OSError) -> BrokerError:
    return BrokerError(
        f"data folder '{folder}' cannot be used",
        detail=f"{error.filename}: {error.strerror}" if error.filename else str(error),
        hint="name another with --data, or let the user who runs this write there",
    )


def _locked(folder: Path, fd: int, disk: Disk) -> DataFolderLocked:
    pid = disk.pread(fd, 20, 0).decode().strip() or "unknown"
    disk.close(fd)
    return DataFolderLocked(
        f"data folder {str(folder)!r} is in use by the process {pid}",
        detail="one server at a time writes to a folder",
        hint=(
            f"stop that process (kill {pid}), reach it through its HTTP API, or choose another"
            " folder"
        ),
    )
