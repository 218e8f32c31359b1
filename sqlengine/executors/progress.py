"""Counters of one runner, for metrics and for the decision which jobs may share a graph."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from sqlengine.executors.measures.epoch_time import EpochTime


@dataclass(frozen=True)
class SlowCommit:
    """A commit of a sink that took long: `at` is its end by a monotonic clock, in seconds."""

    sink: str
    at: float
    seconds: float


@dataclass
class Progress:
    """Counts of a runner since its start. Written by the graph's thread, read by any.

    `rows_out` by sink; `rows_read` by scan ('': of tasks elsewhere); `rows_gone`: of sinks that are
    closed, by table; `letters`: dead letters by job; `commits`: the last slow ones; `spent`: the
    time."""

    rows_in: int = 0
    rows_read: Counter[str] = field(default_factory=Counter)
    rows_out: Counter[str] = field(default_factory=Counter)
    rows_gone: Counter[str] = field(default_factory=Counter)
    dead_letters: int = 0
    epochs: int = 0
    letters: Counter[str] = field(default_factory=Counter)
    commits: deque[SlowCommit] = field(default_factory=lambda: deque(maxlen=200))
    spent: EpochTime = field(default_factory=EpochTime)
