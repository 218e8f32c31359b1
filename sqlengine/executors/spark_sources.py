"""What Spark's tasks read, on both sides. The driver looks which shards there are and cuts them into *works*; a task does
a work: it reads the rows, decodes them and runs all that is stateless over them.

Files are read by the tasks themselves, and datagen's rows are made there. All other connectors, topics above all, are
read by the driver, since the embedded broker's folder belongs to one process: their records travel to the tasks as they
came and are decoded there."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from parser.errors import UnsupportedError
from planner.logical import Scan, Values
from planner.physical import PhysicalNode, PhysicalPlan
from rules.options import Options
from sqlengine.batch import Batch, empty
from sqlengine.connectors.base import Environment
from sqlengine.connectors.registry import open_source
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.inputs import looked_up
from sqlengine.executors.sources import RunningSource, check_bounded
from sqlengine.executors.spark_fragment import Fragment, FragmentOperator
from sqlengine.executors.spark_worker import Piece, Place, Step, TaskContext
from sqlengine.executors.wire import decode_batch, encode_batch

# The connectors that tasks read: how much of a shard is one work, in their offsets, and about how many bytes one is.
_READ_BY_TASKS: Final = {"filesystem": (16 << 20, 1), "datagen": (1 << 16, 256)}
# No work has more batches: the turns of a shard's works do not overlap.
_TURNS: Final = 1 << 20
_HINTS: Final = {
    "topic": "'scan.bounded.mode' = 'latest-offset' reads what is there now",
    "filesystem": "leave out 'source.follow' and 'source.monitor-interval' to read what is there now",
    "datagen": "'number-of-rows' = '…' gives it an end",
}
# Tables that are looked up are read before all others: their turns come first.
_OTHERS: Final = 1 << 56


@dataclass(frozen=True)
class Work:
    """Rows of one source and shard, of about `size` bytes: those from `start` to `end`, which the task reads, or a `batch`
    of records. Batches are taken in the order of their turns, those of one turn in the order of `place`."""

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


# ---- the driver ----------------------------------------------------------------------------------------------------


class DriverSources:
    """The sources of a plan, open in the driver. `places` are the shards' names on the way, by source: they sort as the
    embedded executor takes its turns."""

    def __init__(
        self, plan: PhysicalPlan, environment: Environment, rows_per_turn: int, in_batch_mode: bool = False
    ) -> None:
        self._rows_per_turn = rows_per_turn
        self._running: dict[str, RunningSource] = {}
        self.places: dict[str, dict[str, str]] = {}
        scans = {n.id: n.plan for n in plan.in_order if isinstance(n.plan, Scan)}
        self._first = looked_up(plan, plan.graph.nodes)
        try:
            for name, scan in scans.items():
                self._running[name] = running = RunningSource(scan, open_source(scan.table, environment))
                check_bounded([running]) if in_batch_mode else _check_bounded(running)
                self._name(name, running.begin())
        except BaseException:
            self.close()
            raise
        for node in plan.in_order:
            if isinstance(node.plan, Values):
                self._name(node.id, ("",))

    def _name(self, source: str, shards: Iterator[str] | Mapping[str, int] | Sequence[str]) -> None:
        first = sum(map(len, self.places.values()))
        self.places[source] = {shard: f"{i:08}" for i, shard in enumerate(shards, first)}

    def works(self) -> Iterator[Work]:
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
        shards = (self._ranges(name, running, shard) for shard in running.positions)
        return heapq.merge(*shards, key=lambda w: w.turn)

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
            yield Work(name, shard, self.places[name][shard], turn, start, until, size=(until - start) * width)
            start, turn = until, turn + _TURNS

    def _read(self, name: str, running: RunningSource) -> Iterator[Work]:
        """Records read here."""
        turn = 0
        while not running.exhausted():
            chunks = list(running.poll(self._rows_per_turn))
            for chunk in chunks:
                running.positions[chunk.shard] = chunk.end
                place = self.places[name][chunk.shard]
                batch = encode_batch(running.batch(chunk, proctime=0, seed=0))
                yield Work(name, chunk.shard, place, turn, chunk.start, chunk.end, batch, len(batch))
            turn += 1
            if not chunks:
                time.sleep(0.005)

    def close(self) -> None:
        for running in self._running.values():
            running.source.close()


def _check_bounded(running: RunningSource) -> None:
    table = running.scan.table
    if not running.source.bounded:
        raise UnsupportedError(
            f"table '{table.display}' has no end, and input without end is not supported on Spark yet",
            hint=_HINTS.get(table.connector, "leave out --on spark: the embedded executor runs it"),
        )


# ---- the tasks -----------------------------------------------------------------------------------------------------


def factory_for(patterns: Path) -> OperatorFactory:
    """Builds operators; what compiles slowly is kept in the folder `patterns`, if it can be."""
    return OperatorFactory(Options(folder=patterns))


class SourceStage:
    """The stateless stage of a script, in a worker. Each work begins anew: the keyed stage knows the times before it."""

    def __init__(self, fragments: Mapping[str, Fragment], patterns: Path, rows_per_turn: int) -> None:
        factory = factory_for(patterns)
        self._nodes = {name: _source_of(name, f) for name, f in fragments.items()}
        self._operators = {name: FragmentOperator(f, factory) for name, f in fragments.items()}
        self._rows_per_turn = rows_per_turn
        self._running: dict[str, RunningSource] = {}
        for operator in self._operators.values():
            operator.open(TaskContext())

    def run(self, step: Step, records: pa.RecordBatch) -> Iterator[Piece]:
        for row in records.to_pylist():
            work = Work(**row)
            operator = self._operators[work.source]
            operator.renew(TaskContext())
            for n, batch in enumerate(self._batches(work, step)):
                rows = 0 if isinstance(self._nodes[work.source].plan, Values) else batch.num_rows
                place = Place(work.place, work.start, n, work.turn + n)
                yield Piece(place, rows, operator.process(0, batch))

    def _batches(self, work: Work, step: Step) -> Iterator[Batch]:
        plan = self._nodes[work.source].plan
        if isinstance(plan, Values):
            yield replace(empty(plan.schema, proctime=step.proctime), seed=step.seed)
            return
        batch = self._read(work, step) if work.batch is None else decode_batch(work.batch)
        seed = batch.seed ^ step.seed
        for start in range(0, batch.num_rows, self._rows_per_turn):
            part = batch.slice(start, min(self._rows_per_turn, batch.num_rows - start))
            yield replace(part, proctime=step.proctime, seed=seed ^ start)

    def _read(self, work: Work, step: Step) -> Batch:
        running = self._source(work.source, step)
        rows = work.end - work.start
        chunk = running.source.read(work.shard, work.start, max_rows=rows, until=work.end)
        assert chunk is not None, "what the driver saw can be read again"
        return running.batch(chunk, step.proctime, seed=0)

    def _source(self, name: str, step: Step) -> RunningSource:
        if name not in self._running:
            plan = self._nodes[name].plan
            assert isinstance(plan, Scan)
            environment = Environment(None, lambda: step.proctime, "")
            self._running[name] = RunningSource(plan, open_source(plan.table, environment))
        return self._running[name]


def _source_of(name: str, fragment: Fragment) -> PhysicalNode:
    return next(n for n in fragment.nodes if n.id == name)
