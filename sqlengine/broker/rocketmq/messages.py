"""Messages: as they are stored, which is how a pull gives them, and as they are sent."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import pyarrow as pa

from sqlengine.broker.rocketmq import codes

# Names of properties that the servers know.
TAGS, KEYS = "TAGS", "KEYS"
UNIQUE_ID: Final = "UNIQ_KEY"
DELIVER_AT, DELAY_MS = "TIMER_DELIVER_MS", "TIMER_DELAY_MS"
# Between a name and its value, and behind that.
_IS, _END = "\x01", "\x02"
MOST_PROPERTIES: Final = 32767  # bytes
# Bytes of a body that is unpacked: brokers take 4 MB, unless they are told otherwise.
_MOST_PLAIN: Final = 1 << 28

_V2: Final = -626843477  # the form with long topics
_MAGICS: Final = (-626843481, _V2)
# Up to the time of birth; the host, 8 or 20 bytes, the time of storing, another host, 12 bytes.
_BEGIN: Final = struct.Struct(">iiiiiqqiq")
# The same up to the length of the body, where both hosts have 8 bytes.
_WHOLE: Final = struct.Struct(">iiiiiqqiq8sq8siqi")
_TIME: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">H")
_OF_BATCH: Final = struct.Struct(">iiiii")
_CODECS: Final = {codes.LZ4: "lz4", codes.ZSTD: "zstd"}


class Message(NamedTuple):
    """A stored message. `place`: its offset in the log of its broker, which it shares with no other
    message there; times in ms; `properties` as they are stored; `behind`: where the next message
    begins in what was pulled."""

    queue: int
    offset: int
    place: int
    flags: int
    born_ms: int
    stored_ms: int
    host: bytes
    body: bytes
    properties: bytes
    behind: int


def stored(data: bytes) -> Iterator[Message]:
    """Returns the messages of a pull's answer, in order. ValueError where it is damaged."""
    at, end = 0, len(data)
    simple, size = _WHOLE.unpack_from, _WHOLE.size
    try:
        while at < end:
            (total, magic, _, queue, _, offset, place, flags, born, _, kept, host, _, _, length) = (
                simple(data, at)
            )
            begin = at + size
            if flags & (codes.BORN_V6 | codes.STORED_V6):
                kept, host, length, begin = _long_hosts(data, at, flags)
            body = begin + length
            if magic == _V2:
                text = body + 2 + _SHORT.unpack_from(data, body)[0]
            else:
                text = body + 1 + data[body]
            count = data[text] << 8 | data[text + 1]
            stop = text + 2 + count
            if magic not in _MAGICS or stop > at + total or total <= 0 or at + total > end:
                raise ValueError
            yield Message(
                queue, offset, place, flags, born, kept, host,
                data[begin:body], data[text + 2 : stop], at + total,
            )  # fmt: skip
            at += total
    except (ValueError, IndexError, struct.error):
        raise ValueError(f"a message is damaged at byte {at} of a pull") from None


def _long_hosts(data: bytes, at: int, flags: int) -> tuple[int, bytes, int, int]:
    """Returns the time of storing, the host that has stored it, the length of the body and where it
    begins, where a host has the form of IPv6."""
    at += _BEGIN.size + (20 if flags & codes.BORN_V6 else 8)
    (kept,) = _TIME.unpack_from(data, at)
    width = 20 if flags & codes.STORED_V6 else 8
    host = data[at + 8 : at + 8 + width]
    at += 8 + width + 12
    (length,) = _INT.unpack_from(data, at)
    return kept, host, length, at + 4


def plain_body(message: Message) -> bytes:
    """Returns the body unpacked. ValueError where that cannot be done, or it would be longer than
    any message."""
    if not message.flags & codes.COMPRESSED:
        return message.body
    kind = (message.flags >> codes.COMPRESSION_SHIFT) & 7
    try:
        if kind not in _CODECS:
            plain = zlib.decompressobj().decompress(message.body, _MOST_PLAIN + 1)
        else:
            with pa.CompressedInputStream(pa.BufferReader(message.body), _CODECS[kind]) as stream:
                plain = bytes(stream.read(_MOST_PLAIN + 1))
    except (zlib.error, OSError) as error:
        raise ValueError(f"the body of a message cannot be unpacked: {error}") from None
    if len(plain) > _MOST_PLAIN:
        raise ValueError(f"the body of a message cannot be unpacked: over {_MOST_PLAIN} bytes")
    return plain


def unpacked_message(message: Message) -> Message:
    """Returns a message with its body unpacked; as it is where that cannot be done, so that who
    reads it says so."""
    if not message.flags & codes.COMPRESSED:
        return message
    try:
        body = plain_body(message)
    except ValueError:
        return message
    return message._replace(body=body, flags=message.flags & ~codes.COMPRESSED)


def packed_body(body: bytes, kind: int) -> tuple[bytes, int]:
    """Returns the body compressed, and its flags; the body itself where that is no smaller."""
    packed = (
        pa.compress(body, codec="zstd", asbytes=True)
        if kind == codes.ZSTD
        else zlib.compress(body, 5)
    )
    if len(packed) >= len(body):
        return body, 0
    return packed, codes.COMPRESSED | kind << codes.COMPRESSION_SHIFT


def message_id(message: Message, properties: Mapping[str, str]) -> str:
    """Returns what knows a message: the number that its producer gave it, else its place."""
    own = properties.get(UNIQUE_ID)
    return own if own else (message.host + _TIME.pack(message.place)).hex().upper()


def properties_of(text: bytes) -> dict[str, str]:
    """Returns properties by name; what is no property is left out."""
    pairs = (pair.partition(_IS) for pair in text.decode("utf-8", "replace").split(_END))
    return {name: value for name, sep, value in pairs if sep}


def property_text(properties: Mapping[str, str]) -> str:
    """Returns properties as they are sent. ValueError for what cannot be one."""
    for name, value in properties.items():
        if not name or any(mark in name or mark in value for mark in (_IS, _END)):
            raise ValueError(f"property '{name}' is empty, or has a control character in it")
    text = "".join(f"{name}{_IS}{value}{_END}" for name, value in properties.items())
    if len(text.encode()) > MOST_PROPERTIES:
        raise ValueError(f"the properties have more than {MOST_PROPERTIES} bytes")
    return text


class Outgoing(NamedTuple):
    """A message to be sent. `flags`: of its body; `alone`: it cannot be sent together with others;
    `rows`: how many it carries, which nobody else is told."""

    body: bytes
    properties: str = ""
    flags: int = 0
    alone: bool = False
    rows: int = 1

    @property
    def size(self) -> int:
        """About how many bytes it is on the wire."""
        return _OF_BATCH.size + 2 + len(self.body) + len(self.properties)


def batch_body(messages: Iterable[Outgoing]) -> bytes:
    """Returns the body of a request that sends these together."""
    parts: list[bytes] = []
    for message in messages:
        text = message.properties.encode()
        total = _OF_BATCH.size + len(message.body) + _SHORT.size + len(text)
        head = _OF_BATCH.pack(total, 0, 0, 0, len(message.body))
        parts += head, message.body, _SHORT.pack(len(text)), text
    return b"".join(parts)
