"""A client of the broker of a server: the same interface, over HTTP or another transport."""

from __future__ import annotations

import http.client
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, TypeAlias, TypeVar, Unpack

import msgspec

from sqlengine.broker.base import (
    Addition,
    Appended,
    Column,
    LookupResult,
    Records,
    ShardInfo,
    TopicInfo,
    TopicOptions,
    await_records,
)
from sqlengine.broker.errors import BrokerError, BrokerUnreachable
from sqlengine.broker.ownership import SESSION_MS, Fence, GroupInfo, Membership
from sqlengine.broker.remote.wire import (
    MAX_WAIT_S,
    NOT_IDEMPOTENT,
    AlterTopic,
    Append,
    AppendAll,
    ApplyRetention,
    BeginOffset,
    Commit,
    Committed,
    Compact,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    EndOffset,
    GetTopic,
    Groups,
    Heartbeat,
    Join,
    LastEpoch,
    Leave,
    Lookup,
    OffsetForTime,
    RawResponse,
    Read,
    ReadAll,
    Request,
    Shards,
    Sync,
    Topics,
    Trim,
    Wait,
    appends_of,
)
from sqlengine.broker.storage.codec import compress, encode
from sqlengine.broker.storage.compression import Compression
from sqlengine.broker.storage.latest_values import latest_values
from sqlengine.broker.storage.reading import Batches, ReadBounds, records_of
from sqlengine.system.client_tls import ClientTls, explained
from sqlengine.system.http_connections import ConnectionPool, local_path

T = TypeVar("T")
PATH = "/api/v1/broker"
_TIMEOUT_S = 300
_RETRY_S = 0.05

Transport: TypeAlias = Callable[[bytes, bool], bytes]

_RESPONSE = msgspec.msgpack.Decoder(RawResponse)
_NOTHING: msgspec.msgpack.Decoder[None] = msgspec.msgpack.Decoder(None)
_NUMBER = msgspec.msgpack.Decoder(int)
_MAYBE_NUMBER: msgspec.msgpack.Decoder[int | None] = msgspec.msgpack.Decoder(int | None)
_FOUND: msgspec.msgpack.Decoder[LookupResult | None] = msgspec.msgpack.Decoder(LookupResult | None)
_OFFSETS = msgspec.msgpack.Decoder(dict[int, int])
_TOPIC = msgspec.msgpack.Decoder(TopicInfo)
_TOPICS = msgspec.msgpack.Decoder(list[TopicInfo])
_SHARDS = msgspec.msgpack.Decoder(list[ShardInfo])
_APPENDED = msgspec.msgpack.Decoder(Appended)
_ALL_APPENDED = msgspec.msgpack.Decoder(list[Appended])
_BATCHES: msgspec.msgpack.Decoder[Batches | None] = msgspec.msgpack.Decoder(Batches | None)
_ALL_BATCHES: msgspec.msgpack.Decoder[list[Batches | None]] = msgspec.msgpack.Decoder(
    list[Batches | None]
)
_MEMBERSHIP = msgspec.msgpack.Decoder(Membership)
_GROUPS = msgspec.msgpack.Decoder(list[GroupInfo])


