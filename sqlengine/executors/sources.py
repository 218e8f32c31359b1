"""The sources of a graph: which shards there are, how far each is read, and what comes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from zlib import crc32

import pyarrow as pa

from parser.errors import PlanError
from parser.types import Column, Schema
from planner.logical import Scan
from sqlengine.batch import Batch
from sqlengine.connectors.base import Chunk, Source
from sqlengine.formats.registry import value_metadata
from sqlengine.operators.scan import raw_schema

# Next offsets by source and shard.
Positions: TypeAlias = Mapping[str, Mapping[str, int]]
DEFAULT_STARTS: Mapping[str, int] = {}


@dataclass
class RunningSource:
    """One scan of the graph being read. `positions`: the next offset by shard; `ended` once bounded
    input is over; `began`: where reading began, by shard (0 for those that appeared later), in the
    epoch `began_epoch`."""

    scan: Scan
    source: Source
    positions: dict[str, int] = field(default_factory=dict)
    ended: bool = False
    began: dict[str, int] = field(default_factory=dict)
    began_epoch: int = 0

    def __post_init__(self) -> None:
        self.full_cache = self.source.full_cache
        told = value_metadata(self.scan.table)
        self._keys = tuple(m for m in self.scan.table.metadata if m not in told)
        self._raw = raw_schema(Schema(tuple(Column(m.key, m.column.type) for m in self._keys)))

    def begin(self, given: Mapping[str, int] = DEFAULT_STARTS) -> dict[str, int]:
        """Takes up all shards that there are now, at the offsets `given` or, of others, where a new
        job begins."""
        shards = self.source.shards()
        self.positions = {
            shard: given[shard] if shard in given else self.source.start(shard) for shard in shards
        }
        return dict(self.positions)

    def new_shards(self) -> list[str]:
        """Shards that appeared since; they are read from their beginning."""
        return (
            [s for s in self.source.shards() if s not in self.positions] if not self.ended else []
        )

    def poll(self, max_rows: int, bounds: Mapping[str, int] | None = None) -> Iterator[Chunk]:
        """What can be read now, one chunk a shard; of shards with bounds all that is before these,
        and no more."""
        if self.ended:
            return
        for shard, offset in self.positions.items():
            until = None if bounds is None else bounds.get(shard, offset)
            if until is not None and until <= offset:
                continue
            chunk = self.source.read(shard, offset, max_rows=max_rows, until=until)
            if chunk is not None:
                yield chunk

    def exhausted(self) -> bool:
        """Whether bounded input is read to its end now."""
        if not self.source.bounded or self.ended or self.full_cache is not None:
            return False
        return all(
            offset >= (self.source.end(shard) or 0) for shard, offset in self.positions.items()
        )

    def batch(self, chunk: Chunk, proctime: int, seed: int) -> Batch:
        """The chunk as the scan operator takes it. Its seed is its own: an epoch has many
        chunks."""
        seed ^= crc32(f"{chunk.shard}@{chunk.start}".encode())
        if chunk.columns is not None:
            schema = Schema(tuple(c for c in self.scan.schema if c.name in chunk.columns))
            columns = tuple(chunk.columns[c.name] for c in schema)
            rows = Batch(schema, columns, chunk.num_rows, proctime, origin=chunk.shard, seed=seed)
            return rows if chunk.kinds is None else replace(rows, kinds=chunk.kinds)
        assert chunk.records is not None
        assert chunk.offsets is not None
        extra = [chunk.metadata[m.key] for m in self._keys]
        columns = (chunk.records, pa.array(chunk.offsets), *extra)
        rows = Batch(self._raw, columns, chunk.num_rows, proctime, origin=chunk.shard, seed=seed)
        return rows if chunk.kinds is None else replace(rows, kinds=chunk.kinds)

    def tick(self, shard: str, proctime: int, watermark: int) -> Batch:
        """An empty batch from `shard` ('' for the source as a whole)."""
        columns = tuple(pa.array([], c.type.arrow) for c in self._raw)
        return Batch(self._raw, columns, 0, proctime, watermark, origin=shard)


def require_bounded(sources: Iterable[RunningSource]) -> None:
    """PlanError where a source has no end, for what waits for it."""
    for running in sources:
        if not running.source.bounded:
            table = running.scan.table
            topic = "'scan.bounded.mode' = 'latest-offset' reads what is there now"
            raise PlanError(
                f"table '{table.display}' has no end, and batch mode waits for it",
                hint=topic
                if table.connector == "topic"
                else "SET 'execution.runtime-mode' = 'streaming'",
            )


def positions_of(sources: Mapping[str, RunningSource]) -> dict[str, dict[str, int]]:
    """Next offsets by source and shard, as a checkpoint keeps them."""
    return {name: dict(s.positions) for name, s in sources.items()}
