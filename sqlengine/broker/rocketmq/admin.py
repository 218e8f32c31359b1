"""Makes and deletes topics, and makes groups, as an operator of the cluster does."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from sqlengine.broker.rocketmq import codes
from sqlengine.broker.rocketmq.client import RocketClient

NO_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({})
COMPACTED: Final = {"cleanup.policy": "COMPACTION"}
_READ_AND_WRITE: Final = "6"
_CREATE_GROUP: Final = 200


def create_topic(
    client: RocketClient,
    name: str,
    queues: int = 1,
    *,
    brokers: list[str] | None = None,
    kind: str = "NORMAL",
    attributes: Mapping[str, str] = NO_ATTRIBUTES,
) -> None:
    """Makes a topic on these brokers, or on all, with so many queues on each; one that is there
    gets as many. `kind`: NORMAL, FIFO, DELAY, TRANSACTION. Raises as `RocketClient.call`."""
    given = {"message.type": kind, **attributes}
    for broker in brokers if brokers is not None else client.brokers():
        fields = {
            "topic": name,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": _READ_AND_WRITE,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
            "attributes": ",".join(f"+{key}={value}" for key, value in given.items()),
        }
        client.call(broker, codes.CREATE_TOPIC, fields, f"to make topic '{name}'")


def delete_topic(client: RocketClient, name: str) -> None:
    """Deletes a topic with its messages, on all brokers. Raises as `RocketClient.call`."""
    for broker in client.brokers():
        client.call(broker, codes.DELETE_TOPIC, {"topic": name}, f"to delete topic '{name}'")
    client.drop_route(name)


def create_group(client: RocketClient, name: str) -> None:
    """Makes a group of consumers on all brokers. Raises as `RocketClient.call`."""
    body = {"groupName": name, "consumeEnable": True, "retryMaxTimes": 16, "retryQueueNums": 1}
    for broker in client.brokers():
        what = f"to make group '{name}'"
        client.call(broker, _CREATE_GROUP, {}, what, msgspec.json.encode(body))
