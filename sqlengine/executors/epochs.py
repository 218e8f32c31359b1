"""The epoch log: everything that an epoch of a graph depends on, written before its output.

An epoch is one step of a graph from its positions to the next. Its record holds what processing
depends on besides state and rows, so that the same epochs give the same rows after a crash. Hot
changes, shards that appear and sources that end are entries of the same log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import ClassVar, Protocol

import msgspec

from sqlengine.broker.base import Broker
from sqlengine.broker.errors import TopicNotFound
from sqlengine.system.format_numbers import check_number, check_record

EPOCHS = "_epochs"
FORMAT = 1
# In `EpochRecord.after`: the epochs before are not in the log.
UNLOGGED = -1


def has_epochs(broker: Broker) -> bool:
    """True if a graph has ever written an epoch there."""
    try:
        return broker.end_offset(EPOCHS, 0) > 0
    except TopicNotFound:
        return False


@dataclass(frozen=True)
class OffsetRange:
    """Offsets [start, end) of one shard of one source (the scan's id in the graph). `digest`: of
    what was read there, '' where the source needs none to read the same again."""

    source: str
    shard: str
    start: int
    end: int
    digest: str = ""


@dataclass(frozen=True)
class LoggedChange:
    """A hot change between two epochs.

    `version`: the graph's version after it. `jobs`: the version of each job that changed, 0 if it
    was removed. `starts`: the offsets at which new sources begin, by source and shard. `renamed`:
    jobs that take over the state of another name, new name to old. `handover`: the migration of the
    job that came from another graph, or ''."""

    version: int
    jobs: dict[str, int] = field(default_factory=dict)
    starts: dict[str, dict[str, int]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    handover: str = ""


@dataclass(frozen=True)
class ReplayedRecord:
    """A record of a dead letter that is processed again.

    `letter`: the letter's number. `source`: the scan. `record`: its bytes, or None to read it again
    at its shard and offset. `places`: numbers of the job's statements that did not see it."""

    letter: int
    source: str
    shard: str
    offset: int
    record: bytes | None
    places: tuple[int, ...]


@dataclass(frozen=True)
class Replay:
    """Records of dead letters to be processed by this version of one job, and by no other job."""

    job: str
    version: int
    rows: tuple[ReplayedRecord, ...]


@dataclass(frozen=True)
class Resumption:
    """An operator that goes on firing what is due at the watermark (ms) of its input, which may be
    `idle`. `node` is its id in the graph. `passed`: the watermarks before that one, from the last
    before the first window that is left."""

    node: str
    watermark: int
    passed: tuple[int, ...]
    idle: bool = False


@dataclass(frozen=True)
class EpochRecord:
    """An entry of the log.

    `ranges` are in reading order. `opened`: shards that appeared, with their source. `ended`:
    sources whose bounded input is read to its end. `proctime`: the epoch's processing time (ms);
    with `tick` operators get it even without rows, because one waits for it. A record with a
    `change` or a `replay` has no rows. `after`: the epoch before, where numbers were skipped, or
    UNLOGGED. `resumed`: operators that had more to fire than an epoch may; such a record has
    nothing else. `firing_cost`: what one may spend on that (`FiringLimit`), None for any. `closed`:
    shards that are gone, after they were read, with their source."""

    graph: str
    epoch: int
    version: int
    proctime: int
    seed: int
    ranges: tuple[OffsetRange, ...] = ()
    opened: tuple[tuple[str, str], ...] = ()
    ended: tuple[str, ...] = ()
    change: LoggedChange | None = None
    replay: Replay | None = None
    tick: bool = False
    after: int | None = None
    format: int = FORMAT
    resumed: tuple[Resumption, ...] = ()
    firing_cost: int | None = None
    closed: tuple[tuple[str, str], ...] = ()


class EpochLog(Protocol):
    """The log of one graph. Offsets count records; a checkpoint remembers the one after its epoch.

    `keeps_every_epoch`: False if epochs of rows are not kept, so that none can be repeated."""

    keeps_every_epoch: ClassVar[bool]

    def append(self, record: EpochRecord) -> int:
        """Writes the record and returns the offset after it."""

    def read(self, offset: int) -> Iterator[tuple[int, EpochRecord]]:
        """Yields the graph's records from `offset` on, each with the offset after it."""


class TopicEpochLog:
    """The log for exactly-once delivery: a topic that all graphs share. Records carry the graph's
    id as their key."""

    keeps_every_epoch: ClassVar[bool] = True

    def __init__(self, broker: Broker, graph: str) -> None:
        broker.create_topic(EPOCHS, retention_bytes=1 << 30, if_not_exists=True)
        self._broker = broker
        self._graph = graph

    def append(self, record: EpochRecord) -> int:
        value = msgspec.json.encode(record)
        key = record.graph.encode()
        done = self._broker.append(EPOCHS, 0, [value], keys=[key], timestamp_ms=record.proctime)
        return done.next_offset

    def read(self, offset: int) -> Iterator[tuple[int, EpochRecord]]:
        offset = max(offset, self._broker.begin_offset(EPOCHS, 0))
        while (records := self._broker.read(EPOCHS, 0, offset)) is not None:
            for value, at in zip(records.values.to_pylist(), records.offsets.tolist(), strict=True):
                record = decode_record(value)
                if record.graph == self._graph:
                    yield at + 1, record
            offset = records.next_offset


class EndedEpochLog(TopicEpochLog):
    """The log of a graph up to its epoch `until`, to be repeated alone: nothing is appended."""

    def __init__(self, broker: Broker, graph: str, until: int) -> None:
        super().__init__(broker, graph)
        self._until = until

    def append(self, record: EpochRecord) -> int:
        raise AssertionError("what others have written goes on elsewhere")

    def read(self, offset: int) -> Iterator[tuple[int, EpochRecord]]:
        return takewhile(lambda found: found[1].epoch <= self._until, super().read(offset))


class ChangeLog(TopicEpochLog):
    """The log for at-least-once delivery: keeps changes alone, since no epoch of rows is
    repeated."""

    keeps_every_epoch: ClassVar[bool] = False

    def append(self, record: EpochRecord) -> int:
        if record.change is None:
            return self._broker.end_offset(EPOCHS, 0)
        # The epochs of rows between two changes are missing here: a reader must not take that for a
        # gap.
        return super().append(replace(record, after=UNLOGGED))


class NoLog:
    """The log of a script, which begins anew when it is killed: keeps nothing."""

    keeps_every_epoch: ClassVar[bool] = False

    def append(self, record: EpochRecord) -> int:
        return 0

    def read(self, offset: int) -> Iterator[tuple[int, EpochRecord]]:
        return iter(())


def decode_record(value: bytes) -> EpochRecord:
    """Decodes a record from its JSON. ServiceError for another format, whatever else it holds."""
    try:
        record = msgspec.json.decode(value, type=EpochRecord)
    except msgspec.ValidationError:
        # A record of another format gets the better message; otherwise the error above is the
        # truth.
        check_record(value, FORMAT, "an epoch record")
        raise
    check_number(record.format, FORMAT, "an epoch record")
    return record
