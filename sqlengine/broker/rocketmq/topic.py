"""A topic of a cluster: its queues, their offsets, and messages in and out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

import msgspec

from sqlengine.broker.rocketmq import codes
from sqlengine.broker.rocketmq.client import Queue, RocketClient, Route
from sqlengine.broker.rocketmq.errors import Refused
from sqlengine.broker.rocketmq.messages import Outgoing, batch_body
from sqlengine.broker.rocketmq.wire import Answer

_DEFAULT_TOPIC: Final = "TBW102"
# Stored, though not yet where it shall be in the end.
STORED: Final = (codes.OK, codes.FLUSH_LATE, codes.COPY_MISSING, codes.COPY_LATE)


@dataclass(frozen=True)
class Filter:
    """The messages that a broker gives: those with one of the tags of a || b, or those whose
    properties fulfil a condition in SQL-92."""

    expression: str = "*"
    sql: bool = False

    @property
    def tags(self) -> frozenset[str] | None:
        """The tags that a message may have; None where that does not matter. A broker compares
        their hashes alone."""
        if self.sql or self.expression.strip() in ("", "*"):
            return None
        return frozenset(tag.strip() for tag in self.expression.split("||"))


ALL: Final = Filter()


@dataclass(frozen=True)
class Pull:
    """A request for messages of a queue: at most `count` messages and about `size` bytes from
    `offset` on; where there are none, the broker waits so long for the next one."""

    offset: int
    count: int
    size: int
    wait_ms: int = 0


class RocketTopic:
    """A topic for readers of a group, or writers of one. Any thread."""

    def __init__(self, client: RocketClient, name: str, group: str) -> None:
        self.client = client
        self.name = name
        self.group = group

    def route(self) -> Route:
        """See `RocketClient.route`."""
        return self.client.route(self.name)

    # ---- offsets ---------------------------------------------------------------------------------

    def first(self, queue: Queue) -> int:
        """Returns the offset of the first message that is still there."""
        return self._offset(queue, codes.MIN_OFFSET)

    def end(self, queue: Queue) -> int:
        """Returns the offset after the last message."""
        return self._offset(queue, codes.MAX_OFFSET)

    def at_time(self, queue: Queue, time_ms: int) -> int:
        """Returns the offset of the first message that was stored then, or later; that after the
        last one where there is none."""
        return self._offset(queue, codes.OFFSET_AT_TIME, timestamp=str(time_ms))

    def committed(self, queue: Queue) -> int | None:
        """Returns the offset that the group has reached; None where it never said."""
        try:
            return self._offset(
                queue, codes.QUERY_OFFSET, consumerGroup=self.group, setZeroIfNotFound="false"
            )
        except Refused as error:
            if error.code == codes.NO_OFFSET:
                return None
            raise

    def _offset(self, queue: Queue, code: int, **fields: str) -> int:
        what = f"an offset of queue '{queue.name}' of topic '{self.name}'"
        fields |= {"topic": self.name, "queueId": str(queue.number), "committed": "true"}
        answer = self.client.call(queue.broker, code, fields, what, any_copy=True)
        return answer.number("offset")

    def commit(self, queue: Queue, offset: int) -> Future[Answer]:
        """Says that the group has read up to an offset."""
        fields = {
            "consumerGroup": self.group,
            "topic": self.name,
            "queueId": str(queue.number),
            "commitOffset": str(offset),
        }
        return self.client.begin(queue.broker, codes.UPDATE_OFFSET, fields)

    # ---- reading ---------------------------------------------------------------------------------

    def pull(self, queue: Queue, pull: Pull, wanted: Filter = ALL) -> Future[Answer]:
        """Asks for messages (`messages.stored` of the body). The codes of answers are `OK`,
        `NOTHING_FOUND`, `PULL_AGAIN` and `OFFSET_MOVED`."""
        flags = codes.SUBSCRIPTION | (codes.SUSPEND if pull.wait_ms else 0)
        fields = {
            "consumerGroup": self.group,
            "topic": self.name,
            "queueId": str(queue.number),
            "queueOffset": str(pull.offset),
            "maxMsgNums": str(pull.count),
            "maxMsgBytes": str(pull.size),
            "sysFlag": str(flags),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(pull.wait_ms),
            "subscription": wanted.expression,
            "expressionType": "SQL92" if wanted.sql else "TAG",
            "subVersion": "0",
        }
        return self.client.begin(queue.broker, codes.PULL, fields, any_copy=True)

    def check(self, broker: str, wanted: Filter) -> None:
        """Raises Refused for a condition that a broker cannot evaluate: its pulls would give
        everything."""
        subscription = {
            "topic": self.name,
            "subString": wanted.expression,
            "expressionType": "SQL92",
        }
        body = {"clientId": self.group, "group": self.group, "subscriptionData": subscription}
        what = f"the condition '{wanted.expression}'"
        self.client.call(broker, codes.CHECK_FILTER, {}, what, msgspec.json.encode(body))

    # ---- writing ---------------------------------------------------------------------------------

    def send(
        self, queue: Queue, messages: Sequence[Outgoing], born_ms: int | None = None
    ) -> Future[Answer]:
        """Sends messages to a queue, all of them or none: one, or several that may go together.
        The codes of `STORED` say that they are there. `born_ms`: their time of birth, if not
        now."""
        first = messages[0]
        # A request needs a body, a message in it does not.
        together = len(messages) > 1 or not first.body
        fields = {
            "a": self.group,
            "b": self.name,
            "c": _DEFAULT_TOPIC,
            "d": "4",
            "e": str(queue.number),
            "f": str(0 if together else first.flags),
            "g": str(int(time.time() * 1000) if born_ms is None else born_ms),
            "h": "0",
            "i": "" if together else first.properties,
            "j": "0",
            "k": "false",
            "m": "true" if together else "false",
            "n": queue.broker,
        }
        body = batch_body(messages) if together else first.body
        code = codes.SEND_BATCH if together else codes.SEND
        return self.client.begin(queue.broker, code, fields, body)
