"""A topic on disk: a folder with its definition and a folder per shard."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

import msgspec

from sqlengine.broker.base import TopicInfo
from sqlengine.broker.errors import BrokerError, CorruptSegment, unknown_format
from sqlengine.broker.segment import sync_folder
from sqlengine.broker.shard import Options, ShardLog

FORMAT = 1
_SUFFIX = ".topic"  # so that topics may be called '.' and '..'
_DEFINITION = "topic.json"
_MIN_SEGMENT_BYTES = 64 << 10


class Definition(msgspec.Struct, frozen=True):
    """What `create_topic` was told."""

    name: str
    shards: int
    compacted: bool = False
    retention_ms: int | None = None
    retention_bytes: int | None = None
    format: int = FORMAT


class Topic:
    """An open topic."""

    def __init__(self, folder: Path, definition: Definition, options: Options) -> None:
        self.folder = folder
        self.definition = definition
        if definition.retention_bytes is not None:
            share = max(_MIN_SEGMENT_BYTES, definition.retention_bytes // 4)
            options = options._replace(segment_bytes=min(options.segment_bytes, share))
        self.logs = [
            ShardLog(definition.name, shard, folder / str(shard), options) for shard in range(definition.shards)
        ]

    def log(self, shard: int) -> ShardLog:
        if not 0 <= shard < len(self.logs):
            raise BrokerError(
                f"topic {self.definition.name!r} has no shard {shard}", detail=f"it has {len(self.logs)}, from 0 on"
            )
        return self.logs[shard]

    def info(self) -> TopicInfo:
        known = self.definition
        return TopicInfo(
            known.name,
            known.shards,
            tuple(log.begin for log in self.logs),
            tuple(log.end for log in self.logs),
            sum(log.size for log in self.logs),
            known.compacted,
            known.retention_ms,
            known.retention_bytes,
        )

    def close(self) -> None:
        for log in self.logs:
            log.close()


def check_definition(definition: Definition) -> None:
    """Raises BrokerError for options that make no sense."""
    if definition.shards < 1:
        raise BrokerError(f"topic {definition.name!r} needs at least one shard")
    limits = (definition.retention_ms, definition.retention_bytes)
    if any(limit is not None and limit < 0 for limit in limits):
        raise BrokerError(f"the retention of topic {definition.name!r} is negative")
    if definition.compacted and any(limit is not None for limit in limits):
        raise BrokerError(
            f"topic {definition.name!r} cannot be compacted and have a retention",
            hint="append a NULL value to remove a key from a compacted topic",
        )


def create_topic(parent: Path, trash: Path, definition: Definition, options: Options) -> Topic:
    """Makes the topic's folder as a whole. Raises OSError and leaves nothing."""
    unfinished = trash / uuid.uuid4().hex
    try:
        unfinished.mkdir(mode=0o700)
        (unfinished / _DEFINITION).write_bytes(msgspec.json.encode(definition))
        for shard in range(definition.shards):
            ShardLog.create(unfinished / str(shard), options)
        folder = parent / (definition.name + _SUFFIX)
        if options.synced:
            _sync_file(unfinished / _DEFINITION)
            sync_folder(unfinished)
        unfinished.rename(folder)
        if options.synced:
            sync_folder(parent)
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)  # what stays there is removed at the next start
        raise
    return Topic(folder, definition, options)


def open_topics(parent: Path, options: Options) -> dict[str, Topic]:
    """All topics below `parent`. Raises CorruptSegment and UnknownFormat."""
    topics: dict[str, Topic] = {}
    for folder in sorted(parent.glob("*" + _SUFFIX)):
        definition = _read_definition(folder / _DEFINITION)
        topics[definition.name] = Topic(folder, definition, options)
    return topics


def remove_topic(topic: Topic, trash: Path) -> None:
    """Removes the folder; after a death on the way it is either there or in the trash."""
    topic.close()
    target = trash / uuid.uuid4().hex
    topic.folder.rename(target)
    sync_folder(topic.folder.parent)
    shutil.rmtree(target)


def _sync_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _read_definition(path: Path) -> Definition:
    content = path.read_bytes()
    try:
        version = msgspec.json.decode(content, type=dict[str, object]).get("format")
        if version != FORMAT:
            raise unknown_format(path, version, FORMAT)
        return msgspec.json.decode(content, type=Definition)
    except msgspec.DecodeError as error:
        raise CorruptSegment(
            f"the definition {str(path)!r} is damaged", detail=str(error), hint="restore the file from a copy"
        ) from error
