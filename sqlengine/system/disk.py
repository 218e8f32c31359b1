"""The disk as everything durable sees it.

A simulation has a disk that knows what was synced, and loses what was not."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Protocol, TypeAlias

Data: TypeAlias = bytes | memoryview


class Disk(Protocol):
    """The file operations of durable code. Open files are descriptors; errors are the OSErrors of
    the functions of `os`."""

    def open(
        self, path: Path, *, make: bool = False, empty: bool = False, mode: int = 0o600
    ) -> int:
        """Opens a file for reading and writing. `make` creates it if it is missing; `empty`
        truncates it."""

    def open_to_read(self, path: Path) -> int:
        """Opens a file that is there, for reading alone."""

    def close(self, file: int) -> None: ...

    def size(self, file: int | Path) -> int: ...

    def is_named(self, file: int) -> bool:
        """False once the file has been removed from its folder."""

    def pread(self, file: int, size: int, position: int) -> bytes: ...

    def pwrite(self, file: int, data: Data, position: int) -> int:
        """Writes at `position` and returns the number of bytes written, which may be fewer."""

    def pwritev(self, file: int, parts: Sequence[bytes], position: int) -> int:
        """Writes the parts one after the other, as one `pwrite`."""

    def truncate(self, file: int, size: int) -> None: ...

    def sync(self, file: int) -> None:
        """Returns when the file's content is on disk. Its name may not be: see `sync_folder`."""

    def sync_folder(self, folder: Path) -> None:
        """Returns when the names in the folder are on disk."""

    def lock(self, file: int) -> bool:
        """Locks the file until it is closed; returns False if another process has locked it."""

    def read(self, path: Path, size: int = -1) -> bytes:
        """Reads the first `size` bytes of a file, or all."""

    def names(self, folder: Path) -> list[str]:
        """Lists the names in a folder, sorted; none if there is no folder."""

    def exists(self, path: Path) -> bool: ...

    def is_folder(self, path: Path) -> bool: ...

    def make_folder(self, path: Path, *, parents: bool = False, mode: int = 0o777) -> None:
        """Creates a folder, with `parents` also those above it. FileExistsError if it exists,
        unless `parents` is set."""

    def rename(self, old: Path, new: Path) -> None:
        """Renames a file atomically; replaces a file at `new`."""

    def remove(self, path: Path) -> None:
        """Removes a file, if it exists."""

    def remove_folder(self, path: Path) -> None:
        """Removes a folder with its content; ignores what cannot be removed."""

    def random(self, size: int) -> bytes:
        """Returns unique random bytes, for names and marks."""

    def boot_id(self) -> str:
        """Returns a word that is another after each start of the machine, or loss of its power."""


class MachineDisk:
    """The disk of this machine."""

    close = staticmethod(os.close)
    pread = staticmethod(os.pread)
    truncate = staticmethod(os.ftruncate)
    exists = staticmethod(os.path.exists)
    is_folder = staticmethod(os.path.isdir)
    random = staticmethod(os.urandom)

    def open(
        self, path: Path, *, make: bool = False, empty: bool = False, mode: int = 0o600
    ) -> int:
        return os.open(path, os.O_RDWR | make * os.O_CREAT | empty * os.O_TRUNC, mode)

    def open_to_read(self, path: Path) -> int:
        return os.open(path, os.O_RDONLY)

    def size(self, file: int | Path) -> int:
        # Nothing here depends on where a descriptor stands, and this takes a third of the time.
        return os.lseek(file, 0, os.SEEK_END) if isinstance(file, int) else os.stat(file).st_size

    def pwrite(self, file: int, data: Data, position: int) -> int:
        return os.pwrite(file, data, position)

    def pwritev(self, file: int, parts: Sequence[bytes], position: int) -> int:
        return os.pwritev(file, parts, position)

    def sync(self, file: int) -> None:
        os.fdatasync(file)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def is_named(self, file: int) -> bool:
        return os.fstat(file).st_nlink > 0

    def sync_folder(self, folder: Path) -> None:
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def lock(self, file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def read(self, path: Path, size: int = -1) -> bytes:
        with path.open("rb") as file:
            return file.read(size)

    def names(self, folder: Path) -> list[str]:
        with suppress(FileNotFoundError):
            return sorted(os.listdir(folder))
        return []

    def make_folder(self, path: Path, *, parents: bool = False, mode: int = 0o777) -> None:
        path.mkdir(mode, parents=parents, exist_ok=parents)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)

    def boot_id(self) -> str:
        return _boot_id()


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # not Linux: no mark is older than the process
        return os.urandom(16).hex()


MACHINE = MachineDisk()


def write_file(disk: Disk, path: Path, data: Data, mode: int = 0o666) -> None:
    """Writes a file and syncs its content. Its name may not be on disk: see `Disk.sync_folder`."""
    file, rest = disk.open(path, make=True, empty=True, mode=mode), memoryview(data)
    try:
        while rest:
            done = disk.pwrite(file, rest, len(data) - len(rest))
            if not done:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest = rest[done:]
        disk.sync(file)
    finally:
        disk.close(file)


def make_folders(disk: Disk, path: Path, *, lasting: bool, mode: int = 0o777) -> None:
    """Creates a folder with those above it, if they are missing.

    With `lasting` all their names are on disk when this returns, also of folders that existed: a
    former process may have died between creating one and syncing it."""
    disk.make_folder(path, parents=True, mode=mode)
    if not lasting:
        return
    disk.sync_folder(path.parent)
    for folder in path.parent.parents:
        with suppress(OSError):  # a folder that this user may not open was not created here
            disk.sync_folder(folder)
