"""What a graph reads: opens its sources, polls them, and remembers those that cannot be read any
more."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from parser.errors import SqlError
from planner.graph.division import INCOMING
from planner.graph.physical import PhysicalPlan
from planner.logical import LookupJoin, Scan, ShuffleScan, Values
from sqlengine.connectors.base import Chunk, Environment, Source
from sqlengine.connectors.registry import open_scan
from sqlengine.executors.epochs import OffsetRange
from sqlengine.executors.failures import UnavailableSource
from sqlengine.executors.sources import Positions, RunningSource

Polled = tuple[list[tuple[str, Chunk]], list[tuple[str, str]]]


class Inputs:
    """The sources of one graph. Graph thread only, but for `open`.

    `running`: sources by the id of their scan. `unstarted`: VALUES whose rows are not emitted yet.
    `failed`: errors of sources that are not read any more. `tolerates_lost_records`: a power loss
    may have taken records of logged ranges. `shuffle`: the rows that other subtasks send. `bounds`:
    offsets by source and shard at which reading stops for now, because a job is being moved."""

    def __init__(self, environment: Environment, shuffle: Source | None = None) -> None:
        self._shuffle = shuffle
        self.running: dict[str, RunningSource] = {}
        self.unstarted: set[str] = set()
        self.failed: dict[str, SqlError] = {}
        self.bounds: Positions = {}
        self._environment = environment
        self.tolerates_lost_records = False
        self._recovering = False
        self._read_first: set[str] = set()

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """A source that cannot be opened any more does not stop a recovery: its jobs fail when it
        is over."""
        self._recovering = True
        yield
        self._recovering = False

    def open(self, plan: PhysicalPlan, fresh: Iterable[str]) -> dict[str, RunningSource]:
        """The sources of the plan that are not open yet; `fresh` are its new nodes. SqlError when
        one cannot be opened."""
        return {
            node.id: RunningSource(node.plan, self._open(node.plan))
            for node in map(plan.nodes.__getitem__, fresh)
            if isinstance(node.plan, Scan) and node.id not in self.running
        }

    def _open(self, scan: Scan) -> Source:
        if isinstance(scan, ShuffleScan):
            assert self._shuffle is not None, "a plan that is divided runs in a part"
            return self._shuffle
        try:
            return open_scan(scan, self._environment)
        except SqlError as error:
            if not self._recovering:
                raise
            return UnavailableSource(error)

    def switch(
        self, plan: PhysicalPlan, new: Mapping[str, RunningSource], fresh: Iterable[str]
    ) -> None:
        """To another plan: `new` sources come, those that it does not have are closed; `fresh` are
        its new nodes."""
        self.running.update(new)
        for name in [s for s in self.running if s not in plan.nodes]:
            self.running.pop(name).source.close()
            self.failed.pop(name, None)
        self._read_first = {
            s for s in self._read_first | lookup_scans(plan, fresh) if s in plan.nodes
        }
        self.unstarted = {v for v in self.unstarted if v in plan.nodes}
        self.unstarted |= {v for v in fresh if isinstance(plan.nodes[v].plan, Values)}

    def pause(self, bounds: Positions) -> None:
        """Reads sources no further than to `bounds`, or than they are read where there are none;
        what other parts send is read on."""
        held = {name: source for name, source in self.running.items() if name != INCOMING}
        self.bounds = {
            name: {**s.positions, **_known(bounds.get(name, {}), s)} for name, s in held.items()
        }

    def reached(self, positions: Positions) -> bool:
        """Whether these sources are read exactly so far."""
        return all(
            name in self.running and self.running[name].positions == at
            for name, at in positions.items()
        )

    def begin(
        self, sources: Mapping[str, RunningSource], starts: Mapping[str, Mapping[str, int]]
    ) -> None:
        """Puts sources where they began; one that the log does not know (its job is planned
        otherwise now) begins as that of a new job does."""
        for name, source in sources.items():
            if name in starts:
                source.positions = dict(starts[name])
                continue
            try:
                source.begin()
            except SqlError as error:
                self.failed[name] = error

    def poll(self, max_rows: int, *, shuffle_only: bool = False) -> Polled:
        """What there is to read, and the shards that have appeared, each with the id of its scan;
        with `shuffle_only` nothing but what other parts send. Tables that are looked up are read
        alone until they have nothing more to give for the first time."""
        if shuffle_only:
            return self._poll([INCOMING], max_rows)
        self._renew()
        if self._read_first:
            found = self._poll(sorted(self._read_first), max_rows)
            if found[0]:
                return found
            self._read_first.clear()
        return self._poll(self.running, max_rows)

    def _renew(self) -> None:
        """A table that has another version is read before anything else."""
        for name, running in self.running.items():
            if running.full_cache is not None and name not in self.failed and not running.ended:
                try:
                    if running.full_cache.reload():
                        self._read_first.add(name)
                except SqlError as error:
                    self.failed[name] = error

    def _poll(self, names: Iterable[str], max_rows: int) -> Polled:
        chunks: list[tuple[str, Chunk]] = []
        opened: list[tuple[str, str]] = []
        for name in names:
            if name in self.failed or name not in self.running:
                continue
            source = self.running[name]
            try:
                shards = source.new_shards() if name not in self.bounds else []
                source.positions |= dict.fromkeys(shards, 0)
                found = [(name, chunk) for chunk in source.poll(max_rows, self.bounds.get(name))]
            except SqlError as error:
                self.failed[name] = error
                continue
            opened += [(name, shard) for shard in shards]
            chunks += found
        return chunks, opened

    def ended(self, chunks: Iterable[tuple[str, Chunk]]) -> list[str]:
        """What has nothing to give behind these chunks, ever."""
        busy = {name for name, _ in chunks}
        ended = [name for name, s in self.running.items() if name not in busy and s.exhausted()]
        again = [
            name for name, s in self.running.items() if s.full_cache is not None and not s.ended
        ]
        if again and all(
            s.ended or name in ended or name in again for name, s in self.running.items()
        ):
            ended += (name for name in again if name not in busy)
        return ended + sorted(self.unstarted)

    def unfinished(self) -> list[str]:
        """What may still give something."""
        return [name for name, s in self.running.items() if not s.ended] + sorted(self.unstarted)

    @property
    def finished(self) -> bool:
        """Whether all sources are bounded and read to their end."""
        return not self.unstarted and all(s.ended for s in self.running.values())

    def read_range(self, part: OffsetRange) -> Iterator[tuple[str, Chunk]]:
        """The rows of a recorded range; none when they are gone, and then the jobs that read the
        source fail, but where power `tolerates_lost_records`: then those that are left."""
        if part.source not in self.running:
            return
        try:
            source = self.running[part.source].source
            end = (
                min(part.end, _end(self.running[part.source], part.shard))
                if self.tolerates_lost_records
                else part.end
            )
            if end <= part.start:
                return
            chunk = source.read(part.shard, part.start, max_rows=end - part.start, until=end)
        except SqlError as error:
            self.failed[part.source] = error
            return
        if chunk is not None:
            yield part.source, chunk

    def rewind_to_ends(self) -> None:
        """To the ends of shards of which a loss of power took the last records."""
        for running in self.running.values():
            for shard, at in running.positions.items():
                running.positions[shard] = min(at, _end(running, shard))

    def close(self) -> None:
        for source in self.running.values():
            source.source.close()


def _known(offsets: Mapping[str, int], running: RunningSource) -> dict[str, int]:
    """Those of shards that are read here."""
    return {shard: at for shard, at in offsets.items() if shard in running.positions}


def _end(running: RunningSource, shard: str) -> int:
    """Where a topic ends; no other source loses what the broker does, nor has one an end that is
    lost altogether."""
    if running.scan.table.connector in ("topic", "shuffle") and not isinstance(
        running.source, UnavailableSource
    ):
        return running.source.end(shard) or 0
    return sys.maxsize


def lookup_scans(plan: PhysicalPlan, fresh: Iterable[str]) -> set[str]:
    """The scans of tables in which new nodes look rows up."""
    nodes = plan.graph.nodes
    waiting = [
        nodes[f].inputs[1] for f in fresh if f in nodes and isinstance(nodes[f].plan, LookupJoin)
    ]
    found: set[str] = set()
    while waiting:
        node = nodes[waiting.pop()]
        waiting += node.inputs
        if isinstance(node.plan, Scan):
            found.add(node.id)
    return found
