"""Packets of MQTT 3.1.1 and 5: bytes to packets and back.

A reader is fed with what a connection brings, in pieces of any size; the packets that a client
sends are functions that return bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from parser.errors import ServiceError
from sqlengine.connectors.mqtt.properties import Properties, encoded_properties, length_prefix

Version: TypeAlias = Literal[4, 5]
V311: Final = 4
V5: Final = 5

# The largest packet that is taken: 16 MB of payload, and what may stand around it.
LARGEST: Final = (16 << 20) + (1 << 18)


class Kind(IntEnum):
    """The kinds of packets, as the first four bits of each name them."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


PING: Final = bytes([Kind.PINGREQ << 4, 0])
DISCONNECT: Final = bytes([Kind.DISCONNECT << 4, 0])
_RETAIN, _DUPLICATE = 1, 8
_RETAINED_IF_NEW: Final = 16  # an option of a subscription
# The kind that each packet is compared with: a member of `Kind` takes three times as long.
_PUBLISH: Final = int(Kind.PUBLISH)


class Malformed(ServiceError):
    """Bytes that are no packet of MQTT have come."""


class Publish(msgspec.Struct, frozen=True, gc=False):
    """A message. `flags`: the last four bits of its first byte; `number`: that of its packet, 0
    with QoS 0; `properties`: as they came, those of MQTT 5.

    Thousands of them live at once, and are nothing to the collector of garbage, since what they
    hold holds nothing."""

    flags: int
    topic: bytes
    number: int
    properties: bytes
    payload: bytes

    @property
    def qos(self) -> int:
        return self.flags >> 1 & 3

    @property
    def retained(self) -> bool:
        return bool(self.flags & _RETAIN)

    @property
    def repeated(self) -> bool:
        """True if it may have been sent before."""
        return bool(self.flags & _DUPLICATE)


class Packet(NamedTuple):
    """Any other packet."""

    kind: Kind
    body: bytes

    @property
    def number(self) -> int:
        """The number of the packet that this one answers."""
        return int.from_bytes(self.body[:2], "big")

    @property
    def reason(self) -> int:
        """The reason code of an acknowledgement: 0 where it has none."""
        return self.body[2] if len(self.body) > 2 else 0

    @property
    def code(self) -> int:
        """The last byte: what a subscription of one filter is answered. `Malformed` without."""
        if len(self.body) < 3:
            raise Malformed("a packet of MQTT ends too early")
        return self.body[-1]


class PacketReader:
    """Takes apart the bytes that a connection brings."""

    def __init__(self, version: Version) -> None:
        self._five = version == V5
        self._rest = bytearray()
        self._missing = 0  # bytes until the packet in `_rest` is complete, if that is known

    def feed(self, data: bytes) -> list[Publish | Packet]:
        """Returns the packets that are complete with these bytes. `Malformed` where they are
        none."""
        if self._rest:
            self._rest += data
            self._missing -= len(data)
            if self._missing > 0:
                return []
            data = bytes(self._rest)
            self._rest.clear()
        found: list[Publish | Packet] = []
        try:
            end = self._packets(data, found)
        except IndexError:
            raise Malformed("a packet of MQTT ends too early") from None
        if end < len(data):
            self._rest += data[end:]
        return found

    def _packets(self, data: bytes, found: list[Publish | Packet]) -> int:
        """Adds the packets of `data`, and returns where the first incomplete one begins."""
        at, size, five = 0, len(data), self._five
        self._missing = 0
        while size - at >= 2:
            length, body = data[at + 1], at + 2
            if length > 127:
                taken = _varint(data, at + 1)
                if taken is None:
                    return at
                length, body = taken
                if length > LARGEST:
                    raise Malformed(f"a packet of MQTT has {length:,} bytes")
            end = body + length
            if end > size:
                self._missing = end - size
                return at
            kind = data[at] >> 4
            if kind == _PUBLISH:
                found.append(_publish(data, at, body, end, five))
            elif kind:
                found.append(Packet(Kind(kind), data[body:end]))
            else:
                raise Malformed("what answers does not speak MQTT")
            at = end
        return at


