"""The input of Spark's tasks.

The driver lists shards and cuts them into splits. A task (`stage.py`) reads a split, decodes it and
runs all that is stateless over it.

Tasks read files, and make the rows of datagen, themselves. The driver reads all other connectors,
topics above all, because the folder of the embedded broker belongs to one process: their records
travel to the tasks undecoded."""

from __future__ import annotations

import heapq
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import pyarrow as pa

from parser.errors import SqlError
from planner.graph.physical import PhysicalNode, PhysicalPlan
from planner.logical import Scan, Values
from sqlengine.batch import MAX_WATERMARK, log_of
from sqlengine.connectors.base import Environment, Source
from sqlengine.connectors.boundary.source import WalledSource
from sqlengine.connectors.registry import open_scan
from sqlengine.executors.failures import SourceFailed
from sqlengine.executors.inputs import lookup_scans
from sqlengine.executors.sources import RunningSource, require_bounded
from sqlengine.executors.wire import encode_batch

# The connectors that tasks read: the length of a split in offsets, and the bytes per offset, about.
_READ_BY_TASKS: Final = {"filesystem": (16 << 20, 1), "datagen": (1 << 16, 256)}
# More turns than one split takes, so that the turns of a shard's splits do not overlap.
_TURNS: Final = 1 << 20
# Splits are added to a batch up to this size, which a keyed stage must hold in memory.
BYTES_PER_BATCH: Final = 256 << 20
# A batch of unbounded input takes this many turns at most, so that rows do not wait long.
_TURNS_PER_BATCH: Final = 16
_IDLE_S: Final = 0.005
# Added to the turns of other tables: lookup tables are read before them.
_OTHERS: Final = 1 << 56


@dataclass(frozen=True)
class InputSplit:
    """Rows of one shard, about `size` bytes: the task reads offsets [`start`, `end`), or decodes a
    `batch` of records. Splits are processed in the order of `turn`, then of `shard_name`."""

    source: str
    shard: str
    shard_name: str
    turn: int = 0
    start: int = 0
    end: int = 0
    batch: bytes | None = None
    size: int = 0