class RemoteBroker:
    """A `Broker` behind `transport`, which sends a request and returns the response (see wire).

    The transport's second argument tells whether it may repeat the request when the response is
    lost. Batches are encoded and decoded here.
    """

    may_be_away: ClassVar[bool] = False

    def __init__(self, transport: Transport, close: Callable[[], None] = lambda: None) -> None:
        self._transport = transport
        # A transport may send requests that wait by another way.
        self._waiting: Transport = getattr(transport, "waiting", transport)
        self._close = close
        self._seen = threading.local()
        self._compressions: dict[str, Compression] = {}

    def _request(self, request: Request, decoder: msgspec.msgpack.Decoder[T]) -> T:
        retryable = not isinstance(request, NOT_IDEMPOTENT) or (
            isinstance(request, Append | AppendAll)
            and all(a.writer is not None for a in appends_of(request))
        )
        waits = isinstance(request, Wait | ReadAll) and request.timeout_s > 0
        transport = self._waiting if waits else self._transport
        response = _RESPONSE.decode(transport(msgspec.msgpack.encode(request), retryable))
        if response.failure is not None:
            raise response.failure.error()
        return decoder.decode(response.result)

    def create_topic(
        self,
        name: str,
        shards: int = 1,
        *,
        compacted: bool = False,
        if_not_exists: bool = False,
        **options: Unpack[TopicOptions],
    ) -> TopicInfo:
        return self._request(CreateTopic(name, shards, compacted, if_not_exists, options), _TOPIC)

    def alter_topic(self, name: str, **changes: Unpack[TopicOptions]) -> TopicInfo:
        return self._request(AlterTopic(name, changes), _TOPIC)

    def delete_topic(self, name: str) -> None:
        self._execute(DeleteTopic(name))

    def topics(self) -> list[TopicInfo]:
        return self._request(Topics(), _TOPICS)

    def topic(self, name: str) -> TopicInfo:
        return self._request(GetTopic(name), _TOPIC)

    def shards(self, topic: str) -> list[ShardInfo]:
        return self._request(Shards(topic), _SHARDS)

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
        addition = Addition(
            topic, shard, values, timestamp_ms, keys, writer, epoch, fence, compression
        )
        return self._request(self._encoded(addition), _APPENDED)

    def append_all(self, additions: Sequence[Addition]) -> list[Appended]:
        return (
            self._request(AppendAll(tuple(map(self._encoded, additions))), _ALL_APPENDED)
            if additions
            else []
        )

    def _encoded(self, a: Addition) -> Append:
        payload = compress(encode(a.values, a.keys), a.compression or self._compression(a.topic))
        return Append(a.topic, a.shard, payload, a.timestamp_ms, a.writer, a.epoch, a.fence)

    def _compression(self, topic: str) -> Compression:
        """Returns the topic's compression as of the first append; readers handle any."""
        known = self._compressions.get(topic)
        if known is None:
            known = self._compressions[topic] = self.topic(topic).compression
        return known

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
        request = Read(topic, shard, offset, max_records, max_bytes, until)
        batches = self._request(request, _BATCHES)
        return None if batches is None else self.decoded(request, batches)

    def read_all(self, reads: tuple[Read, ...], timeout_s: float = 0.0) -> list[Batches | None]:
        """Executes several reads, each result to be `decoded`; waits `timeout_s` (1 s at most)
        until one has data.

        Raises the error of the first read that fails.
        """
        return self._request(ReadAll(reads, timeout_s), _ALL_BATCHES)

    def decoded(self, request: Read, batches: Batches) -> Records:
        """Decodes the records of a read."""
        limits = ReadBounds(request.max_records, request.max_bytes, request.until)
        return records_of(
            request.topic, request.shard, [batches.run()], batches.reached, request.offset, limits
        )

    def read_latest(self, topic: str) -> dict[bytes, bytes]:
        info = self.topic(topic)
        if not info.compacted:
            raise BrokerError(
                f"topic {topic!r} is not compacted", hint="create it with compacted = true"
            )
        values: dict[bytes, bytes] = {}
        for shard, begin in enumerate(info.begin):
            values |= latest_values(partial(self.read, topic, shard), begin)
        return values

    def lookup(self, topic: str, key: bytes) -> LookupResult | None:
        return self._request(Lookup(topic, key), _FOUND)

    def begin_offset(self, topic: str, shard: int) -> int:
        return self._request(BeginOffset(topic, shard), _NUMBER)

    def end_offset(self, topic: str, shard: int) -> int:
        return self._request(EndOffset(topic, shard), _NUMBER)

    def last_epoch(self, topic: str, shard: int, writer: str) -> int | None:
        return self._request(LastEpoch(topic, shard, writer), _MAYBE_NUMBER)

    def commit(
        self, group: str, topic: str, offsets: Mapping[int, int], *, fence: Fence | None = None
    ) -> None:
        self._execute(Commit(group, topic, dict(offsets), fence))

    def committed(self, group: str, topic: str) -> dict[int, int]:
        return self._request(Committed(group, topic), _OFFSETS)

    def join(
        self, group: str, member: str, topics: Sequence[str], *, session_ms: int = SESSION_MS
    ) -> Membership:
        return self._request(Join(group, member, tuple(topics), session_ms), _MEMBERSHIP)

    def heartbeat(self, group: str, member: str, generation: int) -> Membership:
        return self._request(Heartbeat(group, member, generation), _MEMBERSHIP)

    def leave(self, group: str, member: str) -> None:
        self._execute(Leave(group, member))

    def groups(self) -> list[GroupInfo]:
        return self._request(Groups(), _GROUPS)

    def delete_group(self, group: str) -> None:
        self._execute(DeleteGroup(group))

    def offset_for_time(self, topic: str, shard: int, timestamp_ms: int) -> int:
        return self._request(OffsetForTime(topic, shard, timestamp_ms), _NUMBER)

    def compact(self, topic: str) -> None:
        self._execute(Compact(topic))

    def apply_retention(self) -> None:
        self._execute(ApplyRetention())

    def trim(self, topic: str, shard: int, before: int) -> None:
        self._execute(Trim(topic, shard, before))

    def sync(self) -> None:
        self._execute(Sync())

    def wait_for_data(self, timeout_s: float) -> bool:
        seen: int = getattr(self._seen, "count", 0)
        until = time.monotonic() + timeout_s
        while True:
            asked = time.monotonic()
            wait = max(0.0, min(until - asked, MAX_WAIT_S))
            count = self._seen.count = self._request(Wait(seen, wait), _NUMBER)
            now = time.monotonic()
            if count != seen or now >= until:
                return count != seen
            if now - asked < wait / 2:  # the server has too many waiting requests: it did not wait
                time.sleep(min(_RETRY_S, until - now))

    def wait_for_records(self, topic: str, shard: int, offset: int, timeout_s: float) -> bool:
        return await_records(self, topic, shard, offset, timeout_s)

    def close(self) -> None:
        """Closes the transport; the server's broker stays open."""
        self._close()

    def _execute(self, request: Request) -> None:
        self._request(request, _NOTHING)


