"""The work of tasks: what they cost, and what waits in their state. Does not import Spark."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from time import process_time
from types import ModuleType
from typing import Final

import msgspec

from sqlengine.executors.measures.waiting import Waiting

_CONTEXT: Final = "pyspark.taskcontext"


class TaskWork(msgspec.Struct, frozen=True):
    """The work of some `tasks`, of which Spark had begun some before (`retries`).

    `cpu_s`: their CPU time, with that of reading and writing frames and state. Operators took
    `seconds` of it, by node; what a set of rules took for the conditions of single jobs is in `own`
    instead, by job. `waiting`: what operations keep until a later watermark, by node."""

    tasks: int = 0
    retries: int = 0
    cpu_s: float = 0.0
    seconds: dict[str, float] = {}
    own: dict[str, float] = {}
    waiting: dict[str, Waiting] = {}

    def plus(self, other: TaskWork) -> TaskWork:
        """Returns the work of both."""
        waiting = dict(self.waiting)
        for node, more in other.waiting.items():
            waiting[node] = more.plus(waiting[node]) if node in waiting else more
        return TaskWork(
            self.tasks + other.tasks,
            self.retries + other.retries,
            self.cpu_s + other.cpu_s,
            sums(self.seconds, other.seconds),
            sums(self.own, other.own),
            waiting,
        )


def sums(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Returns the sums of two mappings, name by name."""
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {*one, *other}}


class TaskClock:
    """Measures the CPU time of one task, from here on."""

    def __init__(self) -> None:
        self._began = process_time()

    def work(self) -> TaskWork:
        """Returns the task with its time until now."""
        return TaskWork(1, _attempt(sys.modules.get(_CONTEXT)), process_time() - self._began)


def _attempt(module: ModuleType | None) -> int:
    """Returns how often Spark has begun this task before; its module is there in its workers."""
    context = None if module is None else module.TaskContext.get()
    return 0 if context is None else int(context.attemptNumber())
