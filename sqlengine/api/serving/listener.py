"""Accepts connections, as many as the limits allow: beyond them, those that do least give way."""

from __future__ import annotations

import errno
import heapq
import ipaddress
import logging
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from waitress.adjustments import Adjustments
from waitress.server import BaseWSGIServer

from parser.errors import ServiceError
from parser.limits import present
from sqlengine.api.serving.admission import Admit, Peer, Refusal
from sqlengine.api.serving.channels import Channels
from sqlengine.api.serving.connection import LOOK_AHEAD, Connection
from sqlengine.api.serving.lanes import Lane, LaneName
from sqlengine.api.serving.streams import Stream

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger("sqlengine")
# Connections beyond the limits, which may ask for health alone.
RESERVE: Final = 16
# At most so many are accepted before the others have their turn: fewer than RESERVE, so that who
# asks at once is heard before others take the place.
_AT_ONCE: Final = 8
# Where one has to give way, so many do: the next ones find room.
_DISPLACED: Final = 8
# An address with so many connections more than twice those of another has to hurry.
_FEW: Final = 8
_CHECKS_S: Final = 0.25
_PAUSE_S: Final = 0.5
_WARNING_S: Final = 60.0
_CREDENTIALS: Final = struct.Struct("iII")


class Connections:
    """All connections of a server, whatever they came by. Used by its thread alone."""

    def __init__(self) -> None:
        self.all: set[Connection] = set()
        self._counts: Counter[str] = Counter()
        self._reserved = 0
        self._doomed: list[Connection] = []
        self._next_check = 0.0
        self._next_warning = 0.0

    def add(self, connection: Connection) -> None:
        self.all.add(connection)
        self._count(connection, 1)

    def remove(self, connection: Connection) -> None:
        if connection in self.all:
            self.all.discard(connection)
            self._count(connection, -1)

    def place(self, key: str) -> bool | None:
        """Makes room for a connection of `key`. Returns whether it has to take one of those in
        reserve; None if there is no place at all."""
        limits = present()
        ordinary = sum(self._counts.values())
        crowd: str | None = None
        if self._counts[key] >= limits.connections_by_address:
            crowd = key
        elif ordinary >= limits.connections:
            crowd = self._counts.most_common(1)[0][0]
        if crowd is None:
            return False
        # Who opens hundreds in a moment has no old ones: that must not keep out who has few.
        hurried = self._counts[crowd] > 2 * self._counts[key] + _FEW
        if self._displace(lambda c: not c.reserved and c.key == crowd, hurried=hurried):
            return False
        self._warn(key)
        if self._reserved < RESERVE or self._displace(lambda c: c.reserved):
            return True
        return None

    def displace_any(self) -> None:
        """Closes the most dispensable connections."""
        self._displace(lambda _: True)

    def check(self) -> None:
        """Closes what has to go. Called before each poll: within one, a descriptor that is closed
        could be a new connection's, with an event of the old one."""
        doomed, self._doomed = self._doomed, []
        for connection in doomed:
            connection.handle_close()
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _CHECKS_S
        for connection in list(self.all):
            connection.check(now)

    def _displace(self, of: Callable[[Connection], bool], *, hurried: bool = False) -> bool:
        now = time.monotonic()
        ranks = ((c.rank(now, hurried=hurried), c) for c in self.all if of(c))
        ranked = [(rank, c) for rank, c in ranks if rank is not None]
        for _, victim in heapq.nsmallest(_DISPLACED, ranked, key=lambda r: r[0]):
            self.remove(victim)
            self._doomed.append(victim)
        return bool(ranked)

    def _count(self, connection: Connection, number: int) -> None:
        if connection.reserved:
            self._reserved += number
            return
        self._counts[connection.key] += number
        if not self._counts[connection.key]:
            del self._counts[connection.key]

    def _warn(self, key: str) -> None:
        now = time.monotonic()
        if now >= self._next_warning:
            self._next_warning = now + _WARNING_S
            log.warning("too many connections (%d), the last from %s", len(self.all), key)


