"""The stream of a slot: messages as the server sends them, and what it is told of how far they are
safe."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, Final

from sqlengine.connectors.postgres_cdc.database import unreachable
from sqlengine.connectors.postgres_cdc.pgoutput import Message, parse
from sqlengine.connectors.receivers.base import Unreachable

if TYPE_CHECKING:
    import psycopg

_STATUS: Final = Struct("!cQQQqB")
_KEEPALIVE: Final = Struct("!QqB")
_DATA: Final = 25  # bytes before a message
_SINCE_S: Final = 946_684_800
_STATUS_S: Final = 5.0  # between two that nobody has asked for


class SlotStream:
    """Reads one slot from what the server knows to be safe. `safe` is what it is told."""

    def __init__(
        self,
        connection: psycopg.Connection[tuple[object, ...]],
        slot: str,
        publication: str,
    ) -> None:
        self._connection = connection
        self._protocol = connection.pgconn
        self._told = time.monotonic()
        self._received = 0
        self.safe = 0
        self.idle_at = 0  # what the server has sent all of, where nothing came since
        names = publication.replace('"', '""').replace("'", "''")
        text = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL 0/0'
            f" (proto_version '1', publication_names '\"{names}\"')"
        )
        with unreachable():
            self._protocol.send_query(text.encode())
            self._protocol.flush()
            self._wait_for_copy()

    def _wait_for_copy(self) -> None:
        pq = import_module("psycopg.pq")
        while self._protocol.is_busy():
            self._wait(10)
            self._protocol.consume_input()
        result = self._protocol.get_result()
        if result is None or result.status != pq.ExecStatus.COPY_BOTH:
            told = b"" if result is None else result.error_message or b""
            raise Unreachable(" ".join(told.decode(errors="replace").split()))

    def messages(self, wait_s: float) -> Iterator[tuple[Message, int]]:
        """Yields messages with their sizes, as long as they come within `wait_s`."""
        until = time.monotonic() + wait_s
        with unreachable():
            while True:
                size, data = self._protocol.get_copy_data(1)
                if size > 0:
                    yield from self._message(bytes(data), size)
                elif size < 0:
                    raise self._ended()
                elif (left := until - time.monotonic()) > 0:
                    self._wait(left)
                    self._protocol.consume_input()
                else:
                    return

    def _message(self, data: bytes, size: int) -> Iterator[tuple[Message, int]]:
        kind = data[:1]
        if kind == b"w":
            self.idle_at = 0
            yield parse(data[_DATA:]), size
        elif kind == b"k":
            end, _, asks = _KEEPALIVE.unpack_from(data, 1)
            self.idle_at = end
            yield None, size
            if asks:
                self.tell()

    def _ended(self) -> Unreachable:
        result = self._protocol.get_result()
        told = b"" if result is None else result.error_message or b""
        return Unreachable(
            " ".join(told.decode(errors="replace").split()) or "the stream has ended"
        )

    def _wait(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._protocol.socket, select.POLLIN)
        poll.poll(max(int(seconds * 1000), 1))

    def tell_now_and_then(self) -> None:
        """Tells the server what is safe, if it has not been told for a while."""
        if time.monotonic() - self._told >= _STATUS_S:
            self.tell()

    def tell(self) -> None:
        """Tells the server what is safe: it keeps no more of its log than what is behind."""
        self._told = time.monotonic()
        now_us = int((time.time() - _SINCE_S) * 1e6)
        with unreachable():
            self._protocol.put_copy_data(
                _STATUS.pack(b"r", self.safe, self.safe, self.safe, now_us, 0)
            )
            self._protocol.flush()

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()
