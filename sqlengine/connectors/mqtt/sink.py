"""Publishing rows, at least once: an epoch is committed when the server has confirmed all of it."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

import pyarrow as pa

from parser.errors import ExecutionError
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.base import Busy, Sink
from sqlengine.connectors.encoded import RowEncoder
from sqlengine.connectors.health import Health
from sqlengine.connectors.mqtt.account import Account
from sqlengine.connectors.mqtt.connection import Connection, ConnectionLost
from sqlengine.connectors.mqtt.packets import Kind, Packet, Publish, acknowledgements, publish
from sqlengine.connectors.mqtt.reasons import refusal
from sqlengine.connectors.mqtt.templates import TopicTemplate
from sqlengine.formats.registry import encoder_for
from sqlengine.system.back_off import BackOff
from sqlengine.system.lanes import get_on

# Messages that are on their way at the same time, at most, and how many are sent together.
_IN_FLIGHT: Final = 1000
_TOGETHER: Final = 250
# Reason codes from here on are refusals; one of them passes.
_REFUSED: Final = 0x80
_OVER_QUOTA: Final = 0x97


class MqttRecords(RowEncoder):
    """Makes messages of rows: their topics and payloads. PlanError where the table's topic names
    what cannot be part of one."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._template = TopicTemplate(table)
        self._encoder = encoder_for(table)
        self._names = table.physical.names

    def encode(self, rows: Batch) -> tuple[pa.Array, ...]:
        """See `RowEncoder`."""
        own = rows.with_columns(
            rows.schema.select(self._names), [rows.column(name) for name in self._names]
        )
        return self._template.topics(own).cast(pa.binary()), self._encoder.encode(own)


class MqttSink(Sink):
    """Publishes the rows of an epoch at its commit.

    While the server is away the rows wait, and a commit that is tried again goes on behind what was
    confirmed before. Attempts to connect have pauses of 1 s doubling to a minute."""

    def __init__(self, table: Table, account: Account, qos: int, *, retain: bool) -> None:
        self._table = table
        self._account = account
        self._records = MqttRecords(table)
        self._qos, self._retain = qos, retain
        self._pending: deque[tuple[bytes, bytes]] = deque()
        self.health: Health = Health()
        self._rows = 0  # since the last commit
        self._connection: Connection | None = None
        self._pauses = BackOff()
        self._why = ""

    def last_epoch(self) -> int | None:
        """See `Sink`. The server remembers no epochs."""
        return None

    def write(self, batch: Batch) -> None:
        """See `Sink`."""
        if not batch.num_rows:
            return
        topics, payloads = (column.to_pylist() for column in self._records.encoded(batch))
        self._pending += zip(topics, payloads, strict=True)
        self._rows += len(payloads)

    def commit(self, epoch: int) -> int:
        """See `Sink`. Busy while the server is away, or does not answer."""
        if not self._pending:
            return self._committed()
        try:
            connection = self._connected()
            Delivery(connection, self._account, self._qos, retain=self._retain).send(self._pending)
        except ConnectionLost as error:
            self.close()
            self._failed(error.message)
            raise Busy(
                f"table '{self._table.display}' cannot be written now",
                detail=error.message,
                hint="its rows are kept, and published when the server is back",
            ) from None
        self._pauses.works()
        self.health.works()
        return self._committed()

    def _committed(self) -> int:
        count, self._rows = self._rows, 0
        return count

    def _connected(self) -> Connection:
        """Returns the connection, or another one where the server has ended it since."""
        if self._connection is not None:
            try:
                self._connection.receive(0.0)
            except ConnectionLost:
                self.close()
            else:
                return self._connection
        if time.monotonic() < self._pauses.until:
            raise ConnectionLost(self._why)
        if self.health.trouble is not None:
            self.health.retries += 1
        self._connection = Connection(self._account)
        return self._connection

    def _failed(self, why: str) -> None:
        """Notes why rows do not go, and for an attempt that has failed the pause until the next."""
        self._why = why
        self.health.failed(why)
        if (now := time.monotonic()) >= self._pauses.until:
            self._pauses.failed(now)

    def close(self) -> None:
        """See `Sink`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class Delivery:
    """Sends messages over a connection until the server has confirmed each."""

    def __init__(self, connection: Connection, account: Account, qos: int, *, retain: bool) -> None:
        self._connection = connection
        self._account = account
        self._qos, self._retain = qos, retain
        self._flying: dict[int, tuple[bytes, bytes]] = {}

    def send(self, messages: deque[tuple[bytes, bytes]]) -> None:
        """Takes the messages that were confirmed off the left. ConnectionLost where the rest was
        not; ExecutionError for a message that the server refuses."""
        try:
            while messages or self._flying:
                self._launch(messages)
                if self._flying:
                    self._land()
            if not self._qos:
                self._connection.confirm()
        finally:
            messages.extendleft(reversed(self._flying.values()))
            self._flying = {}

    def _launch(self, messages: deque[tuple[bytes, bytes]]) -> None:
        """Sends as many messages as may be on their way."""
        connection, flying = self._connection, self._flying
        most = min(_IN_FLIGHT, connection.in_flight)
        while messages and len(flying) < most:
            packets: list[bytes] = []
            while messages and len(packets) < _TOGETHER and len(flying) < most:
                topic, payload = messages.popleft()
                number = connection.next_number() if self._qos else 0
                if self._qos:
                    flying[number] = topic, payload
                packets.append(
                    publish(
                        self._account.version,
                        topic,
                        payload,
                        qos=self._qos,
                        retain=self._retain,
                        number=number,
                    )
                )
            connection.send(b"".join(packets))

    def _land(self) -> None:
        """Waits for confirmations, and takes those that come."""
        packets = self._connection.receive(self._account.timeout_s)
        if not packets:
            raise ConnectionLost(
                f"no connection to {self._account.address}: no answer for"
                f" {self._account.timeout_s:g} s"
            )
        get_on()  # the deadline is one for each answer
        released = []
        for packet in packets:
            if isinstance(packet, Publish):
                continue
            if packet.kind in (Kind.PUBACK, Kind.PUBREC):
                self._require_taken(packet)
            if packet.kind in (Kind.PUBACK, Kind.PUBCOMP):
                self._flying.pop(packet.number, None)
            elif packet.kind is Kind.PUBREC:
                released.append(packet.number)
        if released:
            self._connection.send(acknowledgements(Kind.PUBREL, released))

    def _require_taken(self, packet: Packet) -> None:
        if packet.reason < _REFUSED:
            return
        topic, _ = self._flying.get(packet.number, (b"", b""))
        name = topic.decode(errors="replace")
        if packet.reason == _OVER_QUOTA:
            raise ConnectionLost(f"{self._account.address}: {refusal(packet.reason)}")
        raise ExecutionError(
            f"{self._account.address} does not take messages of topic '{name}'",
            detail=refusal(packet.reason),
            hint="let the server allow it, then 'sql start JOB'",
        )