SPLIT_SCHEMA: Final = pa.schema(
    [
        ("source", pa.string()),
        ("shard", pa.string()),
        ("shard_name", pa.string()),
        ("turn", pa.int64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("batch", pa.binary()),
    ]
)


def splits_to_table(splits: Sequence[InputSplit]) -> pa.Table:
    """Converts splits to a table, from which Spark makes a DataFrame."""
    columns = [pa.array([getattr(s, f.name) for s in splits], f.type) for f in SPLIT_SCHEMA]
    return pa.Table.from_arrays(columns, schema=SPLIT_SCHEMA)


@contextmanager
def failing(node: PhysicalNode) -> Iterator[None]:
    """Makes an SqlError of the body the failure of the jobs that read the source."""
    try:
        yield
    except SourceFailed:
        raise
    except SqlError as error:
        raise SourceFailed(node.jobs, error) from error


class DriverSources:
    """The sources of a plan, open in the driver.

    `shard_names`: by source, names of shards that are unique in the plan and sort as the embedded
    executor reads them; the files of a rotated log have one name, and one watermark. PlanError if
    a source is unbounded although `ends` asks for bounded ones; SqlError where one cannot be
    opened, SourceFailed from `batches` where one cannot be read."""

    def __init__(
        self, plan: PhysicalPlan, environment: Environment, rows_per_turn: int, ends: bool = False
    ) -> None:
        self._rows_per_turn = rows_per_turn
        self._running: dict[str, RunningSource] = {}
        self._ended: set[str] = set()
        self._numbers = count()
        self.shard_names: dict[str, dict[str, str]] = {}
        self._nodes = {n.id: n for n in plan.in_order}
        scans = {n.id: n.plan for n in plan.in_order if isinstance(n.plan, Scan)}
        self._first = lookup_scans(plan, plan.graph.nodes)
        try:
            for name, scan in scans.items():
                source = open_scan(scan, environment, patient=True)
                self._running[name] = running = RunningSource(scan, source)
                self._name(name, running.begin())
            if ends:
                require_bounded(self._running.values())
        except BaseException:
            self.close()
            raise
        for node in plan.in_order:
            if isinstance(node.plan, Values):
                self._name(node.id, ("",))

    def _name(self, source: str, shards: Iterable[str]) -> None:
        named = self.shard_names.setdefault(source, {})
        logs = {log_of(shard): name for shard, name in named.items()}
        for shard in shards:
            log = log_of(shard)
            if log not in logs:
                logs[log] = f"{next(self._numbers):08}"
            named[shard] = logs[log]

    @property
    def bounded(self) -> bool:
        """True if all sources are bounded."""
        return all(s.source.bounded for s in self._running.values())

    def batches(self, tick_s: float | None = None) -> Iterator[tuple[list[InputSplit], bool]]:
        """Yields the splits of each batch in order, with True for the last; there is at least one.

        Of unbounded input a batch is what is there by now, or nothing after `tick_s` seconds (None:
        waits for ever)."""
        return _in_batches(self._splits_by_turns()) if self.bounded else self._polled(tick_s)

    # ---- bounded input ---------------------------------------------------------------------------

    def _splits_by_turns(self) -> Iterator[InputSplit]:
        """Yields all splits by turns, those of lookup tables first."""
        yield from self._by_turns(name for name in self.shard_names if name in self._first)
        for split in self._by_turns(name for name in self.shard_names if name not in self._first):
            yield replace(split, turn=split.turn + (_OTHERS if self._first else 0))

    def _by_turns(self, names: Iterable[str]) -> Iterator[InputSplit]:
        return heapq.merge(*(self._attributed(name) for name in names), key=lambda s: s.turn)

    def _attributed(self, name: str) -> Iterator[InputSplit]:
        with failing(self._nodes[name]):
            yield from self._splits(name)

    def _splits(self, name: str) -> Iterator[InputSplit]:
        running = self._running.get(name)
        if running is None:
            return iter([InputSplit(name, "", self.shard_names[name][""])])
        if running.scan.table.connector not in _READ_BY_TASKS:
            return self._read(name, running)
        return self._cut(name, running)

    def _cut(self, name: str, running: RunningSource) -> Iterator[InputSplit]:
        """Yields the splits of a source that tasks read."""
        turn = 0
        shards = (self._ranges(name, running, shard) for shard in running.positions)
        for split in heapq.merge(*shards, key=lambda s: s.turn):
            turn = split.turn
            yield split
        yield from self._over(name, running, turn + _TURNS - 1)

    def _ranges(self, name: str, running: RunningSource, shard: str) -> Iterator[InputSplit]:
        """Yields splits of a shard; each ends at the end of a record."""
        source, start = running.source, running.positions[shard]
        step, width = _READ_BY_TASKS[running.scan.table.connector]
        end, turn = _end(source, shard), 0
        while start < end:
            until = start + step
            if until < end:
                record = source.read(shard, until, max_rows=1)
                until = until if record is None else record.end
            until = min(until, end)
            yield InputSplit(
                name,
                shard,
                self.shard_names[name][shard],
                turn,
                start,
                until,
                size=(until - start) * width,
            )
            start, turn = until, turn + _TURNS

    def _read(self, name: str, running: RunningSource) -> Iterator[InputSplit]:
        """Reads a source in the driver and yields its splits."""
        turn = 0
        while True:
            splits = self._read_turn(name, running, turn)
            yield from splits
            turn += 1
            if running.exhausted():
                break
            if not splits:
                time.sleep(_IDLE_S)
        yield from self._over(name, running, turn)

    def _read_turn(self, name: str, running: RunningSource, turn: int) -> list[InputSplit]:
        splits: list[InputSplit] = []
        shards, chunks = running.poll(self._rows_per_turn)
        self._name(name, shards)
        read: dict[str, str] = {}  # by log
        for chunk in chunks:
            if read.setdefault(log_of(chunk.shard), chunk.shard) != chunk.shard:
                continue  # behind an older file of its log: in the next turn
            running.positions[chunk.shard] = chunk.end
            shard_name = self.shard_names[name][chunk.shard]
            batch = encode_batch(running.batch(chunk, proctime=0, seed=0))
            splits.append(
                InputSplit(
                    name, chunk.shard, shard_name, turn, chunk.start, chunk.end, batch, len(batch)
                )
            )
        self._forget_closed(running, read.values())
        return splits

    def _forget_closed(self, running: RunningSource, read: Collection[str]) -> None:
        """Drops shards that are gone, after they were read."""
        closed = [s for s in running.source.closed() if s in running.positions and s not in read]
        if closed:
            running.close_shards(closed)

    def _over(self, name: str, running: RunningSource, turn: int) -> list[InputSplit]:
        """The end of a source: a tick with MAX_WATERMARK for each of its shards."""
        return [
            InputSplit(
                name,
                shard,
                shard_name,
                turn,
                batch=encode_batch(running.tick(shard, 0, MAX_WATERMARK)),
            )
            for shard_name, shard in {n: s for s, n in self.shard_names[name].items()}.items()
        ]

    # ---- unbounded input -------------------------------------------------------------------------

    def _polled(self, tick_s: float | None) -> Iterator[tuple[list[InputSplit], bool]]:
        turn, since = 0, time.monotonic()
        while True:
            splits: list[InputSplit] = []
            while (
                sum(s.size for s in splits) < BYTES_PER_BATCH
                and turn % _TURNS_PER_BATCH < _TURNS_PER_BATCH - 1
            ):
                new = self._poll(turn)
                if not new:
                    break
                splits += new
                turn += 1
            turn = (turn // _TURNS_PER_BATCH + 1) * _TURNS_PER_BATCH
            if splits or (tick_s is not None and time.monotonic() - since > tick_s):
                yield splits, False
                since = time.monotonic()
            else:
                time.sleep(_IDLE_S)

    def _poll(self, turn: int) -> list[InputSplit]:
        """Reads what there is now; of lookup tables alone until they are read for the first
        time."""
        if self._first:
            splits = [s for name in sorted(self._first) for s in self._poll_source(name, turn)]
            if splits:
                return splits
            self._first.clear()
        return [s for name in self.shard_names for s in self._poll_source(name, turn)]

    def _poll_source(self, name: str, turn: int) -> list[InputSplit]:
        if name in self._ended:
            return []
        running = self._running.get(name)
        if running is None:
            self._ended.add(name)
            return [InputSplit(name, "", self.shard_names[name][""], turn)]
        with failing(self._nodes[name]):
            splits = self._read_turn(name, running, turn)
        if not splits and running.exhausted():
            self._ended.add(name)
            return self._over(name, running, turn)
        return splits

    def close(self) -> None:
        for running in self._running.values():
            running.source.close()


def _end(source: Source, shard: str) -> int:
    """The offset after the last record that exists now. SqlError where the source cannot tell: to
    take it as empty would lose its rows."""
    end = source.required_end(shard) if isinstance(source, WalledSource) else source.end(shard)
    return end or 0


def _in_batches(splits: Iterable[InputSplit]) -> Iterator[tuple[list[InputSplit], bool]]:
    batch: list[InputSplit] = []
    size = 0
    for split in splits:
        if size >= BYTES_PER_BATCH:
            yield batch, False
            batch, size = [], 0
        batch.append(split)
        size += split.size
    yield batch, True
