"""A connection to one server, with any number of requests in flight."""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from io import BufferedReader
from typing import BinaryIO, Final, cast

from sqlengine.broker.rocketmq import wire
from sqlengine.broker.rocketmq.errors import RocketAway
from sqlengine.broker.rocketmq.tls import SharedTls
from sqlengine.broker.rocketmq.wire import Account, Answer

log = logging.getLogger("sqlengine.connectors")

_CONNECT_S: Final = 5.0
_BUFFER: Final = 1 << 18


class Connection:
    """Asks one server. Any thread; none waits but those that ask for a result.

    A thread of its own connects, and completes what `begin` returned as answers come. Once the
    connection is lost all that waits fails with RocketAway, and so does what is asked then: who
    wants to go on opens another one. `ended_idle`: it was lost after its answers, while nobody
    waited, as servers end connections that are not used (after 2 minutes)."""

    def __init__(self, address: str, account: Account, context: ssl.SSLContext | None) -> None:
        self.address = address
        self._account = account
        self._context = context
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._sends: Callable[[bytes], object] | None = None
        self._unsent: list[bytes] = []
        self._waiting: dict[int, Future[Answer]] = {}
        self._next = 0
        self._lost: RocketAway | None = None
        self._answered = False
        self.connected = False
        self.ended_idle = False
        threading.Thread(target=self._run, name=f"rocketmq {address}", daemon=True).start()

    @property
    def lost(self) -> bool:
        """True once it is of no use any more."""
        return self._lost is not None

    # ---- requests --------------------------------------------------------------------------------

    def begin(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> Future[Answer]:
        """Sends a request. Its answer comes, or RocketAway."""
        answer: Future[Answer] = Future()
        answer.set_running_or_notify_cancel()
        signed = self._account.signed(fields, body)
        with self._lock:
            if self._lost is not None:
                answer.set_exception(self._lost)
                return answer
            self._next = number = (self._next + 1) & 0x7FFFFFFF
            self._waiting[number] = answer
            data = wire.request(code, number, signed, body)
            if self._socket is None or self._sends is None:
                self._unsent.append(data)
                return answer
            try:
                self._sends(data)
            except OSError as error:
                # The thread that reads sees the end, and fails what waits.
                self._shut(self._socket)
                log.debug("rocketmq %s: %s", self.address, error)
        return answer

    def call(
        self, code: int, fields: Mapping[str, str], body: bytes = b"", *, timeout_s: float
    ) -> Answer:
        """Returns the answer to a request. RocketAway where none comes in time: the connection is
        closed then, since nobody knows what it is good for."""
        return self.wait(self.begin(code, fields, body), timeout_s)

    def wait(self, answer: Future[Answer], timeout_s: float) -> Answer:
        """Waits for what `begin` has returned, as `call` does."""
        try:
            return answer.result(timeout_s)
        except NotInTime:
            self.close(f"no answer for {timeout_s:g} s")
            raise RocketAway(
                f"RocketMQ at {self.address} does not answer",
                detail=f"no answer for {timeout_s:g} s",
            ) from None

    def close(self, why: str = "closed") -> None:
        """Closes the connection; what waits fails."""
        self._end(OSError(why))

    # ---- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with self._connect() as stream:
                self._read(stream)
        except (OSError, ValueError, struct.error) as error:
            self._end(error)
        except BaseException as error:  # what waits must not wait for ever
            self._end(error)
            raise

    def _connect(self) -> BinaryIO:
        host, _, port = self.address.rpartition(":")
        made = socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            stream: BinaryIO
            sends: Callable[[bytes], object]
            if self._context is None:
                made.settimeout(None)
                stream, sends = cast("BinaryIO", made.makefile("rb", _BUFFER)), made.sendall
            else:
                made = encrypted = self._context.wrap_socket(made, server_hostname=host.strip("[]"))
                shared = SharedTls(encrypted)
                stream, sends = BufferedReader(shared, _BUFFER), shared.sendall
            with self._lock:
                if self._lost is not None:
                    raise self._lost
                sends(b"".join(self._unsent))
                self._unsent, self._socket, self._sends = [], made, sends
                self.connected = True
        except BaseException:
            made.close()
            raise
        return stream

    def _read(self, stream: BinaryIO) -> None:
        while len(sizes := stream.read(wire.SIZES.size)) == wire.SIZES.size:
            head_length, length = wire.lengths(sizes)
            head = wire.parsed(stream.read(head_length))
            body = stream.read(length)
            if len(body) < length:
                break
            # Requests of the server are news that we find out by ourselves.
            if head.is_answer:
                with self._lock:
                    self._answered = True
                    waiting = self._waiting.pop(head.opaque, None)
                if waiting is not None:
                    waiting.set_result(
                        Answer(head.code, head.remark or "", head.fields or {}, body)
                    )
        raise ConnectionResetError("the server has closed the connection")

    def _end(self, error: BaseException) -> None:
        with self._lock:
            if self._lost is None:
                words = error.strerror if isinstance(error, OSError) else None
                self._lost = RocketAway(
                    f"RocketMQ at {self.address} cannot be reached",
                    detail=words or str(error) or type(error).__name__,
                )
                self.ended_idle = self._answered and not self._waiting
            lost, waiting = self._lost, list(self._waiting.values())
            self._waiting.clear()
            self._unsent.clear()
            if self._socket is not None:
                self._shut(self._socket)
        for answer in waiting:
            with suppress(InvalidStateError):
                answer.set_exception(lost)

    @staticmethod
    def _shut(made: socket.socket) -> None:
        with suppress(OSError):
            made.shutdown(socket.SHUT_RDWR)
        made.close()
