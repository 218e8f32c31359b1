"""Topics of brokers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from sqlengine.service import Service
from tests.connectors.contract.place import FULL, TYPES, Direction, Place, Property, Row
from tests.connectors.contract.servers import Servers
from tests.connectors.rocketmq.cluster import Cluster, rows, send
from tests.servers.kafka import KafkaServer
from tests.servers.mosquitto import Mosquitto
from tests.servers.mqtt_client import MqttClient
from tests.servers.rocketmq import RocketServer

if TYPE_CHECKING:
    from tests.connectors.kafka.clients import Kafka, Record

_LARGE = "11000000"  # bytes
_ID = re.compile(rb'"id": (\d+)')


class KafkaTopic(Place):
    types, full = TYPES, FULL
    refused: ClassVar[Row] = {"id": 2, "name": "x" * 2_000_000}

    def __init__(self, servers: Servers) -> None:
        super().__init__(servers)
        self._server = servers.get(KafkaServer, lambda server: _kafka(server).warm())
        self._kafka = _kafka(self._server)
        self._kafka.topic(name=self.name)

    def options(self, direction: Direction, shown: Property | None = None) -> dict[str, str]:
        given = {
            "connector": "kafka", "topic": self.name, "format": "json",
            "properties.bootstrap.servers": self._kafka.address,
        }  # fmt: skip
        if direction == "in":
            return given | {"scan.startup.mode": "earliest-offset"}
        given |= {"properties.max.request.size": _LARGE} if shown == "large" else {}
        once = {"sink.delivery-guarantee": "exactly-once"}
        return given | once | {"sink.transactional-id-prefix": self.name}

    def listening(self, service: Service) -> bool:
        """See `Place`: records stay."""
        return True

    def put_records(self, records: Sequence[bytes]) -> None:
        self._kafka.write(self.name, self._as_records(records))

    def _as_records(self, records: Sequence[bytes]) -> Iterable[Record | bytes]:
        return records

    def got(self) -> Sequence[Row]:
        return [json.loads(r.value) for r in self._kafka.read(self.name) if r.value is not None]

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()


def _kafka(server: KafkaServer) -> Kafka:
    from tests.connectors.kafka.clients import Kafka

    return Kafka(server)


class KafkaUpserts(KafkaTopic):
    key = "id"
    types = TYPES.replace("id BIGINT", "id BIGINT NOT NULL")
    malformed: ClassVar[bytes] = b'{"id": 2, "name": "'

    def options(self, direction: Direction, shown: Property | None = None) -> dict[str, str]:
        given = super().options(direction, shown)
        formats = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
        return {
            k: v for k, v in given.items() if k not in ("format", "scan.startup.mode")
        } | formats

    def _as_records(self, records: Sequence[bytes]) -> Iterable[Record | bytes]:
        from tests.connectors.kafka.clients import Record

        return (Record(r, b'{"id":%s}' % _ID.findall(r)[0]) for r in records)


class RocketMQTopic(Place):
    """A topic of RocketMQ, as tables of the connector see it: what comes again is dropped."""

    types, full = TYPES, FULL
    refused: ClassVar[Row] = {"id": 2, "name": "x" * 5_000_000}

    def __init__(self, servers: Servers) -> None:
        super().__init__(servers)
        self._server = servers.get(RocketServer)
        self._client = self._server.client()
        self._cluster = Cluster(self._server, self._client)
        self._topic = self._cluster.topic(name=self.name)

    def close(self) -> None:
        self._client.close()

    def options(self, direction: Direction, shown: Property | None = None) -> dict[str, str]:
        given = self._cluster.options(self._topic)
        if direction == "out":
            del given["scan.startup.mode"]
            given |= {"maxMessageSize": _LARGE} if shown == "large" else {}
        return given

    def listening(self, service: Service) -> bool:
        """See `Place`: messages stay."""
        return True

    def put_records(self, records: Sequence[bytes]) -> None:
        send(self._topic, records)

    def got(self) -> Sequence[Row]:
        return rows(self._cluster.options(self._topic))

    def kill(self) -> None:
        self._server.brokers[0].kill()

    def start(self) -> None:
        self._server.brokers[0].start()


class MqttTopic(Place):
    """Topics of MQTT. What is written is retained until the server is killed, each row in a topic of
    its own."""

    types, full = TYPES, FULL
    refused: ClassVar[Row] = {"name": "refused"}
    once = False

    def __init__(self, servers: Servers) -> None:
        super().__init__(servers)
        self._server = servers.get(Mosquitto)
        self._got: list[Row] = []
        self._listen()

    def _listen(self) -> None:
        self._client = MqttClient(self._server.address)
        self._client.subscribe(f"{self.name}/out/+")

    def close(self) -> None:
        self._client.connection.close()

    def options(self, direction: Direction, shown: Property | None = None) -> dict[str, str]:
        given = {"connector": "mqtt", "server": self._server.address, "format": "json"}
        if direction == "out":
            return given | {"topic": f"{self.name}/out/{{id}}", "sink.retain": "true"}
        bound = {"receive.max-unread": "100 kb", "receive-maximum": "10"}
        return given | {"topic": f"{self.name}/in"} | (bound if shown == "back-pressure" else {})

    def put_records(self, records: Sequence[bytes]) -> None:
        with MqttClient(self._server.address) as client:
            client.publish(f"{self.name}/in", *records)

    def got(self) -> Sequence[Row]:
        self._got += [json.loads(m.payload) for m in self._client.came()]
        return self._got

    def kill(self) -> None:
        self._client.connection.close()
        self._server.kill()

    def start(self) -> None:
        self._server.start()
        self._listen()