class HttpTransport:
    """POSTs requests to a server's `PATH` over pooled connections, as many as threads use at once.

    Raises BrokerUnreachable if nothing answers, or something else does.
    """

    def __init__(self, server: str, token: str | None = None, tls: ClientTls | None = None) -> None:
        parts = urllib.parse.urlsplit(server)
        web = parts.scheme in ("http", "https") and parts.hostname
        if not web and local_path(server) is None:
            raise BrokerError(
                f"{server!r} is not the URL of a server", hint="write it like http://127.0.0.1:8083"
            )
        self._server = server
        self._pool = ConnectionPool(server, _TIMEOUT_S, tls or ClientTls())
        self._headers = {"Content-Type": "application/msgpack"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def __call__(self, request_data: bytes, retryable: bool) -> bytes:
        return self._ask(request_data, retryable, self._headers)

    def waiting(self, request_data: bytes, retryable: bool) -> bytes:
        """Sends a request that waits for data, and says so: the server has threads for those."""
        return self._ask(request_data, retryable, {**self._headers, "Prefer": "wait=1"})

    def close(self) -> None:
        """Closes the idle connections; requests open new ones."""
        self._pool.close()

    def _ask(self, request_data: bytes, retryable: bool, headers: dict[str, str]) -> bytes:
        try:
            answer = self._pool.request("POST", PATH, request_data, headers, retryable=retryable)
        except (http.client.HTTPException, OSError) as error:
            raise self._unreachable(error, retryable) from None
        if answer.status != 200:
            raise BrokerUnreachable(
                f"{self._server} does not serve its broker",
                detail=f"status {answer.status}: {answer.data[:200].decode('utf-8', 'replace')}",
                hint="is the URL right, and the token?",
            )
        return answer.data

    def _unreachable(self, error: Exception, retryable: bool) -> BrokerUnreachable:
        if (problem := explained(self._server, error)) is not None:
            return BrokerUnreachable(problem.message, detail=problem.detail, hint=problem.hint)
        unknown = "" if retryable else "; whether the server did what it was asked for is not known"
        return BrokerUnreachable(
            f"no answer from {self._server}",
            detail=f"{str(error) or type(error).__name__}{unknown}",
        )


def connect(server: str, token: str | None = None, tls: ClientTls | None = None) -> RemoteBroker:
    """Returns a client of the broker of the server at that URL, or at unix:PATH."""
    transport = HttpTransport(server, token, tls)
    return RemoteBroker(transport, transport.close)
