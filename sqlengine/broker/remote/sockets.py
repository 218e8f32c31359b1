"""Both ends of the sockets over which other processes reach a broker, of whatever kind they are: a
thread for each connection, and a pool of them in the client."""

from __future__ import annotations

import logging
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from time import sleep
from typing import Final

from sqlengine.broker.errors import BrokerUnreachable
from sqlengine.broker.remote.frames import receive, send
from sqlengine.broker.remote.request_handler import handle_request
from sqlengine.broker.remote.wire import Served

log = logging.getLogger("sqlengine")

# The process has no more file descriptors: seconds until it looks for the next connection.
_FULL_S: Final = 0.5


class Acceptor:
    """Accepts the connections of a listening socket until `close`; a thread `serve`s each, and
    closes it when that returns."""

    def __init__(self, listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        self._socket = listening
        self._serve = serve
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._accept, name="near", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Closes all connections; clients that wait for a response get BrokerUnreachable."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            connections, self._open = self._open, set()
        for connection in connections:
            hang_up(connection)
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if self._closed:
                    return
                log.warning("a connection to the broker was not accepted: %s", error)
                sleep(_FULL_S)
                continue
            with self._lock:
                self._open.add(connection)
            threading.Thread(target=self._run, args=(connection,), name="near", daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._serve(connection)
        except OSError as error:
            log.debug("a connection to the broker ended: %s", error)
        except Exception:
            log.exception("a question to the broker was not answered")
        finally:
            with self._lock:
                self._open.discard(connection)


def answer(broker: Served, connection: socket.socket) -> None:
    """Answers the requests of a connection, one after the other, until the other side closes it."""
    while (request := receive(connection)) is not None:
        send(connection, handle_request(broker, request))


def hang_up(connection: socket.socket) -> None:
    """Ends a connection; the thread that serves it finds that it has ended."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class SocketTransport(ABC):
    """Sends requests to `name`, over as many connections as threads use at once.

    Raises BrokerUnreachable when the server is gone.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []

    @abstractmethod
    def _connect(self) -> socket.socket:
        """Returns a new connection. OSError if nobody answers."""

    def __call__(self, request: bytes, retryable: bool) -> bytes:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        try:
            connection = connection or self._connect()
            send(connection, request)
            response = receive(connection)
        except OSError as error:
            if connection is not None:
                connection.close()
            raise self._unreachable(error.strerror or str(error)) from None
        if response is None:
            connection.close()
            raise self._unreachable("it closed the connection")
        with self._lock:
            self._idle.append(connection)
        return response

    def close(self) -> None:
        """Closes the idle connections; requests open new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _unreachable(self, why: str) -> BrokerUnreachable:
        return BrokerUnreachable(f"the server behind {self._name} is gone", detail=why)
