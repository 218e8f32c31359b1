"""The broker of a server for its own processes: the questions of `remote.py`, over a socket that
only its user can open.

A question and an answer are frames: 4 bytes of length, then that many bytes. A connection is served
by a thread, one question after the other; each costs a fifth of what it does over HTTP."""

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
from sqlengine.broker.remote.answering import answer
from sqlengine.broker.remote.wire import Served

log = logging.getLogger("sqlengine")

_LENGTH = struct.Struct("<I")
_MOST_WAITING = 64
_PREFIX = "sqlengine-broker-"


class NearServer:
    """Answers at `path` from when it is made until `close`. What asks there may do whatever the
    server may."""

    def __init__(self, broker: Served) -> None:
        self._broker = broker
        _remove_left()
        self._folder = Path(
            tempfile.mkdtemp(prefix=_PREFIX)
        )  # a socket's path is short, a data folder's may not be
        self.path = self._folder / "broker"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        unready = self.path.with_name("unready")
        self._socket.bind(str(unready))
        self._socket.listen(_MOST_WAITING)
        unready.rename(self.path)  # whoever sees the name is answered, or the server is gone
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, name="near", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends all connections: whoever waits for an answer is told that there is none."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            held, self._open = self._open, set()
        for connection in held:
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
                while (question := receive(connection)) is not None:
                    send(connection, answer(self._broker, question))
        except OSError as error:
            log.debug("a connection to the broker ended: %s", error)
        except Exception:
            log.exception("a question to the broker was not answered")
        finally:
            with self._lock:
                self._open.discard(connection)


def _remove_left() -> None:
    """The folders of servers that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/broker"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.setblocking(False)
            try:
                connection.connect(str(path))
            except ConnectionRefusedError:
                shutil.rmtree(path.parent, ignore_errors=True)
            except OSError as error:
                log.debug("%s is left: %s", path, error)


class NearTransport:
    """Carries questions to `path`, over as many connections as threads ask at once. Raises
    BrokerUnreachable when the server is gone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._resting: list[socket.socket] = []

    def __call__(self, question: bytes, again: bool) -> bytes:
        with self._lock:
            kept = self._resting.pop() if self._resting else None
        connection = kept or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if kept is None:
                connection.connect(str(self._path))
            send(connection, question)
            answered = receive(connection)
        except OSError as error:
            connection.close()
            raise self._gone(error.strerror or str(error)) from None
        if answered is None:
            connection.close()
            raise self._gone("it closed the connection")
        with self._lock:
            self._resting.append(connection)
        return answered

    def close(self) -> None:
        with self._lock:
            resting, self._resting = self._resting, []
        for connection in resting:
            connection.close()

    def _gone(self, why: str) -> BrokerUnreachable:
        return BrokerUnreachable(f"the server behind {self._path} is gone", detail=why)


def send(connection: socket.socket, frame: bytes) -> None:
    """Sends a frame."""
    connection.sendall(_LENGTH.pack(len(frame)) + frame)


def receive(connection: socket.socket) -> bytes | None:
    """The next frame; None where the other side has closed."""
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
