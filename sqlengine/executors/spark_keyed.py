"""The keyed stage in Spark's Python workers: one operator over the buckets of a partition, its state in one file a batch.
This module knows no Spark, and is imported by name in each worker as `spark_worker` is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from sqlengine.batch import MIN_WATERMARK, Batch, empty
from sqlengine.executors.spark_worker import (
    EXCHANGE,
    FRAME,
    KEYED,
    PLACE,
    Batches,
    SparkPlan,
    Step,
    TaskContext,
    buckets_in,
    to_frames,
)
from sqlengine.executors.wire import StateFile, decode_batch, decode_state, encode_batch, encode_state, is_whole
from sqlengine.operators.base import Operator, Output
from sqlengine.operators.watermark import ShardTimes

_TIMES = "times/"


@dataclass
class _Held:
    """A keyed operator with its state at the end of a batch, kept for the next one. `times` by input port: the shards
    that feed a port need not be those of another."""

    step: Step
    operator: Operator
    times: Mapping[int, ShardTimes]
    context: TaskContext


_held: dict[tuple[str, str, int], _Held] = {}


def run_keyed(plan: SparkPlan, step: Step, folder: str, batches: Batches) -> Batches:
    """From the frames of one partition to frames of results. The state is that of the step's `previous` batch and goes
    to a file of this one, created if it is absent: another attempt finds the same and gives the same."""
    frames = pa.Table.from_batches([pa.RecordBatch.from_arrays(b.columns, schema=FRAME) for b in batches], FRAME)
    results = frames.filter(pc.not_equal(frames["stage"], EXCHANGE))
    yield from results.combine_chunks().to_batches()
    if not frames.num_rows:
        return
    partition = frames["partition"][0].as_py()
    held = _take_held(plan, step, folder, partition)
    arriving = _in_order(frames)
    _introduce(plan, held, arriving)
    output = [o for port, batch in _decoded(arriving) for o in _process(held, port, batch)]
    output += _tick(held, plan, step)
    _save(held, step, folder, plan.name, partition)
    if not step.end:
        _keep(held, (folder, plan.name, partition))
    yield to_frames(
        (partition, KEYED, 0, "", 0, 0, i, port, encode_batch(b)) for i, (port, b) in enumerate(output) if b.num_rows
    )


def _in_order(frames: pa.Table) -> pa.Table:
    """What is on its way to the operator, sorted: blocks of a shuffle come in no order."""
    mine = frames.filter(pc.and_(pc.equal(frames["stage"], EXCHANGE), pc.is_valid(frames["batch"])))
    return mine.sort_by([(n, "ascending") for n in PLACE])


def _introduce(plan: SparkPlan, held: _Held, arriving: pa.Table) -> None:
    """Every shard is known before the first row of any, and holds the others back until it has a time of its own."""
    for port, exchange in sorted(plan.exchange.items()):
        present = arriving.filter(pc.equal(arriving["port"], port))["shard"].unique().to_pylist()
        for shard in sorted({*exchange.shards, *present}):
            held.times[port].advance(shard, np.empty(0, np.int64), MIN_WATERMARK)


def _decoded(arriving: pa.Table) -> Iterator[tuple[int, Batch]]:
    for port, data in zip(arriving["port"].to_pylist(), arriving["batch"].to_pylist(), strict=True):
        yield port, decode_batch(data)


def _process(held: _Held, port: int, batch: Batch) -> Output:
    """The stateless stage knew the watermark from its chunk alone: here it meets those of all shards so far."""
    times = held.times[port]
    since = times.watermark
    before, after = times.advance(batch.origin, batch.watermarks(), batch.watermark)
    timed = replace(batch, row_watermarks=before, watermark=after, since=since, origin="")
    return held.operator.process(port, timed)


def _tick(held: _Held, plan: SparkPlan, step: Step) -> Output:
    """The time at the end of a step, which may be the end of the input."""
    output: Output = []
    for port, exchange in sorted(plan.exchange.items()):
        times = held.times[port]
        since = times.watermark
        watermark = times.finish() if step.end else since
        tick = empty(exchange.schema, proctime=step.proctime, watermark=watermark)
        tick = replace(tick, seed=step.seed, since=since)
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
    context = TaskContext({**state.tables, **state.shared})
    times = {}
    for port in sorted(plan.exchange):
        context.prefix = f"{_TIMES}{port}/"
        times[port] = ShardTimes(context)
    operator = plan.keyed()
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
    shared = {n: d for n, d in dumps.items() if n.startswith(_TIMES)}
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
