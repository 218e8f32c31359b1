"""The place at which tasks have kept the state of a graph."""

from __future__ import annotations

import msgspec


class TaskState(msgspec.Struct, frozen=True):
    """The state after `epoch`, whose record has this `digest`: files of `partitions` partitions of
    `stages` stages. An epoch of -1: there is none.

    `logs`: the logs of each source that have been read. The next epoch begins with `ticks` (encoded
    batches by source), takes the state of tables under their `renamed` names, by the new one, and
    that of `seeds` (files), which jobs have brought. `scans`: those that go on for others, by the
    names of these, in renamed times. Files hold what has changed since others: `oldest` is the
    first epoch of which one is still needed."""

    epoch: int = -1
    digest: int = 0
    partitions: int = 0
    stages: int = 0
    logs: dict[str, list[str]] = {}
    ticks: list[tuple[str, bytes]] = []
    renamed: dict[str, str] = {}
    seeds: list[str] = []
    scans: dict[str, str] = {}
    oldest: int = -1
