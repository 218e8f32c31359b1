"""Reads in the epoch log how far a graph had read when it wrote a record, and at which times of its
clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from parser.errors import SqlError
from planner.catalog import Table
from planner.graph.merge import Graph, merge
from planner.logical import Scan, Sink
from sqlengine.broker.base import Broker
from sqlengine.broker.remote.client import RemoteBroker
from sqlengine.broker.remote.wire import Read
from sqlengine.broker.storage.codec import writer_of
from sqlengine.executors.epochs import EPOCHS, EpochRecord, OffsetRange, decode_record
from sqlengine.trial.recorded import Place, Recorded

# So many entries of the log are looked at, at most.
_MOST_ENTRIES: Final = 200_000
_ENTRIES_PER_READ: Final = 10_000
# In front of the ranks of rows that the log does not know: they were read before the others.
_BEFORE: Final = -(2**62)


@dataclass(frozen=True)
class Origin:
    """The origin of a record: when it was written (ms), and by which epoch of which graph, '' where
    that is not known."""

    time: int
    graph: str = ""
    epoch: int = 0


def origin_of(broker: RemoteBroker, place: Place) -> Origin:
    """Returns the origin of a record, which is there."""
    read = Read(place.topic, place.shard, place.offset, 1, 1, None)
    (batches,) = broker.read_all((read,))
    assert batches is not None
    run = batches.run()
    for at, header in zip(run.places, run.headers, strict=True):
        if header.base <= place.offset < header.next:
            graph = writer_of(run.window.view, at, header).rpartition("/")[0]
            return Origin(header.timestamp, graph, header.epoch)
    records = broker.decoded(read, batches)
    return Origin(int(records.timestamps[0]))


@dataclass(frozen=True)
class EpochsRead:
    """Entries of the log of one graph, in order, up to an epoch; none where it is not there, or may
    not be read."""

    entries: Sequence[EpochRecord] = ()

    def ends(self, source: str) -> Mapping[int, int]:
        """Returns behind which offset of each shard the graph had read a source."""
        return {int(r.shard): r.end for _, r in self._ranges(source)}

    def timed(self, source: str, rows: Recorded) -> Recorded:
        """Returns rows with the times at which the graph read them, and in that order."""
        times, ranks = rows.times.copy(), rows.times + _BEFORE
        by_shard: dict[int, list[tuple[int, OffsetRange]]] = {}
        for number, part in self._ranges(source):
            by_shard.setdefault(int(part.shard), []).append((number, part))
        for shard, parts in by_shard.items():
            mine = np.flatnonzero(rows.shards == shard)
            ends = np.array([p.end for _, p in parts])
            found = np.searchsorted(ends, rows.offsets[mine], side="right")
            starts = np.array([p.start for _, p in parts] + [2**62])
            known = mine[rows.offsets[mine] >= starts[found]]
            found = found[rows.offsets[mine] >= starts[found]]
            numbers = np.array([n for n, _ in parts])[found]
            ranks[known] = numbers
            clock = np.array([self.entries[n // _WIDTH].proctime for n, _ in parts])
            times[known] = clock[found]
        return replace(rows, times=times, ranks=ranks)

    def _ranges(self, source: str) -> Iterator[tuple[int, OffsetRange]]:
        for at, entry in enumerate(self.entries):
            for number, part in enumerate(entry.ranges):
                if part.source == source:
                    yield at * _WIDTH + number, part


# Ranges of one epoch follow each other within so many numbers.
_WIDTH: Final = 1 << 20


def epochs_read(broker: Broker, origin: Origin, since: int) -> EpochsRead:
    """Returns the entries of the origin's graph from a time (ms) on up to its epoch, where they are
    there and may be read."""
    if not origin.graph:
        return EpochsRead()
    try:
        found = list(_entries(broker, origin, since))
    except SqlError:  # who may see alerts may not always see the system's topics
        return EpochsRead()
    complete = bool(found) and found[-1].epoch == origin.epoch
    return EpochsRead(found) if complete else EpochsRead()


def _entries(broker: Broker, origin: Origin, since: int) -> Iterator[EpochRecord]:
    at = max(broker.begin_offset(EPOCHS, 0), broker.offset_for_time(EPOCHS, 0, since))
    last = broker.offset_for_time(EPOCHS, 0, origin.time + 1)
    at = max(at, last - _MOST_ENTRIES)
    while (records := broker.read(EPOCHS, 0, at, max_records=_ENTRIES_PER_READ)) is not None:
        keys = [] if records.keys is None else records.keys.to_pylist()
        mine = origin.graph.encode()
        for key, value in zip(keys, records.values.to_pylist(), strict=True):
            if key != mine:
                continue
            entry = decode_record(value)
            if entry.epoch <= origin.epoch:
                yield entry
            if entry.epoch >= origin.epoch:
                return
        at = records.next_offset


def source_of(table: Table) -> str:
    """Returns the name that the scan of a table has in a graph."""
    graph = merge(Graph(), {"": [Sink(Scan(table), None, "")]})
    (name,) = (n.id for n in graph.nodes.values() if isinstance(n.plan, Scan))
    return name
