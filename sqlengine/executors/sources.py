"""One source of a graph: its shards, how far each is read, and its next rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from zlib import crc32

import pyarrow as pa

from parser.errors import PlanError
from parser.types import Column, Schema
from planner.logical import LookedUpScan, Scan
from sqlengine.batch import Batch, empty, log_of
from sqlengine.connectors.base import Source
from sqlengine.connectors.boundary.source import WalledSource
from sqlengine.connectors.chunks import Chunk
from sqlengine.formats.registry import decodes_keys, value_metadata
from sqlengine.operators.scan import raw_schema, with_lengths

# Next offsets by source and shard.
Positions: TypeAlias = Mapping[str, Mapping[str, int]]
# No offsets are given: shards begin where a new job begins.
DEFAULT_STARTS: Mapping[str, int] = {}
DEFAULT_MARKS: Mapping[str, str] = {}


class ChunkRows:
    """Makes of chunks the input of a scan, wherever they were read."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        in_value = value_metadata(scan.table)
        # A version of a table of look-ups has none: they are in its rows.
        columns = () if isinstance(scan, LookedUpScan) else scan.table.metadata
        self._keys = tuple(m for m in columns if m not in in_value)
        self._keyed = decodes_keys(scan.table)
        metadata = Schema(tuple(Column(m.key, m.column.type) for m in self._keys))
        self.raw = raw_schema(metadata, keyed=self._keyed)

    def batch(self, chunk: Chunk, proctime: int, seed: int) -> Batch:
        """The chunk as input of the scan operator, at the epoch's processing time (ms). Chunks of
        one epoch get different seeds."""
        # From the place of the rows, not from their number in the epoch: a recovery may lack other
        # chunks.
        seed ^= crc32(f"{chunk.shard}@{chunk.start}".encode())
        if chunk.columns is not None:
            schema = Schema(tuple(c for c in self._scan.schema if c.name in chunk.columns))
            columns = tuple(chunk.columns[c.name] for c in schema)
        else:
            assert chunk.records is not None
            assert chunk.offsets is not None
            schema = self.raw
            metadata = [chunk.metadata[m.key] for m in self._keys]
            columns = (chunk.records, pa.array(chunk.offsets), *metadata)
            if self._keyed:
                assert chunk.keys is not None
                columns = (*columns, chunk.keys)
            if chunk.lengths is not None:
                schema, columns = with_lengths(schema), (*columns, pa.array(chunk.lengths))
        rows = Batch(schema, columns, chunk.num_rows, proctime, origin=chunk.shard, seed=seed)
        return rows if chunk.kinds is None else replace(rows, kinds=chunk.kinds)


