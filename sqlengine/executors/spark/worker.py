"""What runs in Spark's Python workers: the stateless stage of a plan, and what all stages share.
The operators are those of every other way of running. This module knows no Spark. It is imported by
name in each worker, so that what it keeps there lasts from task to task.

Rows travel as frames: a batch in bytes with where it belongs. Spark moves frames and never looks
into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from parser.types import Schema
from sqlengine.batch import Batch, joined_steps
from sqlengine.executors.wire import encode_batch
from sqlengine.operators.base import Context, Output
from sqlengine.state.columns import IntArray
from sqlengine.state.keys import BUCKETS, buckets_of
from sqlengine.state.table import KeyedTable

# `stage`: whose output the frame is, `on_its_way` for what still goes to one. `sender`: the
# partition of that stage. A frame of READ holds no batch: its `part` is the number of rows that a
# task has read.
FRAME: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("stage", pa.int32()),
        ("turn", pa.int64()),
        ("shard", pa.string()),
        ("offset", pa.int64()),
        ("sequence", pa.int64()),
        ("sender", pa.int32()),
        ("part", pa.int32()),
        ("port", pa.int32()),
        ("batch", pa.binary()),
    ]
)
STATELESS: Final = 0
READ: Final = 2**31 - 1
# What tells the chunks apart from which frames came, and the order of frames wherever there is one.
CHUNK: Final = ("turn", "shard", "offset", "sequence")
PLACE: Final = (*CHUNK, "sender", "part")
At: TypeAlias = tuple[int, str, int, int]
# Behind all chunks of a batch.
AT_THE_END: Final[At] = (2**62, "", 0, 0)

Batches: TypeAlias = Iterator[pa.RecordBatch]
# The columns of FRAME, in their order.
Frame: TypeAlias = tuple[int, int, int, str, int, int, int, int, int, bytes | None]


def on_its_way(stage: int) -> int:
    """What `stage` says of a frame that goes to this keyed stage."""
    return -stage


@dataclass(frozen=True)
class Place:
    """Where a chunk of records stands: rows are processed in the order of these fields. `turn` is 0
    where the shards are read one after the other; a shard's later chunks have later turns."""

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
    """A stateless stage in a worker. Nothing that it keeps from one chunk to the next may show in
    its output, except within the records of one call and one shard."""

    def run(self, step: Step, records: pa.RecordBatch) -> Iterator[Piece]: ...


class Keyed(Protocol):
    """What a keyed stage runs: an operator of several nodes."""

    def open(self, context: Context) -> None: ...

    def push(self, inputs: Sequence[tuple[int, Batch]]) -> Output:
        """Takes all that came of one chunk, by input port, as one step."""


@dataclass(frozen=True)
class Exchange:
    """How rows of a port reach a keyed stage: by the bucket of their `keys` (none: all to bucket 0;
    None: they stay in their partition), with the columns of `schema`. It leads from stage `source`
    (0: the stateless one) to stage `target`. `shards` are those that are known before the first row
    of any."""

    keys: tuple[str, ...] | None
    schema: Schema
    shards: tuple[str, ...] = ()
    source: int = STATELESS
    target: int = 1


@dataclass(frozen=True)
class SparkPlan:
    """One stateless stage (0) and, each behind an exchange, keyed ones, counted from 1: rows go
    from lower ones to higher ones. The makers are called in the workers, once for each `name` and
    `version` (that of the graph); that of a keyed stage is told whether it is for the partition
    that holds bucket 0.

    `exchange` names the output ports that go on to a keyed stage, to its input port of the same
    number; all others are results."""

    name: str
    version: int
    stateless: Callable[[], Stateless]
    exchange: Mapping[int, Exchange] = field(default_factory=dict)
    keyed: Sequence[Callable[[bool], Keyed]] = ()

    def ports(self, stage: int) -> list[tuple[int, Exchange]]:
        """The input ports of a keyed stage."""
        return [(port, e) for port, e in sorted(self.exchange.items()) if e.target == stage]


class Step(msgspec.Struct, frozen=True):
    """What the driver fixed for one batch before its first attempt: every later attempt finds the
    same. `previous` is the batch before (-1: none), whose state lies in `previous_partitions`
    files; `end`: the input is over with this batch."""

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

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...] | None
    ) -> KeyedTable:
        full = self.prefix + name
        self.tables[full] = table = KeyedTable(full, keys, values, exchange)
        if full in self.restored:
            table.load(self.restored[full])
        return table


# The stages that ran last in this worker: compiling their patterns may have taken seconds.
_STAGES_KEPT: Final = 8
_stages: dict[tuple[str, int], Stateless] = {}


def run_stateless(plan: SparkPlan, step: Step, batches: Batches) -> Batches:
    """From records to frames. Which columns records have is between the stage and who reads for
    it."""
    stage, rows = _stage(plan), 0
    for records in batches:
        for piece in stage.run(step, records):
            rows += piece.num_rows
            place = piece.place
            at = (place.turn, place.shard, place.offset, place.sequence)
            yield to_frames(
                frames_of(plan, step, STATELESS, place.sequence % step.partitions, at, piece.output)
            )
    yield to_frames([(0, READ, 0, "", 0, 0, 0, rows, 0, None)])


def _stage(plan: SparkPlan) -> Stateless:
    key = (plan.name, plan.version)
    stage = _stages.pop(key, None) or plan.stateless()
    _stages[key] = stage
    if len(_stages) > _STAGES_KEPT:
        del _stages[next(iter(_stages))]
    return stage


def frames_of(
    plan: SparkPlan, step: Step, stage: int, sender: int, at: At, output: Output
) -> Iterator[Frame]:
    """The frames of what came of a chunk in a partition of a stage. Each partition gets its rows,
    and the time of all: a chunk without rows for it is a tick. All partitions of a keyed stage see
    the same time, so one tells it for all."""
    for i, (port, batch) in enumerate(output):
        exchange = plan.exchange.get(port)
        if exchange is None:
            if batch.num_rows:
                yield sender, stage, *at, sender, i, port, encode_batch(batch)
            continue
        origin = at[1] if stage == STATELESS else ""
        partition = _partitions(batch, exchange.keys, step.partitions, sender)
        told = [
            batch.steps,
            None if batch.row_watermarks is None else np.unique(batch.row_watermarks),
        ]
        steps = joined_steps(told)
        for p in range(step.partitions):
            rows = np.flatnonzero(partition == p)
            if len(rows) or stage == STATELESS or sender == 0 or steps is not None:
                known = batch.steps if len(rows) == batch.num_rows else steps
                part = replace(
                    batch.take(rows), watermark=batch.watermark, origin=origin, steps=known
                )
                yield p, on_its_way(exchange.target), *at, sender, i, port, encode_batch(part)


def _partitions(batch: Batch, keys: Sequence[str] | None, count: int, own: int) -> IntArray:
    if not keys:
        return np.full(batch.num_rows, own if keys is None else 0, np.int64)
    buckets = buckets_of(
        [batch.schema.type(k) for k in keys], [batch.column(k) for k in keys], batch.num_rows
    )
    return buckets.astype(np.int64) * count // BUCKETS


def buckets_in(partition: int, count: int) -> range:
    """The contiguous range of buckets that a partition holds."""
    bounds = [-(-p * BUCKETS // count) for p in (partition, partition + 1)]
    return range(*bounds)


def to_frames(frames: Iterable[Frame]) -> pa.RecordBatch:
    columns = list(zip(*frames, strict=True)) or [()] * len(FRAME)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, FRAME, strict=True)], schema=FRAME
    )
