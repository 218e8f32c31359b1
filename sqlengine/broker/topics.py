"""A topic on disk: a folder with its definition, and a folder per shard."""

from __future__ import annotations

import errno
import logging
import os
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sqlengine.broker.base import LookupResult, TopicInfo
from sqlengine.broker.errors import (
    BrokerError,
    BrokerFull,
    CorruptSegment,
    UnknownFormat,
    how_to_repair,
    raising_broker_full,
    unknown_format,
)
from sqlengine.broker.storage.chain import Options
from sqlengine.broker.storage.compression import COMPRESSIONS, Compression
from sqlengine.broker.storage.lookup import KeyIndex
from sqlengine.broker.storage.shard import ShardLog
from sqlengine.system.disk import Disk, make_folders

log = logging.getLogger("sqlengine")

FORMAT = 1
SYSTEM = "_"  # topics of the engine begin with it
SUFFIX = ".topic"
DEFINITION = "topic.json"
_MIN_SEGMENT_BYTES = 64 << 10
MAX_SHARDS = 1024


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The definition of a topic, as in its JSON file.

    `places` are the folders to which each shard was moved later: absolute, the latest last. `crc`
    is a checksum of all else, which files of before do not have.
    """

    name: str
    shards: int
    compacted: bool = False
    retention_ms: int | None = None
    retention_bytes: int | None = None
    delete_retention_ms: int | None = None
    max_bytes: int | None = None
    compression: Compression = "none"
    places: dict[int, tuple[str, ...]] = {}
    format: int = FORMAT
    crc: int | None = None

    def folders(self, folder: Path, shard: int) -> list[Path]:
        """Returns the folders of a shard of the topic in `folder`."""
        return [folder / str(shard), *map(Path, self.places.get(shard, ()))]


class Topic:
    """An open topic: its definition and the logs of its shards."""

    def __init__(self, folder: Path, definition: Definition, options: Options) -> None:
        self.folder = folder
        self.definition = definition
        self.disk = options.disk
        self._options = options
        options = _for_topic(definition, options)
        self.logs = [
            ShardLog(definition.name, shard, definition.folders(folder, shard), options)
            for shard in range(definition.shards)
        ]
        self._indexes: list[KeyIndex] = []

    def lookup(self, key: bytes) -> LookupResult | None:
        """Returns the last record of `key` with a value, from the highest shard that has one."""
        if not self._indexes:
            self._indexes = [KeyIndex(log) for log in self.logs]
        return next(
            (found for index in reversed(self._indexes) if (found := index.find(key)) is not None),
            None,
        )

    def log(self, shard: int) -> ShardLog:
        if not 0 <= shard < len(self.logs):
            raise BrokerError(
                f"topic {self.definition.name!r} has no shard {shard}",
                detail=f"it has {len(self.logs)}, from 0 on",
            )
        return self.logs[shard]

    def alter(self, definition: Definition) -> None:
        """Replaces the definition by one with the same shards. Raises OSError, and changes
        nothing."""
        path = self.folder / DEFINITION
        unfinished = path.with_suffix(".tmp")
        write_definition(unfinished, definition, self._options)
        self.disk.rename(unfinished, path)
        if self._options.synced:
            self.disk.sync_folder(self.folder)
        self.definition = definition
        for log in self.logs:
            log.options = _for_topic(definition, self._options)

    def move(self, shard: int, to: Path) -> None:
        """Directs new records of a shard to a new folder below `to`. Raises OSError and
        BrokerError."""
        log, disk = self.log(shard), self.disk
        folder = to / f"{self.definition.name}-{shard}-{disk.random(8).hex()}"
        make_folders(disk, folder, lasting=self._options.synced, mode=0o700)
        before = self.definition
        places = before.places | {shard: (*before.places.get(shard, ()), str(folder))}
        # The definition first: after a crash the new folder is known, though it may be empty.
        self.alter(msgspec.structs.replace(before, places=places))
        try:
            log.move_to(folder)
        except BrokerError:
            self.alter(before)
            disk.remove_folder(folder)
            raise

    @property
    def size(self) -> int:
        """The size on disk, in bytes."""
        return sum(log.size for log in self.logs)

    def info(self) -> TopicInfo:
        known = self.definition
        return TopicInfo(
            known.name,
            known.shards,
            tuple(log.begin for log in self.logs),
            tuple(log.end for log in self.logs),
            self.size,
            known.compacted,
            known.retention_ms,
            known.retention_bytes,
            known.delete_retention_ms,
            known.max_bytes,
            known.compression,
        )

    def close(self) -> None:
        for log in self.logs:
            log.close()


def _for_topic(definition: Definition, options: Options) -> Options:
    """Returns options with segments small enough for retention by size to be precise."""
    if definition.retention_bytes is None:
        return options
    share = max(_MIN_SEGMENT_BYTES, definition.retention_bytes // 4)
    return options._replace(segment_bytes=min(options.segment_bytes, share))


def check_definition(definition: Definition) -> None:
    """Raises BrokerError for contradictory or impossible options."""
    if definition.shards < 1:
        raise BrokerError(f"topic {definition.name!r} needs at least one shard")
    if definition.shards > MAX_SHARDS:
        raise BrokerError(
            f"topic {definition.name!r} would have {definition.shards} shards, at most {MAX_SHARDS}"
            " are allowed"
        )
    limits = (definition.retention_ms, definition.retention_bytes)
    others = (definition.delete_retention_ms, definition.max_bytes)
    if any(limit is not None and not 0 <= limit < 2**63 for limit in (*limits, *others)):
        raise BrokerError(f"a limit of topic {definition.name!r} is negative, or 2^63 and more")
    if definition.compression not in COMPRESSIONS:
        raise BrokerError(
            f"topic {definition.name!r} cannot have the compression {definition.compression!r}",
            hint=f"choose one of {', '.join(COMPRESSIONS)}",
        )
    if definition.delete_retention_ms is not None and not definition.compacted:
        raise BrokerError(
            f"topic {definition.name!r} is not compacted: its records are not kept for being"
            " deleted"
        )
    if definition.compacted and any(limit is not None for limit in limits):
        raise BrokerError(
            f"topic {definition.name!r} cannot be compacted and have a retention",
            hint="append a NULL value to remove a key from a compacted topic",
        )


def create_topic(parent: Path, trash: Path, definition: Definition, options: Options) -> Topic:
    """Creates the topic's folder atomically. Raises OSError and leaves nothing."""
    disk = options.disk
    unfinished = _unused(trash, disk)
    try:
        disk.make_folder(unfinished, mode=0o700)
        write_definition(unfinished / DEFINITION, definition, options)
        for shard in range(definition.shards):
            ShardLog.create(unfinished / str(shard), options)
        folder = parent / (definition.name + SUFFIX)
        if options.synced:
            disk.sync_folder(unfinished)
        disk.rename(unfinished, folder)
        if options.synced:
            disk.sync_folder(parent)
    except OSError:
        disk.remove_folder(unfinished)  # leftovers are removed at the next start
        raise
    return Topic(folder, definition, options)


