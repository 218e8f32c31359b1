"""Makes versions of a table that rows are looked up in, and takes them to other readers."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from planner.logical import MappedScan
from planner.scalar import digest_of
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import content_stamp
from sqlengine.dimensions.columns import MappedColumns
from sqlengine.dimensions.table import build_index
from sqlengine.dimensions.versions import (
    INDEX,
    SharedContent,
    SourceVersions,
    VersionInfo,
    finish_file,
    index_file,
    read_info,
    unfinished_file,
)
from sqlengine.executors.dimensions.building import ContentBuilder
from sqlengine.operators.joins.mapped import StoredColumns
from sqlengine.system.lanes import get_on

# Content up to so many bytes goes with a savepoint; a larger table is read again from where it is.
_MOST_TAKEN: Final = 256 << 20
_PART: Final = 16 << 20
# Before a part of a file: its place among all parts.
_PLACE: Final = struct.Struct(">I")
_SEED_BYTES: Final = 8


class _Taken(msgspec.Struct, frozen=True):
    """The first line of content that is taken along: what it is, and its files with their sizes
    (none: they are not with it)."""

    info: VersionInfo
    files: Sequence[tuple[str, int]]


class Stopped(BaseException):
    """The reader was closed while a version was built for it."""


class VersionBuilder:
    """Builds the versions of one reader, one at a time, in whatever thread asks for them."""

    def __init__(
        self, scan: MappedScan, environment: Environment, versions: SourceVersions
    ) -> None:
        assert environment.dimensions is not None
        self._stored = StoredColumns(scan)
        self._scan, self._environment, self._versions = scan, environment, versions
        self._content = SharedContent(environment.dimensions, self._stored.plan.digest)
        self._rows = ContentBuilder(
            self._stored.plan,
            scan.table,
            environment,
            self._proceed,
            any_times=environment.any_times,
        )
        self._stopped = threading.Event()
        by = self._stored.lookup
        self._index = f"{INDEX}-{digest_of(*map(repr, (by.keys, sorted(by.null_safe), by.unique)))}"
        self.last: VersionInfo | None = None
        if versions.next:
            self.last = read_info(versions.folder(versions.next - 1))

    def check(self) -> None:
        """Raises SqlError where the table cannot be opened."""
        self._rows.open_table().close()

    def stop(self) -> None:
        """Ends the work on a version. Any thread."""
        self._stopped.set()

    def _proceed(self) -> None:
        if self._stopped.is_set():
            raise Stopped
        get_on()

    def build(self) -> bool:
        """Makes the table as it is now the next version; returns False where it is the last one
        already. SqlError and OSError where it cannot be read."""
        stamp = content_stamp(self._scan.table, self._environment) or ""
        if self.last is not None and stamp and stamp == self.last.stamp:
            return False
        with self._content.locked(self._proceed):
            folder = self._content.with_stamp(stamp) if stamp else None
            if folder is None:
                new = self._content.begin()
                folder = self._content.complete(new, self._rows.write(new, stamp))
            return self.add(folder.name)

    def add(self, digest: str) -> bool:
        """Makes content with this digest the next version, within the lock of the content."""
        folder = self._content.with_digest(digest)
        assert folder is not None
        info = read_info(folder)
        if self.last is not None and info.digest == self.last.digest:
            self.last = info
            return False
        self._write_index(info, index_file(folder, self._index))
        self._versions.add(folder, self._index)
        self._content.remove_unused()
        self.last = info
        return True

    def _write_index(self, info: VersionInfo, path: Path) -> None:
        if path.exists():
            return
        schema, new = self._stored.schema, unfinished_file(path)
        columns = MappedColumns(path.parent, schema, info.num_rows)
        seed = int.from_bytes(self._environment.disk.random(_SEED_BYTES), "little")
        build_index(new, columns, schema, self._stored.lookup, seed, self._proceed)
        finish_file(new, path)

    def remove_unused(self) -> None:
        """Removes content that no reader needs any more; another time if somebody works on it."""
        with self._content.locked() as free:
            if free:
                self._content.remove_unused()

    # ---- to other readers ------------------------------------------------------------------------

    def lines(self, folder: Path) -> list[bytes]:
        """Returns a version in pieces, of which the first says what it is."""
        info = read_info(folder)
        paths = sorted(p for p in folder.iterdir() if p.name.startswith("column"))
        files = [(p.name, p.stat().st_size) for p in paths]
        if sum(size for _, size in files) > _MOST_TAKEN:
            return [_line(0, msgspec.json.encode(_Taken(info, ())))]
        head = msgspec.json.encode(_Taken(info, files))
        parts = [head, *(part for path in paths for part in _parts(path))]
        return [_line(place, part) for place, part in enumerate(parts)]

    def take(self, lines: Sequence[bytes]) -> bool:
        """Makes the version of these pieces the next one; returns False where that cannot be."""
        head, *parts = (line[_PLACE.size :] for line in sorted(lines))
        try:
            taken = msgspec.json.decode(head, type=_Taken)
        except msgspec.DecodeError:
            return False  # of another kind of look-up
        with self._content.locked(self._proceed):
            if self._content.with_digest(taken.info.digest) is None:
                if not taken.files:
                    return False
                new = self._content.begin()
                _unpack(new, taken.files, parts)
                self._content.complete(new, taken.info)
            self.last = None  # it is the next version whatever the last one is
            self.add(taken.info.digest)
        return True


def _line(place: int, data: bytes) -> bytes:
    return _PLACE.pack(place) + data


def _parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(_PART):
            yield data


def _unpack(folder: Path, files: Sequence[tuple[str, int]], parts: Sequence[bytes]) -> None:
    waiting = iter(parts)
    for name, size in files:
        with (folder / Path(name).name).open("wb") as file:
            while file.tell() < size:
                file.write(next(waiting))
