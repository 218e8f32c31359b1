"""The folders of versions.

    ROOT/rows/TABLE/CONTENT/   column files, and an index for each way of looking rows up
    ROOT/sources/SOURCE/N/     version N of one reader: the same files by other names (hard links)

Content is shared by all readers that have found the same, in any process: they map one file. A
version of a reader stays what it is until that reader discards it; content that is no version
goes."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import msgspec

from parser.types import Schema
from sqlengine.dimensions.columns import MappedColumns
from sqlengine.dimensions.index import MappedIndex
from sqlengine.dimensions.table import Lookup, MappedTable

INDEX: Final = "index"
_INFO: Final = "version.json"
# Seconds between two looks whether a lock is free.
_LOOK_S: Final = 0.05
# The start of a name that is not yet what it will be.
_UNFINISHED: Final = "."


class Letter(msgspec.Struct, frozen=True):
    """A row that is not in a version: see `DEAD_LETTER`."""

    place: str
    subject: str
    reason: str
    payload: str


class VersionInfo(msgspec.Struct, frozen=True):
    """A description of the content of a version. `stamp`: of the table it was read from, '' where
    nothing but its content tells it; `digest`: of the column files; `letters`: the first rows that
    are not in it, of `failed` altogether."""

    num_rows: int
    stamp: str
    digest: str
    letters: Sequence[Letter] = ()
    failed: int = 0


@dataclass(frozen=True)
class VersionFiles:
    """The versions below a folder, for who maps them. Any thread."""

    root: Path

    def open(self, name: str, schema: Schema, by: Lookup) -> MappedTable:
        """Maps the version of that name. OSError where it is not there."""
        folder = self.root / "sources" / name
        info = read_info(folder)
        columns = MappedColumns(folder, schema, info.num_rows)
        return MappedTable(columns, MappedIndex(folder / INDEX), schema, by)


def read_info(folder: Path) -> VersionInfo:
    """Reads what is known of a version or of content."""
    return msgspec.json.decode((folder / _INFO).read_bytes(), type=VersionInfo)


def write_info(folder: Path, info: VersionInfo) -> None:
    """Writes what is known of content."""
    (folder / _INFO).write_bytes(msgspec.json.encode(info))


class SharedContent:
    """The content of one table that its readers have found so far."""

    def __init__(self, root: Path, table: str) -> None:
        self._root, self._folder = root, root / "rows" / table

    @contextmanager
    def locked(self, wait: Callable[[], None] | None = None) -> Iterator[bool]:
        """Keeps all others from adding content and from removing any, in all processes. While
        somebody else does it calls `wait` now and then; without, it gives False."""
        # Rows of tables are nobody's business but the owner's of the data folder.
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as file:
            while not _lock(file):
                if wait is None:
                    yield False
                    return
                wait()
                time.sleep(_LOOK_S)
            yield True

    def begin(self) -> Path:
        """Makes an empty folder for content, within `locked`; what nobody completed goes."""
        for left in self._folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)
        folder = self._folder / f"{_UNFINISHED}new"
        folder.mkdir()
        return folder

    def complete(self, folder: Path, info: VersionInfo) -> Path:
        """Gives content its name; returns the folder in which it is now."""
        write_info(folder, info)
        there = self._folder / info.digest
        if there.exists():
            shutil.rmtree(folder)
            # The stamp is that of the table as it is now.
            _replace(there / _INFO, msgspec.json.encode(info))
        else:
            _sync(folder)
            folder.rename(there)
        return there

    def with_stamp(self, stamp: str) -> Path | None:
        """Returns the content of a table with this stamp."""
        for folder in self._contents():
            with suppress(OSError, msgspec.DecodeError):
                if read_info(folder).stamp == stamp:
                    return folder
        return None

    def with_digest(self, digest: str) -> Path | None:
        """Returns the content with this digest."""
        folder = self._folder / digest
        return folder if folder.is_dir() else None

    def remove_unused(self) -> None:
        """Removes content that is no version of any reader, within `locked`."""
        for folder in self._contents():
            if all(file.stat().st_nlink == 1 for file in folder.iterdir()):
                shutil.rmtree(folder, ignore_errors=True)

    def _contents(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        names = sorted(self._folder.iterdir())
        return [f for f in names if f.is_dir() and not f.name.startswith(_UNFINISHED)]


class SourceVersions:
    """The versions of one reader, numbered from 0 without gaps at the end."""

    def __init__(self, root: Path, source: str) -> None:
        self._source = source
        self._folder = root / "sources" / source
        self.next = 1 + max(self._numbers(), default=-1)

    def _numbers(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        return [int(f.name) for f in self._folder.iterdir() if f.name.isdigit()]

    def name(self, number: int) -> str:
        """Returns the name by which `VersionFiles` knows a version."""
        return f"{self._source}/{number}"

    def folder(self, number: int) -> Path:
        """Returns the folder of a version."""
        return self._folder / str(number)

    def add(self, content: Path, index: str) -> int:
        """Makes content, with the index of that name, the next version; returns its number."""
        new = self._folder / f"{_UNFINISHED}{self.next}"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        for file in content.iterdir():
            if file.name == index:
                os.link(file, new / INDEX)
            elif not file.name.startswith((INDEX, _UNFINISHED)):
                os.link(file, new / file.name)
        _sync(new)
        number = self.next
        new.rename(self.folder(number))
        _sync(self._folder)
        self.next += 1
        return number

    def discard_before(self, number: int) -> bool:
        """Removes the versions before this one; returns True if there were any."""
        old = [n for n in self._numbers() if n < number]
        for n in old:
            shutil.rmtree(self.folder(n), ignore_errors=True)
        return bool(old)


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def index_file(content: Path, index: str) -> Path:
    """Returns the path of an index within content."""
    return content / index


def finish_file(unfinished: Path, path: Path) -> None:
    """Gives a file its name once it is on disk."""
    _sync(unfinished)
    unfinished.rename(path)


def unfinished_file(path: Path) -> Path:
    """Returns the path under which a file is written."""
    return path.with_name(_UNFINISHED + path.name)


def _replace(path: Path, data: bytes) -> None:
    new = unfinished_file(path)
    new.write_bytes(data)
    finish_file(new, path)


def _sync(path: Path) -> None:
    """Returns when a file, or all files of a folder and their names, are on disk."""
    for each in (*(path.iterdir() if path.is_dir() else ()), path):
        file = os.open(each, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
