"""A keyed stage in Spark's Python workers: operators over the buckets of a partition, with their
state in one file per epoch.

This module does not import Spark. Like `worker.py` it is imported by name in each worker, so that
operators stay there from task to task.

All partitions of a stage see the same watermarks, because each sees every chunk, with rows or
without. So the output of several partitions for one chunk can be merged to what one process would
produce: in the order of the watermarks before the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlengine.batch import MIN_WATERMARK, Batch, concat, empty, joined_steps
from sqlengine.executors.seeds import spread_seed
from sqlengine.executors.spark.boundary import failed
from sqlengine.executors.spark.saved_tables import SavedTables
from sqlengine.executors.spark.state_files import part_name, restored
from sqlengine.executors.spark.tasks.answers import TaskAnswers
from sqlengine.executors.spark.worker import (
    CHUNK_COLUMNS,
    END_OF_EPOCH,
    FRAME,
    FRAME_ORDER,
    STATELESS,
    Batches,
    ChunkKey,
    Counts,
    Exchange,
    Frame,
    Keyed,
    SparkPlan,
    Step,
    TaskContext,
    bound_for,
    frames_of,
    to_frames,
)
from sqlengine.executors.wire import decode_batch
from sqlengine.operators.ports import WATERMARKS
from sqlengine.operators.watermark import ShardTimes, decode_times

# A batch that arrived: its chunk, the input port, and the encoded rows.
Arrived = tuple[ChunkKey, int, bytes]
_FRAME_BYTES: Final = 64 << 20


@dataclass
class _StageInstance:
    """A partition of a keyed stage, with its state at the end of an epoch. Workers cache it for the
    next one.

    `times`: watermarks of shards by input port, for the ports that sources feed; different shards
    may feed different ports. `salt` makes seeds differ between partitions."""

    step: Step
    operator: Keyed
    times: Mapping[int, ShardTimes]
    context: TaskContext
    ports: Mapping[int, Exchange]
    salt: int
    saved: SavedTables


_instances: dict[tuple[str, int, int], _StageInstance] = {}


def run_keyed(plan: SparkPlan, stage: int, step: Step, folder: str, batches: Batches) -> Batches:
    """Processes the frames of one partition; yields frames of results and for later stages.

    Where a stage before has failed it yields its failures alone. State is restored from the epoch
    `before` the step and saved to a file of this one, unless another attempt has done that already,
    with the same content."""
    frames = pa.Table.from_batches(
        [pa.RecordBatch.from_arrays(b.columns, schema=FRAME) for b in batches], FRAME
    )
    if len(failures := failed(frames)):
        yield from failures.to_batches()
        return
    is_mine = pc.equal(frames["stage"], bound_for(stage))
    yield from frames.filter(pc.invert(is_mine)).to_batches()
    mine = frames.filter(is_mine)
    if not mine.num_rows:
        return
    partition = mine["partition"][0].as_py()
    instance = _open_stage(plan, stage, step, folder, partition)
    in_order = [(n, "ascending") for n in FRAME_ORDER]
    arrived = mine.filter(pc.is_valid(mine["batch"])).sort_by(in_order)
    _register_shards(instance, arrived)
    pieces = _in_pieces(
        frame
        for at, inputs in _chunks(instance, step, arrived)
        for frame in frames_of(plan, step, stage, partition, at, instance.operator.push(inputs))
    )
    answers = None
    if plan.answers:
        answers = TaskAnswers(folder, step, part_name(step, stage, partition))
    yield from pieces if answers is None else answers.behind(pieces)
    counts = _counts(instance, partition)
    saved = instance.saved.save(instance.context.tables, step, folder, stage, partition)
    yield msgspec.structs.replace(
        counts,
        oldest=instance.saved.chain.base_epoch,
        wrote=saved,
        answers=0 if answers is None else answers.count,
    ).frame()
    _cache(instance, (plan.name, stage, partition))


def _register_shards(instance: _StageInstance, arrived: pa.Table) -> None:
    """Makes all shards known before the first row of any, so that each holds back the watermark
    until it has one of its own."""
    for port, times in instance.times.items():
        present = arrived.filter(pc.equal(arrived["port"], port))["shard"].unique().to_pylist()
        for shard in sorted(set(present).difference(times.shards())):
            times.advance(shard, np.empty(0, np.int64), MIN_WATERMARK)


def _counts(instance: _StageInstance, partition: int) -> Counts:
    """Returns what a partition has done. All of them have the same times: the first tells them."""
    counts = instance.operator.take_counts()
    timers = [counts.timer, *(times.next_idle() for times in instance.times.values())]
    told = {}
    for port in instance.times if partition == 0 else ():
        name = instance.ports[port].times
        rows = decode_times(instance.context.tables[f"{name}/{WATERMARKS}"].dump())
        told[name] = {shard or "": row for shard, row in rows.items()}
    timer = min((t for t in timers if t is not None), default=None)
    tables = instance.context.tables.items()
    sizes = {n: (len(t), t.bytes) for n, t in tables if partition == 0 or not t.everywhere}
    return msgspec.structs.replace(counts, timer=timer, times=told, sizes=sizes)


def _chunks(
    instance: _StageInstance, step: Step, arrived: pa.Table
) -> Iterator[tuple[ChunkKey, list[tuple[int, Batch]]]]:
    """Yields the batches of each chunk in order, with their input ports in order; at last those of
    the end of the step."""
    over = False
    for at, of_chunk in groupby(_rows(arrived), key=lambda row: row[0]):
        over = at == END_OF_EPOCH
        inputs = _inputs(instance, of_chunk)
        yield at, sorted([*inputs, *_ticks(instance, step)], key=lambda i: i[0]) if over else inputs
    if not over:
        yield END_OF_EPOCH, _ticks(instance, step)


def _rows(arrived: pa.Table) -> Iterator[Arrived]:
    for frame in arrived.to_batches():
        yield from zip(
            zip(*(frame[n].to_pylist() for n in CHUNK_COLUMNS), strict=True),
            frame["port"].to_pylist(),
            frame["batch"].to_pylist(),
            strict=True,
        )


def _inputs(instance: _StageInstance, arrived: Iterable[Arrived]) -> list[tuple[int, Batch]]:
    by_port: dict[int, list[Batch]] = {}
    for _, port, data in arrived:
        by_port.setdefault(port, []).append(decode_batch(data))
    inputs: list[tuple[int, Batch]] = []
    for port, batches in sorted(by_port.items()):
        timed = (
            [_with_watermarks(instance.times[port], b) for b in batches]
            if port in instance.times
            else [_merge_partitions(batches)]
        )
        inputs += [(port, replace(b, seed=b.seed ^ instance.salt)) for b in timed]
    return inputs


def _with_watermarks(times: ShardTimes, batch: Batch) -> Batch:
    """Replaces the watermarks of a batch, which the stateless stage computed from its chunk alone,
    by those over all shards so far."""
    since = times.watermark
    steps = np.empty(0, np.int64) if batch.steps is None else batch.steps
    own = np.concatenate([batch.watermarks(), steps])
    before, after = times.advance(batch.origin, own, batch.watermark, batch.proctime)
    before, steps = before[: batch.num_rows], before[batch.num_rows :]
    timed = replace(batch, row_watermarks=before, watermark=after, since=since, origin="")
    return replace(timed, steps=None if batch.steps is None else steps, idle=times.idle)


def _merge_partitions(batches: Sequence[Batch]) -> Batch:
    """Merges the output of a stage's partitions for one chunk, in the order of watermarks, then of
    partitions."""
    with_rows = [b for b in batches if b.num_rows]
    whole = concat(with_rows or batches[:1])
    if len(with_rows) > 1 and whole.row_watermarks is not None:
        whole = whole.take(np.argsort(whole.row_watermarks, kind="stable"))
    steps = joined_steps([b.steps for b in batches])
    return replace(
        whole,
        watermark=max(b.watermark for b in batches),
        since=min(b.since for b in batches),
        steps=steps,
    )


def _ticks(instance: _StageInstance, step: Step) -> list[tuple[int, Batch]]:
    """Ticks with the watermarks at the end of a step."""
    ticks = []
    for port, times in instance.times.items():
        now = times.watermark
        tick = empty(instance.ports[port].schema, proctime=step.proctime, watermark=now)
        ticks.append((port, replace(tick, seed=step.seed ^ instance.salt, since=now)))
    return ticks


def _in_pieces(frames: Iterable[Frame]) -> Batches:
    """Packs frames into record batches of about `_FRAME_BYTES`."""
    waiting: list[Frame] = []
    size = 0
    for frame in frames:
        waiting.append(frame)
        size += len(frame[-1] or b"")
        if size >= _FRAME_BYTES:
            yield to_frames(waiting)
            waiting, size = [], 0
    yield to_frames(waiting)


def _cache(instance: _StageInstance, key: tuple[str, int, int]) -> None:
    """Caches a stage for the next epoch. Drops those of the same plan that fell behind because
    their tasks ran in other workers."""
    # A copy: outside of Spark's workers, which have one thread, several graphs share the process.
    of_plan = [(k, other.step.epoch) for k, other in list(_instances.items()) if k[0] == key[0]]
    for outdated in [k for k, epoch in of_plan if epoch < instance.step.before.epoch]:
        _instances.pop(outdated, None)
    _instances[key] = instance


def _open_stage(
    plan: SparkPlan, stage: int, step: Step, folder: str, partition: int
) -> _StageInstance:
    """Returns the stage as the previous epoch left it: from this worker's memory if it is there,
    else from the state files."""
    instance = _instances.pop((plan.name, stage, partition), None)
    if instance is not None:
        last, before = instance.step, step.before
        kept = (last.epoch, last.digest, last.version, last.partitions)
        if kept == (before.epoch, before.digest, step.version, step.partitions):
            instance.step = step
            return instance
    begins = restored(step, folder, stage, partition)
    context = TaskContext(begins.tables)
    ports = dict(plan.ports(stage))
    times = {}
    for port in (p for p, e in ports.items() if e.source == STATELESS):
        context.prefix = f"{ports[port].times}/"
        times[port] = ShardTimes(context, ports[port].idle_ms)
    operator = plan.keyed[stage - 1](partition == 0)
    context.prefix = ""
    operator.open(context)
    # Partitions of a stage must not draw the same random numbers.
    salt = spread_seed(stage << 16 | partition)
    saved = SavedTables(begins.chain, context.versions)
    return _StageInstance(step, operator, times, context, ports, salt, saved)
