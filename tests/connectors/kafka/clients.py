"""What tests of Kafka do beside the connector: topics are made, written and read by a client of their
own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.servers.kafka import KafkaServer
from tests.support import eventually

_names = count()


@dataclass(frozen=True)
class Record:
    """A record as a test writes and reads it."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    offset: int = -1
    timestamp: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


def _record(message: Message) -> Record:
    value, key, partition, offset = (
        message.value(), message.key(), message.partition(), message.offset()
    )  # fmt: skip
    assert not isinstance(value, str)
    assert not isinstance(key, str)
    assert partition is not None
    assert offset is not None
    given = message.headers() or []
    assert isinstance(given, list)
    headers = tuple((name, _bytes(text)) for name, text in given)
    return Record(value, key, partition, offset, message.timestamp()[1], headers)


def _bytes(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


class Kafka:
    """A server with clients."""

    def __init__(self, server: KafkaServer) -> None:
        self.server = server
        self.address = server.address
        self.admin = AdminClient({"bootstrap.servers": self.address})

    def warm(self) -> None:
        """Waits until transactions and groups have those that coordinate them: they are made when the
        first one asks."""
        topic = self.topic()
        self.transaction(topic, [b"1"])
        group = {"bootstrap.servers": self.address, "group.id": "of a test"}
        consumer = Consumer(group)

        def answers() -> bool:
            with suppress(KafkaException):
                return bool(consumer.committed([TopicPartition(topic, 0)], timeout=30))
            return False

        eventually(answers, "a coordinator of groups")
        consumer.close()

    def topic(self, partitions: int = 1, name: str | None = None, **config: str) -> str:
        """Makes a topic, by default of a new name."""
        name = name or f"t{next(_names)}"
        settings = {k.replace("_", "."): v for k, v in config.items()}
        made = self.admin.create_topics([NewTopic(name, partitions, 1, config=settings)])
        made[name].result()
        return name

    def extend(self, topic: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()

    def delete(self, topic: str, before: int) -> None:
        """Removes the first records of a topic, as retention does."""
        place = TopicPartition(topic, 0, before)
        self.admin.delete_records([place])[place].result()

    def write(self, topic: str, records: Iterable[Record | bytes]) -> None:
        producer = Producer({"bootstrap.servers": self.address, "message.max.bytes": 20_000_000})
        for r in records:
            r = Record(r) if isinstance(r, bytes) else r
            producer.produce(
                topic, r.value, r.key, r.partition, timestamp=r.timestamp, headers=list(r.headers)
            )
        assert producer.flush(30) == 0

    def transaction(self, topic: str, values: Iterable[bytes], *, commit: bool = True) -> None:
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": "of a test"})
        producer.init_transactions(120)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)

    def leave_open(self, name: str, topic: str, values: Iterable[bytes]) -> None:
        """Begins a transaction as this transactional id, and goes away in the middle of it."""
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": name})
        producer.init_transactions(120)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(30)

    def take_over(self, name: str) -> None:
        """Becomes the one who writes as this transactional id, and writes nothing."""
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": name})
        producer.init_transactions(120)

    def read(self, topic: str, isolation: str = "read_committed") -> list[Record]:
        """Returns all records that are there now, partition by partition."""
        settings = {
            "bootstrap.servers": self.address, "group.id": "of a test", "isolation.level": isolation,
            "enable.partition.eof": True, "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
        }  # fmt: skip
        consumer = Consumer(settings)
        found: list[Record] = []
        for number in sorted(self.admin.list_topics(topic, 30).topics[topic].partitions):
            consumer.assign([TopicPartition(topic, number, 0)])
            while True:
                message = consumer.poll(30)
                assert message is not None, "nothing for half a minute"
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    break
                found.append(_record(message))
        consumer.close()
        return found

    def values(self, topic: str) -> list[bytes | None]:
        return [r.value for r in self.read(topic)]

    def options(self, topic: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Options of a table over a topic that is read from its beginning."""
        return {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": self.address,
            "format": "json",
            "scan.startup.mode": "earliest-offset",
            **(more or {}),
        }
