"""The stateless stage of a script, in Spark's Python workers. This module knows no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from planner.graph.physical import PhysicalNode
from planner.logical import Scan, Values
from rules.options import Options
from sqlengine.batch import Batch, empty
from sqlengine.connectors.base import Environment
from sqlengine.connectors.registry import open_scan
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.sources import RunningSource
from sqlengine.executors.spark.fragment import Fragment, FragmentOperator
from sqlengine.executors.spark.sources import Work
from sqlengine.executors.spark.worker import Piece, Place, Step, TaskContext
from sqlengine.executors.wire import decode_batch


def factory_for(patterns: Path) -> OperatorFactory:
    """Builds operators; what compiles slowly is kept in the folder `patterns`, if it can be."""
    return OperatorFactory(Options(folder=patterns))


class SourceStage:
    """The stateless stage of a script, in a worker. Each work begins anew: the keyed stage knows
    the times before it."""

    def __init__(
        self, fragments: Mapping[str, Fragment], patterns: Path, rows_per_turn: int
    ) -> None:
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
        if not batch.num_rows:
            yield replace(batch, proctime=step.proctime, seed=seed)
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
            self._running[name] = RunningSource(plan, open_scan(plan, environment))
        return self._running[name]


def _source_of(name: str, fragment: Fragment) -> PhysicalNode:
    return next(n for n in fragment.nodes if n.id == name)
