"""What a broker is to the engine: topics of shards, atomic appends, reads from an offset, committed
offsets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlengine.broker.errors import BrokerError
from sqlengine.broker.ownership import SESSION_MS, Fence, GroupInfo, Membership
from sqlengine.broker.storage.packing import Compression

IntArray = npt.NDArray[np.int64]
# Values or keys of a batch: Python bytes (None is NULL) or a binary Arrow array.
Column: TypeAlias = "Sequence[bytes | None] | pa.BinaryArray"

_OTHER = re.compile(r"[^A-Za-z0-9._-]")
_MAX_WRITER_BYTES = 1000
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class Records:
    """What one read gives: records in order, without gaps unless the topic is compacted.

    `values` and `keys` may point into the mapped file and stay valid whatever happens to it. A NULL
    value is a tombstone; `keys` is None when no record has one, else NULL for those without.
    `offsets` and `timestamps` (ms) have an entry per record. Reading goes on at `next_offset`, also
    after a read that gave no rows (only a compacted topic has such gaps)."""

    topic: str
    shard: int
    first_offset: int
    next_offset: int
    values: pa.BinaryArray
    keys: pa.BinaryArray | None
    timestamps: IntArray
    offsets: IntArray

    @property
    def num_rows(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a batch stands: offsets [first_offset, next_offset). A `duplicate` was not written;
    both are the end."""

    first_offset: int
    next_offset: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Addition:
    """A batch to be appended: what `Broker.append` takes."""

    topic: str
    shard: int
    values: Column
    timestamp_ms: int
    keys: Column | None = None
    writer: str | None = None
    epoch: int | None = None
    fence: Fence | None = None
    compression: Compression | None = None


