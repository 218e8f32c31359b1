"""The broker of a server for instances on other machines: the messages of `wire` in frames, over
TCP.

Each instance that is admitted has a secret of its own, and its connections end with it: one that
lives on unnoticed can ask nothing any more. Both sides prove to know the secret and neither sends
it:

    server -> client   MAGIC, 32 random bytes
    client -> server   identity (16 bytes), role (1), 32 random bytes, proof (32)
    server -> client   proof (32)

A proof is the HMAC of all that went before it. So nothing is read of a stranger but 81 bytes,
within HANDSHAKE_S; of those who are that far the oldest have to go when there are many. With a
certificate all of it is within TLS (`door_tls.py`)."""

from __future__ import annotations

import hmac
import logging
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sqlengine.broker.errors import BrokerUnreachable
from sqlengine.broker.remote.door_tls import DoorTls, begin, connected
from sqlengine.broker.remote.frames import exactly, receive, send
from sqlengine.broker.remote.sockets import Acceptor, SocketTransport, answer, hang_up
from sqlengine.broker.remote.wire import Served
from sqlengine.system.spawning import NetworkAddress

log = logging.getLogger("sqlengine")

MAGIC: Final = b"sqlengine broker 1"
# Seconds that the other side has to prove who it is.
HANDSHAKE_S: Final = 5.0
# Connections that have not proven it yet: above that the oldest one is closed.
MOST_UNPROVEN: Final = 32
_MOST_WAITING: Final = 64
_HELLO: Final = struct.Struct("16sc32s32s")
_SECRET: Final = 32
_RANDOM: Final = 32
# The roles of a connection: requests to the broker, or the line by which an instance is watched.
_REQUESTS: Final = b"r"
_LINE: Final = b"l"
# Seconds after which a host that is silent counts as gone, and between the questions before that.
_SILENCE_S: Final = 15
_PROBE_S: Final = 5
_WARN_S: Final = 60.0


@dataclass(eq=False)
class _Guest:
    """Someone who was admitted, with the connections that it has open. `on_line` takes the first
    line that it opens; there is no other one."""

    secret: bytes = field(repr=False)
    on_line: Callable[[socket.socket], None] | None
    connections: set[socket.socket] = field(default_factory=set)


