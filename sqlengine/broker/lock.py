"""One server per data folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from sqlengine.broker.errors import DataFolderLocked

# A forked child shares the lock; it would hold it beyond its parent's death.
_held: set[int] = set()


def _drop_in_child() -> None:
    for fd in _held:
        os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_drop_in_child)


class FolderLock:
    """Holds `folder`/lock until `release` or the death of the process. Raises DataFolderLocked when another has it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _locked(folder, fd) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        _held.add(fd)
        self._fd: int | None = fd

    def release(self) -> None:
        if self._fd in _held:
            _held.discard(self._fd)
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
        self._fd = None


def _locked(folder: Path, fd: int) -> DataFolderLocked:
    pid = os.pread(fd, 20, 0).decode() or "unknown"
    os.close(fd)
    return DataFolderLocked(
        f"data folder {str(folder)!r} is in use by the process {pid}",
        detail="one server at a time writes to a folder",
        hint=f"stop that process (kill {pid}), reach it through its HTTP API, or choose another folder",
    )
