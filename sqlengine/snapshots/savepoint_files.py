"""The files of a savepoint: a folder with metadata (`_metadata`, JSON) and an Arrow file for each
table.

The folder appears atomically, and is never changed afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec
import pyarrow as pa

from parser.errors import JobError, ServiceError
from planner.graph.takeover import Operation
from sqlengine.snapshots.checkpoints import LAYOUT
from sqlengine.state.keys import BUCKET_HASH_VERSION
from sqlengine.state.table import STATE_FORMAT
from sqlengine.system.disk import Disk, make_folders, write_file

FORMAT: Final = 1
METADATA: Final = "_metadata"
# The settings of the folder for new savepoints, and of the savepoint to start from: Flink's names,
# the newer one of each first.
FOLDERS: Final = ("execution.checkpointing.savepoint-dir", "state.savepoints.dir")
PATHS: Final = ("execution.state-recovery.path", "execution.savepoint.path")


@dataclass(frozen=True)
class SavedTable:
    """A table of state; its rows are in `file`, whose CRC-32 is `crc`."""

    name: str
    layout: str
    rows: int
    file: str = ""
    bytes: int = 0
    crc: int = 0


@dataclass(frozen=True)
class SavedOperation:
    """An operation and its tables. `job_state`: they are state of the job, else watermarks of its
    sources."""

    operation: Operation
    job_state: bool
    tables: tuple[SavedTable, ...]


@dataclass(frozen=True)
class SavedSource:
    """A source: the next offset of each shard. `scan` is the digest of the table as it was read;
    `version`: the last lines of a file in which rows are looked up, as each graph numbers versions
    in its own way; `marks`: what the source has to say of its shards (`Source.marks`)."""

    scan: str
    table: str
    connector: str
    stored: str
    positions: dict[str, int]
    ended: bool
    version: SavedTable | None = None
    marks: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Savepoint:
    """The metadata of one job's savepoint.

    `fingerprint`: of the statements' plans; `constants`: VALUES whose rows were emitted;
    `drained`: all windows were emitted before it, as if the sources had ended; `path`: the folder,
    which is not stored. `layout`, `state_format` and `bucket_hash` are the versions of the formats
    in the tables."""

    job: str
    version: int
    sql: str
    fingerprint: str
    graph: str
    epoch: int
    created_ms: int
    sources: tuple[SavedSource, ...]
    operations: tuple[SavedOperation, ...]
    constants: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    drained: bool = False
    layout: int = LAYOUT
    state_format: int = STATE_FORMAT
    bucket_hash: int = BUCKET_HASH_VERSION
    format: int = FORMAT
    path: str = ""

    @property
    def rows(self) -> int:
        """The rows of all tables of state."""
        return sum(t.rows for o in self.operations for t in o.tables)

    @property
    def bytes(self) -> int:
        """The size of all files of tables."""
        return sum(t.bytes for t in self.tables)

    @property
    def tables(self) -> list[SavedTable]:
        """The tables that have a file: lookup versions, then state."""
        versions = [s.version for s in self.sources if s.version is not None]
        return [*versions, *(t for o in self.operations for t in o.tables)]


# The suffix of folders that are being written; their names begin with a dot.
_WRITING: Final = ".writing"
# The rows of each table, by the number of its operation and its name; the lines of a source by its
# scan.
Rows = Mapping[tuple[int, str] | str, pa.Table]


def write(disk: Disk, folder: Path, savepoint: Savepoint, rows: Rows) -> Savepoint:
    """Writes a savepoint into a new folder. ServiceError if it cannot be written: then there is no
    folder."""
    scratch = folder.with_name(f".{folder.name}{_WRITING}")
    try:
        make_folders(disk, folder.parent, lasting=True)
        disk.remove_folder(scratch)
        disk.make_folder(scratch)
        operations = tuple(
            _write_operation(disk, scratch, n, o, rows) for n, o in enumerate(savepoint.operations)
        )
        sources = tuple(
            _write_source(disk, scratch, n, s, rows) for n, s in enumerate(savepoint.sources)
        )
        done = replace(savepoint, operations=operations, sources=sources)
        write_file(
            disk, scratch / METADATA, _sealed(msgspec.json.format(msgspec.json.encode(done)))
        )
        # Contents before the name: after a power loss the folder is either complete or not there.
        disk.sync_folder(scratch)
        disk.rename(scratch, folder)
        disk.sync_folder(folder.parent)
    except OSError as error:
        disk.remove_folder(scratch)
        hint = "free some space, or name another folder: SET 'state.savepoints.dir' = '…'"
        raise ServiceError(
            f"savepoint '{folder}' cannot be written", detail=str(error), hint=hint
        ) from error
    return replace(done, path=str(folder))


def tidy(disk: Disk, below: Path) -> None:
    """Deletes savepoints in a folder that were being written when the process died."""
    for name in disk.names(below):
        if name.startswith(".") and name.endswith(_WRITING):
            disk.remove_folder(below / name)


def read(disk: Disk, folder: Path) -> Savepoint:
    """Reads the metadata of a savepoint. JobError if there is none, or it has another format."""
    try:
        data = disk.read(folder / METADATA)
    except OSError as error:
        raise JobError(
            f"savepoint '{folder}' does not exist",
            detail=None if isinstance(error, FileNotFoundError) else error.strerror,
            hint="'sql savepoint list' shows those there are",
        ) from None
    if _is_broken(data):
        raise _damaged(folder, f"'{METADATA}' is not as it was written")
    number = _format_of(folder, data)
    if number != FORMAT:
        raise JobError(
            f"savepoint '{folder}' has format {number}, this version reads {FORMAT}",
            hint="start the job from it with the version that wrote it, or without it",
        )
    try:
        return replace(msgspec.json.decode(data, type=Savepoint), path=str(folder))
    except msgspec.MsgspecError as error:
        raise _damaged(folder, str(error)) from None


_SEAL: Final = b'{\n  "checksum": '


def _sealed(text: bytes) -> bytes:
    """Adds a checksum of a JSON object as its first entry."""
    return _SEAL + b"%d,\n" % crc32(text) + text.removeprefix(b"{\n")


def _is_broken(data: bytes) -> bool:
    """True if the checksum does not match. Older savepoints have none."""
    number, _, rest = data.removeprefix(_SEAL).partition(b",\n")
    return data.startswith(_SEAL) and number != b"%d" % crc32(b"{\n" + rest)


def unreadable(savepoint: Savepoint) -> JobError | None:
    """Returns the error if the tables have other versions of formats than this program reads; None
    if it can read them."""
    current = {"layout": LAYOUT, "state_format": STATE_FORMAT, "bucket_hash": BUCKET_HASH_VERSION}
    for what, number in current.items():
        saved = getattr(savepoint, what)
        if saved != number:
            return JobError(
                f"the state in savepoint '{savepoint.path}' has {what} {saved}, this version reads"
                f" {number}",
                hint=(
                    "start the job from it with the version that wrote it; SET 'job.state' ="
                    " 'reset' takes its positions alone"
                ),
            )
    return None


def read_rows(disk: Disk, savepoint: Savepoint, table: SavedTable) -> pa.Table:
    """Reads the rows of a table. JobError if the file is damaged."""
    path = Path(savepoint.path) / table.file
    try:
        data = disk.read(path)
    except OSError as error:
        raise _damaged(Path(savepoint.path), str(error)) from None
    if crc32(data) != table.crc:
        raise _damaged(Path(savepoint.path), f"'{table.file}' is not as it was written")
    return pa.ipc.open_stream(data).read_all()


def delete(disk: Disk, savepoint: Savepoint) -> None:
    """Deletes the files of a savepoint, its metadata first, and the folder if it is empty then."""
    folder = Path(savepoint.path)
    try:
        # First: a deletion that is interrupted leaves no savepoint that looks complete.
        disk.remove(folder / METADATA)
        for table in savepoint.tables:
            disk.remove(folder / Path(table.file).name)
        if not disk.names(folder):
            disk.remove_folder(folder)
    except OSError as error:
        raise ServiceError(f"savepoint '{folder}' cannot be deleted", detail=str(error)) from None


def _format_of(folder: Path, data: bytes) -> object:
    """Returns the format number alone: another format may differ in everything else."""
    try:
        return msgspec.json.decode(data, type=dict[str, object]).get("format")
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _damaged(folder, str(error)) from None


def _damaged(folder: Path, detail: str) -> JobError:
    return JobError(
        f"savepoint '{folder}' is damaged", detail=detail, hint="start the job from another one"
    )


def _write_operation(
    disk: Disk, folder: Path, number: int, operation: SavedOperation, rows: Rows
) -> SavedOperation:
    tables = tuple(
        _write_table(disk, folder / f"{number:03}-{i}.arrow", table, rows[number, table.name])
        for i, table in enumerate(operation.tables)
    )
    return replace(operation, tables=tables)


def _write_source(
    disk: Disk, folder: Path, number: int, source: SavedSource, rows: Rows
) -> SavedSource:
    if source.version is None:
        return source
    path = folder / f"source-{number:03}.arrow"
    return replace(source, version=_write_table(disk, path, source.version, rows[source.scan]))


def _write_table(disk: Disk, path: Path, table: SavedTable, rows: pa.Table) -> SavedTable:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
    ) as writer:
        writer.write_table(rows, max_chunksize=1 << 16)
    data = memoryview(sink.getvalue())
    write_file(disk, path, data)
    return replace(table, file=path.name, bytes=len(data), crc=crc32(data))
