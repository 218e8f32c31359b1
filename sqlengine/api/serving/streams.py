"""The bytes of a connection, as they are or through TLS; nothing here waits.

The thread that serves connections reads, those that answer requests write: an object of TLS may not
be used by two threads at once, and a socket must not be closed while another thread writes to it.
"""

from __future__ import annotations

import errno
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sqlengine.api.serving.certificates import name_in

# A record of TLS holds so much: what is left of one after a read would stay unseen by poll.
READ_SIZE: Final = 16 << 10
_DISCARDED: Final = 256 << 10
_GONE: Final = frozenset(
    {
        errno.ECONNRESET, errno.ENOTCONN, errno.ESHUTDOWN, errno.ECONNABORTED, errno.EPIPE,
        errno.EBADF, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH,
    }
)  # fmt: skip
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_HANDSHAKE: Final = 0x16


class Gone(Exception):
    """The other end has closed the connection, or breaks the rules of TLS."""


class PlainText(Exception):
    """The other end speaks HTTP without TLS."""


class Stream:
    """A socket that is not encrypted."""

    handshaking = False
    wants_write = False
    scheme = "http"

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._lock = threading.Lock()
        self.socket = connection

    def receive(self) -> bytes | None:
        """Returns what has come: b'' at the end, None if nothing has. Raises Gone."""
        try:
            with self._lock:
                return self.socket.recv(READ_SIZE)
        except _NOT_NOW:
            return None
        except OSError as error:
            raise _known(error) from None

    def send(self, data: bytes) -> int:
        """Sends as much as is possible now, and returns how much that is. Raises Gone."""
        try:
            with self._lock:
                return self.socket.send(data)
        except _NOT_NOW:
            return 0
        except OSError as error:
            raise _known(error) from None

    def handshake(self) -> None:
        """Goes on with the handshake, if there is one. Raises Gone, and PlainText."""

    def certificate(self) -> str | None:
        """Returns the name in the certificate of the other end, None without one."""
        return None

    def send_plain(self, data: bytes) -> None:
        """Sends what a client without TLS can read, where TLS is spoken, and nothing more."""

    def end(self) -> None:
        """Tells the other end that nothing more comes. Raises Gone."""
        with self._lock, _gone():
            socket.socket.shutdown(self.socket, socket.SHUT_WR)

    def discard(self) -> bool:
        """Drops what has come, as it came; False at the end. Raises Gone."""
        with self._lock, _gone():
            try:
                return bool(socket.socket.recv(self.socket, _DISCARDED))
            except BlockingIOError:
                return True

    def close(self) -> None:
        """Closes the socket. May be called twice."""
        with self._lock, suppress(OSError):
            self.socket.close()


class TlsStream(Stream):
    """A socket with TLS, of the server's side."""

    handshaking = True
    scheme = "https"

    def __init__(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(connection)
        self._begun = False
        self.socket = context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )

    def handshake(self) -> None:
        with self._lock, _gone():
            try:
                if not self._begun:
                    self._look()
                self._tls.do_handshake()
            except (BlockingIOError, ssl.SSLWantReadError):
                self.wants_write = False
            except ssl.SSLWantWriteError:
                self.wants_write = True
            else:
                self.handshaking = self.wants_write = False

    def certificate(self) -> str | None:
        with self._lock:
            return name_in(self._tls.getpeercert())

    def send_plain(self, data: bytes) -> None:
        """Sends what a client without TLS can read, and nothing more."""
        with self._lock, suppress(OSError):
            socket.socket.send(self.socket, data)
            socket.socket.shutdown(self.socket, socket.SHUT_WR)

    def end(self) -> None:
        """Says so within TLS, too: else the other end takes the answer for cut off."""
        with self._lock, suppress(OSError, ValueError):
            self._tls.unwrap()
        super().end()

    @property
    def _tls(self) -> ssl.SSLSocket:
        assert isinstance(self.socket, ssl.SSLSocket)
        return self.socket

    def _look(self) -> None:
        """Raises PlainText if the first byte begins no handshake of TLS."""
        first = socket.socket.recv(self.socket, 1, socket.MSG_PEEK)
        if not first:
            raise Gone("it was closed")
        if first[0] != _HANDSHAKE:
            raise PlainText
        self._begun = True


@contextmanager
def _gone() -> Iterator[None]:
    """Raises Gone for what shows that the other end is away."""
    try:
        yield
    except OSError as error:
        raise _known(error) from None


def _known(error: OSError) -> OSError | Gone:
    """Returns Gone for an error that shows that the other end is away, else the error. SSLError is
    an OSError whose first argument is no errno."""
    if isinstance(error, ssl.SSLError):
        return Gone(error.reason or str(error))
    return Gone(error.strerror) if error.errno in _GONE else error
