"""What tests do with a cluster of RocketMQ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import pytest

from planner.catalog import Table
from sqlengine.broker.rocketmq.admin import NO_ATTRIBUTES, create_topic
from sqlengine.broker.rocketmq.client import Queue, RocketClient
from sqlengine.broker.rocketmq.errors import RocketAway, RocketError
from sqlengine.broker.rocketmq.messages import Message, Outgoing, property_text, stored
from sqlengine.broker.rocketmq.topic import Pull, RocketTopic
from sqlengine.connectors.registry import open_source
from tests.connectors.tables import SCHEMA, environment, json_rows, table
from tests.servers.process import Missing
from tests.servers.rocketmq import RocketServer
from tests.support import eventually

_topics = count()


@dataclass
class Cluster:
    """A cluster and a client of it, who knows its topics: each test makes its own."""

    server: RocketServer
    client: RocketClient
    made: list[str] = field(default_factory=list)

    def topic(
        self,
        queues: int = 1,
        kind: str = "NORMAL",
        attributes: Mapping[str, str] = NO_ATTRIBUTES,
        name: str | None = None,
    ) -> RocketTopic:
        """Makes a topic."""
        name = name or f"t{next(_topics)}"
        eventually(lambda: self._made(name, queues, kind, attributes))
        topic = RocketTopic(self.client, name, "tests")
        brokers = len(self.server.brokers)
        eventually(lambda: len(self._queues(topic)) == queues * brokers, f"the route of {name}")
        return topic

    def _made(self, name: str, queues: int, kind: str, attributes: Mapping[str, str]) -> bool:
        """Makes a topic; False where a connection was lost with a broker that was killed."""
        try:
            create_topic(self.client, name, queues, kind=kind, attributes=attributes)
        except RocketAway:
            return False
        return True

    def _queues(self, topic: RocketTopic) -> Sequence[Queue]:
        try:
            return topic.route().readable
        except RocketError:  # name servers have not heard of it yet
            return ()

    def settle(self) -> None:
        """Waits until all that has been sent can be read, of brokers that are there."""
        for broker in self.client.brokers():
            with suppress(RocketAway):
                self.client.settle(broker)

    def options(self, topic: RocketTopic, **more: str) -> dict[str, str]:
        """The options of a table that is read from its beginning."""
        return {
            "connector": "rocketmq",
            "topic": topic.name,
            "nameServerAddress": self.server.address,
            "scan.startup.mode": "earliest-offset",
            "format": "json",
            **more,
        }

    def sql(self, topic: RocketTopic, **more: str) -> str:
        """The same in SQL."""
        return ", ".join(f"'{k}' = '{v}'" for k, v in self.options(topic, **more).items())


def send(topic: RocketTopic, bodies: Sequence[bytes], queue: int = 0, **properties: str) -> None:
    """Sends messages, all with these properties."""
    target = sorted(topic.route().writable)[queue]
    text = property_text(properties)
    for begin in range(0, len(bodies), 500):
        messages = [Outgoing(body, text) for body in bodies[begin : begin + 500]]
        eventually(partial(_sent, topic, target, messages))


def _sent(topic: RocketTopic, queue: Queue, messages: Sequence[Outgoing]) -> bool:
    """Sends messages; False where the connection was lost before, with a broker that was killed."""
    try:
        topic.client.wait(topic.send(queue, messages), queue.broker, "to send")
        topic.client.settle(queue.broker)
    except RocketAway:
        return False
    return True


def send_ids(topic: RocketTopic, ids: Sequence[int], queue: int = 0, **properties: str) -> None:
    send(topic, json_rows(ids), queue, **properties)


def _settled(client: RocketClient, broker: str) -> bool:
    """Waits until all that was sent can be read; False where the connection was lost before, with
    a broker that was killed."""
    try:
        client.settle(broker)
    except RocketAway:
        return False
    return True


def messages(topic: RocketTopic) -> list[Message]:
    """All messages of a topic, queue by queue, as anybody sees them."""
    found: list[Message] = []
    for queue in topic.route().readable:
        eventually(partial(_settled, topic.client, queue.broker))
        at, end = topic.first(queue), topic.end(queue)
        while at < end:
            answer = topic.client.answer(topic.pull(queue, Pull(at, 1024, 4 << 20)), queue.broker)
            found += stored(answer.body)
            at = answer.number("nextBeginOffset")
    return found


def rows(options: Mapping[str, str], declared: Table | None = None) -> list[dict[str, Any]]:
    """All rows that a table has now, in the order of its queues, without repetitions."""
    bounded = {**options, "scan.bounded.mode": "latest-offset"}
    source = open_source(declared or table(bounded, SCHEMA), environment())
    found: list[dict[str, Any]] = []
    for shard in source.shards():
        at = source.start(shard)
        while at < (source.end(shard) or 0):
            chunk = eventually(partial(source.read, shard, at, max_rows=1000))
            assert chunk.records is not None
            found += map(json.loads, chunk.records.to_pylist())
            at = chunk.end
    source.close()
    return found


def await_rows(options: Mapping[str, str], number: int) -> None:
    """Waits until a table has so many rows."""
    eventually(lambda: len(ids(options)) >= number)


def ids(options: Mapping[str, str]) -> list[object]:
    return [row["id"] for row in rows(options)]


@contextmanager
def running(server: RocketServer) -> Iterator[Cluster]:
    """Runs a cluster for a fixture, whose tests are skipped where it cannot run."""
    try:
        server.start()
    except Missing as error:
        pytest.skip(str(error))
    try:
        with server.client() as client:
            yield Cluster(server, client)
    finally:
        server.kill()
