"""The messages between a broker and other processes: one MessagePack message each way, over any
transport.

Batches are sent as the appending client has encoded them, and returned as they are in the files.
"""

from __future__ import annotations

import time
from typing import Protocol, TypeAlias

import msgspec

from parser.errors import ServiceError
from sqlengine.broker import errors
from sqlengine.broker.base import Appended, Broker, TopicOptions
from sqlengine.broker.errors import BrokerError, TooFast
from sqlengine.broker.ownership import Fence
from sqlengine.broker.storage.codec import Payload, check
from sqlengine.broker.storage.reading import Batches, ReadBounds

MAX_WAIT_S = 1.0


class Served(Broker, Protocol):
    """A broker that takes and returns encoded batches."""

    def append_payload(
        self,
        topic: str,
        shard: int,
        payload: Payload,
        *,
        timestamp_ms: int,
        writer: str | None,
        epoch: int | None,
        fence: Fence | None,
    ) -> Appended: ...

    def read_batches(
        self, topic: str, shard: int, offset: int, limits: ReadBounds
    ) -> Batches | None: ...

    def wait_beyond(self, seen: int, timeout_s: float) -> int:
        """Returns the number of appends once it is not `seen` any more, or after that time."""


class Request(msgspec.Struct, frozen=True, tag=True):
    """A request; `execute` returns the result. The tags on the wire are the names of the
    subclasses."""

    def execute(self, broker: Served) -> object:
        raise NotImplementedError


class CreateTopic(Request, frozen=True):
    topic: str
    shards: int
    compacted: bool
    if_not_exists: bool
    options: TopicOptions

    def execute(self, broker: Served) -> object:
        return broker.create_topic(
            self.topic,
            self.shards,
            compacted=self.compacted,
            if_not_exists=self.if_not_exists,
            **self.options,
        )


class AlterTopic(Request, frozen=True):
    topic: str
    changes: TopicOptions

    def execute(self, broker: Served) -> object:
        return broker.alter_topic(self.topic, **self.changes)


class DeleteTopic(Request, frozen=True):
    topic: str

    def execute(self, broker: Served) -> None:
        broker.delete_topic(self.topic)


class Topics(Request, frozen=True):
    def execute(self, broker: Served) -> object:
        return broker.topics()


class GetTopic(Request, frozen=True):
    topic: str

    def execute(self, broker: Served) -> object:
        return broker.topic(self.topic)


class Shards(Request, frozen=True):
    topic: str

    def execute(self, broker: Served) -> object:
        return broker.shards(self.topic)


class Append(Request, frozen=True):
    topic: str
    shard: int
    payload: Payload
    timestamp_ms: int
    writer: str | None = None
    epoch: int | None = None
    fence: Fence | None = None

    def execute(self, broker: Served) -> object:
        check(self.payload)
        return broker.append_payload(
            self.topic,
            self.shard,
            self.payload,
            timestamp_ms=self.timestamp_ms,
            writer=self.writer,
            epoch=self.epoch,
            fence=self.fence,
        )


class AppendAll(Request, frozen=True):
    appends: tuple[Append, ...]

    def execute(self, broker: Served) -> object:
        return [append.execute(broker) for append in self.appends]


def appends_of(request: Request) -> tuple[Append, ...]:
    """Returns the appends of a request."""
    if isinstance(request, AppendAll):
        return request.appends
    return (request,) if isinstance(request, Append) else ()


class Read(Request, frozen=True):
    topic: str
    shard: int
    offset: int
    max_records: int
    max_bytes: int
    until: int | None

    def execute(self, broker: Served) -> object:
        limits = ReadBounds(self.max_records, self.max_bytes, self.until)
        return broker.read_batches(self.topic, self.shard, self.offset, limits)


class ReadAll(Request, frozen=True):
    """Several reads; waits up to `timeout_s` until one of them has data."""

    reads: tuple[Read, ...]
    timeout_s: float = 0.0

    def execute(self, broker: Served) -> object:
        until = time.monotonic() + min(self.timeout_s, MAX_WAIT_S)
        seen = broker.wait_beyond(-1, 0)
        while not self._any(broker) and (left := until - time.monotonic()) > 0:
            seen = broker.wait_beyond(seen, left)
        return [read.execute(broker) for read in self.reads]

    def _any(self, broker: Served) -> bool:
        return any(broker.end_offset(read.topic, read.shard) > read.offset for read in self.reads)


class Lookup(Request, frozen=True):
    topic: str
    key: bytes

    def execute(self, broker: Served) -> object:
        return broker.lookup(self.topic, self.key)


class BeginOffset(Request, frozen=True):
    topic: str
    shard: int

    def execute(self, broker: Served) -> object:
        return broker.begin_offset(self.topic, self.shard)


