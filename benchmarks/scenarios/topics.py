"""Topics of Kafka: made, and read as far as they are committed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic


def make(address: str, topics: Mapping[str, int]) -> None:
    """Makes topics with so many partitions."""
    wanted = [NewTopic(name, partitions, 1) for name, partitions in topics.items()]
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics(wanted).values():
        made.result()


def reader(address: str, *topics: str) -> Consumer:
    """Returns a consumer of the first partitions of topics, from their beginnings, that belongs to no
    group."""
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "group.id": f"judge-{time.time_ns()}",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "log_level": 2,  # that brokers are away is known
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
    return consumer


def committed(address: str, topic: str) -> Iterator[tuple[Mapping[str, Any], Message]]:
    """Yields all records of a topic's first partition that are committed: what is in them, and
    themselves."""
    consumer = reader(address, topic)
    try:
        while True:
            for message in consumer.consume(10_000, 1.0):
                error = message.error()
                if error is None:
                    yield json.loads(message.value() or b""), message
                elif error.code() == KafkaError._PARTITION_EOF:
                    return
    finally:
        consumer.close()
