"""Whoever sends events: half of them over syslog, half over Kafka; and who looks at what comes out."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Self

from confluent_kafka import Producer

from benchmarks.detection_live.events import Events
from benchmarks.detection_live.site import Site
from benchmarks.scenarios import topics
from benchmarks.scenarios.beside import Beside

# What does not come to be in the topic of what arrived for so long is sent again.
_AGAIN_S = 10.0
_PAUSE_S = 0.02


class Pace:
    """So many events a second; an event is due at its time, whatever holds up its sender."""

    def __init__(self, rate: float, total: int) -> None:
        self.total = total
        self._rate, self._start = rate, time.time()

    def at(self, number: int) -> float:
        """Returns when an event happens, in seconds of the clock."""
        return self._start + number / self._rate

    def until_now(self) -> int:
        """Returns how many have happened."""
        return max(0, min(self.total, int((time.time() - self._start) * self._rate) + 1))


class Watcher(Beside):
    """Reads what Kafka has, as it is committed: the events of syslog that arrived, and the alerts with
    the time (seconds) at which they could be read."""

    def __init__(self, servers: Site) -> None:
        super().__init__()
        self.seen: set[int] = set()
        self.alerts: list[tuple[int, float]] = []
        self._address = servers.kafka.address

    def _run(self) -> None:
        consumer = topics.reader(self._address, "seen", "alerts")
        try:
            while not self._enough.is_set():
                for message in consumer.consume(1000, 0.02):
                    if message.error() is not None:
                        continue
                    row = json.loads(message.value() or b"")
                    if message.topic() == "seen":
                        self.seen.add(int(row["id"]))
                    else:
                        self.alerts.append((row["event_id"], time.time()))
        finally:
            consumer.close()


class Senders:
    """Both senders, each a thread. `again`: how many events went over syslog once more."""

    def __init__(self, servers: Site, events: Events, pace: Pace, seen: set[int]) -> None:
        self.again = 0
        self._servers, self._events, self._pace, self._seen = servers, events, pace, seen
        self._waiting: dict[int, float] = {}  # numbers, and when they were sent
        self._connection: socket.socket | None = None
        self._abandoned = threading.Event()
        self._threads = [threading.Thread(target=self._log), threading.Thread(target=self._produce)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._abandoned.set()
        for thread in self._threads:
            thread.join()
        self._hang_up()

    @property
    def finished(self) -> bool:
        """True once all has been sent and has arrived."""
        return not any(thread.is_alive() for thread in self._threads)

    def _log(self) -> None:
        """Sends events with even numbers to rsyslogd."""
        following = 0
        while not self._abandoned.is_set():
            new = range(following, self._pace.until_now(), 2)
            late = self._unseen()
            if not new and not late:
                if following >= self._pace.total and not self._waiting:
                    return
                time.sleep(_PAUSE_S)
                continue
            numbers = [*new, *late]
            try:
                self._send(b"".join(map(self._frame, numbers)))
            except OSError:  # rsyslogd is away: what was under way is sent again, too
                self._hang_up()
                time.sleep(0.2)
                continue
            self._waiting |= dict.fromkeys(numbers, time.monotonic())
            self.again += len(late)
            following += 2 * len(new)

    def _unseen(self) -> list[int]:
        """Returns what has been waited for long enough, and forgets what has arrived."""
        for number in [n for n in self._waiting if self._events.id(n) in self._seen]:
            del self._waiting[number]
        before = time.monotonic() - _AGAIN_S
        return [n for n, at in self._waiting.items() if at < before][:1000]

    def _send(self, frames: bytes) -> None:
        if self._connection is None:
            self._connection = socket.create_connection(
                ("127.0.0.1", self._servers.rsyslog.port), 5
            )
        self._connection.sendall(frames)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _frame(self, number: int) -> bytes:
        message = b"<13>1 - host app - - - " + self._events.record(number)
        return b"%d %s" % (len(message), message)

    def _produce(self) -> None:
        """Gives events with odd numbers to Kafka, whose client sends them until they are there."""
        settings = {"enable.idempotence": True, "message.timeout.ms": 0, "log_level": 2}
        address = {"bootstrap.servers": self._servers.kafka.address}
        producer, sent = Producer({**settings, **address}), 1
        while sent < self._pace.total and not self._abandoned.is_set():
            for number in range(sent, self._pace.until_now(), 2):
                try:
                    producer.produce("events", self._events.record(number))
                except BufferError:  # as much waits as the client keeps
                    break
                sent = number + 2
            producer.poll(_PAUSE_S)
        while len(producer) and not self._abandoned.is_set():
            producer.flush(1.0)
