"""What makes a graph that runs here one part of a divided one."""

from __future__ import annotations

from dataclasses import dataclass

from planner.division import Share, divide
from planner.physical import PhysicalPlan
from sqlengine.connectors.shuffle import Shuffle
from sqlengine.executors.epochs import EpochLog


@dataclass(frozen=True)
class Portion:
    """The share of the part, how it reaches the others, and its epoch log. `pre_aggregate`: rows are put together before they cross, where
    they can be."""

    share: Share
    shuffle: Shuffle
    log: EpochLog
    pre_aggregate: bool = True

    def of(self, plan: PhysicalPlan) -> PhysicalPlan:
        """The plan of the part."""
        return divide(plan, self.share, self.shuffle.topic, pre_aggregate=self.pre_aggregate)
