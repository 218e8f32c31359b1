"""The broker of a server for its own processes: the messages of `wire`, over a Unix socket private
to the user.

A request and a response are frames: 4 bytes of length, then that many bytes. A thread serves each
connection, one request after the other; each costs a fifth of a request over HTTP.
"""

from __future__ import annotations

import logging
import shutil
import socket
import struct
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from sqlengine.broker.errors import BrokerUnreachable
from sqlengine.broker.remote.request_handler import handle_request
from sqlengine.broker.remote.wire import Served

log = logging.getLogger("sqlengine")

_LENGTH = struct.Struct("<I")
_MOST_WAITING = 64
_PREFIX = "sqlengine-broker-"


class UnixSocketServer:
    """Serves the broker at `path` from its creation until `close`. Its clients may do whatever the
    server may."""

    def __init__(self, broker: Served) -> None:
        self._broker = broker
        _remove_stale_folders()
        # The path of a socket is limited to about 100 bytes, which a data folder may exceed.
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.path = self._folder / "broker"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        unready = self.path.with_name("unready")
        self._socket.bind(str(unready))
        self._socket.listen(_MOST_WAITING)
        unready.rename(self.path)  # from here on the name means that the server listens
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, name="near", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Closes all connections; clients that wait for a response get BrokerUnreachable."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            connections, self._open = self._open, set()
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(connection)
            threading.Thread(
                target=self._serve, args=(connection,), name="near", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                while (request := receive(connection)) is not None:
                    send(connection, handle_request(self._broker, request))
        except OSError as error:
            log.debug("a connection to the broker ended: %s", error)
        except Exception:
            log.exception("a question to the broker was not answered")
        finally:
            with self._lock:
                self._open.discard(connection)


def _remove_stale_folders() -> None:
    """Removes the folders of servers that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/broker"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.setblocking(False)
            try:
                connection.connect(str(path))
            except ConnectionRefusedError:
                shutil.rmtree(path.parent, ignore_errors=True)
            except OSError as error:
                log.debug("%s is left: %s", path, error)


class UnixSocketTransport:
    """Sends requests to `path`, over as many connections as threads use at once.

    Raises BrokerUnreachable when the server is gone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []

    def __call__(self, request: bytes, retryable: bool) -> bytes:
        with self._lock:
            pooled = self._idle.pop() if self._idle else None
        connection = pooled or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if pooled is None:
                connection.connect(str(self._path))
            send(connection, request)
            response = receive(connection)
        except OSError as error:
            connection.close()
            raise self._unreachable(error.strerror or str(error)) from None
        if response is None:
            connection.close()
            raise self._unreachable("it closed the connection")
        with self._lock:
            self._idle.append(connection)
        return response

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _unreachable(self, why: str) -> BrokerUnreachable:
        return BrokerUnreachable(f"the server behind {self._path} is gone", detail=why)


def send(connection: socket.socket, frame: bytes) -> None:
    """Sends a frame."""
    connection.sendall(_LENGTH.pack(len(frame)) + frame)


def receive(connection: socket.socket) -> bytes | None:
    """Returns the next frame; None if the other side has closed the connection."""
    head = _exactly(connection, _LENGTH.size)
    return None if head is None else _exactly(connection, _LENGTH.unpack(head)[0])


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        got = connection.recv_into(view[at:])
        if not got:
            return None
        at += got
    return bytes(data)
