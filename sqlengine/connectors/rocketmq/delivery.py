"""Delivers the messages of one epoch: to each queue in order, to all queues at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from sqlengine.broker.rocketmq.client import Queue
from sqlengine.broker.rocketmq.errors import Refused, RocketError
from sqlengine.broker.rocketmq.fetching import pulled
from sqlengine.broker.rocketmq.messages import Outgoing, stored
from sqlengine.broker.rocketmq.repeats import Origin, origin_of, origin_prefix
from sqlengine.broker.rocketmq.topic import STORED, Pull, RocketTopic
from sqlengine.broker.rocketmq.wire import Answer
from sqlengine.system.lanes import get_on

# Messages that go together, and their bytes; brokers take 4 MB.
_MOST_TOGETHER: Final = 1000
_MOST_BYTES: Final = 1 << 20
# Messages at the end of a queue among which those of a writer are looked for, and how many a
# broker gives at a time.
_TAIL: Final = 1024
_STEP: Final = 32
_TAIL_BYTES: Final = 4 << 20


# Epoch and number of a writer's last message in a queue, None where it has none.
Last: TypeAlias = tuple[int, int] | None


class Numbered(NamedTuple):
    """A message and its number among those of its epoch in its queue; None for one that consumers
    get later, which is in another place then."""

    message: Outgoing
    number: int | None


@dataclass
class QueuePart:
    """The messages that are left for one queue. `unsure`: some of it may be there already; `last`:
    the last message that was, when the queue was looked at."""

    queue: Queue
    left: deque[Numbered]
    unsure: bool
    last: Last = None
    sending: list[Numbered] = field(default_factory=list)

    def next_request(self, most_bytes: int) -> list[Numbered]:
        """Takes the messages that go next, together."""
        first = self.left.popleft()
        self.sending, size = [first], first.message.size
        while self.left and not first.message.alone and len(self.sending) < _MOST_TOGETHER:
            following = self.left[0].message
            size += following.size
            if following.alone or size > most_bytes:
                break
            self.sending.append(self.left.popleft())
        return self.sending

    def failed(self) -> None:
        """Puts back what was sent: nobody knows whether it has arrived."""
        self.left.extendleft(reversed(self.sending))
        self.sending, self.unsure = [], True

    def drop_arrived(self, epoch: int) -> None:
        """Drops what the queue has already, up to `last`."""
        last = self.last
        if last is None or last[0] < epoch:
            return
        most = last[1] if last[0] == epoch else None
        self.left = deque(
            n for n in self.left if n.number is None or (most is not None and n.number > most)
        )


class EpochDelivery:
    """Delivers the messages of an epoch, by `writer`; without one nobody knows them again. `sent`:
    how many rows have arrived."""

    def __init__(
        self,
        topic: RocketTopic,
        epoch: int,
        writer: str | None,
        parts: Iterable[QueuePart],
        most_bytes: int,
    ) -> None:
        self.epoch = epoch
        self.sent = 0
        self._topic = topic
        self._writer = writer
        self._origin = "" if writer is None else origin_prefix(writer, epoch)
        self._parts = [part for part in parts if part.left]
        self._most = min(most_bytes, _MOST_BYTES)
        self._flying: dict[Future[Answer], QueuePart] = {}
        self._error: RocketError | None = None
        self._settled: set[str] = set()

    @property
    def arrived(self) -> Mapping[Queue, Last]:
        """The last messages of this writer that the queues which get some had before."""
        return {part.queue: part.last for part in self._parts}

    def run(self) -> None:
        """Delivers what is left. RocketError where a queue does not take it: what others take is
        delivered, and the next call goes on with the rest."""
        self._error = None
        self._settled.clear()
        for part in self._parts:
            self._go_on(part)
        while self._flying:
            timeout_s = self._topic.client.timeout_s
            done, late = wait_for(self._flying, timeout_s, FIRST_COMPLETED)
            if not done:
                for broker in {self._flying[answer].queue.broker for answer in late}:
                    self._topic.client.drop(broker, f"no answer for {timeout_s:g} s")
            for answer in done:
                self._take(answer, self._flying.pop(answer))
        if self._error is not None:
            raise self._error

    def _go_on(self, part: QueuePart) -> None:
        """Sends what comes next for a queue."""
        try:
            if part.unsure and self._writer is not None:
                self._settle(part.queue.broker)
                part.last = last_of(self._topic, part.queue, self._writer)
                part.drop_arrived(self.epoch)
            part.unsure = False
        except RocketError as error:
            self._error = error
            return
        if part.left:
            request = part.next_request(self._most)
            messages = [self._named(numbered) for numbered in request]
            self._flying[self._topic.send(part.queue, messages)] = part

    def _settle(self, broker: str) -> None:
        """Waits until what has arrived at a broker is in its queues, once a run."""
        if broker not in self._settled:
            self._topic.client.settle(broker)
            self._settled.add(broker)

    def _named(self, numbered: Numbered) -> Outgoing:
        """Returns the message with its origin among the properties."""
        message, number = numbered
        if number is None or not self._origin:
            return message
        body, properties, flags, alone, rows = message
        return Outgoing(body, f"{properties}{self._origin}{number}\x02", flags, alone, rows)

    def _take(self, answer: Future[Answer], part: QueuePart) -> None:
        try:
            found = answer.result()
            if found.code not in STORED:
                what = f"messages for queue '{part.queue.name}' of topic '{self._topic.name}'"
                raise Refused(found.code, what, found.remark)
        except RocketError as error:
            self._error = error
            part.failed()
        else:
            self.sent += sum(n.message.rows for n in part.sending)
            part.sending = []
            get_on()
            self._go_on(part)


def last_of(topic: RocketTopic, queue: Queue, writer: str) -> Last:
    """Returns epoch and number of the last message of a writer in a queue; None where there is none
    among the last ones of all. RocketError where the broker does not tell. What it has stored just
    now may be missing, see `RocketClient.settle`."""
    end = topic.end(queue)
    first = max(topic.first(queue), end - _TAIL)
    while end > first:
        begin = max(first, end - _STEP)
        own = [o for o in _origins(topic, queue, begin, end) if o.writer == writer]
        if own:
            last = max(own)
            return last.epoch, last.number
        end = begin
    return None


def _origins(topic: RocketTopic, queue: Queue, begin: int, end: int) -> Iterator[Origin]:
    while begin < end:
        asked = topic.pull(queue, Pull(begin, end - begin, _TAIL_BYTES))
        answer = topic.client.answer(asked, queue.broker)
        found = pulled(begin, answer, f"to read queue '{queue.name}'")
        for message in stored(found.body):
            origin = origin_of(message.properties)
            if origin is not None:
                yield origin
        if found.end <= begin:
            return
        begin = found.end