@dataclass(frozen=True)
class DamagedTopic:
    """A topic in `folder` that cannot be opened. `error`: what is raised for whoever uses it;
    `definition`: None where that is damaged, too."""

    name: str
    folder: Path
    error: BrokerError
    definition: Definition | None = None

    def info(self) -> TopicInfo:
        known = self.definition or Definition(self.name, 0)
        return TopicInfo(
            self.name, known.shards, (), (), 0, known.compacted, damage=self.error.with_hint
        )


def open_topics(
    parent: Path, trash: Path, options: Options
) -> tuple[dict[str, Topic], dict[str, DamagedTopic]]:
    """Opens all topics below `parent`; returns those that are sound, and those that are not.

    A damaged topic of the system raises its error (CorruptSegment, UnknownFormat, BrokerError):
    without it nothing else can run. Raises BrokerFull."""
    disk = options.disk
    _empty_trash(trash, disk)
    with raising_broker_full(f"data folder '{parent.parent}'"):
        for folder in (parent, trash):
            disk.make_folder(folder, parents=True, mode=0o700)
        if options.synced:
            disk.sync_folder(parent.parent)
            # The previous process may have died between creating a topic and its sync.
            disk.sync_folder(parent)
    topics: dict[str, Topic] = {}
    damaged: dict[str, DamagedTopic] = {}
    for folder in [parent / name for name in disk.names(parent) if name.endswith(SUFFIX)]:
        opened = _open_topic(folder, options)
        if isinstance(opened, Topic):
            topics[opened.definition.name] = opened
        elif opened.name.startswith(SYSTEM) or isinstance(opened.error, BrokerFull):
            raise opened.error
        else:
            log.error("topic %r is left out: %s", opened.name, opened.error.with_hint)
            damaged[opened.name] = opened
    return topics, damaged


