"""A query over two tables, fed the same chunks of records on Spark and in one process."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from parser import parse
from parser.types import Schema
from planner import bind
from planner.catalog import Catalog, Table
from planner.graph.merge import Graph, merge
from planner.graph.physical import PhysicalPlan, lower
from planner.graph.two_phases import in_two_phases
from planner.logical import Scan
from planner.settings import AGG_PHASES
from sqlengine.batch import MAX_WATERMARK, Batch, empty
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.dataflow.flow import SinkWrite
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epochs import EpochRecord
from sqlengine.formats.results import rows_of
from sqlengine.operators.scan import raw_schema
from tests.operators.proof import Chunk, feed, to_lines
from tests.planning import optimized

_TABLE = """CREATE TABLE {0} (ts TIMESTAMP(3), k STRING, i INT, m DECIMAL(10, 2), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = '{0}', 'format' = 'json')"""
_RAW = raw_schema(Schema(()))


@dataclass(frozen=True)
class Fed:
    """A plan, and the chunks of its sources in turns."""

    plan: PhysicalPlan
    turns: list[list[tuple[str, Chunk]]]

    @property
    def shards(self) -> dict[str, list[str]]:
        """By source."""
        sources = sorted({name for turn in self.turns for name, _ in turn})
        return {
            s: sorted({c.shard for turn in self.turns for n, c in turn if n == s}) for s in sources
        }


def fed(
    query: str, seed: int, chunks: int, mini_batch: bool = True, phases: str = "ONE_PHASE"
) -> Fed:
    """`query` reads the tables e and f."""
    settings = {"table.exec.mini-batch.enabled": str(mini_batch).lower(), AGG_PHASES: phases}
    catalog = Catalog()
    for name in "ef":
        (created,) = parse(_TABLE.format(name))
        table = bind(created, catalog, {})
        assert isinstance(table, Table)
        catalog = catalog.put(table)
    (statement,) = parse(query)
    sink = in_two_phases(optimized(statement, catalog, settings, job="proof"), settings)
    plan = lower(merge(Graph(), {"proof": [sink]}))
    scans = [n.id for n in plan.in_order if isinstance(n.plan, Scan)]
    feeds = [feed(seed + n, chunks, shards=2) for n in range(len(scans))]
    return Fed(plan, [list(zip(scans, turn, strict=True)) for turn in zip(*feeds, strict=True)])


def raw(chunk: Chunk) -> Batch:
    records = [line.encode() for line in to_lines(chunk)]
    offsets = range(chunk.offset, chunk.offset + len(records))
    columns = (pa.array(records, pa.binary()), pa.array(offsets, pa.int64()))
    return Batch(_RAW, columns, len(records), origin=chunk.shard)


def in_one_process(case: Fed, counted: Counter[str] | None = None) -> Counter[str]:
    """The rows that the embedded executor leaves; `counted` gets what its operators have
    counted."""
    executor, told = EmbeddedExecutor(OperatorFactory()), Told()
    executor.switch(executor.prepare(case.plan))
    run_epoch(executor, case, 1, range(len(case.turns)), told.write)
    if counted is not None:
        for running in executor.running.values():
            counted.update(running.context.counters)
    return told.left()


def run_epoch(
    executor: EmbeddedExecutor, case: Fed, number: int, turns: Sequence[int], write: SinkWrite
) -> None:
    """Runs an epoch. All shards are there before the first turn, and end behind the last."""
    executor.begin(EpochRecord("g", number, 1, 0, number))
    for name, shards in case.shards.items():
        for shard in shards if 0 in turns else ():
            executor.push(name, Batch(_RAW, empty(_RAW).columns, 0, origin=shard), write)
    for name, chunk in (pair for n in turns for pair in case.turns[n]):
        executor.push(name, raw(chunk), write)
    for name in case.shards if len(case.turns) - 1 in turns else ():
        executor.push(name, empty(_RAW, watermark=MAX_WATERMARK), write)
    executor.flush(write)
    executor.end()
    assert not executor.flow.errors


@dataclass
class Told:
    """What a sink was told."""

    batches: list[Batch] = field(default_factory=list)

    def write(self, _: str, batch: Batch) -> None:
        self.batches.append(batch)

    def left(self) -> Counter[str]:
        """The rows that are there in the end."""
        counts: Counter[str] = Counter()
        for op, row in (r for batch in self.batches for r in rows_of(batch)):
            counts[json.dumps(row)] += -1 if op in ("-U", "-D") else 1
        assert not [row for row, n in counts.items() if n < 0], (
            "nothing is taken back that was not there"
        )
        return +counts
