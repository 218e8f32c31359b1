"""What runs in Spark's Python workers: the stateless stage of a plan, and what both stages share. The operators are those
of every other way of running. This module knows no Spark. It is imported by name in each worker, so that what it keeps
there lasts from task to task.

Rows travel as frames: a batch in bytes with where it belongs. Spark moves frames and never looks into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from parser.types import Schema
from sqlengine.batch import Batch
from sqlengine.executors.wire import encode_batch
from sqlengine.operators.base import Operator, Output
from sqlengine.state.columns import IntArray
from sqlengine.state.keys import BUCKETS, buckets_of
from sqlengine.state.table import KeyedTable

# `stage`: whose output the frame is, EXCHANGE for what is still on its way. A frame of READ holds no batch: its `part` is
# the number of rows that a task has read.
FRAME: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("stage", pa.int32()),
        ("turn", pa.int64()),
        ("shard", pa.string()),
        ("offset", pa.int64()),
        ("sequence", pa.int64()),
        ("part", pa.int32()),
        ("port", pa.int32()),
        ("batch", pa.binary()),
    ]
)
STATELESS, KEYED, READ, EXCHANGE = 0, 1, 2, -1
# The order of frames wherever there is one.
PLACE: Final = ("turn", "shard", "offset", "sequence", "part")

Batches: TypeAlias = Iterator[pa.RecordBatch]
Frame: TypeAlias = tuple[int, int, int, str, int, int, int, int, bytes | None]


@dataclass(frozen=True)
class Place:
    """Where a chunk of records stands: rows are processed in the order of these fields. `turn` is 0 where the shards are
    read one after the other; a shard's later chunks have later turns."""

    shard: str
    offset: int
    sequence: int
    turn: int = 0


@dataclass(frozen=True)
class Piece:
    """What came of one chunk of `num_rows` records."""

    place: Place
    num_rows: int
    output: Output


class Stateless(Protocol):
    """A stateless stage in a worker. Nothing that it keeps from one chunk to the next may show in its output, except
    within the records of one call and one shard."""

    def run(self, step: Step, records: pa.RecordBatch) -> Iterator[Piece]: ...


@dataclass(frozen=True)
class Exchange:
    """How rows of a port reach the keyed operator: by the bucket of their `keys` (none: all to bucket 0), with the
    columns of `schema`. `shards` are those that are known before the first row of any."""

    keys: tuple[str, ...]
    schema: Schema
    shards: tuple[str, ...] = ()


@dataclass(frozen=True)
class SparkPlan:
    """One stateless and, behind an exchange, one keyed stage. The makers are called in the workers, once for each `name`
    and `version` (that of the graph).

    `exchange` names the output ports of the stateless stage that go on to `keyed`, to its input port of the same number;
    all others are results."""

    name: str
    version: int
    stateless: Callable[[], Stateless]
    exchange: Mapping[int, Exchange] = field(default_factory=dict)
    keyed: Callable[[], Operator] | None = None


class Step(msgspec.Struct, frozen=True):
    """What the driver fixed for one batch before its first attempt: every later attempt finds the same. `previous` is the
    batch before (-1: none), whose state lies in `previous_partitions` files; `end`: the input is over with this batch."""

    batch: int
    version: int
    proctime: int
    seed: int
    partitions: int
    previous: int = -1
    previous_partitions: int = 0
    end: bool = False
    format: int = 1


@dataclass
class TaskContext:
    """Tables of one task, filled from `restored`."""

    restored: Mapping[str, pa.Table] = field(default_factory=dict)
    tables: dict[str, KeyedTable] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    prefix: str = ""

    def table(self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...]) -> KeyedTable:
        full = self.prefix + name
        self.tables[full] = table = KeyedTable(full, keys, values, exchange)
        if full in self.restored:
            table.load(self.restored[full])
        return table


# The stages that ran last in this worker: compiling their patterns may have taken seconds.
_STAGES_KEPT: Final = 8
_stages: dict[tuple[str, int], Stateless] = {}


def run_stateless(plan: SparkPlan, step: Step, batches: Batches) -> Batches:
    """From records to frames. Which columns records have is between the stage and who reads for it."""
    stage, rows = _stage(plan), 0
    for records in batches:
        for piece in stage.run(step, records):
            rows += piece.num_rows
            yield to_frames(_cut(plan, step, piece))
    yield to_frames([(0, READ, 0, "", 0, 0, rows, 0, None)])


def _stage(plan: SparkPlan) -> Stateless:
    key = (plan.name, plan.version)
    stage = _stages.pop(key, None) or plan.stateless()
    _stages[key] = stage
    if len(_stages) > _STAGES_KEPT:
        del _stages[next(iter(_stages))]
    return stage


def _cut(plan: SparkPlan, step: Step, piece: Piece) -> Iterator[Frame]:
    """Each partition gets its rows, and the time of all: a chunk without rows for it is a tick."""
    place = piece.place
    at = (place.turn, place.shard, place.offset, place.sequence)
    for i, (port, batch) in enumerate(piece.output):
        if port not in plan.exchange:
            if batch.num_rows:
                yield place.sequence % step.partitions, STATELESS, *at, i, port, encode_batch(batch)
            continue
        partition = _partitions(batch, plan.exchange[port].keys, step.partitions)
        for p in range(step.partitions):
            part = replace(batch.take(np.flatnonzero(partition == p)), watermark=batch.watermark, origin=place.shard)
            yield p, EXCHANGE, *at, i, port, encode_batch(part)


def _partitions(batch: Batch, keys: Sequence[str], count: int) -> IntArray:
    if not keys:
        return np.zeros(batch.num_rows, np.int64)
    buckets = buckets_of([batch.schema.type(k) for k in keys], [batch.column(k) for k in keys], batch.num_rows)
    return buckets.astype(np.int64) * count // BUCKETS


def buckets_in(partition: int, count: int) -> range:
    """The contiguous range of buckets that a partition holds."""
    bounds = [-(-p * BUCKETS // count) for p in (partition, partition + 1)]
    return range(*bounds)


def to_frames(frames: Iterable[Frame]) -> pa.RecordBatch:
    columns = list(zip(*frames, strict=True)) or [()] * len(FRAME)
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, FRAME, strict=True)], schema=FRAME)
