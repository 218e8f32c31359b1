"""The journal beside the files of a sink: what is in them with the last epoch that was
committed."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from zlib import crc32

from parser.errors import ExecutionError, ServiceError
from sqlengine.system.disk import Disk

_HEADER: Final = b"sqlengine file sink journal 1\n"
_MAX_JOURNAL = 1 << 16
_MAX_DIGITS: Final = 20


class Journal:
    """The last epoch, and numbers that tell the state of the files with it (so many as `count`, 0
    before the first one). Held open and locked: a writer is one process."""

    def __init__(self, path: Path, count: int, *, fsync: bool, disk: Disk) -> None:
        self._path = path
        self._fsync = fsync
        self._disk = disk
        self._file = disk.open(path, make=True, mode=0o666)
        if not disk.lock(self._file):
            disk.close(self._file)
            raise ServiceError(f"another process writes to '{path.parent}' as the same writer")
        self.epoch: int | None = None
        self.numbers: tuple[int, ...] = (0,) * count
        try:
            self._size = self._load()
        except BaseException:
            disk.close(self._file)
            raise

    def _load(self) -> int:
        """Reads the entries; the journal's size up to the last whole one."""
        data = self._disk.pread(self._file, self._disk.size(self._file), 0)
        if not data.startswith(_HEADER):
            if data and not _HEADER.startswith(data):
                raise ExecutionError(
                    f"'{self._path}' is no journal that this version reads",
                    hint=(
                        "start the version that wrote it, or remove it with the files that it is"
                        " about"
                    ),
                )
            write_all(self._disk, self._file, _HEADER, 0)
            return len(_HEADER)
        size = len(_HEADER)
        for line in data[size:].splitlines(keepends=True):
            entry = _parse(line, len(self.numbers))
            if entry is None:
                break  # torn by a crash
            self.epoch, self.numbers = entry[0], entry[1:]
            size += len(line)
        self._disk.truncate(self._file, size)
        return size

    def add(self, epoch: int, *numbers: int) -> None:
        """Writes down how the files are with `epoch`."""
        if self._size > _MAX_JOURNAL:
            self._shorten()
        line = _entry((epoch, *numbers))
        try:
            write_all(self._disk, self._file, line, self._size)
        except OSError:
            self._disk.truncate(self._file, self._size)
            raise
        if self._fsync:
            self._disk.sync(self._file)
        self._size += len(line)
        self.epoch, self.numbers = epoch, numbers

    def sync(self) -> None:
        """Makes the journal last over a loss of power."""
        self._disk.sync(self._file)

    def _shorten(self) -> None:
        """Replaces the journal by one with its last entry, which alone counts. The new file is
        locked before it takes the name of the old one."""
        fresh = self._path.with_suffix(".new")
        file = self._disk.open(fresh, make=True, empty=True, mode=0o666)
        self._disk.lock(file)
        data = _HEADER + (_entry((self.epoch, *self.numbers)) if self.epoch is not None else b"")
        write_all(self._disk, file, data, 0)
        if self._fsync:
            self._disk.sync(file)
        self._disk.rename(fresh, self._path)
        if self._fsync:
            self._disk.sync_folder(self._path.parent)
        self._disk.close(self._file)
        self._file, self._size = file, len(data)

    def close(self) -> None:
        self._disk.close(self._file)


def _entry(numbers: tuple[int, ...]) -> bytes:
    text = " ".join(map(str, numbers))
    return f"{text} {crc32(text.encode()):08x}\n".encode()


def _parse(line: bytes, count: int) -> tuple[int, ...] | None:
    """The epoch and `count` numbers of an entry; None for one that is not whole."""
    *parts, _ = line.decode("ascii", "replace").split(" ")
    if not line.endswith(b"\n") or len(parts) != count + 1:
        return None
    if not all(p.isdigit() and len(p) <= _MAX_DIGITS for p in parts):
        return None
    entry = tuple(map(int, parts))
    return entry if _entry(entry) == line else None


def write_all(disk: Disk, file: int, data: bytes | memoryview, offset: int) -> None:
    """Writes all of `data`, however many calls that takes. OSError as the disk raises it."""
    view = memoryview(data)
    while view:
        done = disk.pwrite(file, view, offset)
        view, offset = view[done:], offset + done
