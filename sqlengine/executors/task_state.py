"""Where tasks have kept the state of a graph that runs on Spark."""

from __future__ import annotations

import msgspec


class TaskState(msgspec.Struct, frozen=True):
    """The state after `epoch`, whose record has this `digest`: files of `partitions` partitions of
    `stages` stages. `logs`: the logs of each source that have been read; `version`: of the plan
    that wrote them, in its executor."""

    epoch: int
    digest: int
    partitions: int
    stages: int
    logs: dict[str, list[str]]