def _open_topic(folder: Path, options: Options) -> Topic | DamagedTopic:
    name, definition = folder.name.removesuffix(SUFFIX), None
    try:
        definition = read_definition(folder / DEFINITION, options.disk)
        return Topic(folder, definition, options)
    except BrokerError as error:
        return DamagedTopic(name, folder, error, definition)
    except OSError as error:
        why = BrokerError(f"topic {name!r} cannot be opened", detail=str(error))
        return DamagedTopic(name, folder, why, definition)


def remove_topic(topic: Topic | DamagedTopic, trash: Path, disk: Disk) -> None:
    """Removes the topic's folder; after a crash meanwhile it is either in place or in the trash."""
    if isinstance(topic, Topic):
        topic.close()
    target = _unused(trash, disk)
    disk.rename(topic.folder, target)
    disk.sync_folder(topic.folder.parent)
    if topic.definition is not None:
        _remove_places(topic.definition, disk)
    disk.remove_folder(target)


def _empty_trash(trash: Path, disk: Disk) -> None:
    """Removes leftovers of interrupted deletions and creations."""
    for name in disk.names(trash):
        with suppress(OSError, BrokerError):  # without a definition it was never a topic
            _remove_places(read_definition(trash / name / DEFINITION, disk), disk)
        # The trash folder itself stays: a full disk might have no space for it again.
        disk.remove_folder(trash / name)


def _remove_places(definition: Definition, disk: Disk) -> None:
    for folders in definition.places.values():
        for folder in folders:
            disk.remove_folder(Path(folder))


def _unused(trash: Path, disk: Disk) -> Path:
    return trash / disk.random(16).hex()


def write_definition(path: Path, definition: Definition, options: Options) -> None:
    """Writes the definition of a topic. Raises OSError."""
    disk, content = options.disk, _encoded(definition)
    file = disk.open(path, make=True, empty=True)
    try:
        if disk.pwrite(file, content, 0) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if options.synced:
            disk.sync(file)
    finally:
        disk.close(file)


def _encoded(definition: Definition) -> bytes:
    """Returns the definition as JSON, with a checksum of all else in it."""
    content = msgspec.json.encode(msgspec.structs.replace(definition, crc=None))
    return msgspec.json.encode(msgspec.structs.replace(definition, crc=zlib.crc32(content)))


def read_definition(path: Path, disk: Disk) -> Definition:
    """Returns the definition of a topic. Raises CorruptSegment if it is missing or damaged, and
    UnknownFormat."""
    remedy = f"restore the file from a copy, or {how_to_repair(path)}"
    try:
        content = disk.read(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise CorruptSegment(
            f"the definition {str(path)!r} is missing",
            detail="the folder of a topic holds it beside the records",
            hint=remedy,
        ) from error
    try:
        version = msgspec.json.decode(content, type=dict[str, object]).get("format")
        if version != FORMAT:
            raise unknown_format(path, version, FORMAT)
        definition = msgspec.json.decode(content, type=Definition)
        check_definition(definition)
    except (msgspec.DecodeError, UnicodeDecodeError, BrokerError) as error:
        if isinstance(error, UnknownFormat):
            raise
        raise CorruptSegment(
            f"the definition {str(path)!r} is damaged", detail=str(error), hint=remedy
        ) from error
    if definition.crc is not None and content != _encoded(definition):
        raise CorruptSegment(
            f"the definition {str(path)!r} is damaged",
            detail="its checksum is wrong",
            hint=remedy,
        )
    return definition
