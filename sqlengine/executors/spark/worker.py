"""The stateless stage in Spark's Python workers, and what all stages share.

Operators are those of the embedded executor. This module does not import Spark. It is imported by
name in each worker, so that its caches last from task to task.

Rows travel as frames: an encoded batch with its destination. Spark moves frames and never decodes
one."""

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
from sqlengine.executors.spark.encoding import SinkTable
from sqlengine.executors.spark.tasks.functions import Losses, TaskFunctions
from sqlengine.executors.spark.tasks.rules import TaskRules
from sqlengine.executors.spark.tasks.state import TaskState
from sqlengine.executors.spark.tasks.work import TaskWork
from sqlengine.executors.wire import encode_batch
from sqlengine.operators.base import Context, Output
from sqlengine.state.columns import IntArray
from sqlengine.state.keys import BUCKETS, buckets_of
from sqlengine.state.table import KeyedTable

# `partition`: the destination. `stage`: the stage that produced a result, or `bound_for` the stage
# that is to read the frame. `sender`: the partition that produced it. In the place of a batch a
# frame of COUNTED has the `Counts` of a task, and one of FAILED its failure.
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
# The names of tables with the watermarks of shards begin so (`Exchange.times`).
TIMES: Final = "times/"
COUNTED: Final = 2**31 - 1
FAILED: Final = 2**31 - 2
# The columns that identify the chunk of a frame, and those by which frames are ordered.
CHUNK_COLUMNS: Final = ("turn", "shard", "offset", "sequence")
FRAME_ORDER: Final = (*CHUNK_COLUMNS, "sender", "part")
ChunkKey: TypeAlias = tuple[int, str, int, int]
# Sorts after all chunks of an epoch.
END_OF_EPOCH: Final[ChunkKey] = (2**62, "", 0, 0)

Batches: TypeAlias = Iterator[pa.RecordBatch]
# The columns of FRAME, in their order.
Frame: TypeAlias = tuple[int, int, int, str, int, int, int, int, int, bytes | None]


def merged(parts: Iterable[Counts]) -> Counts:
    """Returns the counts of several tasks together."""
    read, rows = 0, Counter[str]()
    nodes: dict[str, Counter[str]] = {}
    timers: list[int] = []
    oldest: list[int] = []
    sizes: dict[str, tuple[int, int]] = {}
    wrote = Counter[str]()
    times: dict[str, dict[str, tuple[int, int]]] = {}
    work = TaskWork()
    losses: list[Losses] = []
    answers = 0
    for part in parts:
        losses += part.losses
        answers += part.answers
        work = work.plus(part.work)
        timers += () if part.timer is None else (part.timer,)
        times |= part.times
        oldest += () if part.oldest is None else (part.oldest,)
        wrote.update(part.wrote)
        for name, (rows_in, size) in part.sizes.items():
            known = sizes.get(name, (0, 0))
            sizes[name] = known[0] + rows_in, known[1] + size
        read += part.read
        rows.update(part.rows)
        for node, counters in part.nodes.items():
            nodes.setdefault(node, Counter()).update(counters)
    counters_by_node = {node: dict(counters) for node, counters in nodes.items()}
    timer, first = min(timers, default=None), min(oldest, default=None)
    told = dict(wrote)
    return Counts(
        read, dict(rows), counters_by_node, timer, times, first, told, sizes, losses, answers, work
    )


def bound_for(stage: int) -> int:
    """The `stage` of a frame that this keyed stage is to read."""
    return -stage


@dataclass(frozen=True)
class ChunkPosition:
    """The position of a chunk in the order of processing: by turn, shard, offset and sequence.

    `turn` is 0 if shards are read one after the other; later chunks of a shard have later turns."""

    shard: str
    offset: int
    sequence: int
    turn: int = 0


@dataclass(frozen=True)
class ChunkOutput:
    """The output of a stateless stage for one chunk of records."""

    position: ChunkPosition
    output: Output