@dataclass
class RunningSource:
    """A scan of the graph with its open source. Graph thread only.

    `positions`: the next offset of each shard. `ended`: bounded input is read to its end, and the
    operators behind it know. `began`: the offsets at which reading began in epoch `began_epoch`;
    shards that appeared later began at 0. `full_cache`: set for lookup tables that are reloaded."""

    scan: Scan
    source: Source
    positions: dict[str, int] = field(default_factory=dict)
    ended: bool = False
    began: dict[str, int] = field(default_factory=dict)
    began_epoch: int = 0

    def __post_init__(self) -> None:
        self.full_cache = self.source.full_cache
        self._rows = ChunkRows(self.scan)

    def begin(
        self,
        given: Mapping[str, int] = DEFAULT_STARTS,
        marks: Mapping[str, str] = DEFAULT_MARKS,
    ) -> dict[str, int]:
        """Sets the position of each present shard to its offset in `given`, where the source had
        `marks` to say of them, or else to where a new job begins; returns the positions."""
        self.source.resume(given, marks)
        shards = self.source.shards()
        self.positions = {
            shard: given[shard] if shard in given else self.source.start(shard) for shard in shards
        }
        return dict(self.positions)

    def go_on(self, other: RunningSource) -> dict[str, int]:
        """Sets the position of each present shard to where another source of the same records is;
        shards that have appeared since are read from their beginning. Returns the positions."""
        positions = other.positions
        self.source.resume(positions, other.source.marks())
        self.positions = {shard: positions.get(shard, 0) for shard in self.source.shards()}
        return dict(self.positions)

    @property
    def late(self) -> bool:
        """True while the source owes an answer to a poll."""
        return isinstance(self.source, WalledSource) and self.source.late

    @property
    def silent_s(self) -> float:
        """The seconds for which the source has owed an answer. Any thread."""
        return self.source.silent_s if isinstance(self.source, WalledSource) else 0.0

    def poll(
        self, max_rows: int, bounds: Mapping[str, int] | None = None
    ) -> tuple[list[str], list[Chunk]]:
        """Returns the shards that have appeared, which are read from their beginning from now on,
        and one chunk of each shard that has rows now.

        With `bounds` no row at or after them, nothing of shards without one, and no new shards. A
        source that does not answer at once gives its rows in a later poll."""
        if self.ended:
            return [], []
        if isinstance(self.source, WalledSource):
            opened, chunks = self.source.poll(self.positions, max_rows, bounds)
        else:
            new = [] if bounds is not None else self.source.shards()
            opened = [s for s in new if s not in self.positions]
            at = {**self.positions, **dict.fromkeys(opened, 0)}
            chunks = [c for c in self._read(at, max_rows, bounds) if c is not None]
        self.positions |= dict.fromkeys(opened, 0)
        return opened, chunks

    def _read(
        self, at: Mapping[str, int], max_rows: int, bounds: Mapping[str, int] | None
    ) -> Iterator[Chunk | None]:
        for shard, offset in at.items():
            until = None if bounds is None else bounds.get(shard, offset)
            # Nothing is read at a bound, so that the position stays exactly there.
            if until is None or until > offset:
                yield self.source.read(shard, offset, max_rows=max_rows, until=until)

    def continues(self, shard: str, opened: Iterable[tuple[str, str]]) -> bool:
        """True if a shard that was opened goes on with the log of another, which was there."""
        new = {name for _, name in opened}
        log = log_of(shard)
        return log != shard and any(log_of(s) == log for s in self.positions if s not in new)

    def close_shards(self, shards: Iterable[str]) -> None:
        """Drops shards that are gone, after they were read."""
        for shard in shards:
            self.positions.pop(shard, None)
        self.source.forget(shards)

    def exhausted(self) -> bool:
        """True if bounded input is read to its end now. Never for a lookup table that is
        reloaded."""
        if not self.source.bounded or self.ended or self.full_cache is not None:
            return False
        if isinstance(self.source, WalledSource):
            return self.source.exhausted(self.positions)
        return all(
            offset >= (self.source.end(shard) or 0) for shard, offset in self.positions.items()
        )

    def batch(self, chunk: Chunk, proctime: int, seed: int) -> Batch:
        """See `ChunkRows`."""
        return self._rows.batch(chunk, proctime, seed)

    def tick(self, shard: str, proctime: int, watermark: int) -> Batch:
        """An empty batch that carries time from `shard`, or from the source as a whole ('')."""
        tick = empty(self._rows.raw, proctime=proctime, watermark=watermark)
        return replace(tick, origin=shard)


class Endless(PlanError):
    """A table is read whose rows never end, where all rows are to be read."""


def require_bounded(sources: Iterable[RunningSource]) -> None:
    """Raises Endless if a source is unbounded: batch mode waits for the end of all."""
    for running in sources:
        if not running.source.bounded:
            table = running.scan.table
            hint = "SET 'execution.runtime-mode' = 'streaming'"
            if table.connector == "topic":
                hint = "'scan.bounded.mode' = 'latest-offset' reads what is there now"
            raise Endless(
                f"table '{table.display}' has no end, and batch mode waits for it", hint=hint
            )


def positions_of(sources: Mapping[str, RunningSource]) -> dict[str, dict[str, int]]:
    """Copies the next offsets by source and shard, for a checkpoint."""
    return {name: dict(s.positions) for name, s in sources.items()}
