"""What Spark's tasks read. The driver looks which shards there are and cuts them into *works*; a
task does a work (`spark_stage`): it reads the rows, decodes them and runs all that is stateless
over them.

Files are read by the tasks themselves, and datagen's rows are made there. All other connectors,
topics above all, are read by the driver, since the embedded broker's folder belongs to one process:
their records travel to the tasks as they came and are decoded there."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from planner.graph.physical import PhysicalPlan
from planner.logical import Scan, Values
from sqlengine.batch import MAX_WATERMARK
from sqlengine.connectors.base import Environment
from sqlengine.connectors.registry import open_scan
from sqlengine.executors.inputs import lookup_scans
from sqlengine.executors.sources import RunningSource, require_bounded
from sqlengine.executors.wire import encode_batch

# The connectors that tasks read: how much of a shard is one work, in their offsets, and about how
# many bytes one is.
_READ_BY_TASKS: Final = {"filesystem": (16 << 20, 1), "datagen": (1 << 16, 256)}
# No work has more batches: the turns of a shard's works do not overlap.
_TURNS: Final = 1 << 20
# A batch takes works until it has so many bytes: what a keyed stage has to hold at once.
BYTES_PER_BATCH: Final = 256 << 20
# A batch of input without an end is over after so many turns, that its rows do not wait.
_TURNS_PER_BATCH: Final = 16
_IDLE_S: Final = 0.005
# Tables that are looked up are read before all others: their turns come first.
_OTHERS: Final = 1 << 56


@dataclass(frozen=True)
class Work:
    """Rows of one source and shard, of about `size` bytes: those from `start` to `end`, which the
    task reads, or a `batch` of records. Batches are taken in the order of their turns, those of one
    turn in the order of `place`."""

    source: str
    shard: str
    place: str
    turn: int = 0
    start: int = 0
    end: int = 0
    batch: bytes | None = None
    size: int = 0


WORK: Final = pa.schema(
    [
        ("source", pa.string()),
        ("shard", pa.string()),
        ("place", pa.string()),
        ("turn", pa.int64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("batch", pa.binary()),
    ]
)


def to_table(works: Sequence[Work]) -> pa.Table:
    columns = [pa.array([getattr(w, f.name) for w in works], f.type) for f in WORK]
    return pa.Table.from_arrays(columns, schema=WORK)


class DriverSources:
    """The sources of a plan, open in the driver. `places` are the shards' names on the way, by
    source: they sort as the embedded executor takes its turns. With `ends` all of them must have an
    end (PlanError)."""

    def __init__(
        self, plan: PhysicalPlan, environment: Environment, rows_per_turn: int, ends: bool = False
    ) -> None:
        self._rows_per_turn = rows_per_turn
        self._running: dict[str, RunningSource] = {}
        self._given: set[str] = set()  # what has told its end
        self.places: dict[str, dict[str, str]] = {}
        scans = {n.id: n.plan for n in plan.in_order if isinstance(n.plan, Scan)}
        self._first = lookup_scans(plan, plan.graph.nodes)
        try:
            for name, scan in scans.items():
                self._running[name] = running = RunningSource(scan, open_scan(scan, environment))
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
        first = sum(map(len, self.places.values()))
        named = {shard: f"{i:08}" for i, shard in enumerate(shards, first)}
        self.places[source] = {**self.places.get(source, {}), **named}

    @property
    def end(self) -> bool:
        """Whether all sources have one."""
        return all(s.source.bounded for s in self._running.values())

    def batches(self, tick_s: float | None = None) -> Iterator[tuple[list[Work], bool]]:
        """Works by batches, in order, and whether each is the last: there is one at least. Without
        an end, what there is by now is a batch, and `tick_s` is how long to wait for it at most
        (None: for ever)."""
        return _in_batches(self._works_by_turns()) if self.end else self._polled(tick_s)

    # ---- input that ends -------------------------------------------------------------------------

    def _works_by_turns(self) -> Iterator[Work]:
        """All there is to do, by turns; tables that are looked up first."""
        yield from self._by_turns(name for name in self.places if name in self._first)
        for work in self._by_turns(name for name in self.places if name not in self._first):
            yield replace(work, turn=work.turn + (_OTHERS if self._first else 0))

    def _by_turns(self, names: Iterable[str]) -> Iterator[Work]:
        return heapq.merge(*(self._works(name) for name in names), key=lambda w: w.turn)

    def _works(self, name: str) -> Iterator[Work]:
        running = self._running.get(name)
        if running is None:
            return iter([Work(name, "", self.places[name][""])])
        if running.scan.table.connector not in _READ_BY_TASKS:
            return self._read(name, running)
        return self._cut(name, running)

    def _cut(self, name: str, running: RunningSource) -> Iterator[Work]:
        """Parts that tasks read."""
        turn = 0
        shards = (self._ranges(name, running, shard) for shard in running.positions)
        for work in heapq.merge(*shards, key=lambda w: w.turn):
            turn = work.turn
            yield work
        yield from self._over(name, running, turn + _TURNS - 1)

    def _ranges(self, name: str, running: RunningSource, shard: str) -> Iterator[Work]:
        """Parts of a shard that end with a record."""
        source, start = running.source, running.positions[shard]
        step, width = _READ_BY_TASKS[running.scan.table.connector]
        end, turn = source.end(shard) or 0, 0
        while start < end:
            until = start + step
            if until < end:
                record = source.read(shard, until, max_rows=1)
                until = until if record is None else record.end
            until = min(until, end)
            yield Work(
                name,
                shard,
                self.places[name][shard],
                turn,
                start,
                until,
                size=(until - start) * width,
            )
            start, turn = until, turn + _TURNS

    def _read(self, name: str, running: RunningSource) -> Iterator[Work]:
        """Records read here."""
        turn = 0
        while not running.exhausted():
            works = self._read_turn(name, running, turn)
            yield from works
            turn += 1
            if not works:
                time.sleep(_IDLE_S)
        yield from self._over(name, running, turn)

    def _read_turn(self, name: str, running: RunningSource, turn: int) -> list[Work]:
        works = []
        for chunk in running.poll(self._rows_per_turn):
            running.positions[chunk.shard] = chunk.end
            place = self.places[name][chunk.shard]
            batch = encode_batch(running.batch(chunk, proctime=0, seed=0))
            works.append(
                Work(name, chunk.shard, place, turn, chunk.start, chunk.end, batch, len(batch))
            )
        return works

    def _over(self, name: str, running: RunningSource, turn: int) -> list[Work]:
        """The end of a source: time waits for none of its shards any more."""
        return [
            Work(
                name, shard, place, turn, batch=encode_batch(running.tick(shard, 0, MAX_WATERMARK))
            )
            for shard, place in self.places[name].items()
        ]

    # ---- input without an end --------------------------------------------------------------------

    def _polled(self, tick_s: float | None) -> Iterator[tuple[list[Work], bool]]:
        turn, since = 0, time.monotonic()
        while True:
            works: list[Work] = []
            while (
                sum(w.size for w in works) < BYTES_PER_BATCH
                and turn % _TURNS_PER_BATCH < _TURNS_PER_BATCH - 1
            ):
                found = self._poll(turn)
                if not found:
                    break
                works += found
                turn += 1
            turn = (turn // _TURNS_PER_BATCH + 1) * _TURNS_PER_BATCH
            if works or (tick_s is not None and time.monotonic() - since > tick_s):
                yield works, False
                since = time.monotonic()
            else:
                time.sleep(_IDLE_S)

    def _poll(self, turn: int) -> list[Work]:
        """What there is now, of tables that are looked up until they have nothing more to give for
        the first time."""
        if self._first:
            found = [w for name in sorted(self._first) for w in self._poll_source(name, turn)]
            if found:
                return found
            self._first.clear()
        return [w for name in self.places for w in self._poll_source(name, turn)]

    def _poll_source(self, name: str, turn: int) -> list[Work]:
        if name in self._given:
            return []
        running = self._running.get(name)
        if running is None:
            self._given.add(name)
            return [Work(name, "", self.places[name][""], turn)]
        shards = running.new_shards()
        running.positions |= dict.fromkeys(shards, 0)
        self._name(name, shards)
        works = self._read_turn(name, running, turn)
        if not works and running.exhausted():
            self._given.add(name)
            return self._over(name, running, turn)
        return works

    def close(self) -> None:
        for running in self._running.values():
            running.source.close()


def _in_batches(works: Iterable[Work]) -> Iterator[tuple[list[Work], bool]]:
    held: list[Work] = []
    size = 0
    for work in works:
        if size >= BYTES_PER_BATCH:
            yield held, False
            held, size = [], 0
        held.append(work)
        size += work.size
    yield held, True
