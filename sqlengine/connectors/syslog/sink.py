"""Sending rows to a server of syslog.

Syslog has no acknowledgements. Over TCP and TLS an epoch is committed once the kernel of the other
side has all of it; a connection that breaks before is opened again, and the epoch sent anew."""

from __future__ import annotations

import fcntl
import socket
import ssl
import struct
import termios
import time
from collections.abc import Callable
from typing import Final

from sqlengine.batch import Batch
from sqlengine.connectors.base import Busy, Sink
from sqlengine.connectors.health import Health
from sqlengine.connectors.keep_alive import keep_alive
from sqlengine.connectors.syslog.addresses import Address
from sqlengine.connectors.syslog.framing import counted, in_line
from sqlengine.connectors.syslog.messages import Messages
from sqlengine.connectors.tls.errors import tls_words
from sqlengine.system.back_off import BackOff
from sqlengine.system.lanes import get_on
from sqlengine.system.network_access import NetworkAccess

# Bytes that are sent at once.
_SENT: Final = 256 << 10
_POLL_S: Final = 0.002
MOST_UDP: Final = 65_507


class SyslogSink(Sink):
    """Sends the rows of one table. While the server is away it is `Busy`."""

    def __init__(
        self,
        table: str,
        address: Address,
        messages: Messages,
        frames: str,
        network: NetworkAccess,
        timeout_s: float,
        context: ssl.SSLContext | None,
    ) -> None:
        self.health: Health = Health()
        self.now: Callable[[], float] = time.monotonic
        self._table = table
        self._address = address
        self._messages = messages
        self._frame = counted if frames == "octet-counting" else in_line
        self._network = network
        self._timeout_s = timeout_s
        self._context = context
        self._pending: list[bytes] = []
        self._socket: socket.socket | None = None
        self._back_off = BackOff()

    def last_epoch(self) -> int | None:
        return None

    def write(self, batch: Batch) -> None:
        if batch.num_rows:
            self._pending += self._messages.encode(batch, batch.proctime)

    def commit(self, epoch: int) -> int:
        """See `Sink`. Busy while the server is away."""
        if not self._pending:
            return 0
        if self.now() < self._back_off.until:
            raise self._busy()
        try:
            self._send()
        except OSError as error:
            self._close()
            why = tls_words(error, "tcp://") or error.strerror or error
            self.health.failed(f"{self._address}: {why}")
            self.health.retries += 1
            self._back_off.failed(self.now())
            raise self._busy() from None
        self._back_off.works()
        self.health.works()
        count, self._pending = len(self._pending), []
        return count

    def _send(self) -> None:
        connected = self._connected()
        if self._address.transport == "udp":
            for message in self._pending:
                connected.send(message)
            return
        part = bytearray()
        for message in self._pending:
            part += self._frame(message)
            if len(part) >= _SENT:
                connected.sendall(part)
                part.clear()
                get_on()
        connected.sendall(part)
        self._wait_until_taken(connected)

    def _wait_until_taken(self, connected: socket.socket) -> None:
        """Waits until the other side's kernel has all. Raises OSError where it has gone."""
        until = self.now() + self._timeout_s
        while _unsent(connected):
            if self.now() > until:
                raise TimeoutError("what was sent is not taken")
            time.sleep(_POLL_S)
        self._require_there(connected)

    def _require_there(self, connected: socket.socket) -> None:
        """Raises OSError where the other side has closed the connection."""
        connected.setblocking(False)
        try:
            if not connected.recv(4096):
                raise ConnectionResetError("the server has closed the connection")
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        finally:
            connected.settimeout(self._timeout_s)

    def _connected(self) -> socket.socket:
        if self._socket is not None:
            if self._address.transport != "udp":
                self._require_there(self._socket)
            return self._socket
        self._socket = self._connect()
        return self._socket

    def _connect(self) -> socket.socket:
        host, port = self._address.host, self._address.port
        if self._address.transport == "udp":
            family, kind, proto, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[
                0
            ]
            connected = socket.socket(family, kind, proto)
            connected.settimeout(self._timeout_s)
            connected.connect(place)
        else:
            connected = socket.create_connection((host, port), self._timeout_s)
            keep_alive(connected)
        try:
            self._network.check(host, str(connected.getpeername()[0]))
            if self._context is not None:
                connected = self._context.wrap_socket(connected, server_hostname=host)
        except BaseException:
            connected.close()
            raise
        return connected

    def _busy(self) -> Busy:
        left_s = max(self._back_off.until - self.now(), 0.0)
        return Busy(
            f"the syslog server of table '{self._table}' does not take rows now",
            detail=self.health.trouble,
            hint=f"its rows are kept, and sent again in {left_s:.0f} s",
        )

    def _close(self) -> None:
        connected, self._socket = self._socket, None
        if connected is not None:
            connected.close()

    def close(self) -> None:
        self._close()


def _unsent(connected: socket.socket) -> int:
    """Returns the bytes that the other side's kernel has not confirmed."""
    answer = fcntl.ioctl(connected.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
    found: int = struct.unpack("=i", answer)[0]
    return found
