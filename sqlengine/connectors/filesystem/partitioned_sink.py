"""Writing partitions of files: rows go to the folder that their partition columns name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from parser.errors import ExecutionError
from planner.catalog import Table
from sqlengine.batch import Batch, IntArray
from sqlengine.connectors.base import Sink
from sqlengine.connectors.filesystem.commits import PartitionCommits
from sqlengine.connectors.filesystem.partitions import Texts, folder_of, partitions, texts_of
from sqlengine.connectors.filesystem.rolling import RollingFileSink
from sqlengine.connectors.filesystem.sink import FileSink, file_name
from sqlengine.system.disk import MACHINE, Disk

# So many files of partitions that get no rows stay open.
_OPEN: Final = 64
FolderSink = FileSink | RollingFileSink


class PartitionedFileSink(Sink):
    """Writes each row to the folder of its partition, with a sink that `make` opens.

    Each folder gets its rows exactly once: an epoch that is repeated adds nothing where it was
    committed, and what is missing elsewhere."""

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
        self._keys = tuple(table.schema.select(table.partition_keys))
        self._open: dict[str, FolderSink] = {}
        self._written: dict[str, None] = {}
        disk.make_folder(folder, parents=True)
        journal = f".{file_name(table, writer)}.journal"
        self._last: int | None = None
        for path, _ in partitions(folder, table.partition_keys, default, disk):
            if disk.exists(path / journal):  # cuts off what was not committed
                self._take_up(path.relative_to(folder).as_posix())
        self._close_idle()

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
        for folder, rows in self._by_folder(batch):
            self._sink(folder).write(batch.take(rows))
            self._written[folder] = None

    def _by_folder(self, batch: Batch) -> Iterator[tuple[str, IntArray]]:
        texts = [texts_of(batch, column).to_pylist() for column in self._keys]
        rows_by_values: dict[Texts, list[int]] = {}
        for row, values in enumerate(zip(*texts, strict=True)):
            rows_by_values.setdefault(values, []).append(row)
        names = [column.name for column in self._keys]
        for values, rows in rows_by_values.items():
            yield folder_of(names, values, self._default), np.asarray(rows)

    def _sink(self, folder: str) -> FolderSink:
        if folder not in self._open:
            self._open[folder] = self._make(self._folder / folder)
        return self._open[folder]

    def commit(self, epoch: int) -> int:
        count = sum(self._open[folder].commit(epoch) for folder in self._written)
        if self._commits is not None:
            for folder in self._written:
                self._commits.written(folder)
        self._written.clear()
        self._close_idle()
        self._last = epoch
        return count

    def roll(self, *, end: bool = False) -> None:
        """See `Sink`. A partition that is committed shows all its rows before."""
        for sink in self._open.values():
            if isinstance(sink, RollingFileSink):
                sink.roll(end=end)
        for folder in self._commits.due(end=end) if self._commits is not None else ():
            self._commit_partition(folder)

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

    def _close_idle(self) -> None:
        for folder in list(self._open)[: max(len(self._open) - _OPEN, 0)]:
            self._open.pop(folder).close()

    def close(self) -> None:
        for sink in self._open.values():
            sink.close()
