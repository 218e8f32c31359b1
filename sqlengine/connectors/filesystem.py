"""The connector 'filesystem': tables over files of lines.

    CREATE TABLE logs (…) WITH ('connector' = 'filesystem', 'path' = '/var/log/app', 'format' = 'json')

Reads the files that are there when the job begins and ends, unless 'source.monitor-interval' looks for new files or
'source.follow' = 'true' waits for lines that are written later. Files and folders whose name begins with . or _ are left
out. Writes one file per writer into the folder `path`, exactly once: see filesystem_sink."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.errors import ExecutionError, UnsupportedError
from parser.types import BIGINT, STRING, DataType, timestamp_ltz
from planner.catalog import PARTITION, Table
from planner.scalar import Scalar
from planner.settings import RELOAD_OPTION
from sqlengine.connectors.base import Chunk, Environment, Option, Sink, Source
from sqlengine.connectors.filesystem_overwrite import OverwritingFileSink, complete
from sqlengine.connectors.filesystem_partitions import (
    PartitionedFileSink,
    Texts,
    check_partitions,
    columns_of_partitions,
    fulfils,
    partitions,
    value_of,
)
from sqlengine.connectors.filesystem_reloaded import ReloadedSource
from sqlengine.connectors.filesystem_sink import FileSink, check_folder
from sqlengine.connectors.registry import connector, options_of
from sqlengine.formats.lines import Framed
from sqlengine.formats.options import boolean, choice, duration
from sqlengine.formats.registry import format_of, framing_of

# One read takes at most so many bytes, but at least one line.
_WINDOW = 8 << 20
_LEAST_WINDOW = 1 << 16
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".deflate")


@connector("filesystem")
class FilesystemConnector:
    name: ClassVar[str] = "filesystem"
    options: ClassVar[Mapping[str, Option]] = {
        "path": Option(required=True, doc="a file or a folder, also as file:///…"),
        "source.monitor-interval": Option(duration, doc="looks for new files so often; the table is then unbounded"),
        "source.follow": Option(boolean, default="false", doc="waits for lines that are appended later"),
        RELOAD_OPTION: Option(duration, doc="a table that rows are looked up in is read again so often, if it changed"),
        "lookup.cache": Option(choice("FULL"), doc="what is looked up in is held as a whole"),
        "lookup.full-cache.reload-strategy": Option(choice("PERIODIC"), doc="read again after a time"),
        "partition.default-name": Option(
            default="__DEFAULT_PARTITION__", doc="names the folder of a partition whose value is NULL or empty"
        ),
        "sink.fsync": Option(
            choice("none", "epoch"), default="none", doc="'epoch' keeps what is committed over power loss"
        ),
    }
    metadata: ClassVar[Mapping[str, DataType]] = {
        "file.path": STRING.with_nullable(False),
        "file.name": STRING.with_nullable(False),
        "file.size": BIGINT.with_nullable(False),
        "file.modification-time": timestamp_ltz(3).with_nullable(False),
        "offset": BIGINT.with_nullable(False),
    }
    has_partitions: ClassVar[bool] = True
    needs_format: ClassVar[bool] = True
    accepts_updates: ClassVar[bool] = False
    overwrites_streams: ClassVar[bool] = False

    def source(self, table: Table, environment: Environment) -> Source:
        """ExecutionError where there is nothing at the path."""
        _check_format(table)
        check_partitions(table)
        options = options_of(table)
        interval = options["source.monitor-interval"]
        assert interval is None or isinstance(interval, int)
        complete(_path(table))
        return FileSource(table, _path(table), interval, bool(options["source.follow"]), environment.clock)

    def reloaded_source(self, table: Table, environment: Environment) -> Source:
        """The table as rows are looked up in it. UnsupportedError for what is read as it grows, or has other columns than its
        records."""
        self.source(table, environment).close()
        options, root = options_of(table), _path(table)
        interval = options[RELOAD_OPTION]
        assert isinstance(interval, int)
        if table.metadata or options["source.follow"] or options["source.monitor-interval"] is not None:
            hint = (
                f"leave out '{RELOAD_OPTION}', or metadata, partitions, 'source.follow' and 'source.monitor-interval'"
            )
            raise UnsupportedError(f"table '{table.display}' cannot be read again as a whole", hint=hint)
        return ReloadedSource(table, environment, interval, lambda: _there(root))

    def sink(self, table: Table, environment: Environment) -> Sink:
        """Makes the folder. PlanError where the path is a file."""
        _check_written(table)
        complete(_path(table))
        fsync, disk = _fsync(table), environment.disk
        if table.partition_keys:
            check_folder(table, _path(table), disk)
            default = default_name(table)
            return PartitionedFileSink(table, _path(table), environment.writer, default, fsync=fsync, disk=disk)
        return FileSink(table, _path(table), environment.writer, fsync=fsync, disk=disk)

    def overwriting_sink(self, table: Table, environment: Environment) -> Sink:
        """Makes the folder. PlanError where the path is a file."""
        _check_written(table)
        complete(_path(table))
        default = default_name(table) if table.partition_keys else None
        return OverwritingFileSink(table, _path(table), environment.writer, default, fsync=_fsync(table))


def _check_written(table: Table) -> None:
    _check_format(table)
    check_partitions(table)
    if any(not m.virtual and not m.key.startswith(PARTITION) for m in table.metadata):
        raise UnsupportedError("metadata columns of a file cannot be written", hint="declare them METADATA VIRTUAL")


def default_name(table: Table) -> str:
    """How the folder of a partition is called whose value is NULL."""
    return str(options_of(table)["partition.default-name"])


def _fsync(table: Table) -> bool:
    return options_of(table)["sink.fsync"] == "epoch"


def _check_format(table: Table) -> None:
    found, _ = format_of(table)
    if not found.line_separated:
        raise UnsupportedError(f"format '{found.name}' has no lines and cannot be kept in files")


def _path(table: Table) -> Path:
    text = table.options["path"]
    parts = urlsplit(text)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if "://" in text:
        raise UnsupportedError(f"path '{text}' is not on this machine", hint="give a local path or file:///…")
    return Path(text)


class FileSource:
    """A shard is a file by its path, an offset a byte. Whole records only: a last one without a line break counts where
    the file is read to its end and not followed.

    A file must only grow. One that is shorter than what was read, or was replaced by another, is an error: rotate by
    writing to a file of a new name."""

    def __init__(self, table: Table, path: Path, interval: int | None, follow: bool, clock: Callable[[], int]) -> None:
        self._table = table
        self._framing = framing_of(table)
        self._root = path
        self._interval = interval
        self._follow = follow
        self._clock = clock
        self.bounded = interval is None and not follow
        self._ends: dict[str, int] = {}
        self._inodes: dict[str, int] = {}
        self._line_bytes = 256  # what lines seem to take, and a quarter more
        self._partitions = columns_of_partitions(table)
        self._default = default_name(table) if self._partitions else ""
        self._where: Scalar | None = None
        self._values: dict[tuple[str, str], pa.Array] = {}  # of a folder, by the key of metadata
        if not path.exists():
            raise ExecutionError(f"there is no file or folder '{path}' for table '{table.display}'")
        self._looked = clock()
        self._shards: list[str] = []
        self._look()

    def _look(self) -> None:
        """Takes up files that appeared, as long as they are now."""
        for path in self._files():
            shard = str(path)
            if shard in self._inodes:
                continue
            if path.suffix in _COMPRESSED:
                raise UnsupportedError(f"'{path}' is compressed", hint="decompress it first: offsets count its bytes")
            status = path.stat()
            self._inodes[shard], self._ends[shard] = status.st_ino, status.st_size
            self._shards.append(shard)

    def _files(self) -> list[Path]:
        if not self._partitions:
            return _files(self._root)
        found = partitions(self._root, self._table.partition_keys, self._default)
        return [path for folder, values in found if self._is_kept(folder, values) for path in _files(folder)]

    def keep(self, where: Scalar) -> None:
        """See `Pruning`."""
        self._where = where
        kept = {str(path) for path in self._files()}
        self._shards = [shard for shard in self._shards if shard in kept]

    def _is_kept(self, folder: Path, values: Texts) -> bool:
        return self._where is None or fulfils(self._where, list(self._partitions.values()), values, folder)

    def shards(self) -> list[str]:
        if self._interval is not None and self._clock() - self._looked >= self._interval:
            self._looked = self._clock()
            self._look()
        return list(self._shards)

    def start(self, shard: str) -> int:
        return 0

    def end(self, shard: str) -> int | None:
        return self._status(shard).st_size if self._follow else self._ends[shard]

    def read(self, shard: str, offset: int, *, max_rows: int, until: int | None = None) -> Chunk | None:
        """See `Source`. Records from `offset` on; a replay gets exactly those before `until`."""
        if until is not None:
            data = self._bytes(shard, offset, until - offset)
            return self._chunk(shard, offset, self._framing.split(data, complete=True))
        end = self._status(shard, offset).st_size if self._follow else self._end(shard)
        window = min(max(max_rows * self._line_bytes, _LEAST_WINDOW), _WINDOW)
        while offset < end:
            data = self._bytes(shard, offset, min(window, end - offset))
            found = self._framing.split(data, complete=not self._follow and offset + len(data) == end)
            if found.size:
                return self._chunk(shard, offset, found.first(max_rows))
            if offset + len(data) == end:
                return None  # an unfinished record
            window *= 4  # one that is longer
        return None

    def _end(self, shard: str) -> int:
        if shard not in self._ends:
            raise _changed(shard, "it is gone")
        return self._ends[shard]

    def _bytes(self, shard: str, offset: int, size: int) -> bytes:
        with open(shard, "rb", buffering=0) as file:
            data = os.pread(file.fileno(), size, offset)
            while len(data) < size:
                more = os.pread(file.fileno(), size - len(data), offset + len(data))
                if not more:
                    raise _changed(
                        shard, f"it ends at byte {offset + len(data)}, byte {offset + size} was there before"
                    )
                data += more
        return data

    def _chunk(self, shard: str, offset: int, found: Framed) -> Chunk:
        size, count, starts = found.size, len(found.records), found.starts + offset
        self._line_bytes = size * 5 // (count * 4) + 1
        metadata = {
            m.key: self._metadata(m.key, shard, starts).cast(m.column.type.arrow, safe=False)
            for m in self._table.metadata
        }
        return Chunk(shard, offset, offset + size, count, found.records, offsets=starts, metadata=metadata)

    def _metadata(self, key: str, shard: str, offsets: npt.NDArray[np.int64]) -> pa.Array:
        if key == "offset":
            return pa.array(offsets)
        if key in self._partitions:
            return pa.repeat(self._value(key, Path(shard)), len(offsets))
        status = Path(shard).stat()
        value: pa.Scalar = {
            "file.path": pa.scalar(shard),
            "file.name": pa.scalar(Path(shard).name),
            "file.size": pa.scalar(status.st_size, pa.int64()),
            "file.modification-time": pa.scalar(status.st_mtime_ns // 10**6, pa.timestamp("ms", "UTC")),
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

    def _status(self, shard: str, offset: int = 0) -> os.stat_result:
        """The file's size now; ExecutionError where it is not the file of before."""
        try:
            status = os.stat(shard)
        except FileNotFoundError:
            raise _changed(shard, "it is gone") from None
        if status.st_ino != self._inodes.setdefault(shard, status.st_ino):
            raise _changed(shard, "another file has its name now")
        if status.st_size < offset:
            raise _changed(shard, f"it has {status.st_size} bytes, {offset} were read before")
        return status

    def passed(self, positions: Mapping[str, int]) -> None: ...

    def close(self) -> None: ...


def _changed(shard: str, detail: str) -> ExecutionError:
    return ExecutionError(
        f"file '{shard}' has changed under a running job",
        detail=detail,
        hint="a file that is read may only grow: rotate by writing to a new name, and watch the folder with "
        "'source.monitor-interval'",
    )


def _there(root: Path) -> list[Path]:
    """The same; FileNotFoundError where there is nothing."""
    root.stat()
    return _files(root)


def _files(root: Path) -> list[Path]:
    """The file itself, or all below the folder, sorted; hidden ones left out."""
    if root.is_file():
        return [root]
    found: list[Path] = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f[0] not in "._"]
        found += [Path(folder, n) for n in names if n[0] not in "._"]
    return sorted(found)
