"""Encrypted connections that one thread reads while others write."""

from __future__ import annotations

import io
import select
import ssl
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_LOOK_MS: Final = 1000


@dataclass(frozen=True)
class Tls:
    """The encryption of a connection. Paths of files in PEM form: `trusted` certificates (empty:
    those of the system), and the client's own with its key. `verify`: the server has to prove who
    it is."""

    trusted: str = ""
    certificate: str = ""
    key: str = ""
    password: str = ""
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """Returns what wraps sockets. OSError where a file cannot be read."""
        context = ssl.create_default_context(cafile=self.trusted or None)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            context.load_cert_chain(
                self.certificate, self.key or None, lambda: self.password.encode()
            )
        return context


class SharedTls(io.RawIOBase):
    """A connection of TLS for several threads: OpenSSL must not be asked by two at the same time,
    so none waits in it."""

    def __init__(self, made: ssl.SSLSocket) -> None:
        made.setblocking(False)
        self._made = made
        self._lock = threading.Lock()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Waits for bytes; 0 at the end."""
        with memoryview(buffer) as view:
            while True:
                try:
                    with self._lock:
                        return self._made.recv_into(view)
                except ssl.SSLWantReadError:
                    self._wait(select.POLLIN)
                except ssl.SSLWantWriteError:
                    self._wait(select.POLLOUT)

    def sendall(self, data: bytes) -> None:
        """Sends all bytes; one thread at a time."""
        left = memoryview(data)
        while left:
            try:
                with self._lock:
                    left = left[self._made.send(left) :]
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN)

    def _wait(self, event: int) -> None:
        poll = select.poll()
        poll.register(self._made, event)
        poll.poll(_LOOK_MS)
