"""Makes messages of records, and records of messages."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from sqlengine.broker.base import Column, Records
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.rocketmq.messages import (
    KEYS,
    MOST_PROPERTIES,
    Message,
    Outgoing,
    plain_body,
    properties_of,
)
from sqlengine.broker.storage.codec import BINARY, binary_array

# Properties of ours: a key that is no text, a record without a value, the last one of its epoch.
_KEY, _NULL, _LAST = "_sqlengine_key", "_sqlengine_null", "_sqlengine_last"
_IS, _END = "\x01", "\x02"
_LAST_TEXT: Final = f"{_LAST}{_IS}1{_END}"
_NULL_TEXT: Final = f"{_NULL}{_IS}1{_END}"
_LAST_MARK: Final = _LAST_TEXT.encode()
_MARKS: Final = tuple(f"{name}{_IS}".encode() for name in (KEYS, _KEY, _NULL))
# The canonical form of a key of one STRING, by which its shard is chosen.
_CANONICAL: Final = struct.Struct("<BI")
_STRING: Final = 5


def messages_of(values: Column, keys: Column | None, origin: str = "") -> list[Outgoing]:
    """Returns a message for each record. `origin`: the property that says where they are from, up
    to the number of the record. BrokerError for a key that is too long."""
    bodies: Sequence[bytes | None] = binary_array(values).to_pylist()
    names = [None] * len(bodies) if keys is None else binary_array(keys).to_pylist()
    if len(names) != len(bodies):
        raise BrokerError(f"a batch has {len(bodies)} values and {len(names)} keys")
    last = len(bodies) - 1
    found: list[Outgoing] = []
    for number, (body, key) in enumerate(zip(bodies, names, strict=True)):
        text = "" if key is None else _key_text(key)
        if body is None:
            text += _NULL_TEXT
        if origin:
            text += f"{origin}{number}{_END}"
            if number == last:
                text += _LAST_TEXT
        found.append(Outgoing(body or b"", text))
    return found


def is_last(message: Message) -> bool:
    """True for the last message of an epoch."""
    return _LAST_MARK in message.properties


def _key_text(key: bytes) -> str:
    """Returns a key as properties: a text where it is one, and in its own form where that differs.
    BrokerError for one that is too long."""
    shown = _shown(key)
    text = "" if shown is None else f"{KEYS}{_IS}{shown}{_END}"
    if shown is None or shown.encode() != key:
        text += f"{_KEY}{_IS}{base64.b64encode(key).decode()}{_END}"
    if len(text.encode()) > MOST_PROPERTIES // 2:
        raise BrokerError(
            f"a key of {len(key):,} bytes is too long for RocketMQ",
            detail=f"the properties of a message have {MOST_PROPERTIES:,} bytes at most",
            hint="use shorter keys",
        )
    return text


def _shown(key: bytes) -> str | None:
    """Returns a key as people know it; None for one that is no text."""
    head = _CANONICAL.size
    if len(key) >= head and _CANONICAL.unpack_from(key) == (_STRING, len(key) - head):
        key = key[head:]
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return None
    return text if text and text.isprintable() else None


def records_of(
    topic: str, shard: int, offset: int, next_offset: int, messages: Sequence[Message]
) -> Records:
    """Returns the records that messages stand for, whoever has sent them."""
    bodies: list[bytes | None] = []
    keys: list[bytes | None] = []
    for message in messages:
        body, key = _record_of(message)
        bodies.append(body)
        keys.append(key)
    any_key = any(key is not None for key in keys)
    return Records(
        topic,
        shard,
        messages[0].offset if messages else offset,
        next_offset,
        pa.array(bodies, BINARY),
        pa.array(keys, BINARY) if any_key else None,
        np.array([m.born_ms for m in messages], np.int64),
        np.array([m.offset for m in messages], np.int64),
    )


def _record_of(message: Message) -> tuple[bytes | None, bytes | None]:
    """Returns value and key of a message. A body that cannot be unpacked stays as it is: whoever
    reads it as a row says what is wrong."""
    try:
        body: bytes | None = plain_body(message)
    except ValueError:
        body = message.body
    if not any(mark in message.properties for mark in _MARKS):
        return body, None
    properties = properties_of(message.properties)
    return None if _NULL in properties else body, _key_of(properties)


def _key_of(properties: Mapping[str, str]) -> bytes | None:
    own = properties.get(_KEY)
    if own is not None:
        return base64.b64decode(own)
    keys = properties.get(KEYS)
    return None if keys is None else keys.encode()
