"""Locks of queues, which brokers give to one client of a group at a time: as consumers that keep an
order have them. One that is not taken again for a minute is free, and so are those of a broker that
has started anew."""

from __future__ import annotations

from typing import Final

import msgspec

from sqlengine.broker.rocketmq import codes
from sqlengine.broker.rocketmq.client import Queue, RocketClient
from sqlengine.broker.rocketmq.errors import RocketError

# Seconds after which a broker takes a client for gone (rocketmq.broker.rebalance.lockMaxLiveTime).
EXPIRES_S: Final = 60.0


class _Locked(msgspec.Struct):
    queues: list[dict[str, object]] = msgspec.field(default=[], name="lockOKMQSet")


def lock_queue(client: RocketClient, topic: str, queue: Queue, group: str, owner: str) -> bool:
    """Takes the lock of a queue for a client, or keeps it; returns False where another one has it.
    Raises as `RocketClient.call`."""
    what = f"to lock a queue of topic '{topic}'"
    body = _body(topic, queue, group, owner)
    answer = client.call(queue.broker, codes.LOCK_QUEUES, {}, what, body)
    try:
        return bool(msgspec.json.decode(answer.body, type=_Locked).queues)
    except msgspec.MsgspecError as error:
        raise RocketError("a broker answers nonsense", detail=str(error)) from None


def unlock_queue(client: RocketClient, topic: str, queue: Queue, group: str, owner: str) -> None:
    """Gives the lock of a queue back, if the client has it. Raises as `RocketClient.call`."""
    what = f"to unlock a queue of topic '{topic}'"
    client.call(queue.broker, codes.UNLOCK_QUEUES, {}, what, _body(topic, queue, group, owner))


def _body(topic: str, queue: Queue, group: str, owner: str) -> bytes:
    place = {"topic": topic, "brokerName": queue.broker, "queueId": queue.number}
    return msgspec.json.encode({"consumerGroup": group, "clientId": owner, "mqSet": [place]})
