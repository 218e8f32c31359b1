"""Messages in a stream of bytes: by their lengths, or a line each (RFC 6587, RFC 5425)."""

from __future__ import annotations

from typing import Final

_MOST_DIGITS: Final = 10


class BadFrame(Exception):
    """A stream has no length where one belongs: where its next message begins is not known."""


class Deframer:
    """Cuts the stream of one connection into messages.

    A stream that begins with a digit has lengths before its messages, any other one a line for
    each: which it is, is decided by its first byte. What is longer than `most` bytes is cut there,
    and counted in `cut`."""

    def __init__(self, most: int) -> None:
        self.cut = 0
        self._most = most
        self._counted: bool | None = None
        self._held = bytearray()
        # Bytes of the message that is too long, still to be dropped; of a line until its end.
        self._dropped = 0
        self._drops_line = False

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the messages that are complete with these bytes. BadFrame where the stream is
        none."""
        if self._counted is None and data:
            self._counted = b"1" <= data[:1] <= b"9"
        self._held += data
        if self._goes_on(data):
            return []
        found = self._by_length() if self._counted else self._by_line()
        return [message for message in found if message]

    def _goes_on(self, data: bytes) -> bool:
        """True where a line has not ended with these bytes: what is held is not searched again."""
        ends = self._counted or self._drops_line or b"\n" in data
        return not ends and 0 < len(self._held) <= self._most

    @property
    def held(self) -> int:
        """The bytes of a message that is not complete."""
        return len(self._held)

    def end(self) -> list[bytes]:
        """Returns the line that the stream has ended in; a part of a counted message is none."""
        if self._counted or not self._held or self._drops_line:
            return []
        rest, self._held = bytes(self._held), bytearray()
        return [_stripped(rest)]

    def _by_length(self) -> list[bytes]:
        found, at, held = list[bytes](), 0, self._held
        while at < len(held):
            if self._dropped:
                step = min(self._dropped, len(held) - at)
                self._dropped -= step
                at += step
                continue
            space = held.find(b" ", at, at + _MOST_DIGITS + 1)
            if space < 0:
                if len(held) - at > _MOST_DIGITS or not held[at:].isdigit():
                    raise _without_length(held, at)
                break
            digits = bytes(held[at:space])
            if not digits.isdigit():
                raise _without_length(held, at)
            length = int(digits)
            kept = min(length, self._most)
            if len(held) - space - 1 < kept:
                break
            found.append(_stripped(bytes(held[space + 1 : space + 1 + kept])))
            at = space + 1 + kept
            self._dropped = length - kept
            self.cut += length > kept
        del held[:at]
        return found

    def _by_line(self) -> list[bytes]:
        *lines, rest = self._held.split(b"\n")
        found = [bytes(line) for line in lines]
        if lines and self._drops_line:
            del found[0]  # the end of what was cut before
            self._drops_line = False
        self._held = rest
        if self._drops_line:
            rest.clear()
        elif len(rest) > self._most:
            found.append(bytes(rest))
            rest.clear()
            self._drops_line = True
        self.cut += sum(len(line) > self._most for line in found)
        return [_stripped(line[: self._most]) for line in found]


def _without_length(held: bytearray, at: int) -> BadFrame:
    found = bytes(held[at : at + 40])
    return BadFrame(f"{found!r} is no length, as it began with (RFC 6587): what follows is unknown")


def _stripped(message: bytes) -> bytes:
    """Returns a message without what some senders put behind it."""
    return message.rstrip(b"\r\n\0")


def counted(message: bytes) -> bytes:
    """Returns a message with its length before it."""
    return b"%d %s" % (len(message), message)


def in_line(message: bytes) -> bytes:
    """Returns a message as a line: line breaks within it become spaces."""
    return message.replace(b"\r\n", b" ").replace(b"\n", b" ") + b"\n"
