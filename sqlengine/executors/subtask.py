"""The context of a graph that runs as one subtask of a distributed graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from parser.errors import SqlError
from planner.graph.distribution import INCOMING, SubtaskAssignment, distribute
from planner.graph.physical import PhysicalPlan
from sqlengine.connectors.shuffle import Shuffle
from sqlengine.executors.epochs import EpochLog
from sqlengine.snapshots.checkpoints import CheckpointMetadata
from sqlengine.state.store import CheckpointStore


class SubtaskEpochs(EpochLog, Protocol):
    """The epoch log of one subtask alone."""

    def forget(self, before: int) -> None:
        """Allows the removal of records before that offset."""


@dataclass(frozen=True)
class SubtaskContext:
    """Context of one subtask: its share of shards and buckets, its end of the shuffle, its epoch
    log and its checkpoint store. `left_out`: the job versions that its recovery leaves out, each
    with the last version of the graph for which that counts, and why."""

    assignment: SubtaskAssignment
    shuffle: Shuffle
    log: SubtaskEpochs
    store: CheckpointStore
    left_out: Mapping[tuple[str, int], tuple[int, SqlError]] = field(default_factory=dict)

    def distribute(self, plan: PhysicalPlan) -> PhysicalPlan:
        """Returns the plan of the subtask, from the plan of the whole graph."""
        return distribute(plan, self.assignment, self.shuffle.topic)

    def discard_before(self, stored: CheckpointMetadata) -> None:
        """Discards what a stored checkpoint made unnecessary: epochs before it, and rows that other
        subtasks had sent."""
        self.log.forget(stored.log_offset)
        for offset in stored.positions.get(INCOMING, {}).values():
            self.shuffle.forget(offset)
