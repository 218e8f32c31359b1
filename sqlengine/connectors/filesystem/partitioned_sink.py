"""Writing partitions of files: rows go to the folder that their partition columns name."""

from __future__ import annotations

import errno
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from parser.errors import ExecutionError
from planner.catalog import Table
from sqlengine.batch import Batch, IntArray
from sqlengine.connectors.base import Sink
from sqlengine.connectors.filesystem.commits import PartitionCommits
from sqlengine.connectors.filesystem.partitions import (
    Texts,
    folder_of,
    partitions,
    rows_without_folder,
    texts_of,
)
from sqlengine.connectors.filesystem.rolling import RollingFileSink
from sqlengine.connectors.filesystem.sink import FileSink, file_name, not_written
from sqlengine.system.disk import MACHINE, Disk

# So many partitions of a table are open at most, fewer where the process may open few files: each
# takes up to three of them.
_OPEN: Final = 64
_SHARE: Final = 64
FolderSink = FileSink | RollingFileSink


class PartitionedFileSink(Sink):
    """Writes each row to the folder of its partition, with a sink that `make` opens.

    Each folder gets its rows exactly once: an epoch that is repeated adds nothing where it was
    committed, and what is missing elsewhere. The folders that were used last are open; others are
    closed and opened again, also within an epoch."""

    def __init__(
        self,
        table: Table,
        folder: Path,
        writer: str,
        default: str,
        make: Callable[[Path], FolderSink],
        commits: PartitionCommits | None = None,
        disk: Disk = MACHINE,
    ) -> None:
        self._folder, self._default, self._make, self._commits = folder, default, make, commits
        self._table = table
        self._keys = tuple(table.schema.select(table.partition_keys))
        self._most = most_open()
        self._open: dict[str, FolderSink] = {}  # the one that was used last comes last
        self._released: dict[str, FolderSink] = {}  # with rows that are not committed
        self._written: dict[str, None] = {}
        self._count = 0
        disk.make_folder(folder, parents=True)
        journal = f".{file_name(table, writer)}.journal"
        self._last: int | None = None
        for path, _ in partitions(folder, table.partition_keys, default, disk):
            if disk.exists(path / journal):  # cuts off what was not committed
                self._take_up(path.relative_to(folder).as_posix())
        for name in list(self._open):
            self._set_aside(name)

    def _take_up(self, folder: str) -> None:
        sink = self._sink(folder)
        last = sink.last_epoch()
        self._last = last if self._last is None or (last or 0) > self._last else self._last
        if self._commits is not None:
            self._commits.found(
                folder, pending=isinstance(sink, RollingFileSink) and sink.holds_rows
            )

    def last_epoch(self) -> int | None:
        return self._last

    def write(self, batch: Batch) -> None:
        if not batch.num_rows:
            return
        for reason in rows_without_folder(self._table, batch).values():
            raise ExecutionError(f"table '{self._table.display}' cannot take a row", detail=reason)
        for folder, rows in self._by_folder(batch):
            # First: without its files, rows of it are not lost with them.
            sink = self._sink(folder)
            self._written[folder] = None
            sink.write(batch.take(rows))

    def _by_folder(self, batch: Batch) -> Iterator[tuple[str, IntArray]]:
        texts = [texts_of(batch, column).to_pylist() for column in self._keys]
        rows_by_values: dict[Texts, list[int]] = {}
        for row, values in enumerate(zip(*texts, strict=True)):
            rows_by_values.setdefault(values, []).append(row)
        names = [column.name for column in self._keys]
        for values, rows in rows_by_values.items():
            yield folder_of(names, values, self._default), np.asarray(rows)

    def _sink(self, folder: str) -> FolderSink:
        """The open sink of a partition. SqlError where its folder or its files cannot be opened."""
        if folder in self._open:
            self._open[folder] = self._open.pop(folder)
            return self._open[folder]
        self._make_room(self._most - 1)
        try:
            sink = self._opened(folder)
        except OSError as error:
            raise not_written(f"'{self._folder / folder}'", error) from None
        self._released.pop(folder, None)
        self._open[folder] = sink
        return sink

    def _opened(self, folder: str) -> FolderSink:
        if folder in self._released:
            return self._released[folder]  # which opens its files itself, once it needs them
        try:
            return self._make(self._folder / folder)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        self._make_room(0)
        return self._make(self._folder / folder)

    def _make_room(self, most: int) -> None:
        """Closes the partitions that were not used for the longest time, until so many are open."""
        for folder in list(self._open)[: max(len(self._open) - most, 0)]:
            if folder in self._written:
                self._set_aside(folder)
            else:
                self._open.pop(folder).close()

    def _set_aside(self, folder: str) -> None:
        """Closes the files of a partition, and keeps its sink where that has rows."""
        sink = self._open.pop(folder)
        sink.release()
        if folder in self._written or (isinstance(sink, RollingFileSink) and sink.holds_rows):
            self._released[folder] = sink

    def commit(self, epoch: int) -> int:
        # One after the other: what a partition without space has not taken is tried again.
        for folder in list(self._written):
            self._count += self._sink(folder).commit(epoch)
            del self._written[folder]
            if self._commits is not None:
                self._commits.written(folder)
        self._last = max(self._last or 0, epoch)
        count, self._count = self._count, 0
        return count

    def roll(self, *, end: bool = False) -> None:
        """See `Sink`. A partition that is committed shows all its rows before."""
        for folder, sink in [*self._open.items(), *self._released.items()]:
            if isinstance(sink, RollingFileSink) and sink.is_due(end=end):
                self._sink(folder).roll(end=end)
        for folder in self._commits.due(end=end) if self._commits is not None else ():
            self._commit_partition(folder)

    def roll_is_due(self) -> bool:
        """See `Sink`."""
        sinks = [*self._open.values(), *self._released.values()]
        rolling = (s for s in sinks if isinstance(s, RollingFileSink))
        return any(s.roll_is_due() for s in rolling) or (
            self._commits is not None and any(self._commits.due(end=False))
        )

    def _commit_partition(self, folder: str) -> None:
        assert self._commits is not None
        sink = self._sink(folder)
        if isinstance(sink, RollingFileSink):
            sink.roll(end=True)
        try:
            self._commits.commit(folder)
        except OSError as error:
            raise ExecutionError(
                f"partition '{folder}' of '{self._folder}' cannot be committed",
                detail=error.strerror,
            ) from None

    def close(self) -> None:
        for sink in [*self._open.values(), *self._released.values()]:
            sink.close()


def most_open() -> int:
    """Returns how many partitions of a table may be open at once."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _OPEN if limit == resource.RLIM_INFINITY else max(min(_OPEN, limit // _SHARE), 4)
