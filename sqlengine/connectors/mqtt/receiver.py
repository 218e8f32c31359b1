"""Takes the messages of subscriptions, for all tables that share a connection.

A message is acknowledged behind its append: PUBACK, or PUBREC with QoS 2. A session that the server
keeps sends what was not acknowledged again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from sqlengine.connectors.mqtt.account import Account
from sqlengine.connectors.mqtt.connection import Connection, ConnectionLost
from sqlengine.connectors.mqtt.deduplication import MessageKey
from sqlengine.connectors.mqtt.metadata import Metadata, decode_metadata, encode_metadata
from sqlengine.connectors.mqtt.packets import (
    Kind,
    Packet,
    Publish,
    acknowledgements,
    subscribe,
    unsubscribe,
)
from sqlengine.connectors.mqtt.properties import decoded_properties
from sqlengine.connectors.mqtt.reasons import refusal
from sqlengine.connectors.mqtt.subscriptions import Subscriptions
from sqlengine.connectors.mqtt.topics import filters_of
from sqlengine.connectors.receivers.base import Batch, KeyOf, Receiver, Stream, Tail, Taken

# Bytes of messages that are taken at once, at most.
_MOST: Final = 8 << 20
# Fewer messages than that wait some ms for others, as an append costs the same for all.
_FEW, _GATHER_S = 200, 0.005
# After waiting in vain so many batches do not wait.
_IN_VAIN: Final = 30
# Codes of subscriptions above it are refusals.
_HIGHEST_QOS: Final = 2
# Different messages whose metadata and streams are known, and the bytes of these.
_KNOWN: Final = 50_000
_KNOWN_BYTES: Final = 32 << 20


class _Two(NamedTuple):
    """A message of QoS 2: what it is, and the topics of the logs that have it."""

    digest: int
    logs: frozenset[str]

    def with_logs_of(self, other: _Two | None) -> _Two:
        """Returns it with the logs of another one as well, if that is the same message."""
        if other is None or other.digest != self.digest:
            return self
        return _Two(self.digest, self.logs | other.logs)


class MqttReceiver(Receiver):
    """Takes the messages of all streams over one connection."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._connection: Connection | None = None
        self._subscriptions = Subscriptions()
        self._refused: dict[str, str] = {}  # why, by filter
        # By what tells the metadata and the streams of a message: these.
        self._known: dict[tuple[int, bytes, bytes], tuple[bytes, tuple[str, ...]]] = {}
        self._known_bytes = 0
        # Numbers of packets of QoS 1 and 2 that were taken and not acknowledged.
        self._ones: list[int] = []
        self._twos: dict[int, _Two] = {}
        # Those of QoS 2 that the server has not released, by number.
        self._unreleased: dict[int, _Two] | None = None
        self._in_vain = 0
        self._unwanted = 0

    @property
    def unwanted(self) -> int:
        """See `Receiver`."""
        return self._unwanted

    def adopt(self, other: Receiver) -> None:
        """See `Receiver`."""
        assert isinstance(other, MqttReceiver)
        self._account = other._account

    def refused(self, stream: Stream) -> str | None:
        """See `Receiver`."""
        filters = filters_of(stream.what["topic"])
        bad = [reason for one in filters if (reason := self._refused.get(one))]
        return f"{self._account.address} refuses {', '.join(bad)}" if bad else None

    def key_of(self, stream: Stream) -> tuple[KeyOf, int] | None:
        """See `Receiver`."""
        text = stream.what.get("deduplicate.key")
        return None if text is None else (MessageKey(text), int(stream.what["deduplicate.window"]))

    # ---- the connection --------------------------------------------------------------------------

    def connect(self, streams: Sequence[Stream], gone: Sequence[Stream], tail: Tail) -> None:
        """See `Receiver`."""
        self.close()
        self._connection = Connection(self._account)
        self._subscriptions.forget()
        self.follow(streams, gone)
        if self._unreleased is None:
            self._unreleased = self._last_twos(streams, tail)
        if not self._connection.resumed:
            self._unreleased.clear()

    def _last_twos(self, streams: Sequence[Stream], tail: Tail) -> dict[int, _Two]:
        """Returns the messages of QoS 2 that a process before this one may not have confirmed."""
        found: dict[int, _Two] = {}
        for stream in streams:
            if self._subscriptions.qos(stream.topic) == 2:
                last = tail(stream.topic, self._account.in_flight)
                for payload, metadata in zip(last.values, last.metadata, strict=True):
                    kept = decode_metadata(metadata)
                    if kept.number:
                        two = _Two(_digest(kept.topic.encode(), payload), frozenset({stream.topic}))
                        found[kept.number] = two.with_logs_of(found.get(kept.number))
        return found

    def follow(self, streams: Sequence[Stream], gone: Sequence[Stream]) -> None:
        """See `Receiver`."""
        connection, version = self._open(), self._account.version
        self._known.clear()
        made, ended = self._subscriptions.update(streams, gone)
        if ended:
            connection.send(unsubscribe(version, connection.next_number(), ended))
        asked = [(connection.next_number(), one) for one in made]
        connection.send(b"".join(subscribe(version, number, *one) for number, one in asked))
        for number, one in asked:
            code = connection.answer(Kind.SUBACK, number).code
            self._refused.pop(one.filter, None)
            if code > _HIGHEST_QOS:
                self._refused[one.filter] = f"'{one.filter}' ({refusal(code)})"

    def _open(self) -> Connection:
        if self._connection is None:
            raise ConnectionLost(f"no connection to {self._account.address}")
        return self._connection

    def rest(self) -> None:
        """See `Receiver`."""
        self._open().keep_alive(deaf=True)

    def close(self) -> None:
        """See `Receiver`."""
        connection, self._connection = self._connection, None
        self._ones, self._twos = [], {}
        if connection is not None:
            connection.close()

    # ---- messages --------------------------------------------------------------------------------

    def take(self, wait_s: float) -> Batch:
        """See `Receiver`."""
        connection, found = self._open(), dict[str, Taken]()
        packets = connection.receive(wait_s)
        size, waits = self._sort(packets, found), not self._in_vain
        if 0 < len(packets) < _FEW:
            if waits:
                time.sleep(_GATHER_S)
            more = connection.receive(0.0)
            self._in_vain = max(self._in_vain - 1, 0) if more or not waits else _IN_VAIN
            size += self._sort(more, found)
            packets = more
        while len(packets) >= _FEW and size < _MOST:
            packets = connection.receive(0.0)
            size += self._sort(packets, found)
        if not found and (self._ones or self._twos):
            self.acknowledge()  # messages that nobody wants
        return found

    def _sort(self, packets: Sequence[Publish | Packet], found: dict[str, Taken]) -> int:
        """Adds messages to those of their streams, and answers what else came; returns the bytes of
        the messages."""
        size, known = 0, self._known
        for packet in packets:
            if not isinstance(packet, Publish):
                self._answer(packet)
                continue
            flags, payload = packet.flags, packet.payload
            qos = flags >> 1 & 3
            size += len(payload)
            what = (flags & 7, packet.topic, packet.properties)
            metadata, streams = known.get(what) or self._know(what)
            if not streams:
                self._unwanted += 1
            if qos == 1:
                self._ones.append(packet.number)
            elif qos == 2:
                metadata = self._metadata(*what, packet.number)
                streams = self._without_repeated(packet, streams)
            for stream in streams:
                taken = found.get(stream)
                if taken is None:
                    taken = found[stream] = Taken()
                taken.values.append(payload)
                taken.metadata.append(metadata)
        return size

    def _without_repeated(self, message: Publish, streams: tuple[str, ...]) -> tuple[str, ...]:
        """Notes a message of QoS 2; returns the streams whose logs do not have it yet."""
        assert self._unreleased is not None
        two = _Two(_digest(message.topic, message.payload), frozenset(streams))
        before = self._unreleased.get(message.number) if message.repeated else None
        self._twos[message.number] = two.with_logs_of(before)
        if before is None or before.digest != two.digest:
            return streams
        return tuple(one for one in streams if one not in before.logs)

    def _know(self, what: tuple[int, bytes, bytes]) -> tuple[bytes, tuple[str, ...]]:
        """Returns the metadata of messages of a kind, and the streams that they are for."""
        if len(self._known) >= _KNOWN or self._known_bytes >= _KNOWN_BYTES:
            self._known.clear()
            self._known_bytes = 0
        flags, topic, properties = what
        try:
            metadata, named = self._metadata(*what, 0), decoded_properties(properties).subscriptions
        except ValueError as error:
            raise ConnectionLost(f"no connection to {self._account.address}: {error}") from None
        name = topic.decode(errors="replace")
        streams = self._subscriptions.streams_of(name, named, retained=bool(flags & 1))
        found = metadata, streams
        self._known[what] = found
        self._known_bytes += len(topic) + len(properties) + len(metadata)
        return found

    def _metadata(self, flags: int, topic: bytes, properties: bytes, number: int) -> bytes:
        name = topic.decode(errors="replace")
        told = decoded_properties(properties)
        return encode_metadata(Metadata.of(name, flags >> 1 & 3, bool(flags & 1), number, told))

    def _answer(self, packet: Packet) -> None:
        """Answers a packet that is no message."""
        if packet.kind is Kind.PUBREL:
            assert self._unreleased is not None
            self._unreleased.pop(packet.number, None)
            self._open().send(acknowledgements(Kind.PUBCOMP, [packet.number]))

    def acknowledge(self) -> None:
        """See `Receiver`."""
        ones, twos = self._ones, self._twos
        self._ones, self._twos = [], {}
        if twos:
            assert self._unreleased is not None
            self._unreleased |= twos
        if ones or twos:
            done = acknowledgements(Kind.PUBACK, ones) + acknowledgements(Kind.PUBREC, twos)
            self._open().send(done)


def _digest(topic: bytes, payload: bytes) -> int:
    return xxh3_64_intdigest(topic + b"\0" + payload)
