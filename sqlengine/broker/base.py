"""The interface of the broker: topics of shards, atomic appends, reads from an offset, committed
offsets."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlengine.broker.errors import BrokerError
from sqlengine.broker.ownership import SESSION_MS, Fence, GroupInfo, Membership
from sqlengine.broker.storage.compression import Compression

IntArray = npt.NDArray[np.int64]
# Values or keys of a batch: Python bytes (None is NULL) or a binary Arrow array.
Column: TypeAlias = "Sequence[bytes | None] | pa.BinaryArray"

_OTHER = re.compile(r"[^A-Za-z0-9._-]")
_MAX_WRITER_BYTES = 1000
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class Records:
    """The result of a read: records in order, without gaps unless the topic is compacted.

    `values` and `keys` may point into the mapped file, and stay valid whatever happens to it. A
    NULL value is a tombstone; `keys` is None when no record has one, else NULL for those without.

    `offsets` and `timestamps` (ms) have an entry per record. The next read starts at `next_offset`,
    also after a read without rows (only a compacted topic has such gaps).
    """

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
    """The offsets of a batch: [first_offset, next_offset). A `duplicate` was not written; both are
    then the end."""

    first_offset: int
    next_offset: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Addition:
    """A batch to append: the arguments of `Broker.append`."""

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
    """The options of a topic that can be altered. None is no limit.

    Retention removes whole segments, oldest first, when all their records are older than
    `retention_ms`, or when the shard without them still has `retention_bytes`. A compacted topic
    has no retention: it keeps the last record per key, and a tombstone for `delete_retention_ms` (a
    day, if that is None). A topic of `max_bytes` rejects appends (TopicFull) until something is
    removed. `compression` is the default for batches.
    """

    retention_ms: int | None
    retention_bytes: int | None
    delete_retention_ms: int | None
    max_bytes: int | None
    compression: Compression


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """The present state of a topic. `begin` and `end` are offsets by shard; `bytes` is its size on
    disk. `damage`: why it can be neither read nor written; its offsets are not known then."""

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
    damage: str | None = None


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """The present state of a shard: offsets [begin, end), bytes on disk, and the number of segments
    by folder."""

    begin: int
    end: int
    bytes: int
    folders: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LookupResult:
    """A record found by key."""

    shard: int
    offset: int
    timestamp_ms: int
    value: bytes


def is_system(name: str) -> bool:
    """True if the topic belongs to the system; callers do not create or write such topics for
    users."""
    return name.startswith("_")


def check_topic_name(name: str) -> None:
    """Raises BrokerError unless `name` has 1 to 200 of the characters A-Z a-z 0-9 . _ -, and is
    neither '.' nor '..', which are folders in the paths of URLs."""
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise BrokerError(
            f"{name!r} is not a topic name",
            detail="a name has 1 to 200 letters, digits, dots, underscores and hyphens, and is"
            " neither '.' nor '..'",
        )


def system_topic(kind: str, name: str) -> str:
    """Returns the name of a system topic for something called `name`; other characters
    become dots."""
    return f"_{kind}_{_OTHER.sub('.', name)}"


def check_stamps(timestamp_ms: int, writer: str | None, epoch: int | None) -> None:
    """Raises BrokerError for a time out of range, and unless writer and epoch are both given, or
    neither."""
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

    Every method that names a topic raises TopicNotFound if it does not exist, and BrokerError for
    an unknown shard. `may_be_away`: topics are on servers behind it, so that what it does may raise
    BrokerAway.
    """

    @property
    def may_be_away(self) -> bool: ...

    def create_topic(
        self,
        name: str,
        shards: int = 1,
        *,
        compacted: bool = False,
        if_not_exists: bool = False,
        **options: Unpack[TopicOptions],
    ) -> TopicInfo:
        """Creates a topic, or with `if_not_exists` returns the existing one, whatever its options.
        Raises TopicExists."""

    def alter_topic(self, name: str, **changes: Unpack[TopicOptions]) -> TopicInfo:
        """Changes these options; others stay."""

    def delete_topic(self, name: str) -> None:
        """Removes the topic, its records, and the offsets that groups committed for it."""

    def topics(self) -> list[TopicInfo]:
        """Returns all topics by name, system topics included."""

    def topic(self, name: str) -> TopicInfo: ...

    def shards(self, topic: str) -> list[ShardInfo]:
        """Returns the topic's shards, from 0 on."""

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
        """Appends all values as one batch, atomically: after a crash the batch exists as a whole or
        not at all.

        `timestamp_ms` is the arrival time of all of them. With `writer` and `epoch`, nothing is
        written if that writer has appended this or a later epoch to the shard before; a batch
        without values then records the epoch. A compacted topic needs a key for every value. The
        batch is compressed with `compression`, by default the topic's, if that makes it smaller.

        Raises BrokerFull (or TopicFull) with nothing written, and Fenced if the claims of `fence`
        belong to another member by now.
        """

    def append_all(self, additions: Sequence[Addition]) -> list[Appended]:
        """Appends several batches in order, each as `append` does. If one is rejected, those before
        it stay."""

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
        """Returns records from `offset` on, at least one and at most as many as the limits allow;
        None at the end.

        Never waits. With `until`, exactly the records of [offset, until), whatever their number and
        size (2 GiB at most). Raises OffsetOutOfRange if `offset` or `until` is before the begin or
        after the end.
        """

    def read_latest(self, topic: str) -> dict[bytes, bytes]:
        """Returns the last value per key over all shards, without keys whose last value is NULL."""

    def lookup(self, topic: str, key: bytes) -> LookupResult | None:
        """Returns the last record of a key in a compacted topic; None if it has none, or a
        tombstone.

        If several shards have the key, the highest wins. The first lookup in a topic reads it once.
        """

    def begin_offset(self, topic: str, shard: int) -> int: ...

    def end_offset(self, topic: str, shard: int) -> int:
        """Returns the offset of the next record to be appended."""

    def last_epoch(self, topic: str, shard: int, writer: str) -> int | None:
        """Returns the last epoch that `writer` appended, even if retention has removed its
        records."""

    def commit(
        self, group: str, topic: str, offsets: Mapping[int, int], *, fence: Fence | None = None
    ) -> None:
        """Stores the offsets per shard at which `group` continues; other shards keep theirs.
        Atomic.

        At start, an offset beyond the end of its shard (lost in a power failure) is set to the end.
        Raises Fenced if the member of `fence` does not own all of these shards, and without a fence
        if any member of the group does. The claims of the fence are not checked.
        """

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Returns shard -> committed offset; shards without a commit are absent."""

    def join(
        self, group: str, member: str, topics: Sequence[str], *, session_ms: int = SESSION_MS
    ) -> Membership:
        """Adds `member` to the group, and reassigns the shards of all members' topics, each to one
        member.

        It stays a member until it leaves, or sends no heartbeat for `session_ms`. If the name is in
        the group already, the new member takes its place, and the former one is fenced.
        """

    def heartbeat(self, group: str, member: str, generation: int) -> Membership:
        """Renews the member's session; returns what it owns now. Raises Fenced if it is no longer a
        member."""

    def leave(self, group: str, member: str) -> None:
        """Removes the member and reassigns its shards; no effect for others."""

    def groups(self) -> list[GroupInfo]:
        """Returns all groups with members or committed offsets, by name."""

    def delete_group(self, group: str) -> None:
        """Deletes the committed offsets of the group. Raises Fenced while it has members."""

    def offset_for_time(self, topic: str, shard: int, timestamp_ms: int) -> int:
        """Returns the first offset whose record is of that time (ms) or later; the end if there is
        none.

        If retention has removed records of that time, the begin.
        """

    def compact(self, topic: str) -> None:
        """Removes from a compacted topic the records that are superseded by a later one of their
        key.

        Offsets stay. Tombstones are removed once they are as old as the topic's
        `delete_retention_ms`.
        """

    def apply_retention(self) -> None:
        """Removes segments as the topics' retention demands; to be called periodically."""

    def trim(self, topic: str, shard: int, before: int) -> None:
        """Removes whole segments whose records are all before that offset."""

    def sync(self) -> None:
        """Returns when everything appended so far is on disk, in every fsync mode."""

    def wait_for_data(self, timeout_s: float) -> bool:
        """Waits until something is appended; False if nothing was within `timeout_s`.

        Appends since the same thread's last call count, so that none between its reads and this
        call is missed.
        """

    def wait_for_records(self, topic: str, shard: int, offset: int, timeout_s: float) -> bool:
        """Waits until a shard has records from `offset` on, whatever is appended to others; False
        if it has none within `timeout_s`."""

    def close(self) -> None:
        """Syncs unless the mode is 'none', and releases the folder. Records read before
        stay valid."""


def await_records(broker: Broker, topic: str, shard: int, offset: int, timeout_s: float) -> bool:
    """Waits as `wait_for_records` does, by the appends to all topics: for a broker that knows no
    better."""
    until = time.monotonic() + timeout_s
    while broker.end_offset(topic, shard) <= offset:
        left = until - time.monotonic()
        if left <= 0:
            return False
        broker.wait_for_data(left)
    return True


def appended(broker: Broker, a: Addition) -> Appended:
    """Appends a batch given as `Addition`."""
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