class Counts(msgspec.Struct, frozen=True):
    """The work of a task: the rows that it `read`, those that it gave to sinks by job, and counters
    by node. `timer`: the processing time (ms) at which an operator wants a tick. `times`: what
    `ShardTimes` has behind an exchange, by its name; '' stands for all shards. `oldest`: the epoch
    of the first file that is needed for its state; `wrote`: files and rows of state, by kind;
    `sizes`: rows and bytes of tables, by their full names. `losses`: of users' functions;
    `answers`: those of functions that are not deterministic, which it has written down; `work`:
    what it cost."""

    read: int = 0
    rows: dict[str, int] = {}
    nodes: dict[str, dict[str, int]] = {}
    timer: int | None = None
    times: dict[str, dict[str, tuple[int, int]]] = {}
    oldest: int | None = None
    wrote: dict[str, int] = {}
    sizes: dict[str, tuple[int, int]] = {}
    losses: list[Losses] = []
    answers: int = 0
    work: TaskWork = TaskWork()

    def frame(self) -> pa.RecordBatch:
        """Returns the frame that tells the driver."""
        return to_frames([(0, COUNTED, 0, "", 0, 0, 0, 0, 0, msgspec.json.encode(self))])


class Stateless(Protocol):
    """A stateless stage in a worker. Its output for a chunk depends on that chunk alone, and on
    earlier records of the same call and shard."""

    def run(self, step: Step, records: pa.RecordBatch) -> Iterator[ChunkOutput]: ...

    def take_counts(self) -> Counts:
        """Returns what was counted since the last call."""


class Keyed(Protocol):
    """The operator that a keyed stage runs, of several nodes."""

    def open(self, context: Context) -> None: ...

    def push(self, inputs: Sequence[tuple[int, Batch]]) -> Output:
        """Processes all batches of one chunk, with their input ports, as one step."""

    def take_counts(self) -> Counts:
        """Returns what was counted since the last call."""


@dataclass(frozen=True)
class Exchange:
    """The exchange of a port's rows, from stage `source` (0: the stateless one) to stage `target`.

    Rows go to the bucket of their `keys`, to bucket 0 if there are none, or stay in their partition
    if `keys` is None. `schema`: their columns. `clocks`: the nodes that give the watermarks of rows
    from the stateless stage; behind the exchange they are kept under `times`, and shards without
    rows hold them back for `idle_ms` (0: for ever). `everywhere`: each partition gets all rows."""

    keys: tuple[str, ...] | None
    schema: Schema
    times: str = ""
    clocks: tuple[str, ...] = ()
    idle_ms: int = 0
    source: int = STATELESS
    target: int = 1
    everywhere: bool = False


@dataclass(frozen=True)
class SparkPlan:
    """A stateless stage (0) and keyed stages, each behind an exchange, counted from 1. Rows go from
    lower stages to higher ones.

    `stateless` and `keyed` are factories, called in the workers, once for each `name` and `version`
    (of the graph). Those of keyed stages get True for the partition with bucket 0. `exchange`: the
    output ports that lead to the input port of the same number of a keyed stage. All other ports
    are results; tasks make of them what sinks of `tables` store. `rules`: what its tasks may do;
    `functions`: those of users that they call; `timeouts`: seconds that the operators of a job may
    take in one task, of jobs that have one; `answers`: what functions or tables answer in it is
    kept, since it may be another thing the next time."""

    name: str
    version: int
    stateless: Callable[[], Stateless]
    exchange: Mapping[int, Exchange] = field(default_factory=dict)
    keyed: Sequence[Callable[[bool], Keyed]] = ()
    rules: TaskRules = field(default_factory=TaskRules)
    functions: TaskFunctions = field(default_factory=TaskFunctions)
    timeouts: Mapping[str, float] = field(default_factory=dict)
    tables: Mapping[int, SinkTable] = field(default_factory=dict)
    answers: bool = False

    @property
    def graph(self) -> str:
        """The graph whose plan it is, of which there may be others."""
        return self.name.partition("#")[0]

    def ports(self, stage: int) -> list[tuple[int, Exchange]]:
        """The input ports of a keyed stage, in order."""
        return [(port, e) for port, e in sorted(self.exchange.items()) if e.target == stage]


class Step(msgspec.Struct, frozen=True):
    """An epoch, as its tasks see it.

    `proctime` in ms. `before`: the state with which it begins, and `continues` if that is of the
    same version. `digest`: of the epoch's record; a number may come again with another record,
    where a power loss took the first. At most so many files of changes (`deltas`) follow a whole
    one, and a state of less than `whole_rows` is always written whole. `answered`: an epoch before
    has answered all that functions are asked in this one, which repeats it."""

    epoch: int
    version: int
    proctime: int
    seed: int
    partitions: int
    before: TaskState
    digest: int = 0
    continues: bool = False
    deltas: int = 0
    whole_rows: int = 0
    answered: bool = False


