"""Other clients of a server of MQTT: devices that publish, and somebody who listens."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Self

from sqlengine.connectors.mqtt.account import Account, address_of
from sqlengine.connectors.mqtt.connection import Connection
from sqlengine.connectors.mqtt.packets import (
    Kind,
    Publish,
    Version,
    acknowledgements,
    publish,
    subscribe,
)
from tests.support import PATIENCE_S

_NAMES = itertools.count(1)


class MqttClient:
    """A client with a session of its own, which ends with its connection."""

    def __init__(self, address: str, version: Version = 5, timeout_s: float = 10.0) -> None:
        self._version = version
        self._account = Account(
            address_of(address), f"test-{next(_NAMES)}-{time.time_ns()}", version, clean=True, keep_alive_s=0,
            timeout_s=timeout_s,
        )  # fmt: skip
        self.connection = Connection(self._account)
        self._came: list[Publish] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def publish(self, topic: str, *payloads: bytes, qos: int = 1, retain: bool = False) -> None:
        """Publishes messages, and returns when the server has confirmed all of them."""
        together = min(500, self.connection.in_flight)
        for begin in range(0, len(payloads), together):
            waiting = set[int]()
            for payload in payloads[begin : begin + together]:
                number = self.connection.next_number() if qos else 0
                waiting |= {number} if qos else set()
                self.connection.send(
                    publish(
                        self._version, topic.encode(), payload, qos=qos, retain=retain,
                        number=number,
                    )
                )  # fmt: skip
            self._confirmed(waiting)
        if not qos:
            self.connection.confirm()

    def _confirmed(self, waiting: set[int]) -> None:
        while waiting:
            packets = self.connection.receive(PATIENCE_S)
            assert packets, "the server does not confirm"
            for packet in packets:
                if isinstance(packet, Publish):
                    self._came.append(packet)
                elif packet.kind is Kind.PUBREC:
                    self.connection.send(acknowledgements(Kind.PUBREL, [packet.number]))
                elif packet.kind in (Kind.PUBACK, Kind.PUBCOMP):
                    waiting.discard(packet.number)

    def subscribe(self, *filters: str, qos: int = 1) -> None:
        """Asks for messages; returns when the server gives them from now on."""
        for one in filters:
            number = self.connection.next_number()
            self.connection.send(subscribe(self._version, number, one, qos, 1))
            self.connection.answer(Kind.SUBACK, number)

    def next(self, count: int) -> Sequence[Publish]:
        """The next messages, exactly so many, in order."""
        found: list[Publish] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} messages came"
            found += self.came()
        assert len(found) == count
        return found

    def came(self) -> Sequence[Publish]:
        """The messages that have come, after a moment of waiting for them."""
        found, self._came = self._came, []
        found += [p for p in self.connection.receive(0.2) if isinstance(p, Publish)]
        ones = [p.number for p in found if p.qos == 1]
        self.connection.send(acknowledgements(Kind.PUBACK, ones))
        return found
