"""Taking messages of syslog over UDP, TCP and TLS.

Syslog has no acknowledgements: a message is ours once its sender's kernel has handed it over. UDP
is read as fast as can be, TCP while there is room: then the windows of its senders fill."""

from __future__ import annotations

import logging
import selectors
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final

from parser.errors import SqlError
from sqlengine.connectors.keep_alive import keep_alive
from sqlengine.connectors.pushed.metadata import Metadata, encode_metadata
from sqlengine.connectors.receivers.base import Batch, Receiver, Stream, Tail, Taken, Unreachable
from sqlengine.connectors.syslog.addresses import Address
from sqlengine.connectors.syslog.connections import Connection, too_large, too_many
from sqlengine.connectors.syslog.framing import BadFrame
from sqlengine.system.log_lines import FewLines

log = logging.getLogger("sqlengine")
_closings = FewLines(log)

# Bytes of one take; datagrams of one socket in a take.
_MOST_TAKEN: Final = 8 << 20
_MOST_DATAGRAMS: Final = 10_000
# Connections that are accepted in a take: beside those who open thousands others wait no second.
_MOST_ACCEPTED: Final = 64
_DATAGRAM: Final = 1 << 16
# Of Linux; Python has no names for them.
_SO_RXQ_OVFL: Final = 40
_SO_RCVBUFFORCE: Final = 33
_COUNT: Final = struct.Struct("=I")


