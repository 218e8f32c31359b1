"""One connection: its requests in order, its deadlines, and its end."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from waitress.channel import HTTPChannel
from waitress.task import WSGITask

from parser.limits import present
from sqlengine.api.serving.admission import (
    ADMITTED,
    HUNG_UP,
    LANE,
    PEER,
    Admit,
    Head,
    Peer,
    Refusal,
    as_routed,
)
from sqlengine.api.serving.channels import Channels
from sqlengine.api.serving.lanes import BROKER, LaneName
from sqlengine.api.serving.request_parser import RequestParser, too_slow
from sqlengine.api.serving.streams import Gone, PlainText, Stream
from sqlengine.system.log_lines import FewLines

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

log = logging.getLogger("sqlengine")
_handshakes = FewLines(log)
# A body, and a reader of an answer, has a second for so many bytes, besides `body-time`.
LEAST_RATE: Final = 4 << 10
# A connection without a request is closed after so many seconds; that of a client which was refused
# is read from for so long, so that the client sees the answer.
IDLE_S: Final = 120.0
LINGER_S: Final = 5.0
# A connection without a complete head does not give way before it is so old.
YOUNG_S: Final = 0.5
# A client that has its answer asks again before the thread is done that has answered: so many more
# requests are read.
LOOK_AHEAD: Final = 1
# Larger parts of an answer are not copied to stand behind its head.
_JOINED: Final = 64 << 10
_PLAIN: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"this port speaks https: write https:// in the address\n"
)


class Server(Protocol):
    """The listening socket that has accepted a connection, and what it says of all of them."""

    admit: Admit | None
    adj: object
    _map: Channels

    def add_task(self, connection: Connection) -> None:
        """Has the connection's first request answered."""

    def look_at(self, connection: Connection) -> None:
        """Has the thread of the server see what the connection waits for."""

    def full(self) -> Refusal:
        """Returns the refusal of a request beyond the limits of connections."""

    def joined(self, connection: Connection) -> None:
        """Counts a connection."""

    def left(self, connection: Connection) -> None:
        """Counts a connection no more."""


class Answer(WSGITask):  # type: ignore[misc]
    """The answer of the application."""

    wrote_header: bool

    def get_environment(self) -> WSGIEnvironment:
        """Returns the WSGI environment, with the peer and what was decided on the request."""
        environ: WSGIEnvironment = super().get_environment()
        environ[PEER] = self.channel.peer
        environ[ADMITTED] = self.request.admitted
        environ[LANE] = self.request.lane
        environ[HUNG_UP] = self.channel.hung_up
        return environ

    def write(self, data: bytes) -> None:
        """Sends the head together with the first part of the body: one packet, one record of TLS
        for small answers."""
        if self.wrote_header or not self.complete:
            super().write(data)
            return
        self.channel.held = self.build_response_header()
        self.wrote_header = True
        super().write(data)
        self.channel.write_held()


