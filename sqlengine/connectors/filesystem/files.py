"""The files of a table that is read: their paths, the columns that come from their names, and the
check that they did not change."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.errors import ExecutionError, SqlError, UnsupportedError
from planner.catalog import MetadataColumn, Table
from planner.scalar import Scalar
from sqlengine.connectors.base import Source
from sqlengine.connectors.filesystem.opened import ARCHIVES
from sqlengine.connectors.filesystem.partitions import (
    Texts,
    columns_of_partitions,
    fulfils,
    partitions,
    value_of,
)
from sqlengine.connectors.filesystem.siblings import was_rotated
from sqlengine.connectors.filesystem.tree import regular_files
from sqlengine.system.file_access import FileAccess, kind_of, not_regular

log = logging.getLogger("sqlengine")

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".deflate")


class Files:
    """The files of a table; a shard is a file by its path.

    `interval` (ms): how often to look for new files, None for never; `default`: the name of the
    folder of a partition whose value is NULL; `ends`: the size of each file when it was found, in
    bytes; `access`: how files are opened; `skips`: files that cannot be read are left out, instead
    of failing the jobs that read the table; `unpacks`: compressed files are read, too. With
    `rotates` the file may be missing while it is rotated, and nothing is looked for here."""

    def __init__(
        self,
        table: Table,
        root: Path,
        interval: int | None,
        default: str,
        clock: Callable[[], int],
        access: FileAccess,
        *,
        rotates: bool = False,
        skips: bool = False,
        unpacks: bool = False,
    ) -> None:
        # Twice: it may be made anew between the two looks.
        if not (root.exists() or (rotates and (was_rotated(root) or root.exists()))):
            raise ExecutionError(
                f"there is no file or folder '{root}' for table '{table.display}'",
                hint=None if root.is_absolute() else f"it was looked for in '{Path.cwd()}'",
            )
        self._table = table
        self._root = root
        self._interval = interval
        self._clock = clock
        self._default = default
        self.access = access
        self.ends: dict[str, int] = {}
        # Up to where files were read that are left out since.
        self.skipped: dict[str, int] = {}
        self._skips = skips
        self._compressed = [s for s in _COMPRESSED if not (unpacks and s in ARCHIVES)]
        self._irregular: set[str] = set()
        self._inodes: dict[str, int] = {}
        self._partitions = columns_of_partitions(table)
        self._where: Scalar | None = None
        self._values: dict[tuple[str, str], pa.Array] = {}  # of a folder, by the key of metadata
        self._looked = clock()
        self._shards: list[str] = []
        self.is_file = not root.is_dir()
        if not rotates:
            self._look()
        elif self.is_file:
            self._check_plain(root)
            if root.exists() and (kind := kind_of(root.stat().st_mode)) is not None:
                raise not_regular(root, kind)

    def _look(self) -> None:
        """Takes up files that appeared, as long as they are now."""
        for path in self.paths():
            shard = str(path)
            if shard in self._inodes:
                continue
            self._check_plain(path)
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # it has gone since it was listed
            except OSError as error:
                raise unreadable(shard, error) from None
            if (kind := kind_of(status.st_mode)) is not None:
                raise not_regular(path, kind)
            self._inodes[shard], self.ends[shard] = status.st_ino, status.st_size
            self._shards.append(shard)

    def paths(self) -> list[Path]:
        """Returns the files that there are now, in the partitions that are read."""
        if self.is_file:
            return [self._root]
        if not self._partitions:
            return self._below(self._root)
        folders = partitions(self._root, self._table.partition_keys, self._default)
        return [
            path
            for folder, values in folders
            if self._is_kept(folder, values)
            for path in self._below(folder)
        ]

    def _below(self, folder: Path) -> list[Path]:
        paths, irregular = regular_files(folder)
        for path, kind in irregular.items():
            if path not in self._irregular:
                self._irregular.add(path)
                log.warning(
                    "table %s leaves out '%s', which is %s (%d so far): tables are made of regular"
                    " files",
                    self._table.display,
                    path,
                    kind,
                    len(self._irregular),
                )
        return paths

    def apply_partitions(self, where: Scalar) -> None:
        """See `Source`."""
        self._where = where
        paths = {str(path) for path in self.paths()}
        self._shards = [shard for shard in self._shards if shard in paths]

    def _is_kept(self, folder: Path, values: Texts) -> bool:
        return self._where is None or fulfils(
            self._where, list(self._partitions.values()), values, folder
        )

    def is_due(self) -> bool:
        """True now and then, when new files are to be looked for."""
        if self._interval is None or self._clock() - self._looked < self._interval:
            return False
        self._looked = self._clock()
        return True

    def shards(self) -> list[str]:
        """Returns all files; looks for new ones now and then."""
        if self.is_due():
            self._look()
        return list(self._shards)

    def _check_plain(self, path: Path) -> None:
        if path.suffix in self._compressed:
            raise UnsupportedError(
                f"'{path}' is compressed",
                detail=f"{', '.join(ARCHIVES)} can be read, in files of lines that do not grow",
                hint="decompress it first",
            )

    def status(self, shard: str, least: int = 0) -> os.stat_result:
        """The file's size now, which is `least` or more; ExecutionError where it is not the file of
        before."""
        try:
            status = os.stat(shard)
        except FileNotFoundError:
            raise changed(shard, "it is gone") from None
        except OSError as error:
            raise unreadable(shard, error) from None
        if (kind := kind_of(status.st_mode)) is not None:
            raise changed(shard, f"it is {kind} now")
        if status.st_ino != self._inodes.setdefault(shard, status.st_ino):
            raise changed(shard, "another file has its name now")
        if status.st_size < least:
            raise changed(shard, f"it has {status.st_size} bytes, {least} were read before")
        return status

    def open(self, shard: str) -> int:
        """Opens a file for reading. ExecutionError where it cannot be read."""
        try:
            return self.access.open(shard)
        except FileNotFoundError:
            raise changed(shard, "it is gone") from None
        except OSError as error:
            raise unreadable(shard, error) from None

    def skip(self, shard: str, offset: int, error: SqlError) -> None:
        """Leaves out a file that could not be read from `offset` on; raises the error where the
        table does not allow that."""
        if not self._skips:
            raise error
        self.skipped[shard] = offset
        log.warning(
            "table %s leaves out a file (%d so far): %s",
            self._table.display,
            len(self.skipped),
            error,
        )

    def metadata(
        self,
        key: str,
        shard: str,
        offsets: npt.NDArray[np.int64],
        status: tuple[int, int] | None = None,
    ) -> pa.Array:
        """Returns the column of a metadata key: from the file's name and place, and the records'
        `offsets`. `status`: its size, and the time (ns) of its last change, where these are
        known."""
        if key == "offset":
            return pa.array(offsets)
        if key in self._partitions:
            return pa.repeat(self._value(key, Path(shard)), len(offsets))
        if status is None:
            found = self.status(shard)
            status = found.st_size, found.st_mtime_ns
        value: pa.Scalar = {
            "file.path": pa.scalar(shard),
            "file.name": pa.scalar(Path(shard).name),
            "file.size": pa.scalar(status[0], pa.int64()),
            "file.modification-time": pa.scalar(status[1] // 10**6, pa.timestamp("ms", "UTC")),
        }[key]
        return pa.repeat(value, len(offsets))

    def _value(self, key: str, path: Path) -> pa.Scalar:
        keys = self._table.partition_keys
        folders = path.relative_to(self._root).parts[: len(keys)]
        place = self._root.joinpath(*folders)
        if (str(place), key) not in self._values:
            column = self._partitions[key]
            text = folders[keys.index(column.name)].partition("=")[2]
            value = value_of(None if text == self._default else unquote(text), column, place)
            self._values[str(place), key] = value
        return self._values[str(place), key][0]


class FileShards(Source):
    """A source whose shards are files."""

    bounded = False  # unless the options say otherwise

    def __init__(self, table: Table, files: Files) -> None:
        self._files = files
        self._metadata = table.metadata

    def apply_partitions(self, where: Scalar) -> None:
        """See `Source`."""
        self._files.apply_partitions(where)

    def shards(self) -> list[str]:
        return self._files.shards()

    def start(self, shard: str) -> int:
        return 0

    def metadata_of(
        self, shard: str, offsets: npt.NDArray[np.int64]
    ) -> Iterator[tuple[MetadataColumn, pa.Array]]:
        """The table's metadata columns, each with its values for these records."""
        for m in self._metadata:
            yield (
                m,
                self._files.metadata(m.key, shard, offsets).cast(m.column.type.arrow, safe=False),
            )


def changed(shard: str, detail: str) -> ExecutionError:
    """The error for a file that is not what it was."""
    return ExecutionError(
        f"file '{shard}' has changed under a running job",
        detail=detail,
        hint=(
            "a file that is read may only grow: rotate by writing to a new name, and watch the"
            " folder with 'source.monitor-interval'"
        ),
    )


def unreadable(shard: str, error: OSError) -> ExecutionError:
    """The error for a file that the system refuses to read."""
    return ExecutionError(
        f"file '{shard}' cannot be read",
        detail=error.strerror,
        hint=(
            "make it readable and start the job again, or leave such files out:"
            " 'source.unreadable-files' = 'skip'"
        ),
    )
