"""What makes a graph that runs here one part of a divided one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from planner.graph.division import INCOMING, SubtaskAssignment, divide
from planner.graph.physical import PhysicalPlan
from sqlengine.connectors.shuffle import Shuffle
from sqlengine.executors.epochs import EpochLog
from sqlengine.snapshots.checkpoints import Position
from sqlengine.state.store import CheckpointStore


class SubtaskEpochs(EpochLog, Protocol):
    """The log of one part alone."""

    def forget(self, before: int) -> None:
        """What stands before that offset is needed no more."""


@dataclass(frozen=True)
class SubtaskContext:
    """The share of the part, how it reaches the others, its epoch log, and where its checkpoints
    are."""

    share: SubtaskAssignment
    shuffle: Shuffle
    log: SubtaskEpochs
    store: CheckpointStore

    def of(self, plan: PhysicalPlan) -> PhysicalPlan:
        """The plan of the part."""
        return divide(plan, self.share, self.shuffle.topic)

    def forget(self, stored: Position) -> None:
        """Lets go of what a checkpoint has made needless: epochs before it, and what was sent to
        the part."""
        self.log.forget(stored.log_offset)
        for at in stored.positions.get(INCOMING, {}).values():
            self.shuffle.forget(at)