class Connection(HTTPChannel):  # type: ignore[misc]
    """A connection. Requests are read by the thread of the server, and answered one after the other
    by a thread of a lane.

    `key`: what connections are counted by. `reserved`: beyond the limits, for health alone.
    """

    task_class = Answer
    # Of waitress, which has no types.
    server: Server
    socket: object
    request: RequestParser | None
    requests: list[RequestParser]
    total_outbufs_len: int
    close_when_flushed: bool
    will_close: bool
    connected: bool
    _fileno: int | None

    def __init__(
        self, server: Server, stream: Stream, peer: Peer, key: str, *, reserved: bool
    ) -> None:
        self.stream = stream
        self.peer = peer
        self.key = key
        self.reserved = reserved
        self.admit: Admit | None = self._for_health if reserved else server.admit
        self.parser_class = self._new_parser
        self.created = self.active = time.monotonic()
        self.answered = self._at_end = self._blocked = False
        self._lingers: float | None = None
        self._sent = 0
        self.held = b""
        self._writing: tuple[float, int] | None = None
        address = (peer.address or f"uid:{peer.uid}", 0)
        super().__init__(server, stream.socket, address, server.adj, map=server._map)

    @property
    def descriptor(self) -> int | None:
        """The descriptor of the socket, None once it is closed."""
        return self._fileno

    @property
    def scheme(self) -> str:
        return self.stream.scheme

    def hung_up(self) -> bool:
        """Returns whether the client has closed the connection, or its side of it. Any thread."""
        return self._at_end or self.socket is None or not self.connected

    def add_channel(self, channels: Any = None) -> None:
        super().add_channel(channels)
        self.server.joined(self)

    def del_channel(self, channels: Any = None) -> None:
        super().del_channel(channels)
        self.server.left(self)

    # ---- what poll asks and tells ------------------------------------------------------------

    def readable(self) -> bool:
        if self._lingers is not None:
            return True
        if self.stream.handshaking:
            return not self.stream.wants_write
        if self.close_when_flushed or self.will_close or self._unsent():
            return False
        return len(self.requests) <= (0 if self._at_end else LOOK_AHEAD)

    def writable(self) -> bool:
        if self.stream.handshaking and self._lingers is None:
            return self.stream.wants_write
        return self.will_close or self.close_when_flushed or self._unsent()

    def _unsent(self) -> bool:
        """Returns whether there is something to send. While a request is answered, that is what its
        thread could not send: what else is in the buffers is on its way."""
        return self._blocked if self.requests else self.total_outbufs_len > 0

    def handle_read(self) -> None:
        try:
            if self._lingers is not None:
                if not self.stream.discard():
                    self.handle_close()
                return
            if self.stream.handshaking:
                self._shake_hands()
                return
            data = self.stream.receive()
        except Gone:
            self.handle_close()
            return
        if data:
            self.active = time.monotonic()
            self.received(data)
        elif self.requests:
            self._at_end = data is not None  # who has asked all may wait for the answers
        elif data is not None:
            self.handle_close()

    def handle_write(self) -> None:
        if self.socket is None:
            return
        if self.stream.handshaking:
            self._shake_hands()
            return
        if not self.requests:
            self._flush_exception(self._flush_some)
        elif self.total_outbufs_len:
            self._flush_exception(self._flush_some_if_lockable)
        self._blocked = False  # before the look: a thread that answers may block it again
        self._blocked = self.total_outbufs_len > 0
        if self.close_when_flushed and not self.total_outbufs_len:
            self._linger()
        elif self.will_close:
            self.handle_close()

    def handle_expt(self) -> None:
        """Closes the connection: nothing of HTTP is urgent data."""
        self.handle_close()

    def send(self, data: bytes, do_close: bool = True) -> int:
        """Sends what can be sent now. Called by both threads, under the lock of the output."""
        try:
            sent = self.stream.send(data)
        except Gone:
            if do_close:
                self.handle_close()
            return 0
        if sent:
            self._sent += sent
            self.active = time.monotonic()
        return sent

    def handle_close(self) -> None:
        super().handle_close()
        self.stream.close()

    def write_soon(self, data: Any) -> int:
        """Sends a part of an answer, behind the head that is held. Called by threads of lanes."""
        if self.held and isinstance(data, bytes) and len(data) <= _JOINED:
            data, self.held = self.held + data, b""
        else:
            self.write_held()
        return self._write_soon(data)

    def write_held(self) -> None:
        """Sends the head of an answer that is still held."""
        if self.held:
            held, self.held = self.held, b""
            self._write_soon(held)

    def _write_soon(self, data: Any) -> int:
        written = int(super().write_soon(data))
        if self.total_outbufs_len:
            self._blocked = True
            self.server.look_at(self)
        return written

    def _shake_hands(self) -> None:
        try:
            self.stream.handshake()
        except PlainText:
            self.stream.send_plain(_PLAIN)
            self._lingers = time.monotonic() + LINGER_S
            return
        except Gone as error:
            _handshakes.write(logging.INFO, "no TLS with %s: %s", self.addr[0], error)
            self._linger()  # else the client might not see the alert that says why
            return
        if not self.stream.handshaking:
            self.peer = Peer(self.peer.address, self.peer.uid, self.stream.certificate())

    # ---- requests ----------------------------------------------------------------------------

    def service(self) -> None:
        self.answered = True
        super().service()
        self.active = time.monotonic()
        if (
            self.total_outbufs_len
            or self.close_when_flushed
            or self.will_close
            or not self.server._map.is_read(self.descriptor)
        ):
            self.server.look_at(self)

    @property
    def lane(self) -> LaneName:
        """The lane of the request that is to be answered."""
        return self.requests[0].lane

    @property
    def is_for_broker(self) -> bool:
        """True if the request that is to be answered is one to the broker."""
        return as_routed(self.requests[0].path) == BROKER

    def deny(self, refused: Refusal) -> None:
        """Answers the request that is to be answered with a refusal."""
        self.requests[0].deny(refused)

    def _new_parser(self, adjustments: Any) -> RequestParser:
        return RequestParser(adjustments, self)

    def _for_health(self, head: Head) -> Refusal | None:
        if head.path in ("/healthz", "/readyz"):
            admit = self.server.admit
            return None if admit is None else admit(head)
        return self.server.full()

    # ---- deadlines ---------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Ends what takes too long. Called by the thread of the server, at `now` (monotonic)."""
        if self.socket is None:
            return
        limits, request = present(), self.request
        if self._lingers is not None:
            late = now > self._lingers
        elif self.stream.handshaking or not (self.answered or request or self.requests):
            late = now - self.created > limits.head_time
        elif self.total_outbufs_len:
            late = self._reads_slowly(now)
        elif self.requests:
            late = False
        elif request is None:
            late = now - self.active > IDLE_S
        else:
            self._check_request(request, now)
            return
        if not self.total_outbufs_len:
            self._writing = None
        if late:
            self.handle_close()

    def _check_request(self, request: RequestParser, now: float) -> None:
        limits, part = present(), "body" if request.headers_finished else "head"
        if part == "head":
            late = now - request.began > limits.head_time
        else:
            allowed = limits.head_time + limits.body_time + request.wire / LEAST_RATE
            late = now - request.began > allowed or now - request.progressed > limits.body_time
        if not late:
            return
        with self.requests_lock:
            self.request = None
            request.deny(too_slow(part))
            self.requests.append(request)
            self.server.add_task(self)

    def _reads_slowly(self, now: float) -> bool:
        """Returns whether the client takes too little of its answer."""
        began, sent = self._writing = self._writing or (now, self._sent)
        allowed = present().body_time
        slow = now - began > allowed + (self._sent - sent) / LEAST_RATE
        return slow or now - max(began, self.active) > allowed

    def _linger(self) -> None:
        """Closes the connection behind its last answer. What still comes is read for a while: a
        socket that is closed with unread bytes takes the answer back."""
        self.close_when_flushed = False
        self._lingers = time.monotonic() + LINGER_S
        try:
            self.stream.end()
        except Gone:
            self.handle_close()

    # ---- the end -----------------------------------------------------------------------------

    def rank(self, now: float, *, hurried: bool = False) -> tuple[int, float] | None:
        """Returns how dispensable a connection is when there are too many, the least number first;
        None for one that is not: idle ones, then those without a complete head, the oldest first,
        then bodies that take longer than a head may. Who has just come has a moment to ask, but not
        on a place in reserve, nor if `hurried`."""
        if self.requests or self.total_outbufs_len:
            return None
        request = self.request
        if self._lingers is not None or (request is None and self.answered):
            return 0, self.active
        if request is None or not request.headers_finished:
            began = self.created if request is None else request.began
            old = self.reserved or hurried or now - began > YOUNG_S
            return (1, began) if old else None
        slow = now - request.began > present().head_time
        return (2, request.began) if slow else None
