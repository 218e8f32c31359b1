"""Reading a table of a database by partitions: one after the other in one process, side by side in
tasks, each as it is when it is read.

A shard is a partition, and its name has the number of its rows when the job began. That, and a hash
of the rows of one that was read in part, tell whether they are still the same when a job goes on
after a crash: it fails loudly if not. A partition that was read to its end is not read again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from planner.scalar import Scalar
from sqlengine.connectors.base import Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.jdbc.partitions import Partition
from sqlengine.connectors.jdbc.reading import TableReader

_NAME: Final = re.compile(r"(\d+) of (\d+), (\d+) rows")


class PartitionedSource(Source):
    """A source with a shard for each partition; an offset counts its rows. One partition is in
    memory at a time."""

    bounded = True

    def __init__(self, reader: TableReader, partitions: Sequence[Partition]) -> None:
        self._reader = reader
        self.health = reader.health
        self._partitions = partitions
        self._names: list[str] = []
        self._loaded = ""
        self._columns: Mapping[str, pa.Array] = {}
        self._hashes: dict[str, str] = {}  # of shards that were read, in part or to the end
        self._reached: dict[str, int] = {}

    def apply_query(self, where: Scalar | None, limit: int) -> None:
        """See `Source`. Each partition is asked for with the condition, but without the limit."""
        self._reader.ask(where, 0)

    def shards(self) -> list[str]:
        """See `Source`. Rows are counted the first time."""
        if not self._names:
            counts = self._reader.counts(self._partitions)
            self._names = [f"{n} of {len(counts)}, {c} rows" for n, c in enumerate(counts, 1)]
        return list(self._names)

    def start(self, shard: str) -> int:
        return 0

    def end(self, shard: str) -> int | None:
        _, _, rows = _parts(shard) or (0, 0, 0)
        return rows

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`. ExecutionError where the rows of the partition are not those of before."""
        count = self.end(shard) or 0
        self._reached[shard] = offset
        end = min(offset + max_rows, count) if until is None else until
        if end <= offset or (until is None and self._waits(shard)):
            return None
        if shard != self._loaded:
            self._load(shard)
        columns = {n: c.slice(offset, end - offset) for n, c in self._columns.items()}
        digest = self._hashes[shard]
        return Chunk(shard, offset, end, end - offset, columns=columns, digest=digest)

    def _waits(self, shard: str) -> bool:
        """True if a partition before this one has not been read to its end."""
        before = self.shards()[: self.shards().index(shard)] if shard in self.shards() else []
        return any(self._reached.get(other, 0) < (self.end(other) or 0) for other in before)

    def _load(self, shard: str) -> None:
        number, of, count = _parts(shard) or (0, 0, 0)
        if of != len(self._partitions) or not number:
            raise self._reader.changed()  # by other options
        columns, rows, digest = self._reader.load(self._partitions[number - 1])
        if rows != count or self._hashes.setdefault(shard, digest) != digest:
            raise self._reader.changed()
        self._columns, self._loaded = columns, shard

    def resume(self, positions: Mapping[str, int], marks: Mapping[str, str]) -> None:
        """See `Source`: partitions have as many rows as they had."""
        known = sorted((s for s in positions if _parts(s)), key=lambda s: _parts(s) or ())
        if known:
            self._names = known
        self._reached |= positions
        self._hashes |= marks

    def expect(self, shard: str, start: int, end: int, digest: str) -> None:
        if self._hashes.get(shard) != digest:
            self._hashes[shard], self._loaded = digest, ""

    def marks(self) -> Mapping[str, str]:
        """See `Source`: the hashes of partitions that were read."""
        return dict(self._hashes)

    def close(self) -> None: ...


def _parts(shard: str) -> tuple[int, int, int] | None:
    """Returns the number of a partition, that of all, and its rows; None for another's name."""
    found = _NAME.fullmatch(shard)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))