class NetworkServer:
    """Serves the broker at `host` and `port` to those who were admitted, from its creation until
    `close`. They may do whatever the server may."""

    def __init__(
        self, broker: Served, host: str, port: int = 0, tls: DoorTls | None = None
    ) -> None:
        """`port`: 0 takes a free one. OSError if it cannot be had."""
        self._broker = broker
        self._tls = tls
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=_MOST_WAITING)
        self.host, self.port = host, int(listening.getsockname()[1])
        self._lock = threading.Lock()
        self._guests: dict[bytes, _Guest] = {}
        self._unproven: dict[socket.socket, None] = {}  # the oldest first
        self._warned_at = -_WARN_S
        self._acceptor = Acceptor(listening, self._serve)

    def admit(self, on_line: Callable[[socket.socket], None]) -> NetworkAddress:
        """Returns an address for one instance. `on_line` is called with the line that it opens, in
        a thread of its own; the line is closed when that returns."""
        identity, secret = secrets.token_bytes(16), secrets.token_bytes(_SECRET)
        with self._lock:
            self._guests[identity] = _Guest(secret, on_line)
        digest = b"" if self._tls is None else self._tls.digest
        return NetworkAddress(self.host, self.port, identity, secret, digest)

    def expel(self, address: NetworkAddress) -> None:
        """Closes all connections of who was admitted with that address, and takes no other ones.
        May be called twice."""
        with self._lock:
            guest = self._guests.pop(address.identity, None)
            connections = [] if guest is None else list(guest.connections)
        for connection in connections:
            hang_up(connection)

    def close(self) -> None:
        """Closes all connections; clients that wait for a response get BrokerUnreachable."""
        self._acceptor.close()
        with self._lock:
            proven = [c for guest in self._guests.values() for c in guest.connections]
            connections = [*self._unproven, *proven]
        for connection in connections:
            hang_up(connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection if self._tls is None else self._tls.around(connection) as secured:
            self._serve_secured(secured)

    def _serve_secured(self, connection: socket.socket) -> None:
        self._begin(connection)
        try:
            found = self._greet(connection)
        finally:
            with self._lock:
                self._unproven.pop(connection, None)
        if found is None:
            return
        guest, on_line = found
        try:
            if on_line is None:
                answer(self._broker, connection)
            else:
                on_line(connection)
        finally:
            with self._lock:
                guest.connections.discard(connection)

    def _begin(self, connection: socket.socket) -> None:
        with self._lock:
            self._unproven[connection] = None
            oldest = next(iter(self._unproven)) if len(self._unproven) > MOST_UNPROVEN else None
        if oldest is not None:
            hang_up(oldest)

    def _greet(
        self, connection: socket.socket
    ) -> tuple[_Guest, Callable[[socket.socket], None] | None] | None:
        """Returns who asks, and what takes the line where it is one; None for a stranger."""
        challenge = MAGIC + secrets.token_bytes(_RANDOM)
        connection.settimeout(HANDSHAKE_S)
        begin(connection)
        connection.sendall(challenge)
        said = _within(connection, _HELLO.size, HANDSHAKE_S)
        if said is None:
            return None
        identity, role, _, proof = _HELLO.unpack(said)
        with self._lock:
            guest = self._guests.get(identity)
        # A stranger takes as long as one who guesses at a secret.
        secret = secrets.token_bytes(_SECRET) if guest is None else guest.secret
        proven = hmac.compare_digest(proof, _proof(secret, challenge + said[: -len(proof)]))
        if guest is None or not proven:
            self._warn()
            return None
        with self._lock:
            if identity not in self._guests:  # expelled in this moment
                return None
            on_line = None
            if role == _LINE:
                on_line, guest.on_line = guest.on_line, None
                if on_line is None:
                    return None
            guest.connections.add(connection)
        keep_alive(connection)
        connection.settimeout(None)
        connection.sendall(_proof(secret, challenge + said))
        return guest, on_line

    def _warn(self) -> None:
        now = time.monotonic()
        if now - self._warned_at > _WARN_S:  # strangers do not fill the log
            self._warned_at = now
            log.warning("who was not admitted asked the broker at port %d: refused", self.port)


def _proof(secret: bytes, said: bytes) -> bytes:
    return hmac.digest(secret, said, "sha256")


def _within(connection: socket.socket, size: int, seconds: float) -> bytes | None:
    """Returns the next `size` bytes; None if they do not come within that time."""
    until, data = time.monotonic() + seconds, b""
    while len(data) < size:
        connection.settimeout(max(0.001, until - time.monotonic()))
        part = connection.recv(size - len(data))
        if not part:
            return None
        data += part
    return data


def keep_alive(connection: socket.socket) -> None:
    """Has the kernel end a connection whose other host is gone without a word, and send what is
    small at once."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _SILENCE_S // _PROBE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_S * 1000)


class Line:
    """A line, of which one thread hears while others say something: TLS takes one call at a
    time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._heard = select.poll()
        self._heard.register(connection, select.POLLIN)

    def say(self, frame: bytes) -> None:
        """Sends a frame. OSError where the other side is gone."""
        with self._lock:
            send(self._connection, frame)

    def hear(self) -> bytes | None:
        """Waits for the next frame; None if the line has ended."""
        self._heard.poll()
        with self._lock:  # a frame is one record, which comes as a whole
            return receive(self._connection)


class Refused(BrokerUnreachable):
    """The server knows the identity no more, or never did."""

    def __init__(self, address: NetworkAddress) -> None:
        super().__init__(
            f"the server at {address.name} refuses this instance",
            detail="it was not admitted, or its place was given to another one",
        )


def open_line(address: NetworkAddress) -> socket.socket:
    """Opens the line over which the server watches an instance. Refused where that is over,
    BrokerUnreachable if nobody answers who knows the secret."""
    try:
        return _open(address, _LINE)
    except OSError as error:
        raise BrokerUnreachable(
            f"the server cannot be reached at {address.name}", detail=error.strerror or str(error)
        ) from None


def _open(address: NetworkAddress, role: bytes) -> socket.socket:
    connection = socket.create_connection((address.host, address.port), HANDSHAKE_S)
    try:
        if address.certificate:
            connection = connected(connection, address.certificate)
        _introduce(connection, address, role)
    except BaseException:
        connection.close()
        raise
    return connection


def _introduce(connection: socket.socket, address: NetworkAddress, role: bytes) -> None:
    challenge = exactly(connection, len(MAGIC) + _RANDOM)
    if challenge is None or not challenge.startswith(MAGIC):
        raise ConnectionRefusedError(None, "it is no server of this version")
    hello = address.identity + role + secrets.token_bytes(_RANDOM)
    said = hello + _proof(address.secret, challenge + hello)
    proof = None
    with suppress(ConnectionResetError):
        connection.sendall(said)
        proof = exactly(connection, _SECRET)
    if proof is None:
        raise Refused(address)
    if not hmac.compare_digest(proof, _proof(address.secret, challenge + said)):
        raise ConnectionRefusedError(None, "somebody else answers there")
    keep_alive(connection)
    connection.settimeout(None)


class NetworkTransport(SocketTransport):
    """Sends requests to the broker at an address."""

    def __init__(self, address: NetworkAddress) -> None:
        super().__init__(address.name)
        self._address = address

    def _connect(self) -> socket.socket:
        return _open(self._address, _REQUESTS)
