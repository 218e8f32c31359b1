"""The progress of one graph on Spark, for metrics, `sql spark` and the log."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from parser.errors import SqlError
from sqlengine.executors.measures.waiting import Waiting
from sqlengine.executors.spark.saved_tables import BYTES, DELTAS, ROWS, WHOLE
from sqlengine.executors.spark.tasks.work import sums
from sqlengine.executors.spark.worker import Counts
from sqlengine.system import words

log = logging.getLogger("sqlengine.spark")

# Seconds between two lines of the log with what a graph did.
_TOLD_S: Final = 60.0
_SHOWN: Final = 3  # jobs in that line


@dataclass
class SparkProgress:
    """The counts of a graph since it was opened. Written by the graph's thread, read by any.

    `epochs`: those that are complete, and `repeated`: the attempts that Spark gave up. `seconds`:
    time in Spark of complete ones, `last_s`: of the last one, in `partitions` partitions. `tasks`,
    with those that Spark began again (`retries`), took `cpu_s`: operators took `by_node` of it, and
    `by_job` for conditions of single jobs. `state`: files, rows and bytes written, by kind;
    `waits`: what operations keep until a later watermark, by node. `now`: the monotonic clock, in
    s; `cost` returns the seconds of each job."""

    name: str
    now: Callable[[], float]
    epochs: int = 0
    repeated: int = 0
    seconds: float = 0.0
    last_s: float = 0.0
    partitions: int = 0
    tasks: int = 0
    retries: int = 0
    cpu_s: float = 0.0
    by_node: Mapping[str, float] = field(default_factory=dict)
    by_job: Mapping[str, float] = field(default_factory=dict)
    state: Counter[str] = field(default_factory=Counter)
    waits: Mapping[str, Waiting] = field(default_factory=dict)
    cost: Callable[[], Mapping[str, float]] = dict
    _told: tuple[float, int, float, float] | None = None

    @property
    def written(self) -> dict[str, int]:
        """The state that was written: files, those of them with changes alone, rows and bytes."""
        state = self.state
        files = {"files": state[WHOLE] + state[DELTAS], "files of changes": state[DELTAS]}
        return {**files, "rows": state[ROWS], "bytes": state[BYTES]}

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """Measures an attempt of an epoch, which is complete if the body does not raise."""
        began = self.now()
        yield
        self.last_s = self.now() - began
        self.seconds += self.last_s
        self.epochs += 1

    def repeats(self, epoch: int, left: int, error: SqlError) -> None:
        """Notes that Spark gave up an attempt of an epoch, of which so many are left."""
        self.repeated += 1
        cause = "" if error.detail is None else f" ({error.detail})"
        log.warning(
            "graph %s: epoch %d is repeated, %s left: %s%s",
            self.name,
            epoch,
            words.count(left, "attempt"),
            error.message,
            cause,
        )

    def count(self, counts: Counts, partitions: int) -> None:
        """Adds what the tasks of an epoch have told."""
        work = counts.work
        self.partitions = partitions
        self.tasks += work.tasks
        self.retries += work.retries
        self.cpu_s += work.cpu_s
        self.by_node = sums(self.by_node, work.seconds)
        self.by_job = sums(self.by_job, work.own)
        self.waits = work.waiting
        self.state.update(counts.wrote)
        self._tell()

    def _tell(self) -> None:
        """Logs once a minute what the graph did in it."""
        now = self.now()
        if self._told is None:
            self._told = now, self.epochs - 1, self.seconds - self.last_s, self.cpu_s
        at, epochs, seconds, cpu_s = self._told
        if now - at >= _TOLD_S:
            log.info(
                "graph %s: %d epochs in %.0f s, %.1f s of them in Spark, %.1f s of CPU in tasks%s",
                self.name,
                self.epochs - epochs,
                now - at,
                self.seconds - seconds,
                self.cpu_s - cpu_s,
                self._costliest(),
            )
            self._told = now, self.epochs, self.seconds, self.cpu_s

    def _costliest(self) -> str:
        most = sorted(self.cost().items(), key=lambda job: -job[1])[:_SHOWN]
        jobs = ", ".join(f"{job} ({words.seconds(spent)})" for job, spent in most)
        return f"; since the start most for {jobs}" if jobs else ""