class SyslogReceiver(Receiver):
    """Listens at some addresses. `context` makes what TLS needs, each time that it listens."""

    def __init__(
        self,
        addresses: Sequence[Address],
        buffer: int,
        context: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._addresses = addresses
        self._buffer = buffer
        self._context = context
        self._selector: selectors.BaseSelector | None = None
        self._topics: Sequence[str] = ()
        self._datagram = bytearray(_DATAGRAM)
        self._connections: dict[socket.socket, Connection] = {}
        # In which take each socket that had something was read last, by its number.
        self._served: dict[int, int] = {}
        self._takes = 0
        self._lost: dict[socket.socket, int] = {}
        self._dropped = 0
        self._size = 0

    @property
    def unwanted(self) -> int:
        """The number of datagrams that the kernel has dropped: its buffer was full. Any thread."""
        return self._dropped

    def adopt(self, other: Receiver) -> None:
        """See `Receiver`."""
        if isinstance(other, SyslogReceiver):
            self._context, self._buffer = other._context, other._buffer

    def connect(self, streams: Sequence[Stream], gone: Sequence[Stream], tail: Tail) -> None:
        """See `Receiver`. Unreachable where an address is another's, or not of this machine."""
        self._selector = selectors.DefaultSelector()
        self.follow(streams, gone)
        for address in self._addresses:
            try:
                self._listen(address)
            except (OSError, SqlError) as error:
                self.close()
                why = error.strerror if isinstance(error, OSError) else str(error)
                raise Unreachable(f"cannot listen at {address}", detail=why) from None

    def _listen(self, address: Address) -> None:
        kind = socket.SOCK_DGRAM if address.transport == "udp" else socket.SOCK_STREAM
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        listening = socket.socket(family, kind)
        try:
            if address.transport == "udp":
                self._widen(listening)
                listening.bind((address.host, address.port))
                self._register(listening, lambda taken: self._datagrams(listening, taken))
                return
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((address.host, address.port))
            listening.listen(128)
            context = None
            if address.transport == "tls":
                assert self._context is not None
                context = self._context()
            self._register(listening, lambda taken: self._accept(listening, context))
        except BaseException:
            listening.close()
            raise

    def _widen(self, listening: socket.socket) -> None:
        """Asks for a larger buffer, and for the number of what it could not hold."""
        try:
            listening.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, self._buffer)
        except OSError:  # for root alone: others get what the system allows
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer)
        with suppress(OSError):
            listening.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)

    def _register(self, one: socket.socket, handler: Callable[[Taken], None]) -> None:
        assert self._selector is not None
        one.setblocking(False)
        self._selector.register(one, selectors.EVENT_READ, handler)

    def follow(self, streams: Sequence[Stream], gone: Sequence[Stream]) -> None:
        """See `Receiver`."""
        self._topics = [stream.topic for stream in streams]

    def take(self, wait_s: float) -> Batch:
        """See `Receiver`."""
        assert self._selector is not None
        taken, self._size, self._takes = Taken(), 0, self._takes + 1
        # Who has waited longest comes first: else those that send most would keep others out.
        ready = sorted(self._selector.select(wait_s), key=lambda r: self._served.get(r[0].fd, 0))
        for key, _ in ready:
            self._served[key.fd] = self._takes
            handler: Callable[[Taken], None] = key.data
            handler(taken)
            if self._size >= _MOST_TAKEN:
                break
        for connection in too_large(self._connections.values()):
            self._close(connection, "unfinished messages have too many bytes")
        return dict.fromkeys(self._topics, taken) if taken.values else {}

    def _datagrams(self, listening: socket.socket, taken: Taken) -> None:
        view = memoryview(self._datagram)
        for _ in range(_MOST_DATAGRAMS):
            try:
                size, told, _, peer = listening.recvmsg_into([self._datagram], 64)
            except (BlockingIOError, InterruptedError):
                return
            for level, kind, data in told:
                if level == socket.SOL_SOCKET and kind == _SO_RXQ_OVFL:
                    self._note_lost(listening, _COUNT.unpack(data[:4])[0])
            self._add(taken, bytes(view[:size]).rstrip(b"\r\n\0"), str(peer[0]))
            if self._size >= _MOST_TAKEN:
                return

    def _note_lost(self, listening: socket.socket, count: int) -> None:
        before = self._lost.get(listening, 0)
        if count != before:
            lost = (count - before) & 0xFFFFFFFF
            self._lost[listening] = count
            self._dropped += lost
            log.warning("syslog: the kernel has dropped %d datagrams: its buffer was full", lost)

    def _accept(self, listening: socket.socket, context: ssl.SSLContext | None) -> None:
        for _ in range(_MOST_ACCEPTED):
            try:
                accepted, peer = listening.accept()
            except OSError:  # there is none, or the process may open no more
                return
            self._begin(accepted, str(peer[0]), context)

    def _begin(self, accepted: socket.socket, peer: str, context: ssl.SSLContext | None) -> None:
        with suppress(OSError):
            accepted.setblocking(False)
            keep_alive(accepted)
            if context is not None:
                accepted = context.wrap_socket(
                    accepted, server_side=True, do_handshake_on_connect=False
                )
            connection = Connection(accepted, peer)
            self._connections[accepted] = connection
            self._register(accepted, lambda taken: self._read(connection, taken))
            if (other := too_many(self._connections.values())) is not None:
                self._close(other, "there are too many")

    def _read(self, connection: Connection, taken: Taken) -> None:
        if connection.socket not in self._connections:
            return  # it was closed since it was found ready
        try:
            for message in connection.read():
                self._add(taken, message, connection.peer)
            if not connection.ended:
                return
        except (BadFrame, OSError, ValueError) as error:
            self._close(connection, str(error))
            return
        self._drop(connection)

    def _close(self, connection: Connection, why: str) -> None:
        text = "syslog: a connection of %s is closed: %s"
        _closings.write(logging.WARNING, text, connection.peer, why)
        self._drop(connection)

    def _add(self, taken: Taken, message: bytes, peer: str) -> None:
        if message:
            taken.values.append(message)
            taken.metadata.append(_metadata(peer))
            self._size += len(message)

    def _drop(self, connection: Connection) -> None:
        assert self._selector is not None
        self._served.pop(connection.socket.fileno(), None)
        del self._connections[connection.socket]
        self._selector.unregister(connection.socket)
        connection.socket.close()

    def acknowledge(self) -> None:
        """See `Receiver`. There is nobody to be told."""

    def rest(self) -> None:
        """See `Receiver`. Streams wait in the buffers of the kernels, datagrams may be lost."""

    def close(self) -> None:
        """See `Receiver`."""
        selector, self._selector = self._selector, None
        if selector is None:
            return
        for key in list(selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        selector.close()
        self._connections.clear()
        self._served.clear()
        self._lost.clear()


@lru_cache(maxsize=10_000)
def _metadata(peer: str) -> bytes:
    return encode_metadata(Metadata(peer))
