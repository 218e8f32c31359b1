"""Repairs a topic of a data folder that no server uses."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sqlengine.broker.errors import BrokerError, CorruptSegment, cannot_write, topic_not_found
from sqlengine.broker.lock import FolderLock
from sqlengine.broker.storage.chain import Options
from sqlengine.broker.storage.head import read_head
from sqlengine.broker.storage.repair import Lost, repair_shard
from sqlengine.broker.topics import (
    DEFINITION,
    SUFFIX,
    Definition,
    Topic,
    read_definition,
    write_definition,
)
from sqlengine.system.data_folder import prepare_folder
from sqlengine.system.disk import MACHINE, Disk

_SEGMENT_BYTES = 64 << 20
# Topics of the system that are tables: those whose names begin so.
_TABLES = (
    "_checkpoints", "_control", "_data_folder", "_folder", "_groups", "_handovers", "_job",
    "_offsets", "_receivers",
)  # fmt: skip
_COMPACTED = b'"compacted":true'


class Repair(NamedTuple):
    """The outcome of a repair: what was given up, by shard. `definition`: the options of the topic
    were lost, and guessed from its folders."""

    lost: dict[int, list[Lost]]
    definition: bool


def repair_topic(data: Path, name: str, disk: Disk = MACHINE) -> Repair:
    """Gives up what is damaged of a topic in the data folder `data`, so that the rest can be used.

    Raises BrokerError, also if a server uses the folder."""
    lock = FolderLock(data, disk)
    try:
        prepare_folder(data, disk)
        return _repair(data / "topics", name, Options(_SEGMENT_BYTES, False, True, disk))
    except OSError as error:
        raise cannot_write(f"topic {name!r}", error) from error
    finally:
        lock.release()


def _repair(parent: Path, name: str, options: Options) -> Repair:
    folder, disk = parent / (name + SUFFIX), options.disk
    if not disk.is_folder(folder):
        names = [n.removesuffix(SUFFIX) for n in disk.names(parent) if n.endswith(SUFFIX)]
        raise topic_not_found(name, names)
    try:
        definition, guessed = read_definition(folder / DEFINITION, disk), False
    except CorruptSegment:
        definition, guessed = _guessed(folder, name, disk), True
        _set_aside(folder / DEFINITION, disk)
        write_definition(folder / DEFINITION, definition, options)
    lost = {}
    for shard in range(definition.shards):
        own, *others = folders = definition.folders(folder, shard)
        if not disk.is_folder(own):
            _set_aside(own, disk)
            disk.make_folder(own, mode=0o700)
        for other in others:
            if not disk.is_folder(other):
                raise BrokerError(
                    f"the folder {str(other)!r} of a topic is not there",
                    hint="mount its disk, then repair again",
                )
        if found := repair_shard(folders, options):
            lost[shard] = found
    Topic(folder, definition, options).close()
    return Repair(lost, guessed)


def _guessed(folder: Path, name: str, disk: Disk) -> Definition:
    """Returns a definition with the shards that have a folder, compacted if anything says so."""
    shards = [int(found) for found in disk.names(folder) if found.isdecimal()]
    segments = [
        path
        for shard in shards
        for path in (folder / str(shard) / n for n in disk.names(folder / str(shard)))
        if path.name.endswith(".seg")
    ]
    compacted = (
        name.startswith(_TABLES)
        or _COMPACTED in _rest(folder / DEFINITION, disk)
        or any(_is_compacted(path, disk) for path in segments)
    )
    return Definition(name, max(shards, default=0) + 1, compacted)


def _rest(path: Path, disk: Disk) -> bytes:
    try:
        return disk.read(path)
    except OSError:
        return b""


def _is_compacted(path: Path, disk: Disk) -> bool:
    try:
        head = read_head(path, disk)
    except BrokerError:
        return False
    return head is not None and head.state.covers is not None


def _set_aside(path: Path, disk: Disk) -> None:
    if disk.exists(path):
        disk.rename(path, path.with_name(f"{path.name}.damaged-{disk.random(4).hex()}"))
