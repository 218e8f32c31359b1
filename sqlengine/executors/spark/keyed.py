"""A keyed stage in Spark's Python workers: operators over the buckets of a partition, their state
in one file a batch. This module knows no Spark, and is imported by name in each worker as
`spark_worker` is.

Time is the same in all partitions of a stage: each of them sees every chunk, with its rows or
without. So what several partitions have made of one chunk can be put together as one process would
have made it: in the order of the watermarks before the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from sqlengine.batch import MIN_WATERMARK, Batch, concat, empty, joined_steps
from sqlengine.executors.spark.worker import (
    AT_THE_END,
    CHUNK,
    FRAME,
    PLACE,
    STATELESS,
    At,
    Batches,
    Exchange,
    Frame,
    Keyed,
    SparkPlan,
    Step,
    TaskContext,
    buckets_in,
    frames_of,
    on_its_way,
    to_frames,
)
from sqlengine.executors.wire import StateFile, decode_batch, decode_state, encode_state, is_whole
from sqlengine.operators.watermark import ShardTimes

Arrived = tuple[At, int, bytes]  # the chunk, the port, a batch
_FRAME_BYTES: Final = 64 << 20


@dataclass
class _Held:
    """A keyed stage with its state at the end of a batch, kept for the next one. `times` by input
    port that rows of sources come to: the shards that feed one need not be those of another."""

    step: Step
    operator: Keyed
    times: Mapping[int, ShardTimes]
    context: TaskContext
    ports: Mapping[int, Exchange]
    salt: int


_held: dict[tuple[str, str, int, int], _Held] = {}


def run_keyed(plan: SparkPlan, stage: int, step: Step, folder: str, batches: Batches) -> Batches:
    """From the frames of one partition to frames of results, and of what goes to later stages. The
    state is that of the step's `previous` batch and goes to a file of this one, created if it is
    absent: another attempt finds the same and gives the same."""
    frames = pa.Table.from_batches(
        [pa.RecordBatch.from_arrays(b.columns, schema=FRAME) for b in batches], FRAME
    )
    is_mine = pc.equal(frames["stage"], on_its_way(stage))
    yield from frames.filter(pc.invert(is_mine)).to_batches()
    mine = frames.filter(is_mine)
    if not mine.num_rows:
        return
    partition = mine["partition"][0].as_py()
    held = _take_held(plan, stage, step, folder, partition)
    arrived = mine.filter(pc.is_valid(mine["batch"])).sort_by([(n, "ascending") for n in PLACE])
    _introduce(held, arrived)
    yield from _in_pieces(
        frame
        for at, inputs in _chunks(held, step, arrived)
        for frame in frames_of(plan, step, stage, partition, at, held.operator.push(inputs))
    )
    _save(held, step, folder, f"{plan.name}-{stage}", partition)
    if not step.end:
        _keep(held, (folder, plan.name, stage, partition))


def _introduce(held: _Held, arrived: pa.Table) -> None:
    """Every shard is known before the first row of any, and holds the others back until it has a
    time of its own."""
    for port, times in held.times.items():
        present = arrived.filter(pc.equal(arrived["port"], port))["shard"].unique().to_pylist()
        for shard in sorted({*held.ports[port].shards, *present}):
            times.advance(shard, np.empty(0, np.int64), MIN_WATERMARK)


def _chunks(
    held: _Held, step: Step, arrived: pa.Table
) -> Iterator[tuple[At, list[tuple[int, Batch]]]]:
    """What came of each chunk, in order, by input port in the order of their numbers; at last the
    end of the step."""
    over = False
    for at, of_chunk in groupby(_rows(arrived), key=lambda row: row[0]):
        over = at == AT_THE_END
        inputs = _inputs(held, of_chunk)
        yield at, sorted([*inputs, *_ticks(held, step)], key=lambda i: i[0]) if over else inputs
    if not over:
        yield AT_THE_END, _ticks(held, step)


def _rows(arrived: pa.Table) -> Iterator[Arrived]:
    for frame in arrived.to_batches():
        yield from zip(
            zip(*(frame[n].to_pylist() for n in CHUNK), strict=True),
            frame["port"].to_pylist(),
            frame["batch"].to_pylist(),
            strict=True,
        )


def _inputs(held: _Held, arrived: Iterable[Arrived]) -> list[tuple[int, Batch]]:
    by_port: dict[int, list[Batch]] = {}
    for _, port, data in arrived:
        by_port.setdefault(port, []).append(decode_batch(data))
    inputs: list[tuple[int, Batch]] = []
    for port, batches in sorted(by_port.items()):
        timed = (
            [_timed(held.times[port], b) for b in batches]
            if port in held.times
            else [_together(batches)]
        )
        inputs += [(port, replace(b, seed=b.seed ^ held.salt)) for b in timed]
    return inputs


def _timed(times: ShardTimes, batch: Batch) -> Batch:
    """The stateless stage knew the watermark from its chunk alone: here it meets those of all
    shards so far."""
    since = times.watermark
    steps = np.empty(0, np.int64) if batch.steps is None else batch.steps
    told = np.concatenate([batch.watermarks(), steps])
    before, after = times.advance(batch.origin, told, batch.watermark)
    before, steps = before[: batch.num_rows], before[batch.num_rows :]
    timed = replace(batch, row_watermarks=before, watermark=after, since=since, origin="")
    return replace(timed, steps=None if batch.steps is None else steps)


def _together(batches: Sequence[Batch]) -> Batch:
    """What the partitions of a stage made of one chunk; one behind the other where the time is the
    same."""
    made = [b for b in batches if b.num_rows]
    whole = concat(made or batches[:1])
    if len(made) > 1 and whole.row_watermarks is not None:
        whole = whole.take(np.argsort(whole.row_watermarks, kind="stable"))
    steps = joined_steps([b.steps for b in batches])
    return replace(
        whole,
        watermark=max(b.watermark for b in batches),
        since=min(b.since for b in batches),
        steps=steps,
    )


def _ticks(held: _Held, step: Step) -> list[tuple[int, Batch]]:
    """The time at the end of a step, which may be the end of the input."""
    ticks = []
    for port, times in held.times.items():
        since = times.watermark
        watermark = times.finish() if step.end else since
        tick = empty(held.ports[port].schema, proctime=step.proctime, watermark=watermark)
        ticks.append((port, replace(tick, seed=step.seed ^ held.salt, since=since)))
    return ticks


def _in_pieces(frames: Iterable[Frame]) -> Batches:
    """Frames as they go on, not too many bytes at once."""
    waiting: list[Frame] = []
    size = 0
    for frame in frames:
        waiting.append(frame)
        size += len(frame[-1] or b"")
        if size >= _FRAME_BYTES:
            yield to_frames(waiting)
            waiting, size = [], 0
    yield to_frames(waiting)


def _keep(held: _Held, key: tuple[str, str, int, int]) -> None:
    """Keeps the operator for the next batch, and none that fell behind because their tasks ran in
    other workers."""
    for other in [
        k for k, h in _held.items() if k[:2] == key[:2] and h.step.batch < held.step.previous
    ]:
        del _held[other]
    _held[key] = held


def _take_held(plan: SparkPlan, stage: int, step: Step, folder: str, partition: int) -> _Held:
    """The stage as the batch before left it: from this worker's memory if it is there, else from
    the files."""
    held = _held.pop((folder, plan.name, stage, partition), None)
    if held is not None:
        last = held.step
        if (last.batch, last.version, last.partitions) == (
            step.previous,
            step.version,
            step.partitions,
        ):
            held.step = step
            return held
    state = _restore(step, folder, f"{plan.name}-{stage}", partition)
    context = TaskContext({**state.tables, **state.shared})
    ports = dict(plan.ports(stage))
    times = {}
    for port in (p for p, e in ports.items() if e.source == STATELESS):
        context.prefix = f"times/{port}/"
        times[port] = ShardTimes(context)
    operator = plan.keyed[stage - 1](partition == 0)
    context.prefix = "operator/"
    operator.open(context)
    # What is random in one partition of a stage is not what is random in another.
    salt = ((stage << 16 | partition) * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF
    return _Held(step, operator, times, context, ports, salt)


def _restore(step: Step, folder: str, name: str, partition: int) -> StateFile:
    """The state of this partition's buckets, wherever the batch before had them."""
    wanted = set(buckets_in(partition, step.partitions))
    parts = []
    for p in range(step.previous_partitions):
        mine = sorted(wanted.intersection(buckets_in(p, step.previous_partitions)))
        if mine:
            parts.append(decode_state(_read(state_path(folder, step.previous, name, p)), mine))
    tables = {
        n: pa.concat_tables(part.tables[n] for part in parts)
        for n in (parts[0].tables if parts else ())
    }
    return StateFile(tables, parts[0].shared if parts else {})


def _save(held: _Held, step: Step, folder: str, name: str, partition: int) -> None:
    tables = held.context.tables
    dumps = {n: t.dump() for n, t in tables.items()}
    shared = {n: d for n, d in dumps.items() if tables[n].everywhere}
    state = StateFile({n: d for n, d in dumps.items() if n not in shared}, shared)
    create(state_path(folder, step.batch, name, partition), encode_state(state))


# ---- files ---------------------------------------------------------------------------------------


def state_path(folder: str, batch: int, name: str, partition: int) -> str:
    return f"{folder}/state/{batch:012}/{name}-{partition:03}.state"


def _read(uri: str) -> bytes:
    system, path = fs.FileSystem.from_uri(uri)
    with system.open_input_stream(path) as stream:
        data: bytes = stream.read()
    return data


def create(uri: str, data: bytes) -> None:
    """Writes a file unless a whole one is there: an attempt that was killed may have left a part of
    it."""
    system, path = fs.FileSystem.from_uri(uri)
    if system.get_file_info(path).type is fs.FileType.File and is_whole(_read(uri)):
        return
    system.create_dir(path.rsplit("/", 1)[0], recursive=True)
    with system.open_output_stream(path) as stream:
        stream.write(data)
