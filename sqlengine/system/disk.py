"""Files, as the parts see them that keep something durable. They are given a disk, so that a
simulated one can stand in the place of the machine's: one that knows what was synced, and loses
what was not."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeAlias

Data: TypeAlias = bytes | memoryview


class Disk(Protocol):
    """A file that is open is a number. All raise OSError where and as the functions of `os` do."""

    def open(
        self, path: Path, *, make: bool = False, empty: bool = False, mode: int = 0o600
    ) -> int:
        """Opens for reading and writing. `make`: a file that is not there comes into being;
        `empty`: one that is there loses its content."""

    def close(self, file: int) -> None: ...

    def size(self, file: int | Path) -> int: ...

    def is_named(self, file: int) -> bool:
        """False once the file has been removed from its folder."""

    def pread(self, file: int, size: int, position: int) -> bytes: ...

    def pwrite(self, file: int, data: Data, position: int) -> int:
        """The number of bytes that were written, which may be fewer."""

    def pwritev(self, file: int, parts: Sequence[bytes], position: int) -> int:
        """Writes the parts one behind the other, as one `pwrite`."""

    def truncate(self, file: int, size: int) -> None: ...

    def sync(self, file: int) -> None:
        """Returns when the content of the file is on disk. Its name may not be: see
        `sync_folder`."""

    def sync_folder(self, folder: Path) -> None:
        """Returns when the names in the folder are on disk."""

    def lock(self, file: int) -> bool:
        """Keeps others from locking the file until it is closed; False when another holds it."""

    def read(self, path: Path, size: int = -1) -> bytes:
        """The first `size` bytes of a file, or all."""

    def map(self, path: Path) -> mmap.mmap | bytes:
        """The content of a file that is not empty; what a file had when it was mapped stays valid
        when it goes."""

    def names(self, folder: Path) -> list[str]:
        """What is in a folder, in order; nothing when there is no folder."""

    def exists(self, path: Path) -> bool: ...

    def is_folder(self, path: Path) -> bool: ...

    def make_folder(self, path: Path, *, parents: bool = False, mode: int = 0o777) -> None:
        """FileExistsError when there is one, unless `parents` are wanted, too."""

    def rename(self, old: Path, new: Path) -> None:
        """At once; a file that is at `new` goes."""

    def remove(self, path: Path) -> None:
        """Removes a file, if it is there."""

    def remove_folder(self, path: Path) -> None:
        """Removes a folder with all that is in it, as far as it can."""

    def random(self, size: int) -> bytes:
        """Bytes that nobody has had before: for names and marks that must not be met twice."""


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

    def size(self, file: int | Path) -> int:
        return os.stat(file).st_size

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

    def map(self, path: Path) -> mmap.mmap:
        file = os.open(path, os.O_RDONLY)
        try:
            return mmap.mmap(file, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(file)

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


MACHINE = MachineDisk()


def write_file(disk: Disk, path: Path, data: Data) -> None:
    """A file with this content, which is on disk when this returns. Its name may not be."""
    file, rest = disk.open(path, make=True, empty=True, mode=0o666), memoryview(data)
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
    """A folder with those above it, if they are not there. With `lasting` their names are on disk
    when this returns, and those of folders that are there: the process before may have died between
    making one and syncing it."""
    disk.make_folder(path, parents=True, mode=mode)
    if not lasting:
        return
    disk.sync_folder(path.parent)
    for folder in path.parent.parents:
        with suppress(OSError):  # what this user may not open he has not made
            disk.sync_folder(folder)
