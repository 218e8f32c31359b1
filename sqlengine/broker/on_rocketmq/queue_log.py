"""A shard of a topic in a cluster: a queue, whose offsets are those of the records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sqlengine.broker.errors import BrokerError, offset_out_of_range
from sqlengine.broker.on_rocketmq.tail import Tail
from sqlengine.broker.rocketmq import codes
from sqlengine.broker.rocketmq.client import Queue
from sqlengine.broker.rocketmq.errors import Refused, RocketAway
from sqlengine.broker.rocketmq.fetching import Pulled, pulled
from sqlengine.broker.rocketmq.messages import Message, Outgoing, stored, unpacked_message
from sqlengine.broker.rocketmq.topic import STORED, Pull, RocketTopic
from sqlengine.broker.storage.reading import ReadBounds
from sqlengine.system.lanes import get_on

# Bytes of a request that sends or fetches; brokers take 4 MB unless they are told otherwise.
MOST_BYTES: Final = 4_000_000
_PULL_BYTES: Final = 4 << 20
_COUNT: Final = 1024
# Seconds that a broker has to put into a queue what it has confirmed.
_SETTLES_S, _LOOK_S = 10.0, 0.002


class QueueLog:
    """A queue with the interface of a log. Any thread. BrokerAway where its broker does not
    answer, or cannot do it now."""

    def __init__(
        self, topic: RocketTopic, queue: Queue, where: str, came: Callable[[], None]
    ) -> None:
        self.queue = queue
        self.where = where
        self._topic = topic
        self._came = came
        self._tail = Tail(topic, queue, came)
        # The end as confirmed messages say it: they are in the queue a little later.
        self._written = 0

    # ---- offsets ---------------------------------------------------------------------------------

    @property
    def begin(self) -> int:
        return self._topic.first(self.queue)

    @property
    def end(self) -> int:
        followed = self._tail.end
        known = self._topic.end(self.queue) if followed is None else followed
        return max(known, self._written)

    def at_time(self, time_ms: int) -> int:
        return self._topic.at_time(self.queue, time_ms)

    def settled_end(self) -> int:
        """Returns the end once all that the broker has stored is in its queues."""
        self._topic.client.settle(self.queue.broker)
        return self._topic.end(self.queue)

    # ---- reading ---------------------------------------------------------------------------------

    def read(self, offset: int, bounds: ReadBounds) -> tuple[list[Message], int] | None:
        """Returns messages from `offset` on, unpacked, and where they end; None at the end.
        OffsetOutOfRange."""
        found: list[Message] = []
        at, size, stop = offset, 0, bounds.until
        while stop is None or at < stop:
            part = self._part(at, stop)
            if part is None:
                break
            for packed in stored(part.body):
                if packed.offset < at:
                    continue
                if stop is not None and packed.offset >= stop:
                    return found, stop
                message = unpacked_message(packed)
                full = len(found) >= bounds.records or size + len(message.body) > bounds.bytes
                if stop is None and full and found:
                    return found, message.offset
                found.append(message)
                size += len(message.body)
            at = part.end
            get_on()
        return None if at == offset else (found, at)

    def _part(self, at: int, until: int | None) -> Pulled | None:
        """Returns the next messages; None where the queue ends. OffsetOutOfRange where it ends
        before `until`, and for an offset that is not there."""
        known = self._tail.take(at) if at >= 0 else None
        if known is None:
            known = self._pulled(at)
        if known.moved or (known.end == at and until is not None):
            self._require(at, until)
        if known.end > at:
            return known
        if at < self._written:
            return self._confirmed(at)
        self._tail.follow(at)
        return None

    def _confirmed(self, at: int) -> Pulled | None:
        """Waits for messages that the broker has confirmed."""
        deadline = time.monotonic() + _SETTLES_S
        while time.monotonic() < deadline:
            found = self._pulled(at)
            if found.end > at and not found.moved:
                return found
            time.sleep(_LOOK_S)
        self._written = 0  # the broker has lost them
        return None

    def _require(self, offset: int, until: int | None) -> None:
        """Raises OffsetOutOfRange unless the queue has these offsets."""
        begin, end = self.begin, max(self.settled_end(), self._written)
        for asked in (offset, offset if until is None else until):
            if not begin <= asked <= end:
                raise offset_out_of_range(self.where, asked, begin, end)

    def _pulled(self, at: int) -> Pulled:
        if at < 0:
            return Pulled(at, at, moved=True)
        asked = self._topic.pull(self.queue, Pull(at, _COUNT, _PULL_BYTES))
        answer = self._topic.client.answer(asked, self.queue.broker)
        try:
            return pulled(at, answer, f"to read {self.where}")
        except Refused as error:
            raise _passing(error) from None

    def messages(self, begin: int, end: int) -> Iterator[Message]:
        """Yields the messages of a range that are still there."""
        at = max(begin, self.begin)
        while at < end:
            part = self._pulled(at)
            if part.end <= at or part.moved:
                return
            yield from (m for m in stored(part.body) if m.offset < end)
            at = part.end
            get_on()

    # ---- writing ---------------------------------------------------------------------------------

    def append(self, messages: Sequence[Outgoing], time_ms: int) -> int:
        """Sends messages together; returns the offset of the first. BrokerAway where nobody knows
        whether they have arrived."""
        what = f"messages for {self.where}"
        sent = self._topic.send(self.queue, messages, time_ms)
        answer = self._topic.client.answer(sent, self.queue.broker)
        if answer.code == codes.ILLEGAL:
            raise BrokerError(
                f"RocketMQ does not take {len(messages):,} records for {self.where}",
                detail=answer.remark or "they are too large",
                hint="raise 'maxMessageSize' of its brokers, or append less at once",
            )
        if answer.code not in STORED:
            raise _passing(Refused(answer.code, what, answer.remark))
        first = answer.number("queueOffset")
        self._written = max(self._written, first + len(messages))
        self._came()
        return first


def requests(messages: Sequence[Outgoing]) -> Iterator[Sequence[Outgoing]]:
    """Divides messages into such as go together."""
    begin, size = 0, 0
    for number, message in enumerate(messages):
        if number > begin and size + message.size > MOST_BYTES:
            yield messages[begin:number]
            begin, size = number, 0
        size += message.size
    if begin < len(messages):
        yield messages[begin:]


def _passing(error: Refused) -> BrokerError:
    """Returns a refusal that may pass as what tells to try it again."""
    if error.code not in codes.PASSING:
        return error
    return RocketAway(error.message, detail=error.detail, hint="it is tried again")