class Listener(BaseWSGIServer):  # type: ignore[misc]
    """A socket that listens. `wrap` makes the stream of a connection that it accepts."""

    def __init__(
        self,
        application: WSGIApplication,
        listening: socket.socket,
        channels: Channels,
        lanes: Mapping[LaneName, Lane],
        connections: Connections,
        *,
        admit: Admit | None = None,
        wrap: Callable[[socket.socket], Stream] = Stream,
    ) -> None:
        self.admit = admit
        self._channels = channels
        self._lanes = lanes
        self._connections = connections
        self._wrap = wrap
        self._local = listening.family == socket.AF_UNIX
        self._paused_until = 0.0
        adjustments = Adjustments(
            ident="sqlengine",
            channel_request_lookahead=LOOK_AHEAD,
            max_request_header_size=present().head_size,
            max_request_body_size=1 << 62,  # RequestParser has the limit
        )
        super().__init__(
            application,
            channels,
            _sock=listening,
            dispatcher=lanes,
            adj=adjustments,
            sockinfo=(listening.family, listening.type, listening.proto, None),
            bind_socket=False,
        )

    def getsockname(self) -> tuple[str, int]:
        """Returns the address and port that it listens on."""
        if self._local:
            return "localhost", 0
        host, port = self.socket.getsockname()[:2]
        return str(host), int(port)

    def readable(self) -> bool:
        return bool(self.accepting) and time.monotonic() >= self._paused_until

    def handle_accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, address = self.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._pause(error)
                    return
                continue  # the client is gone
            try:
                self._accept(accepted, address)
            except OSError:
                accepted.close()

    def add_task(self, connection: Connection) -> None:
        """Has a request answered in its lane, or refused where that is full. The broker answers at
        once, then, without waiting."""
        if connection.lane == "waiting" and connection.is_for_broker:
            if self._lanes["waiting"].add(connection):
                return
            connection.requests[0].lane = "ordinary"
        if connection.lane != "refused" and not self._lanes[connection.lane].add(connection):
            connection.deny(too_many_wait())
        if connection.lane == "refused":
            self._lanes["refused"].add(connection)

    def pull_trigger(self) -> None:
        """Does nothing. Waitress wakes the thread of the server up behind each answer; connections
        do so by `look_at`, where there is something to do."""

    def look_at(self, connection: Connection) -> None:
        """Has the thread of the server see what the connection waits for. Any thread."""
        self._channels.look_at(connection.descriptor)
        self.trigger.pull_trigger()

    def full(self) -> Refusal:
        """Returns the refusal of a request beyond the limits of connections."""
        error = ServiceError(
            "the server has too many connections",
            hint="close those that are idle; its limits are 'connections' and"
            " 'connections-by-address'",
        )
        return Refusal(503, error, (("Retry-After", "1"),))

    def joined(self, connection: Connection) -> None:
        self._connections.add(connection)

    def left(self, connection: Connection) -> None:
        self._connections.remove(connection)

    def _accept(self, accepted: socket.socket, address: Any) -> None:
        peer, key = _peer(accepted, None if self._local else str(address[0]))
        reserved = self._connections.place(key)
        if reserved is None:
            accepted.close()
            return
        if not self._local:
            _set_up(accepted)
        Connection(self, self._wrap(accepted), peer, key, reserved=reserved)

    def _pause(self, error: OSError) -> None:
        """Accepts nothing for a moment: the socket would be ready again at once."""
        self._paused_until = time.monotonic() + _PAUSE_S
        self._connections.displace_any()
        log.warning("no connection can be accepted: %s", error.strerror)


def too_many_wait() -> Refusal:
    """Returns the refusal of a request that would wait, where as many do as may."""
    error = ServiceError(
        "too many requests wait for records, rows or changes",
        detail=f"at most {present().waiting_requests} may",
        hint="try again, or ask without waiting; the server's limit is 'waiting-requests'",
    )
    return Refusal(503, error, (("Retry-After", "1"),))


def _set_up(accepted: socket.socket) -> None:
    """Sets the options of a connection over TCP. A client that vanishes without a word takes as
    long as one that reads nothing: the kernel alone would send again for a quarter of an hour."""
    seconds = present().body_time
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, seconds // 3))
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * seconds)


def _peer(accepted: socket.socket, address: str | None) -> tuple[Peer, str]:
    """Returns the other end of a connection, and what its connections are counted by: a user of
    this machine, or where it came from."""
    if address is None:
        found = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        uid = _CREDENTIALS.unpack(found)[1]
        return Peer(uid=uid), f"uid:{uid}"
    return Peer(address.split("%")[0]), network_of(address)


def network_of(address: str) -> str:
    """Returns what the connections from an address are counted by: an IPv4 address, or the network
    of an IPv6 address, which one host has all of."""
    plain = address.split("%")[0]
    return str(ipaddress.IPv6Network((plain, 64), strict=False)) if ":" in plain else plain
