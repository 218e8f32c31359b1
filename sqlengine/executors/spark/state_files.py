"""Files with the state of tasks: one for each partition of each stage and epoch, and those that
jobs bring along. Does not import Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import pyarrow as pa
from pyarrow import fs

from sqlengine.executors.spark.task_state import TaskState
from sqlengine.executors.spark.worker import TIMES, Step, bucket_range
from sqlengine.executors.wire import StateFile, decode_state, is_whole
from sqlengine.operators.watermark import decode_times, encode_times
from sqlengine.state.keys import BUCKETS


def restored(step: Step, folder: str, stage: int, partition: int) -> dict[str, pa.Table]:
    """Returns the state with which a partition of a stage begins, by the tables' full names. Behind
    a change of the plan tables may come from any stage."""
    wanted = bucket_range(partition, step.partitions)
    stages = [stage] if step.continues else range(1, step.before.stages + 1)
    return _named(step.before, _read_tables(folder, step.before, stages, wanted))


def all_tables(folder: str, state: TaskState) -> dict[str, pa.Table]:
    """Returns the whole state of a graph."""
    stages = range(1, state.stages + 1)
    return _named(state, _read_tables(folder, state, stages, range(BUCKETS)))


def _named(state: TaskState, tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    renamed = {new: tables[old] for new, old in state.renamed.items() if old in tables}
    if state.scans:
        for name in [n for n in renamed if n.startswith(TIMES)]:
            times = decode_times(renamed[name]).items()
            renamed[name] = encode_times({_moved(state.scans, s): t for s, t in times})
    return {**tables, **renamed}


def _moved(scans: Mapping[str, str], log: str | None) -> str | None:
    """Returns the name of a log as that of the scan that goes on with it."""
    if log is None:
        return None
    scan, _, shard = log.partition("/")
    return f"{scans.get(scan, scan)}/{shard}"


def _read_tables(
    folder: str, state: TaskState, stages: Iterable[int], wanted: Collection[int]
) -> dict[str, pa.Table]:
    """Reads rows of the `wanted` buckets; a table that is equal in all partitions comes once."""
    parts: dict[str, list[pa.Table]] = {}
    shared: dict[str, pa.Table] = {}
    for read in _files(folder, state, stages, wanted):
        for name, rows in read.tables.items():
            parts.setdefault(name, []).append(rows)
        shared |= read.shared
    return {**{n: pa.concat_tables(p) for n, p in parts.items()}, **shared}


def _files(
    folder: str, state: TaskState, stages: Iterable[int], wanted: Collection[int]
) -> Iterator[StateFile]:
    for partition in range(state.partitions):
        mine = sorted(set(wanted).intersection(bucket_range(partition, state.partitions)))
        for stage in stages if mine else ():
            path = state_path(folder, state, stage, partition)
            yield decode_state(_read(path), mine)
    for seed in state.seeds:
        yield decode_state(_read(seed), sorted(wanted))


def state_path(folder: str, at: TaskState | Step, stage: int, partition: int) -> str:
    """Returns the file with the state of a partition of a stage after an epoch. An attempt with
    another number of partitions has other files: its partitions hold other buckets."""
    name = f"{stage}-{partition:03}-of-{at.partitions:03}.state"
    return f"{folder}/state/{at.epoch:012}-{at.digest:08x}/{name}"


def discard_before(folder: str, epoch: int) -> None:
    """Deletes the state of epochs before this one, and what was brought before it."""
    for found in _listed(f"{folder}/state"):
        if _epoch_of(found) < epoch:
            fs.FileSystem.from_uri(folder)[0].delete_dir(found.path)
    for found in _listed(f"{folder}/seeds"):
        if _epoch_of(found) < epoch:
            fs.FileSystem.from_uri(folder)[0].delete_file(found.path)


def _listed(uri: str) -> list[fs.FileInfo]:
    system, path = fs.FileSystem.from_uri(uri)
    found: list[fs.FileInfo] = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return found


def _epoch_of(found: fs.FileInfo) -> int:
    return int(found.base_name.rpartition("-")[0])


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
