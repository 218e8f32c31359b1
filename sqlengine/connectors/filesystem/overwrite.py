"""INSERT OVERWRITE into a folder.

The new files replace all others, at once and only when the statement has succeeded. Where the table
has partitions, those that get rows are replaced, and all others stay.

Rows are written into a hidden folder inside. At the end a hidden list says which files go and which
come; from the moment when the list is there, the new files count. Whoever opens the folder next
completes what a crash has left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from parser.errors import ExecutionError
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.base import Sink
from sqlengine.connectors.filesystem.sink import check_folder, file_name, part_of
from sqlengine.system.file_access import FileAccess
from sqlengine.system.rights import make_shared_folder

_LIST = ".overwrite-"


class _Exchange(msgspec.Struct):
    """Names in the folder: the hidden folder, which of its files come, and which files and folders
    go."""

    staging: str
    comes: list[str]
    goes: list[str]


class OverwritingFileSink(Sink):
    """Writes with the sink that `make` opens for the hidden folder, until `publish_overwrite`.

    Files of the same run stay: several statements of one set may write into the folder. `mark`: the
    file that commits a partition, if there is one."""

    def __init__(
        self,
        table: Table,
        folder: Path,
        writer: str,
        make: Callable[[Path], Sink],
        mark: str | None,
        files: FileAccess,
    ) -> None:
        check_folder(table, folder)
        self._folder, self._files = folder, files
        self._own = part_of(writer)
        name = file_name(table, writer)
        self._staging = folder / f".staging-{name}"
        self._list = folder / f"{_LIST}{name}"
        self._sink = make(self._staging)
        self._mark = mark
        self._partitioned = bool(table.partition_keys)

    def last_epoch(self) -> int | None:
        return self._sink.last_epoch()

    def write(self, batch: Batch) -> None:
        self._sink.write(batch)

    def commit(self, epoch: int) -> int:
        return self._sink.commit(epoch)

    def publish_overwrite(self) -> None:
        """See `Sink`."""
        self.announce()
        complete(self._folder, self._files)

    def announce(self) -> None:
        """Writes the list: from now on the new files count."""
        self._sink.roll(end=True)
        files = [
            p.relative_to(self._staging)
            for p in sorted(self._staging.rglob("part-*"))
            if p.stat().st_size
        ]
        marks = (
            [p.relative_to(self._staging) for p in sorted(self._staging.rglob(self._mark))]
            if self._mark
            else []
        )
        comes = [p.as_posix() for p in (*files, *marks)]
        folders = dict.fromkeys(p.parent for p in files) if self._partitioned else [Path()]
        goes = [name for folder in folders for name in self._goes(folder)]
        exchange = _Exchange(self._staging.name, comes, goes)
        for name in comes:
            _sync(self._staging / name)
        _write_whole(self._list, msgspec.json.encode(exchange))

    def _goes(self, folder: Path) -> Iterator[str]:
        """Yields what is visible in a folder of the table and was not written by this run."""
        target = self._folder / folder
        for name in sorted(os.listdir(target)) if target.is_dir() else ():
            if name[0] not in "._" and not name.startswith(self._own):
                yield (folder / name).as_posix()

    def close(self) -> None:
        self._sink.close()
        if not self._list.exists():  # what has not taken its place never will
            shutil.rmtree(self._staging, ignore_errors=True)


def complete(folder: Path, files: FileAccess) -> None:
    """Carries out what lists in the folder say; any step may have been done before a crash."""
    for entry in sorted(folder.glob(f"{_LIST}*")) if folder.is_dir() else ():
        if not entry.name.endswith(".new"):
            _carry_out(folder, entry, files)


def _carry_out(folder: Path, entry: Path, files: FileAccess) -> None:
    exchange = _read(entry, files)
    for name in (*exchange.comes, *exchange.goes):
        files.check((folder / name).parent)
    staging = folder / exchange.staging
    for name in exchange.comes:
        if (staging / name).exists():
            make_shared_folder((folder / name).parent, parents=True)
            os.replace(staging / name, folder / name)
    for name in exchange.goes:
        _remove(folder / name)
        _remove((folder / name).with_name(f".{Path(name).stem}.journal"))
    shutil.rmtree(staging, ignore_errors=True)
    entry.unlink(missing_ok=True)


def _read(entry: Path, files: FileAccess) -> _Exchange:
    """Reads a list. ExecutionError for one that nobody here has written: what it names goes."""
    try:
        exchange = msgspec.json.decode(files.read(entry), type=_Exchange)
    except msgspec.MsgspecError as error:
        raise _no_list(entry, str(error)) from None
    for name in (exchange.staging, *exchange.comes, *exchange.goes):
        if name.startswith("/") or not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise _no_list(entry, f"it names '{name}'")
    return exchange


def _no_list(entry: Path, detail: str) -> ExecutionError:
    return ExecutionError(
        f"'{entry}' is no list of files of INSERT OVERWRITE",
        detail=detail,
        hint="remove it, if no statement has left it there",
    )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write_whole(path: Path, data: bytes) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(data)
    _sync(fresh)
    os.replace(fresh, path)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
