"""The connections of Flight, as many as the limits allow: gRPC itself takes all that come, and with
them the descriptors that jobs need."""

from __future__ import annotations

import logging
import os
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from parser.limits import present
from sqlengine.api.serving.listener import network_of
from sqlengine.system.threads import Background

log = logging.getLogger("sqlengine")
_LOOK_S: Final = 0.25
_WARNING_S: Final = 60.0
# Of the descriptors of the process connections have one in so many at most.
_PART: Final = 4
# An IPv4 address where both kinds are listened for.
_MAPPED: Final = "::ffff:"
_INTERNET: Final = (socket.AF_INET, socket.AF_INET6)


@dataclass(frozen=True)
class Open:
    """A connection: its descriptor, its other end as gRPC names it, and what it is counted by."""

    descriptor: int
    peer: str
    key: str


class Connections(Background):
    """Closes those that are too many: first those from which no call has come that was let in, then
    the oldest. `known` returns the peers whose calls were let in."""

    def __init__(self, port: int, known: Callable[[], Collection[str]]) -> None:
        super().__init__("flight-connections")
        self._port = port
        self._known = known
        self._since: dict[str, float] = {}
        self._warned = 0.0

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            limits = present()
            descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            most = min(limits.connections, descriptors // _PART)
            if len(_descriptors()) > min(most, limits.connections_by_address):
                self._close(list(connections_of(self._port)), most, limits.connections_by_address)

    def _close(self, found: Sequence[Open], most: int, by_address: int) -> None:
        now, known = time.monotonic(), self._known()
        self._since = {c.peer: self._since.get(c.peer, now) for c in found}
        ranked = sorted(found, key=lambda c: (c.peer in known, self._since[c.peer]))
        doomed = list(_too_many(ranked, most, by_address))
        for connection in doomed:
            _shut(connection)
        if doomed and now - self._warned > _WARNING_S:
            self._warned = now
            told = len(found), doomed[-1].peer
            log.warning("too many connections of Flight (%d), the last from %s", *told)


def _too_many(ranked: Sequence[Open], most: int, by_address: int) -> Iterator[Open]:
    """Yields the connections that are beyond the limits, of those that give way first."""
    counts = Counter(connection.key for connection in ranked)
    for connection in ranked:
        if counts.total() > most or counts[connection.key] > by_address:
            counts[connection.key] -= 1
            yield connection


def _descriptors() -> Sequence[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:  # even this takes one
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def connections_of(port: int) -> Iterator[Open]:
    """Yields the connections that came to a port of this process."""
    for descriptor in _descriptors():
        with suppress(OSError), _borrowed(descriptor) as connection:
            if connection.family in _INTERNET and connection.getsockname()[1] == port:
                host, other = _other_end(connection)  # the one that listens has none
                yield Open(descriptor, _peer(host, other), network_of(host))


def _shut(found: Open) -> None:
    """Shuts a connection, which gRPC then closes, unless the descriptor is another's by now."""
    with suppress(OSError), _borrowed(found.descriptor) as connection:
        if _peer(*_other_end(connection)) == found.peer:
            connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """Gives the socket of a descriptor, which stays open. OSError for any other file."""
    borrowed = socket.socket(fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()


def _other_end(connection: socket.socket) -> tuple[str, int]:
    host, port = connection.getpeername()[:2]
    return str(host).removeprefix(_MAPPED), int(port)


def _peer(host: str, port: int) -> str:
    """Returns the other end as gRPC names it."""
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"