class EndOffset(Request, frozen=True):
    topic: str
    shard: int

    def execute(self, broker: Served) -> object:
        return broker.end_offset(self.topic, self.shard)


class LastEpoch(Request, frozen=True):
    topic: str
    shard: int
    writer: str

    def execute(self, broker: Served) -> object:
        return broker.last_epoch(self.topic, self.shard, self.writer)


class OffsetForTime(Request, frozen=True):
    topic: str
    shard: int
    timestamp_ms: int

    def execute(self, broker: Served) -> object:
        return broker.offset_for_time(self.topic, self.shard, self.timestamp_ms)


class Commit(Request, frozen=True):
    group: str
    topic: str
    offsets: dict[int, int]
    fence: Fence | None

    def execute(self, broker: Served) -> None:
        broker.commit(self.group, self.topic, self.offsets, fence=self.fence)


class Committed(Request, frozen=True):
    group: str
    topic: str

    def execute(self, broker: Served) -> object:
        return broker.committed(self.group, self.topic)


class Join(Request, frozen=True):
    group: str
    member: str
    topics: tuple[str, ...]
    session_ms: int

    def execute(self, broker: Served) -> object:
        return broker.join(self.group, self.member, self.topics, session_ms=self.session_ms)


class Heartbeat(Request, frozen=True):
    group: str
    member: str
    generation: int

    def execute(self, broker: Served) -> object:
        return broker.heartbeat(self.group, self.member, self.generation)


class Leave(Request, frozen=True):
    group: str
    member: str

    def execute(self, broker: Served) -> None:
        broker.leave(self.group, self.member)


class Groups(Request, frozen=True):
    def execute(self, broker: Served) -> object:
        return broker.groups()


class DeleteGroup(Request, frozen=True):
    group: str

    def execute(self, broker: Served) -> None:
        broker.delete_group(self.group)


class Compact(Request, frozen=True):
    topic: str

    def execute(self, broker: Served) -> None:
        broker.compact(self.topic)


class ApplyRetention(Request, frozen=True):
    def execute(self, broker: Served) -> None:
        broker.apply_retention()


class Trim(Request, frozen=True):
    topic: str
    shard: int
    before: int

    def execute(self, broker: Served) -> None:
        broker.trim(self.topic, self.shard, self.before)


class Sync(Request, frozen=True):
    def execute(self, broker: Served) -> None:
        broker.sync()


class Wait(Request, frozen=True):
    seen: int
    timeout_s: float

    def execute(self, broker: Served) -> object:
        return broker.wait_beyond(self.seen, min(self.timeout_s, MAX_WAIT_S))


AnyRequest: TypeAlias = (
    CreateTopic
    | AlterTopic
    | DeleteTopic
    | Topics
    | Trim
    | GetTopic
    | Shards
    | Append
    | AppendAll
    | Read
    | ReadAll
    | Lookup
    | BeginOffset
    | EndOffset
    | LastEpoch
    | OffsetForTime
    | Commit
    | Committed
    | Join
    | Heartbeat
    | Leave
    | Groups
    | DeleteGroup
    | Compact
    | ApplyRetention
    | Sync
    | Wait
)
# Requests that are not idempotent.
NOT_IDEMPOTENT: tuple[type[Request], ...] = (Append, AppendAll, CreateTopic, DeleteTopic, Join)


class Failure(msgspec.Struct, frozen=True):
    """An error to raise in the client; `kind` is the name of its class."""

    kind: str
    message: str
    detail: str | None = None
    hint: str | None = None
    retry_ms: int = 0

    @classmethod
    def of(cls, error: ServiceError) -> Failure:
        """Returns what travels of an error: of what a cluster behind the broker says, that it is
        away."""
        known = (k for k in type(error).__mro__ if k.__module__ == errors.__name__)
        kind = next(known, type(error))
        retry_ms = error.retry_ms if isinstance(error, TooFast) else 0
        return cls(kind.__name__, error.message, error.detail, error.hint, retry_ms)

    def error(self) -> BrokerError:
        kind = getattr(errors, self.kind, BrokerError)
        if not (isinstance(kind, type) and issubclass(kind, BrokerError)):
            kind = BrokerError
        error = kind.__new__(kind)  # some have other parameters
        BrokerError.__init__(error, self.message, detail=self.detail, hint=self.hint)
        if isinstance(error, TooFast):
            error.retry_ms = self.retry_ms
        return error


class Response(msgspec.Struct, frozen=True, array_like=True):
    result: object = None
    failure: Failure | None = None


class RawResponse(msgspec.Struct, frozen=True, array_like=True):
    """A response whose result is still to be decoded."""

    result: msgspec.Raw
    failure: Failure | None
