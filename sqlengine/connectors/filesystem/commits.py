"""Commits of partitions: a file `_SUCCESS` in the folder of each partition that has all its rows so
far.

As in Flink, the trigger 'process-time' commits a partition when it is as old as the delay says, and
again when rows come later. All rows that came before show when the file does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlengine.system.disk import Disk


@dataclass(frozen=True)
class CommitPolicy:
    """The name of the file, and how many ms after its first row a partition is committed."""

    file: str
    delay_ms: int


class PartitionCommits:
    """The partitions of one sink that wait for their commit, by their folders below the table's."""

    def __init__(
        self, policy: CommitPolicy, root: Path, clock: Callable[[], int], disk: Disk
    ) -> None:
        self._policy, self._root, self._clock, self._disk = policy, root, clock, disk
        self._since: dict[str, int] = {}

    def found(self, folder: str, *, pending: bool) -> None:
        """Notes a partition that exists already; `pending`: some of its rows are not visible."""
        if pending or not self._disk.exists(self._root / folder / self._policy.file):
            self.written(folder)

    def written(self, folder: str) -> None:
        """Rows were committed for a partition."""
        self._since.setdefault(folder, self._clock())

    def due(self, *, end: bool) -> Iterator[str]:
        """The partitions to be committed now; with `end` all."""
        now = self._clock()
        return iter(
            [f for f, since in self._since.items() if end or now - since >= self._policy.delay_ms]
        )

    def commit(self, folder: str) -> None:
        """Writes the file. OSError as the disk raises it."""
        file = self._disk.open(
            self._root / folder / self._policy.file, make=True, empty=True, mode=0o666
        )
        self._disk.close(file)
        del self._since[folder]
