"""Files that are open for reading: a plain one, and a compressed one, by offsets of its bytes."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from threading import Lock
from typing import IO, Final, cast

import pyarrow as pa

from sqlengine.system.file_access import ANY_FILES, FileAccess

# What a file's name ends with whose bytes are compressed, and can be read.
ARCHIVES: Final = (".gz", ".bz2", ".xz", ".zst")
_STEP: Final = 1 << 20
_BROKEN: Final = (EOFError, OSError, lzma.LZMAError, zlib.error, pa.ArrowException)


class OpenFile(ABC):
    """A file by its descriptor: it stays the same file under any name, and without one.

    `inode`: of the file that is open. `final`: nobody writes to it any more."""

    inode: int
    final: bool

    @abstractmethod
    def read(self, start: int, length: int) -> bytes:
        """Returns the bytes from `start` on; fewer than `length` at the end of the file alone."""

    @abstractmethod
    def size(self) -> int | None:
        """Returns the number of bytes, uncompressed; None where it is not known yet."""

    @abstractmethod
    def modified(self) -> int:
        """Returns the time (ns) of the last change."""

    @abstractmethod
    def close(self) -> None: ...


class PlainFile(OpenFile):
    """A file as it is on disk."""

    final = False

    def __init__(self, path: str, access: FileAccess = ANY_FILES) -> None:
        self._file = access.open(path)
        self.inode = os.fstat(self._file).st_ino

    def read(self, start: int, length: int) -> bytes:
        """See `OpenFile`."""
        data = os.pread(self._file, length, start)
        while len(data) < length:
            more = os.pread(self._file, length - len(data), start + len(data))
            if not more:
                break
            data += more
        return data

    def size(self) -> int:
        return os.fstat(self._file).st_size

    def modified(self) -> int:
        return os.fstat(self._file).st_mtime_ns

    def close(self) -> None:
        os.close(self._file)


class ArchiveFile(OpenFile):
    """A compressed file. Reading forwards goes on where it was, reading backwards begins anew. One
    that is cut off ends where it can be read to; `damage` says why it does. Any thread."""

    final = True
    damage: str | None = None

    def __init__(self, path: str, access: FileAccess = ANY_FILES) -> None:
        self._file = access.open(path)
        self._kind = Path(path).suffix
        self.inode = os.fstat(self._file).st_ino
        self._lock = Lock()
        self._raw: IO[bytes] | None = None
        self._stream: IO[bytes] | None = None
        self._at = 0
        self._size: int | None = None

    def read(self, start: int, length: int) -> bytes:
        """See `OpenFile`."""
        with self._lock:
            if self._stream is None or start < self._at:
                self._begin()
            while self._at < start:
                if not self._next(min(start - self._at, _STEP)):
                    return b""
            data = b""
            while len(data) < length and (more := self._next(length - len(data))):
                data += more
            return data

    def _begin(self) -> None:
        self._end()
        self._raw = os.fdopen(os.dup(self._file), "rb")
        self._raw.seek(0)
        self._at = 0
        try:
            self._stream = _decompressed(self._raw, self._kind)
        except _BROKEN as error:
            self.damage = str(error)

    def _next(self, length: int) -> bytes:
        try:
            data = b"" if self._stream is None else self._stream.read(length)
        except _BROKEN as error:
            data, self.damage = b"", str(error)
        self._at += len(data)
        if not data:
            self._size = self._at
        return data

    def size(self) -> int | None:
        return self._size

    def modified(self) -> int:
        return os.fstat(self._file).st_mtime_ns

    def _end(self) -> None:
        for opened in (self._stream, self._raw):
            if opened is not None:
                opened.close()
        self._stream = self._raw = None

    def close(self) -> None:
        with self._lock:
            self._end()
            os.close(self._file)


def _decompressed(raw: IO[bytes], kind: str) -> IO[bytes]:
    match kind:
        case ".gz":
            return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
        case ".bz2":
            return bz2.BZ2File(raw)
        case ".xz":
            return lzma.LZMAFile(raw)
        case _:
            return cast(IO[bytes], pa.CompressedInputStream(raw, "zstd"))


def open_file(path: str, access: FileAccess = ANY_FILES) -> OpenFile | None:
    """Opens a file; None where it is gone. Raises as `FileAccess.open` else."""
    try:
        kind = ArchiveFile if path.endswith(ARCHIVES) else PlainFile
        return kind(path, access)
    except FileNotFoundError:
        return None
