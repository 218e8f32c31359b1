"""A server whose rows come at a steady rate, some at a time, from the same process: what it takes of
the cores, and how long a row waits.

A latency is that of an append: until the epoch that took in its last row has ended, when what its
rows give is in the topic of alerts."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.changes import Watch, watch_of
from benchmarks.measure import own_mb, percentile
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from tests.conformance.sigma import drain

# Makes the records of the rows from one number to another (exclusive).
Records = Callable[[int, int], list[bytes]]


@dataclass(frozen=True)
class Pace:
    """`rate` rows a second, `append` rows at a time, for so many seconds."""

    rate: int
    append: int
    seconds: float


@dataclass(frozen=True)
class Load:
    """What a server took: cores on average, latencies (ms) of appends, resident memory (MB), and
    the share of the wanted rate that came in."""

    cores: float
    latencies: Sequence[float]
    memory_mb: float
    kept: float

    @property
    def p50(self) -> float:
        return percentile(self.latencies, 0.5)

    @property
    def p99(self) -> float:
        return percentile(self.latencies, 0.99)


@contextmanager
def serving(
    jobs: Mapping[str, str], topics: Sequence[str], config: Config | None = None
) -> Iterator[Engine]:
    """An engine that runs these jobs, by name, over new topics."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        engine = Engine(config or Config(data=Path(name)))
        try:
            for topic in topics:
                engine.broker.create_topic(topic)
            texts = {name: JobText(name, text) for name, text in jobs.items()}
            for outcome in engine.change(Request(Origin.SDK, texts)).values():
                if outcome.error is not None:
                    raise outcome.error
            engine.start()
            yield engine
        finally:
            engine.close()


class Feeder:
    """Appends rows of a topic at a steady rate from a thread of its own; `sent` so far."""

    def __init__(self, engine: Engine, topic: str, records: Records) -> None:
        self._engine, self._topic, self._records = engine, topic, records
        self.watch: Watch = watch_of(engine)
        self.sent = 0

    def load(self, pace: Pace, meanwhile: Callable[[], object] = lambda: None) -> Load:
        """Feeds for as long as the pace says, and until `meanwhile` returns, which runs beside
        it."""
        self.watch.appended, self.watch.done = [], []
        enough, first = threading.Event(), self.sent
        thread = threading.Thread(target=self._feed, args=(pace, enough))
        cpu, start = time.process_time(), time.perf_counter()
        thread.start()
        meanwhile()
        time.sleep(max(0.0, start + pace.seconds - time.perf_counter()))
        enough.set()
        thread.join()
        fed = time.perf_counter() - start
        drain(self._engine)
        wall = time.perf_counter() - start
        cores = (time.process_time() - cpu) / wall
        kept = (self.sent - first) / fed / pace.rate * fed / wall
        return Load(cores, self.watch.latencies_ms(), own_mb(), kept)

    def _feed(self, pace: Pace, enough: threading.Event) -> None:
        start, first = time.perf_counter(), self.sent
        while not enough.is_set():
            wait = start + (self.sent - first) / pace.rate - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            rows = self._records(self.sent, self.sent + pace.append)
            at, now = time.perf_counter(), self._engine.now_ms()
            done = self._engine.broker.append(self._topic, 0, rows, timestamp_ms=now)
            self.watch.appended.append((at, done.next_offset))
            self.sent += pace.append