def _publish(data: bytes, first: int, at: int, end: int, five: bool) -> Publish:
    """Returns the message whose packet has its first byte at `first`, and the rest from `at` on."""
    flags, begin = data[first] & 15, at + 2
    at = begin + (data[at] << 8 | data[at + 1])
    topic, number, properties = data[begin:at], 0, b""
    if flags & 6:
        number = data[at] << 8 | data[at + 1]
        at += 2
    if five:
        length = data[at]
        at += 1
        if length > 127:
            taken = _varint(data, at - 1)
            if taken is None:
                raise Malformed("a packet of MQTT ends too early")
            length, at = taken
        if length:
            properties = data[at : at + length]
            at += length
    if at > end:
        raise Malformed("a packet of MQTT ends too early")
    return Publish(flags, topic, number, properties, data[at:end])


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """Returns the number of 1 to 4 bytes at a place, and where it ends; None where it does not."""
    if len(data) - at > 1 and data[at + 1] < 128 <= data[at]:  # two bytes: most messages
        return data[at] & 127 | data[at + 1] << 7, at + 2
    value = 0
    for index, byte in enumerate(data[at : at + 4]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, at + index + 1
    if len(data) - at >= 4:
        raise Malformed("what answers does not speak MQTT")
    return None


# ---- what a client sends -------------------------------------------------------------------------


@dataclass(frozen=True)
class Will:
    """The message that the server publishes when the client is gone."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


def connect(
    version: Version,
    client: str,
    *,
    clean: bool,
    keep_alive_s: int,
    user: str | None,
    password: str | None,
    will: Will | None,
    properties: Mapping[int, int],
) -> bytes:
    """Returns the packet that begins a connection."""
    flags = 2 * clean
    parts = [_text(client)]
    if will is not None:
        flags |= 4 | will.qos << 3 | 32 * will.retain
        parts += [b"\0"] if version == V5 else []
        parts += [_text(will.topic), struct.pack("!H", len(will.payload)), will.payload]
    if user is not None:
        flags |= 128
        parts.append(_text(user))
    if password is not None:
        flags |= 64
        parts.append(_text(password))
    head = _text("MQTT") + struct.pack("!BBH", version, flags, keep_alive_s)
    if version == V5:
        head += encoded_properties(properties)
    return _packet(Kind.CONNECT, 0, head + b"".join(parts))


def subscribe(
    version: Version, number: int, filter_: str, qos: int, identifier: int, anew: bool = False
) -> bytes:
    """Returns the packet that asks for the messages of a filter. With MQTT 5 each of these names
    the `identifier`, and retained ones come with a new subscription only, or with any (`anew`)."""
    five = version == V5
    head = struct.pack("!H", number)
    head += encoded_properties({Properties.SUBSCRIPTION: identifier}) if five else b""
    options = qos | (_RETAINED_IF_NEW if five and not anew else 0)
    return _packet(Kind.SUBSCRIBE, 2, head + _text(filter_) + bytes([options]))


def unsubscribe(version: Version, number: int, filters: Sequence[str]) -> bytes:
    """Returns the packet that ends subscriptions."""
    head = struct.pack("!H", number) + (b"\0" if version == V5 else b"")
    return _packet(Kind.UNSUBSCRIBE, 2, head + b"".join(map(_text, filters)))


def publish(
    version: Version,
    topic: bytes,
    payload: bytes,
    *,
    qos: int = 0,
    retain: bool = False,
    number: int = 0,
    repeated: bool = False,
) -> bytes:
    """Returns a message to be sent."""
    head = struct.pack("!H", len(topic)) + topic
    if qos:
        head += struct.pack("!H", number)
    if version == V5:
        head += b"\0"
    flags = retain | qos << 1 | _DUPLICATE * repeated
    first = bytes([Kind.PUBLISH << 4 | flags])
    return b"".join((first, length_prefix(len(head) + len(payload)), head, payload))


def acknowledgements(kind: Kind, numbers: Iterable[int]) -> bytes:
    """Returns packets of two bytes, one for each of these numbers."""
    first = kind << 4 | (2 if kind is Kind.PUBREL else 0)
    pack = struct.Struct("!BBH").pack
    return b"".join([pack(first, 2, number) for number in numbers])


def _packet(kind: Kind, flags: int, body: bytes) -> bytes:
    return bytes([kind << 4 | flags]) + length_prefix(len(body)) + body


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("!H", len(encoded)) + encoded
