"""Files with the state of tasks: one for each partition of each stage and epoch, and those that
jobs bring along. Does not import Spark."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Final

import pyarrow as pa
from pyarrow import fs

from parser.errors import ServiceError
from sqlengine.executors.spark.tasks.state import TaskState
from sqlengine.executors.spark.worker import TIMES, Step, bucket_range
from sqlengine.executors.wire import StateFile, decode_state, encode_state, is_whole
from sqlengine.operators.watermark import decode_times, encode_times
from sqlengine.state.keys import BUCKETS
from sqlengine.state.parts import TablePart, fold
from sqlengine.state.table import BUCKET, SEQUENCE

_WHOLE: Final = ".state"
_DELTA: Final = ".delta"


@dataclass(frozen=True)
class Chain:
    """The files of one partition: a whole one of `base_epoch` with `base_rows` rows, and `deltas`
    with the changes since, of `delta_rows` rows. -1: none, so that the next file is whole."""

    base_epoch: int = -1
    deltas: int = 0
    base_rows: int = 0
    delta_rows: int = 0


@dataclass(frozen=True)
class Restored:
    """The state with which a partition of a stage begins, by the tables' full names; and the files
    that it comes from, where the next one may have the changes alone."""

    tables: dict[str, pa.Table]
    chain: Chain


def continues_files(step: Step) -> bool:
    """True if a partition has the buckets and the tables of the files of the epoch before."""
    before = step.before
    alone = not (before.seeds or before.renamed or before.scans)
    return step.continues and alone and before.epoch >= 0 and before.partitions == step.partitions


def restored(step: Step, folder: str, stage: int, partition: int) -> Restored:
    """Reads the state with which a partition of a stage begins. Behind a change of the plan tables
    may come from any stage."""
    wanted = bucket_range(partition, step.partitions)
    if continues_files(step):
        files = _chain(folder, state_name(step.before, stage, partition), wanted)
        state, rows = _folded([f for _, f in files]), [_rows(f) for _, f in files]
        chain = Chain(_epoch_in(files[0][0]), len(files) - 1, rows[0], sum(rows[1:]))
        return Restored({**state.tables, **state.shared}, chain)
    stages = [stage] if step.continues else range(1, step.before.stages + 1)
    tables = _named(step.before, _read_tables(folder, step.before, stages, wanted))
    return Restored(tables, Chain())


def _rows(state: StateFile) -> int:
    return sum(t.num_rows for t in (*state.tables.values(), *state.removed.values()))


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
    for read in _states(folder, state, stages, wanted):
        for name, rows in read.tables.items():
            parts.setdefault(name, []).append(rows)
        shared |= read.shared
    return {**{n: pa.concat_tables(p) for n, p in parts.items()}, **shared}


def _states(
    folder: str, state: TaskState, stages: Iterable[int], wanted: Collection[int]
) -> Iterator[StateFile]:
    """Reads the state of each partition that has wanted buckets, and what was brought, whole."""
    for partition in range(state.partitions):
        mine = sorted(set(wanted).intersection(bucket_range(partition, state.partitions)))
        for stage in stages if mine else ():
            files = _chain(folder, state_name(state, stage, partition), mine)
            yield _folded([file for _, file in files])
    for seed in state.seeds:
        yield decode_state(_read(seed), sorted(wanted))


def _chain(folder: str, name: str, buckets: Collection[int]) -> list[tuple[str, StateFile]]:
    """Reads a file and those of which it has the changes, oldest first, with their names."""
    chain: list[tuple[str, StateFile]] = []
    following: str | None = name
    while following is not None:
        state = decode_state(_read_state(folder, following), sorted(buckets))
        chain.append((following, state))
        following = state.previous
    return chain[::-1]


def _folded(chain: Sequence[StateFile]) -> StateFile:
    """Returns the state that a whole file and the changes behind it make."""
    if len(chain) == 1:
        return chain[0]
    parts: dict[str, list[TablePart]] = {}
    for state in chain:
        for name, rows in state.tables.items():
            removed = state.removed.get(name, rows.slice(0, 0).select([SEQUENCE, BUCKET]))
            parts.setdefault(name, []).append(TablePart(rows, removed.select([SEQUENCE, BUCKET])))
    return StateFile({name: fold(p) for name, p in parts.items()}, chain[-1].shared)


def state_name(at: TaskState | Step, stage: int, partition: int) -> str:
    """Returns the name of the state of a partition of a stage after an epoch. An attempt with
    another number of partitions has other ones: its partitions hold other buckets."""
    return f"{epoch_name(at)}/{part_name(at, stage, partition)}"


def epoch_name(at: TaskState | Step) -> str:
    """Returns the name of the folder with what belongs to an epoch."""
    return f"{at.epoch:012}-{at.digest:08x}"


def part_name(at: TaskState | Step, stage: int, partition: int) -> str:
    """Returns the name of a partition of a stage within its epoch."""
    return f"{stage}-{partition:03}-of-{at.partitions:03}"


def save(folder: str, name: str, state: StateFile) -> int:
    """Writes state, whole or what has changed; attempts may write both, which give the same.

    Returns its size in bytes. ServiceError where the folder is not there: on a machine that does
    not have it nothing may begin a second one."""
    system, path = fs.FileSystem.from_uri(folder)
    if system.get_file_info(path).type is not fs.FileType.Directory:
        raise ServiceError(
            f"the machine {socket.gethostname()} does not have the folder {path}",
            hint="--data has to be in a folder that all machines of Spark have, at the same path",
        )
    kind, data = _WHOLE if state.previous is None else _DELTA, encode_state(state)
    create(f"{folder}/state/{name}{kind}", data)
    return len(data)


def _read_state(folder: str, name: str) -> bytes:
    """Reads state of that name: a whole file where there is one, since an attempt may have counted
    on it and nothing before is needed."""
    whole = f"{folder}/state/{name}{_WHOLE}"
    system, path = fs.FileSystem.from_uri(whole)
    if system.get_file_info(path).type is fs.FileType.File and is_whole(data := _read(whole)):
        return data
    return _read(f"{folder}/state/{name}{_DELTA}")


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


def _epoch_in(name: str) -> int:
    return int(name.partition("/")[0].rpartition("-")[0])


def local_path(uri: str) -> Path:
    """Returns the path of a file in the folder of the state, which all machines have under one
    name."""
    return Path(fs.FileSystem.from_uri(uri)[1])


def _read(uri: str) -> bytes:
    system, path = fs.FileSystem.from_uri(uri)
    with system.open_input_stream(path) as stream:
        data: bytes = stream.read()
    return data


def create(uri: str, data: bytes) -> None:
    """Writes a file unless a whole one is there. Two attempts may do that at once, also one of a
    server that was killed: the file is there with its end, or not at all."""
    system, path = fs.FileSystem.from_uri(uri)
    if system.get_file_info(path).type is fs.FileType.File and is_whole(_read(uri)):
        return
    system.create_dir(path.rsplit("/", 1)[0], recursive=True)
    part = f"{path}.{token_hex(4)}.part"
    with system.open_output_stream(part) as stream:
        stream.write(data)
    system.move(part, path)
