"""What runs in Spark's Python workers: the stateless stage and the keyed stage of a plan, over the same operators as
everywhere. This module knows no Spark. It is imported by name in each worker, so that what it keeps there lasts from
task to task.

Rows travel as frames: a batch in bytes with where it belongs. Spark moves frames and never looks into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from parser.types import BIGINT, BYTES, Schema
from sqlengine.batch import MIN_WATERMARK, Batch, empty
from sqlengine.executors.wire import StateFile, decode_batch, decode_state, encode_batch, encode_state, is_whole
from sqlengine.operators.base import Operator, Output
from sqlengine.operators.scan import OFFSET, RECORD
from sqlengine.operators.watermark import ShardTimes
from sqlengine.state.columns import IntArray
from sqlengine.state.keys import BUCKETS, buckets_of
from sqlengine.state.table import KeyedTable

# `stage`: 0 for output of the stateless stage, 1 of the keyed one, EXCHANGE for what is still on its way.
FRAME: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("stage", pa.int32()),
        ("shard", pa.string()),
        ("offset", pa.int64()),
        ("sequence", pa.int64()),
        ("part", pa.int32()),
        ("port", pa.int32()),
        ("batch", pa.binary()),
    ]
)
STATELESS, KEYED, EXCHANGE = 0, 1, -1

Batches: TypeAlias = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Exchange:
    """How rows of a port reach the keyed operator: by the bucket of their `keys`, with the columns of `schema`."""

    keys: tuple[str, ...]
    schema: Schema


@dataclass(frozen=True)
class SparkPlan:
    """One stateless and, behind an exchange, one keyed stage. The makers are called in the workers.

    `stateless` makes operators that stand one behind the other; the first takes batches of `record` and `offset`
    (`raw_schema`), only the last may have several output ports. Their tables begin empty with every chunk of a shard.
    `exchange` names the output ports that go on to `keyed`, to its input port of the same number; all others are
    results. `version` is that of the graph."""

    name: str
    version: int
    stateless: Callable[[], Sequence[Operator]]
    exchange: Mapping[int, Exchange] = field(default_factory=dict)
    keyed: Callable[[], Operator] | None = None


class Step(msgspec.Struct, frozen=True):
    """What the driver fixed for one batch before its first attempt: every later attempt finds the same. `previous` is the
    batch before (-1: none), whose state lies in `previous_partitions` files; `end`: the input is over."""

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


# ---- the stateless stage -------------------------------------------------------------------------------------------


@dataclass
class _Chain:
    """The operators of a stateless stage, and what they keep while they work on one chunk."""

    operators: Sequence[Operator]
    context: TaskContext = field(default_factory=TaskContext)

    def __post_init__(self) -> None:
        for i, operator in enumerate(self.operators):
            self.context.prefix = f"{i}/"
            operator.open(self.context)

    def run(self, chunk: Batch) -> Output:
        """Output of the last operator, and what left by the error ports of those before it."""
        output: Output = [(0, chunk)]
        for operator in self.operators:
            aside = [(port, b) for port, b in output if port != 0]
            output = aside + [o for port, b in output if port == 0 for o in operator.process(0, b)]
        for table in self.context.tables.values():
            table.drop(range(BUCKETS))
        return output


_chains: dict[tuple[str, int], _Chain] = {}


def run_stateless(plan: SparkPlan, step: Step, batches: Batches) -> Batches:
    """From records (`shard`, `offset`, `sequence`, `record`; in order within a shard) to frames."""
    chain = _chains.get((plan.name, plan.version))
    if chain is None:
        chain = _chains[plan.name, plan.version] = _Chain(plan.stateless())
    for records in batches:
        for chunk, sequence in _chunks(records, step):
            yield _frames(_cut(plan, step, chain.run(chunk), chunk, sequence))


_RAW = Schema.of(**{RECORD: BYTES, OFFSET: BIGINT})
_Frame = tuple[int, int, str, int, int, int, int, bytes]


def _chunks(records: pa.RecordBatch, step: Step) -> Iterator[tuple[Batch, int]]:
    """Runs of rows of one shard and file, as a scan takes them, with the sequence number of the first."""
    names = ("shard", "offset")
    changes = [pc.run_end_encode(records.column(n)).run_ends.to_numpy() for n in names]
    ends = np.union1d(*changes)
    sequences, offsets = records.column("sequence"), records.column("offset")
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        record = records.column("record").slice(start, end - start).cast(pa.binary())
        columns = (record, offsets.slice(start, end - start))
        shard = records.column("shard")[start].as_py()
        batch = Batch(_RAW, columns, end - start, step.proctime, origin=shard, seed=step.seed)
        yield batch, sequences[start].as_py()


def _cut(plan: SparkPlan, step: Step, output: Output, chunk: Batch, sequence: int) -> Iterator[_Frame]:
    """Each partition gets its rows, and the time of all: a chunk without rows for it is a tick."""
    shard, offset = chunk.origin, chunk.column(OFFSET)[0].as_py()
    for i, (port, batch) in enumerate(output):
        if port not in plan.exchange:
            yield sequence % step.partitions, STATELESS, shard, offset, sequence, i, port, encode_batch(batch)
            continue
        partition = _partitions(batch, plan.exchange[port].keys, step.partitions)
        for p in range(step.partitions):
            part = replace(batch.take(np.flatnonzero(partition == p)), watermark=batch.watermark, origin=shard)
            yield p, EXCHANGE, shard, offset, sequence, i, port, encode_batch(part)


def _partitions(batch: Batch, keys: Sequence[str], count: int) -> IntArray:
    buckets = buckets_of([batch.schema.type(k) for k in keys], [batch.column(k) for k in keys], batch.num_rows)
    return buckets.astype(np.int64) * count // BUCKETS


def buckets_in(partition: int, count: int) -> range:
    """The contiguous range of buckets that a partition holds."""
    bounds = [-(-p * BUCKETS // count) for p in (partition, partition + 1)]
    return range(*bounds)


def _frames(frames: Iterator[_Frame]) -> pa.RecordBatch:
    columns = list(zip(*frames, strict=True)) or [()] * len(FRAME)
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, FRAME, strict=True)], schema=FRAME)


# ---- the keyed stage -----------------------------------------------------------------------------------------------


@dataclass
class _Held:
    """A keyed operator with its state at the end of a batch, kept for the next one."""

    step: Step
    operator: Operator
    times: ShardTimes
    context: TaskContext


_held: dict[tuple[str, str, int], _Held] = {}


def run_keyed(plan: SparkPlan, step: Step, folder: str, batches: Batches) -> Batches:
    """From the frames of one partition to frames of results. The state is that of the step's `previous` batch and goes
    to a file of this one, created if it is absent: another attempt finds the same and gives the same."""
    frames = pa.Table.from_batches([pa.RecordBatch.from_arrays(b.columns, schema=FRAME) for b in batches], FRAME)
    results = frames.filter(pc.equal(frames["stage"], STATELESS))
    yield from results.combine_chunks().to_batches()
    if not frames.num_rows:
        return
    partition = frames["partition"][0].as_py()
    held = _take_held(plan, step, folder, partition)
    for shard in sorted(set(frames["shard"].to_pylist()) - {""}):  # known before the first row of any
        held.times.advance(shard, np.empty(0, np.int64), MIN_WATERMARK)
    output = [o for port, batch in _in_order(frames) for o in _process(held, port, batch)]
    output += _tick(held, plan, step)
    _save(held, step, folder, plan.name, partition)
    _keep(held, (folder, plan.name, partition))
    yield _frames((partition, KEYED, "", 0, 0, i, port, encode_batch(b)) for i, (port, b) in enumerate(output))


def _in_order(frames: pa.Table) -> Iterator[tuple[int, Batch]]:
    """What is on its way to the operator, sorted: blocks of a shuffle come in no order."""
    mine = frames.filter(pc.and_(pc.equal(frames["stage"], EXCHANGE), pc.is_valid(frames["batch"])))
    mine = mine.sort_by([(n, "ascending") for n in ("shard", "offset", "sequence", "part")])
    for port, data in zip(mine["port"].to_pylist(), mine["batch"].to_pylist(), strict=True):
        yield port, decode_batch(data)


def _process(held: _Held, port: int, batch: Batch) -> Output:
    """The stateless stage knew the watermark from its chunk alone: here it meets those of all shards so far."""
    before, after = held.times.advance(batch.origin, batch.watermarks(), batch.watermark)
    timed = replace(batch, row_watermarks=before, watermark=after, origin="")
    return held.operator.process(port, timed)


def _tick(held: _Held, plan: SparkPlan, step: Step) -> Output:
    """The time at the end of a step, which may be the end of the input."""
    watermark = held.times.finish() if step.end else held.times.watermark
    output: Output = []
    for port, exchange in sorted(plan.exchange.items()):
        tick = replace(empty(exchange.schema, proctime=step.proctime, watermark=watermark), seed=step.seed)
        output += held.operator.process(port, tick)
    return output


def _keep(held: _Held, key: tuple[str, str, int]) -> None:
    """Keeps the operator for the next batch, and none that fell behind because their tasks ran in other workers."""
    for other in [k for k, h in _held.items() if k[:2] == key[:2] and h.step.batch < held.step.previous]:
        del _held[other]
    _held[key] = held


def _take_held(plan: SparkPlan, step: Step, folder: str, partition: int) -> _Held:
    """The operator as the batch before left it: from this worker's memory if it is there, else from the files."""
    held = _held.pop((folder, plan.name, partition), None)
    if held is not None:
        last = held.step
        if (last.batch, last.version, last.partitions) == (step.previous, step.version, step.partitions):
            held.step = step
            return held
    if plan.keyed is None:
        raise ValueError(f"plan '{plan.name}' has no keyed stage")
    state = _restore(step, folder, plan.name, partition)
    context = TaskContext({**state.tables, **state.shared}, prefix="times/")
    times, operator = ShardTimes(context), plan.keyed()
    context.prefix = "operator/"
    operator.open(context)
    return _Held(step, operator, times, context)


