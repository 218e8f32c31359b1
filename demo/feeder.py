"""Sends events to a topic of the server, also over its death: nothing is sent twice, nothing is
left out."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from demo.hosts import Event
from sqlengine.broker.errors import Unreachable
from sqlengine.client import Client, Refused


class Feeder:
    """Numbers the events (`id`) and posts them in batches from a thread of its own. `sent` are
    those in the topic."""

    def __init__(
        self, client: Client, topic: str, events: Iterable[Event], batch: int, pause_s: float
    ) -> None:
        self.sent: list[Event] = []
        self.retries = 0
        self._client = client
        self._topic = topic
        self._events = events
        self._batch = batch
        self._pause_s = pause_s
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._stopped = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(30)

    def join(self) -> None:
        self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def stopped(self) -> Callable[[], bool]:
        return self._stopped.is_set

    def _run(self) -> None:
        for batch in _batches(self._events, self._batch):
            if self._stopped.is_set():
                return
            self._send(batch)
            time.sleep(self._pause_s)

    def _send(self, batch: list[Event]) -> None:
        first = len(self.sent)
        numbered = [{**e, "id": first + i} for i, e in enumerate(batch)]
        body = b"".join(json.dumps(e).encode() + b"\n" for e in numbered)
        while not self._stopped.is_set():
            try:
                if self._end() == first:
                    self._client.post(f"/api/v1/topics/{self._topic}/records", body)
                break  # else the batch arrived, and its answer was lost with the server
            except (Unreachable, Refused):
                self.retries += 1
                time.sleep(0.05)
        self.sent += numbered

    def _end(self) -> int:
        ends = self._client.get(f"/api/v1/topics/{self._topic}")["end"]
        assert isinstance(ends, list)
        return int(ends[0])


def _batches(events: Iterable[Event], size: int) -> Iterator[list[Event]]:
    batch: list[Event] = []
    for event in events:
        batch.append(event)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch
