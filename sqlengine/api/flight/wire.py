"""The encoding of protobuf, as far as messages of Flight SQL have it: numbered fields that are
numbers, texts or messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from parser.errors import SqlError

Value = int | bytes
_SIZES: Final = {1: 8, 5: 4}
_LONGEST: Final = 10


class BadMessage(SqlError):
    """Bytes that are no message of Flight SQL."""

    title = "bad message"


class Message:
    """A message that has come: its fields by number, each as often as it came."""

    def __init__(self, data: bytes) -> None:
        """Raises BadMessage for bytes that are none."""
        self._fields: dict[int, list[Value]] = {}
        for number, value in _fields(memoryview(data)):
            self._fields.setdefault(number, []).append(value)

    def data(self, number: int) -> bytes | None:
        """Returns the bytes of a field, None where it is not there."""
        value = self._fields.get(number, [None])[-1]
        if isinstance(value, int):
            raise BadMessage(f"field {number} is a number")
        return value

    def text(self, number: int) -> str | None:
        """Returns the text of a field, None where it is not there."""
        data = self.data(number)
        return None if data is None else _text(data)

    def number(self, number: int) -> int:
        """Returns the number of a field, 0 where it is not there."""
        value = self._fields.get(number, [0])[-1]
        if not isinstance(value, int):
            raise BadMessage(f"field {number} is no number")
        return value

    def texts(self, number: int) -> list[str]:
        """Returns all texts of a field."""
        return [_text(v) for v in self._fields.get(number, []) if isinstance(v, bytes)]

    def parts(self, number: int) -> list[Message]:
        """Returns all messages of a field."""
        return [Message(v) for v in self._fields.get(number, []) if isinstance(v, bytes)]

    def numbers(self, number: int) -> list[int]:
        """Returns all numbers of a field, one by one or packed."""
        found: list[int] = []
        for value in self._fields.get(number, []):
            if isinstance(value, int):
                found.append(value)
                continue
            view, at = memoryview(value), 0
            while at < len(view):
                one, at = _varint(view, at)
                found.append(one)
        return found

    def has(self, number: int) -> bool:
        """True if a field is there."""
        return number in self._fields


def varint(number: int) -> bytes:
    """Returns a number as protobuf has it; a negative one has ten bytes."""
    number &= (1 << 64) - 1
    out = bytearray()
    while True:
        rest = number >> 7
        out.append(number & 127 | (128 if rest else 0))
        if not rest:
            return bytes(out)
        number = rest


def field(number: int, value: str | bytes | int) -> bytes:
    """Returns a field of a message.

    >>> field(1, "a").hex(), field(2, 300).hex()
    ('0a0161', '10ac02')
    """
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def _fields(view: memoryview) -> Iterator[tuple[int, Value]]:
    at = 0
    while at < len(view):
        key, at = _varint(view, at)
        kind = key & 7
        if kind == 0:
            number, at = _varint(view, at)
            yield key >> 3, number
            continue
        if kind == 2:
            size, at = _varint(view, at)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise BadMessage(f"kind {kind} of a field is not known")
        if size > len(view) - at:
            raise BadMessage("a field is longer than its message")
        yield key >> 3, bytes(view[at : at + size])
        at += size


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    found = 0
    for i in range(_LONGEST):
        if at + i >= len(view):
            break
        byte = view[at + i]
        found |= (byte & 127) << (7 * i)
        if byte < 128:
            return found, at + i + 1
    raise BadMessage("a number has no end")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadMessage("a text is not UTF-8", detail=str(error)) from None