def _restore(step: Step, folder: str, name: str, partition: int) -> StateFile:
    """The state of this partition's buckets, wherever the batch before had them."""
    wanted = set(buckets_in(partition, step.partitions))
    parts = []
    for p in range(step.previous_partitions):
        mine = sorted(wanted.intersection(buckets_in(p, step.previous_partitions)))
        if mine:
            parts.append(decode_state(_read(state_path(folder, step.previous, name, p)), mine))
    tables = {n: pa.concat_tables(part.tables[n] for part in parts) for n in (parts[0].tables if parts else ())}
    return StateFile(tables, parts[0].shared if parts else {})


def _save(held: _Held, step: Step, folder: str, name: str, partition: int) -> None:
    dumps = {n: t.dump() for n, t in held.context.tables.items()}
    shared = {n: d for n, d in dumps.items() if n.startswith("times/")}
    state = StateFile({n: d for n, d in dumps.items() if n not in shared}, shared)
    create(state_path(folder, step.batch, name, partition), encode_state(state))


# ---- files ---------------------------------------------------------------------------------------------------------


def state_path(folder: str, batch: int, name: str, partition: int) -> str:
    return f"{folder}/state/{batch:012}/{name}-{partition:03}.state"


def _read(uri: str) -> bytes:
    system, path = fs.FileSystem.from_uri(uri)
    with system.open_input_stream(path) as stream:
        data: bytes = stream.read()
    return data


def create(uri: str, data: bytes) -> None:
    """Writes a file unless a whole one is there: an attempt that was killed may have left a part of it."""
    system, path = fs.FileSystem.from_uri(uri)
    if system.get_file_info(path).type is fs.FileType.File and is_whole(_read(uri)):
        return
    system.create_dir(path.rsplit("/", 1)[0], recursive=True)
    with system.open_output_stream(path) as stream:
        stream.write(data)