class TopicOptions(TypedDict, total=False):
    """What a topic is made with, and what can be changed. None is no limit.

    Retention removes whole segments, oldest first, when all their records are older than
    `retention_ms` or when the shard without them still has `retention_bytes`. A compacted topic has
    none: it keeps the last record per key, and a record without a value for `delete_retention_ms`
    (a day, if that is None). A topic of `max_bytes` takes no more until something is removed:
    appends raise TopicFull. `compression` is what batches are packed with where whoever appends
    says nothing else."""

    retention_ms: int | None
    retention_bytes: int | None
    delete_retention_ms: int | None
    max_bytes: int | None
    compression: Compression


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as it is now. `begin` and `end` hold an offset per shard; `bytes` is its size on
    disk."""

    name: str
    shards: int
    begin: tuple[int, ...]
    end: tuple[int, ...]
    bytes: int
    compacted: bool
    retention_ms: int | None = None
    retention_bytes: int | None = None
    delete_retention_ms: int | None = None
    max_bytes: int | None = None
    compression: Compression = "none"


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """A shard as it is now: offsets [begin, end), bytes on disk, and how many segments stand in
    which folders."""

    begin: int
    end: int
    bytes: int
    folders: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Found:
    """A record that was looked up."""

    shard: int
    offset: int
    timestamp_ms: int
    value: bytes


def is_system(name: str) -> bool:
    """Whether the topic belongs to the system. Callers refuse to create or write such topics for
    users."""
    return name.startswith("_")


def check_topic_name(name: str) -> None:
    """Raises BrokerError unless `name` has 1 to 200 of the characters A-Z a-z 0-9 . _ -"""
    if not _TOPIC_NAME.fullmatch(name):
        raise BrokerError(
            f"{name!r} is not a topic name",
            detail="a name has 1 to 200 letters, digits, dots, underscores and hyphens",
        )


def system_topic(kind: str, name: str) -> str:
    """The name of a topic of the system that belongs to something of that name, which may have
    other characters."""
    return f"_{kind}_{_OTHER.sub('.', name)}"


def check_stamps(timestamp_ms: int, writer: str | None, epoch: int | None) -> None:
    """Raises BrokerError for a time that cannot be written, and unless writer and epoch are both
    there, or neither."""
    if not -(2**63) <= timestamp_ms < 2**63:
        raise BrokerError(
            f"{timestamp_ms} is not a time", detail="times are milliseconds since 1970, in 8 bytes"
        )
    if (writer is None) != (epoch is None):
        raise BrokerError("an append has both a writer and an epoch, or neither")
    if writer is not None and not 0 < len(writer.encode()) <= _MAX_WRITER_BYTES:
        raise BrokerError(
            f"{writer!r} is not a writer", detail=f"it has 1 to {_MAX_WRITER_BYTES} bytes"
        )
    if epoch is not None and not 0 <= epoch < 2**63:
        raise BrokerError(f"{epoch} is not an epoch", detail="epochs count from 0")


class Broker(Protocol):
    """Topics with shards. All methods may be called from any thread.

    Every method that names a topic raises TopicNotFound when there is none, BrokerError for a shard
    it has not."""

    def create_topic(
        self,
        name: str,
        shards: int = 1,
        *,
        compacted: bool = False,
        if_not_exists: bool = False,
        **options: Unpack[TopicOptions],
    ) -> TopicInfo:
        """A new topic, or with `if_not_exists` the one that is there, whatever its options. Raises
        TopicExists."""

    def alter_topic(self, name: str, **changes: Unpack[TopicOptions]) -> TopicInfo:
        """The topic with these options, the others as they are."""

    def delete_topic(self, name: str) -> None:
        """Removes the topic, its records and the offsets that groups committed for it."""

    def topics(self) -> list[TopicInfo]:
        """All topics by name, the system's included."""

    def topic(self, name: str) -> TopicInfo: ...

    def shards(self, topic: str) -> list[ShardInfo]:
        """The topic's shards, from 0 on."""

    def append(
        self,
        topic: str,
        shard: int,
        values: Column,
        *,
        keys: Column | None = None,
        timestamp_ms: int,
        writer: str | None = None,
        epoch: int | None = None,
        fence: Fence | None = None,
        compression: Compression | None = None,
    ) -> Appended:
        """Appends all values as one batch: after a crash the batch is there whole or not at all.

        `timestamp_ms` is the time of arrival of all of them. With `writer` and `epoch` nothing is
        written when that writer has appended this or a later epoch to the shard before; a batch
        without values then records the epoch. A compacted topic needs a key for every value. The
        batch is packed with `compression`, by default the topic's, where that makes it smaller.
        Raises BrokerFull (or TopicFull) with nothing written, and Fenced when the claims of `fence`
        belong to somebody else by now."""

    def append_all(self, additions: Sequence[Addition]) -> list[Appended]:
        """Appends several batches, one after the other, each as `append` does. Where one is refused
        those before it stand."""

    def read(
        self,
        topic: str,
        shard: int,
        offset: int,
        *,
        max_records: int = 10_000,
        max_bytes: int = 8 << 20,
        until: int | None = None,
    ) -> Records | None:
        """Records from `offset` on, at least one and at most what the limits allow; None at the
        end.

        Never waits. With `until` exactly the records of [offset, until), whatever their number and
        size (2 GiB at most). Raises OffsetOutOfRange when `offset` or `until` is before the begin
        or after the end."""

    def read_latest(self, topic: str) -> dict[bytes, bytes]:
        """The last value per key over all shards; keys whose last value is NULL are not in it."""

    def lookup(self, topic: str, key: bytes) -> Found | None:
        """The last record of a key in a compacted topic; None when there is none or it has no
        value.

        Where several shards have the key, that of the highest. The first look-up in a topic reads
        it once."""

    def begin_offset(self, topic: str, shard: int) -> int: ...

    def end_offset(self, topic: str, shard: int) -> int:
        """The offset that the next record will have."""

    def last_epoch(self, topic: str, shard: int, writer: str) -> int | None:
        """The last epoch that `writer` appended, also when retention has removed the records
        since."""

    def commit(
        self, group: str, topic: str, offsets: Mapping[int, int], *, fence: Fence | None = None
    ) -> None:
        """Remembers per shard where `group` goes on reading; other shards keep what they have.
        Atomic.

        A start takes an offset behind the end of its shard for lost with power, and puts the end in
        its place. Raises Fenced with a `fence` whose member does not own all of these shards, and
        without one where any member of the group does. The claims of the fence do not matter."""

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Shard -> offset as committed; shards never committed are absent."""

    def join(
        self, group: str, member: str, topics: Sequence[str], *, session_ms: int = SESSION_MS
    ) -> Membership:
        """Makes `member` one of the group and shares the shards of all members' topics anew, each
        to one of them.

        It is a member until it leaves or was silent for `session_ms`. A name that is in the group
        already takes its place: who had it before is refused from then on."""

    def heartbeat(self, group: str, member: str, generation: int) -> Membership:
        """Tells that the member lives, and what it owns now. Raises Fenced when it is none any
        more."""

    def leave(self, group: str, member: str) -> None:
        """Gives its shards to the others. Nothing happens to who is no member."""

    def groups(self) -> list[GroupInfo]:
        """All groups that have members or committed offsets, by name."""

    def delete_group(self, group: str) -> None:
        """Forgets what the group committed. Raises Fenced while it has members."""

    def offset_for_time(self, topic: str, shard: int, timestamp_ms: int) -> int:
        """The first offset from which on a record of that time or later stands; the end when there
        is none.

        Where retention has removed records of that time, the begin."""

    def compact(self, topic: str) -> None:
        """Removes from a compacted topic the records that a later one of the same key replaces.

        Offsets stay. Records without a value go once they are as old as the topic's
        `delete_retention_ms`."""

    def apply_retention(self) -> None:
        """Removes what the topics' retention allows to remove. To be called now and then."""

    def trim(self, topic: str, shard: int, before: int) -> None:
        """Removes whole segments all of whose records stand before that offset: nobody reads them
        again."""

    def sync(self) -> None:
        """Returns when everything appended so far is on disk, in every fsync mode."""

    def wait_for_data(self, timeout_s: float) -> bool:
        """Waits until something is appended; False when nothing was within `timeout_s`.

        Appends since the same thread's last call count, so that none between its reads and this
        call is missed."""

    def close(self) -> None:
        """Syncs unless the mode is 'none', and releases the folder. Records that were read stay
        valid."""


def appended(broker: Broker, a: Addition) -> Appended:
    """Appends a batch."""
    return broker.append(
        a.topic,
        a.shard,
        a.values,
        keys=a.keys,
        timestamp_ms=a.timestamp_ms,
        writer=a.writer,
        epoch=a.epoch,
        fence=a.fence,
        compression=a.compression,
    )
