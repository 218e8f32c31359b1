"""The number of records, attributes and values of a request before it is read: an empty one is two
bytes, and costs hundreds."""

from __future__ import annotations

from typing import Final

from sqlengine.system.untrusted.json_sizes import objects

# Of a request.
MOST: Final = 1_000_000
_VARINT, _LENGTH = 0, 2
# The fields of each message in protobuf that hold others, by their numbers.
_VALUE: Final = "AnyValue"
_PAIR: Final = "KeyValue"
_MESSAGES: Final = {
    "Request": {1: "ResourceLogs"},
    "ResourceLogs": {1: "Resource", 2: "ScopeLogs"},
    "Resource": {1: _PAIR, 3: "EntityRef"},
    "EntityRef": {},
    "ScopeLogs": {1: "Scope", 2: "LogRecord"},
    "Scope": {3: _PAIR},
    "LogRecord": {5: _VALUE, 6: _PAIR},
    _PAIR: {2: _VALUE},
    _VALUE: {5: "ArrayValue", 6: "KeyValueList"},
    "ArrayValue": {1: _VALUE},
    "KeyValueList": {1: _PAIR},
}
# The first bytes of the tags of these fields, also where they are written with more than one.
_FIRST: Final = [
    bytes([number << 3 | _LENGTH | more])
    for number in {n for fields in _MESSAGES.values() for n in fields}
    for more in (0, 0x80)
]
# Kinds of fields that have no length of their own: how many bytes they take.
_FIXED: Final = {1: 8, 5: 4}


def has_too_many_objects(body: bytes) -> bool:
    """True if a request in JSON has more objects than `MOST`."""
    return body.count(b"{") > MOST and objects(body) > MOST


def has_too_many_messages(body: bytes) -> bool:
    """True if a request in protobuf, where it is one, has more messages than `MOST`."""
    if sum(body.count(first) for first in _FIRST) <= MOST:
        return False
    try:
        return _messages(body) > MOST
    except (IndexError, ValueError):  # cut or damaged: the library says so
        return False


def _messages(body: bytes) -> int:
    """Returns how many messages lie in a request, or more than `MOST`."""
    count = 0
    waiting = [("Request", 0, len(body))]
    while waiting and count <= MOST:
        kind, at, end = waiting.pop()
        inner = _MESSAGES[kind]
        while at < end and count <= MOST:
            tag, at = _varint(body, at)
            if tag & 7 == _LENGTH:
                size, at = _varint(body, at)
                if (found := inner.get(tag >> 3)) is not None:
                    count += 1
                    waiting.append((found, at, min(at + size, end)))
                at += size
            elif tag & 7 == _VARINT:
                _, at = _varint(body, at)
            else:
                at += _FIXED.get(tag & 7, 0)
    return count


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """Returns a number, and where it ends. ValueError for one that is too long."""
    value = shift = 0
    while body[at] & 0x80:
        value |= (body[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if shift > 63:
            raise ValueError("a number has ten bytes at most")
    return value | body[at] << shift, at + 1
