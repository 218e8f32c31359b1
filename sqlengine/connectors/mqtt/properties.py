"""Properties of MQTT 5: those that a client needs, and the way past the others."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final


class Properties(IntEnum):
    """Numbers of properties that mean something here."""

    CONTENT_TYPE = 3
    RESPONSE_TOPIC = 8
    CORRELATION = 9
    SUBSCRIPTION = 11
    SESSION_EXPIRY = 17
    CLIENT_ID = 18
    KEEP_ALIVE = 19
    REASON = 31
    RECEIVE_MAXIMUM = 33
    USER = 38
    LARGEST_PACKET = 39
    SUBSCRIPTION_IDS = 41
    SHARED = 42


# How many bytes the values of these numbers have.
_SIZES: Final = {
    1: 1, 2: 4, 17: 4, 19: 2, 23: 1, 24: 4, 25: 1, 33: 2, 34: 2, 35: 2, 36: 1, 37: 1, 39: 4, 40: 1,
    41: 1, 42: 1,
}  # fmt: skip
_FORMS: Final = {1: "!B", 2: "!H", 4: "!I"}


@dataclass(frozen=True)
class Decoded:
    """The properties of a packet: numbers, texts and bytes by the property's number, those of the
    user in order, and the identifiers of subscriptions."""

    numbers: Mapping[int, int] = field(default_factory=dict)
    texts: Mapping[int, bytes] = field(default_factory=dict)
    user: tuple[tuple[str, str], ...] = ()
    subscriptions: tuple[int, ...] = ()

    def text(self, property_: int) -> str | None:
        """Returns a text; None where there is none."""
        found = self.texts.get(property_)
        return None if found is None else found.decode(errors="replace")


def decoded_properties(data: bytes) -> Decoded:
    """Takes apart properties as they came, without their length. ValueError where they are none."""
    numbers: dict[int, int] = {}
    texts: dict[int, bytes] = {}
    user: list[tuple[str, str]] = []
    subscriptions: list[int] = []
    at = 0
    while at < len(data):
        which, at = data[at], at + 1
        if which == Properties.SUBSCRIPTION:
            value, at = number_at(data, at)
            subscriptions.append(value)
        elif which in _SIZES:
            size = _SIZES[which]
            if at + size > len(data):
                raise ValueError("a property of MQTT does not end")
            (numbers[which],) = struct.unpack(_FORMS[size], data[at : at + size])
            at += size
        elif which == Properties.USER:
            name, at = _bytes_at(data, at)
            text, at = _bytes_at(data, at)
            user.append((name.decode(errors="replace"), text.decode(errors="replace")))
        else:
            texts[which], at = _bytes_at(data, at)
    return Decoded(numbers, texts, tuple(user), tuple(subscriptions))


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number of 1 to 4 bytes at a place, and where it ends. ValueError where it does
    not."""
    value = 0
    for index, byte in enumerate(data[at : at + 4]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, at + index + 1
    raise ValueError("a number of MQTT does not end")


def _bytes_at(data: bytes, at: int) -> tuple[bytes, int]:
    begin = at + 2
    end = begin + int.from_bytes(data[at:begin], "big")
    if end > len(data):
        raise ValueError("a property of MQTT does not end")
    return data[begin:end], end


def encoded_properties(values: Mapping[int, int]) -> bytes:
    """Returns properties that are numbers, with their length."""
    body = b"".join(
        bytes([which])
        + (
            length_prefix(value)
            if which == Properties.SUBSCRIPTION
            else struct.pack(_FORMS[_SIZES[which]], value)
        )
        for which, value in values.items()
    )
    return length_prefix(len(body)) + body


def length_prefix(length: int) -> bytes:
    """Returns a number in as few bytes of seven bits as it needs."""
    if length < 128:
        return bytes([length])
    found = bytearray()
    while length > 127:
        found.append(length & 127 | 128)
        length >>= 7
    return bytes([*found, length])
