"""Connections of senders of syslog, and which of them has to go where there are too many."""

from __future__ import annotations

import resource
import socket
import ssl
import time
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from parser.limits import present
from sqlengine.connectors.syslog.framing import Deframer

MOST_CONNECTIONS: Final = 1000
# Of the descriptors of the process, connections have one in so many at most.
_PART: Final = 4
# Bytes of one read; of the unfinished messages of all connections.
_READ: Final = 256 << 10
_MOST_HELD: Final = 64 << 20


class Connection:
    """A connection of a sender. `ended`: there comes no more; `messages`: how many came; `heard_s`:
    when something came last, by the monotonic clock."""

    def __init__(self, accepted: socket.socket, peer: str) -> None:
        self.socket = accepted
        self.peer = peer
        self.ended = False
        self.messages = 0
        self.heard_s = time.monotonic()
        self._frames = Deframer(present().record_size)

    @property
    def held(self) -> int:
        """The bytes of a message that has not come to its end."""
        return self._frames.held

    def read(self) -> list[bytes]:
        """Returns the messages that are complete now. Raises OSError as the system does, and
        BadFrame."""
        found: list[bytes] = []
        while True:
            try:
                data = self.socket.recv(_READ)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            self.heard_s = time.monotonic()
            if not data:
                self.ended = True
                found += self._frames.end()
                break
            found += self._frames.feed(data)
            # What TLS has decrypted already wakes nobody.
            if not isinstance(self.socket, ssl.SSLSocket) or not self.socket.pending():
                break
        self.messages += len(found)
        return found


def too_many(connections: Collection[Connection]) -> Connection | None:
    """Returns the connection that leaves its place to a new one; None while there is room.

    It is one of the address that has the most, which has brought no message yet if there is such,
    and was silent for longest: who opens a thousand connections keeps no other sender out."""
    # Jobs need descriptors, too.
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if len(connections) <= min(MOST_CONNECTIONS, descriptors // _PART):
        return None
    of_peer = Counter(c.peer for c in connections)
    return max(connections, key=lambda c: (of_peer[c.peer], not c.messages, -c.heard_s))


def too_large(connections: Collection[Connection]) -> Iterator[Connection]:
    """Yields those with the most bytes of an unfinished message, until the others hold as much as
    they may."""
    held = sum(c.held for c in connections)
    for connection in sorted(connections, key=lambda c: -c.held):
        if held <= max(_MOST_HELD, 2 * present().record_size):
            return
        held -= connection.held
        yield connection
