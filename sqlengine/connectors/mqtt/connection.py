"""A connection of a client to a server of MQTT, used by one thread."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from parser.errors import ServiceError
from sqlengine.connectors.mqtt.account import Account
from sqlengine.connectors.mqtt.packets import (
    DISCONNECT,
    LARGEST,
    PING,
    V5,
    Kind,
    Packet,
    PacketReader,
    Publish,
    connect,
)
from sqlengine.connectors.mqtt.properties import Decoded, Properties, decoded_properties, number_at
from sqlengine.connectors.mqtt.reasons import REASONS, REFUSALS
from sqlengine.connectors.receivers.base import Unreachable
from sqlengine.connectors.tls.errors import tls_words

# Bytes that are taken from the socket at once.
_READ: Final = 256 << 10
# Seconds that a server has to end a connection which the client has ended.
_PARTING_S: Final = 2.0
# What a server that speaks no TLS does, if it says nothing.
_NO_TLS: Final = "it ends a connection that begins with TLS: tcp:// may be right"
_CLOSED: Final = "it has closed the connection"
# What one that speaks TLS does to a client that does not.
_CUT: Final = (_CLOSED, os.strerror(errno.ECONNRESET))
# Packets that are about the connection.
_OWN: Final = (Kind.PINGRESP, Kind.DISCONNECT)


class ConnectionLost(Unreachable):
    """The connection is gone, or there was none; another one may work."""


class Connection:
    """A connection from its opening to its end: `receive` returns what the server says; pings are
    made and taken here.

    Every method raises ConnectionLost where there is no connection any more, in words for people.
    Opening takes twice `Account.timeout_s` at most."""

    def __init__(self, account: Account) -> None:
        """Connects. `resumed`: the server has kept the session of before; `in_flight`: how many
        messages it takes before it has acknowledged one."""
        self._account = account
        self._number = 0
        self._keep_alive_s = account.keep_alive_s
        self._reader = PacketReader(account.version)
        self._early: list[Publish | Packet] = []
        self._sent = self._heard = time.monotonic()
        self._pinged: float | None = None
        self._pongs = 0
        self._answered = False
        self.resumed, self.in_flight = False, 65_535
        self._socket = self._opened()
        try:
            self._introduce()
        except BaseException:
            self._socket.close()
            raise

    # ---- opening ---------------------------------------------------------------------------------

    def _opened(self) -> socket.socket:
        account, address = self._account, self._account.address
        context = account.context() if address.tls else None
        try:
            opened = socket.create_connection((address.host, address.port), account.timeout_s)
        except OSError as error:
            raise self._lost(_words(error)) from None
        except UnicodeError:
            raise self._lost("this is no name of a host") from None
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return opened
        try:
            return context.wrap_socket(opened, server_hostname=address.host)
        except (OSError, ValueError) as error:
            opened.close()
            reset = isinstance(error, ConnectionError) and not isinstance(error, ssl.SSLError)
            raise self._lost(_NO_TLS if reset else _words(error)) from None

    def _introduce(self) -> None:
        """Sends CONNECT and waits for the answer."""
        account = self._account
        properties = {Properties.RECEIVE_MAXIMUM: account.in_flight}
        properties[Properties.LARGEST_PACKET] = LARGEST
        if account.expiry_s:
            properties[Properties.SESSION_EXPIRY] = account.expiry_s
        self.send(
            connect(
                account.version,
                account.client,
                clean=account.clean,
                keep_alive_s=account.keep_alive_s,
                user=account.user,
                password=account.password,
                will=account.will,
                properties={int(k): v for k, v in properties.items()},
            )
        )
        self._take_limits(self.answer(Kind.CONNACK))

    def _take_limits(self, answer: Packet) -> None:
        """Takes the limits of the connection from a CONNACK. ConnectionLost where the server
        refuses the client."""
        self._answered = True
        if len(answer.body) < 2:
            raise self._lost("it answers nonsense")
        self.resumed = bool(answer.body[0] & 1)
        told = self._properties(answer.body[2:])
        if answer.body[1]:
            raise self._refused(answer.body[1], told)
        self.in_flight = told.numbers.get(Properties.RECEIVE_MAXIMUM, 65_535)
        self._keep_alive_s = told.numbers.get(Properties.KEEP_ALIVE, self._account.keep_alive_s)

    def _properties(self, data: bytes) -> Decoded:
        """Returns the properties at the end of a packet of MQTT 5."""
        if self._account.version != V5 or not data:
            return Decoded()
        try:
            length, at = number_at(data, 0)
            return decoded_properties(data[at : at + length])
        except ValueError as error:
            raise self._lost(str(error)) from None

    def _refused(self, code: int, told: Decoded) -> ConnectionLost:
        reasons = REASONS if self._account.version == V5 else REFUSALS
        why = told.text(Properties.REASON) or reasons.get(code, f"reason {code:#04x}")
        return self._lost(f"it refuses client '{self._account.client}': {why}")

    # ---- packets ---------------------------------------------------------------------------------

    def next_number(self) -> int:
        """Returns a number for a packet: 1 to 65,535 in turn."""
        self._number = self._number % 65_535 + 1
        return self._number

    def send(self, data: bytes) -> None:
        """Sends packets, waiting while the server takes nothing, for `timeout_s` at most."""
        try:
            self._socket.settimeout(self._account.timeout_s)
            self._socket.sendall(data)
        except OSError as error:
            raise self._lost(_words(error)) from None
        self._sent = time.monotonic()

    def receive(self, wait_s: float) -> list[Publish | Packet]:
        """Returns what has come, waiting for it so long at most; an empty list where nothing
        has."""
        if self._early:
            found, self._early = self._early, []
            return found
        self._socket.settimeout(max(wait_s, 0.0))
        try:
            data = self._socket.recv(_READ)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            # Only now: an answer may have come while nobody looked.
            self.keep_alive()
            return []
        except OSError as error:
            raise self._lost(_words(error)) from None
        if not data:
            raise self._lost(_CLOSED)
        self._heard, self._pinged = time.monotonic(), None
        self.keep_alive()
        return self._taken(data)

    def _taken(self, data: bytes) -> list[Publish | Packet]:
        try:
            found = self._reader.feed(data)
        except (ServiceError, ValueError) as error:
            raise self._lost(str(error)) from None
        own = [p for p in found if type(p) is Packet and p.kind in _OWN]
        for packet in own:
            if packet.kind is Kind.DISCONNECT:
                raise self._ended(packet)
        self._pongs += len(own)
        return [p for p in found if p not in own] if own else found

    def _ended(self, packet: Packet) -> ConnectionLost:
        code = packet.body[0] if packet.body else 0
        told = self._properties(packet.body[1:]).text(Properties.REASON)
        return self._lost(f"it ends the connection: {told or REASONS.get(code, hex(code))}")

    def answer(self, kind: Kind, number: int | None = None) -> Packet:
        """Returns the next packet of this kind, and for this number; what comes before it is what
        `receive` returns next."""
        return self.wait_for(lambda p: p.kind is kind and number in (None, p.number))

    def wait_for(self, wanted: Callable[[Packet], bool]) -> Packet:
        """Returns the first packet that is wanted; others that came are kept for `receive`."""
        deadline = time.monotonic() + self._account.timeout_s
        kept: list[Publish | Packet] = []
        while (left := deadline - time.monotonic()) > 0:
            found = self.receive(left)
            for index, packet in enumerate(found):
                if isinstance(packet, Packet) and wanted(packet):
                    self._early = kept + found[:index] + found[index + 1 :]
                    return packet
            kept += found
        raise self._lost(f"no answer for {self._account.timeout_s:g} s")

    def confirm(self) -> None:
        """Waits until the server has taken all that was sent."""
        before, deadline = self._pongs, time.monotonic() + self._account.timeout_s
        early: list[Publish | Packet] = []  # else `receive` would give the same again, without end
        self.send(PING)
        while self._pongs == before:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._lost(f"no answer for {self._account.timeout_s:g} s")
            early += self.receive(left)
        self._early = early

    # ---- time ------------------------------------------------------------------------------------

    def keep_alive(self, *, deaf: bool = False) -> None:
        """Sends a ping where it is due, and misses one that was not answered. `deaf`: what has come
        is not read now, so that no answer is missed."""
        if not self._keep_alive_s:
            return
        now = time.monotonic()
        if deaf:
            self._pinged = None
        elif self._pinged is not None and now - self._pinged > self._account.timeout_s:
            raise self._lost(f"no answer for {now - self._heard:.0f} s")
        if now - min(self._sent, self._heard) >= self._keep_alive_s / 2 and self._pinged is None:
            if deaf and now - self._sent < self._keep_alive_s / 2:
                return
            self.send(PING)
            self._pinged = now

    def close(self) -> None:
        """Ends the connection as a client does that is not lost: its will is not published."""
        with suppress(ServiceError, OSError):
            self.send(DISCONNECT)
            # What has come and is not read would reset the connection, and what was sent before be
            # lost. The server closes it when it has read that.
            deadline = time.monotonic() + _PARTING_S
            while (left := deadline - time.monotonic()) > 0:
                self._socket.settimeout(left)
                if not self._socket.recv(_READ):
                    break
        with suppress(OSError):
            self._socket.close()

    def _lost(self, why: str) -> ConnectionLost:
        if why in _CUT and not self._answered and not self._account.address.tls:
            why += ", without an answer: ssl:// may be right"
        return ConnectionLost(f"no connection to {self._account.address}: {why}")


def _words(error: Exception) -> str:
    """Returns an error of a connection for people."""
    told = tls_words(error, "tcp://")
    return told or getattr(error, "strerror", None) or str(error)