@dataclass
class TaskContext:
    """The context of operators in a task: tables, filled from `restored` by their full names.
    `prefix` stands before the names of tables that are opened from now on; `versions`: of each as
    it was filled."""

    restored: Mapping[str, pa.Table] = field(default_factory=dict)
    tables: dict[str, KeyedTable] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    prefix: str = ""
    versions: dict[str, int] = field(default_factory=dict)

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...] | None
    ) -> KeyedTable:
        full = self.prefix + name
        self.tables[full] = table = KeyedTable(full, keys, values, exchange)
        if full in self.restored:
            table.load(self.restored[full])
        self.versions[full] = table.version
        return table

    def check_step(self) -> None: ...

    def charge(self, rows: Mapping[str, int]) -> None: ...


# The stages that ran last in this worker, cached since compiling patterns may take seconds.
_STAGES_KEPT: Final = 8
_stages: dict[tuple[str, int], Stateless] = {}


def run_stateless(plan: SparkPlan, step: Step, batches: Batches) -> Batches:
    """Processes records to frames. Their columns are those that the plan's stateless stage
    expects."""
    stage = _taken(plan)
    for records in batches:
        for chunk in stage.run(step, records):
            position = chunk.position
            at = (position.turn, position.shard, position.offset, position.sequence)
            sender = position.sequence % step.partitions
            yield to_frames(frames_of(plan, step, STATELESS, sender, at, chunk.output))
    yield stage.take_counts().frame()
    _keep(plan, stage)


def _taken(plan: SparkPlan) -> Stateless:
    """Takes the stage out of the cache, or builds it: one that fails is not used again."""
    return _stages.pop((plan.name, plan.version), None) or plan.stateless()


def _keep(plan: SparkPlan, stage: Stateless) -> None:
    _stages[plan.name, plan.version] = stage
    for oldest in list(_stages)[:-_STAGES_KEPT]:
        _stages.pop(oldest, None)


def frames_of(
    plan: SparkPlan, step: Step, stage: int, sender: int, at: ChunkKey, output: Output
) -> Iterator[Frame]:
    """Yields the frames of a stage's output for a chunk, from partition `sender`.

    Each partition gets its rows and the watermarks of all, so that a chunk without rows for it is a
    tick. All partitions of a keyed stage see the same watermarks, so partition 0 alone sends ticks
    to the others."""
    for i, (port, batch) in enumerate(output):
        exchange = plan.exchange.get(port)
        if exchange is None:
            if batch.num_rows:
                table = plan.tables.get(port)
                encoded = None if table is None else table.encoded(batch)
                yield sender, stage, *at, sender, i, port, encode_batch(batch, encoded)
            continue
        origin = at[1] if stage == STATELESS else ""
        partition = _partitions(batch, exchange.keys, step.partitions, sender)
        of_rows = None if batch.row_watermarks is None else np.unique(batch.row_watermarks)
        steps = joined_steps([batch.steps, of_rows])
        for p in range(step.partitions):
            rows = np.flatnonzero((partition == p) | exchange.everywhere)
            if len(rows) or stage == STATELESS or sender == 0 or steps is not None:
                known = batch.steps if len(rows) == batch.num_rows else steps
                part = replace(
                    batch.take(rows), watermark=batch.watermark, origin=origin, steps=known
                )
                yield p, bound_for(exchange.target), *at, sender, i, port, encode_batch(part)


def _partitions(batch: Batch, keys: Sequence[str] | None, count: int, own: int) -> IntArray:
    if not keys:
        return np.full(batch.num_rows, own if keys is None else 0, np.int64)
    buckets = buckets_of(
        [batch.schema.type(k) for k in keys], [batch.column(k) for k in keys], batch.num_rows
    )
    return buckets.astype(np.int64) * count // BUCKETS


def bucket_range(partition: int, count: int) -> range:
    """The range of buckets that a partition holds, of `count` partitions."""
    bounds = [-(-p * BUCKETS // count) for p in (partition, partition + 1)]
    return range(*bounds)


def to_frames(frames: Iterable[Frame]) -> pa.RecordBatch:
    """Packs frames into a record batch of FRAME."""
    columns = list(zip(*frames, strict=True)) or [()] * len(FRAME)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, FRAME, strict=True)], schema=FRAME
    )
