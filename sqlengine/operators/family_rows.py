"""The rows of a node for a family whose members take all of them."""

from __future__ import annotations

import numpy as np

from planner.graph.chunked import Chunked
from planner.graph.family_nodes import FamilyRows
from planner.graph.family_search import EVERY_ROW
from rules.ruleset import RuleSet
from sqlengine.batch import Batch
from sqlengine.operators.base import Output
from sqlengine.operators.rules import CompiledRules, RulesOperator, with_numbers


class FamilyRowsOperator(RulesOperator):
    """Gives each row once for each member, in the order of the rows; see `RulesOperator`."""

    def __init__(self, plan: FamilyRows) -> None:
        super().__init__(CompiledRules(plan, RuleSet.empty(), Chunked(), 0))
        ((self._port, self._name),) = plan.numbers.items()
        self._members = np.array([number for _, number in plan.members[EVERY_ROW]], np.int64)

    def process(self, port: int, batch: Batch) -> Output:
        count, members = batch.num_rows, self._members
        self.passed[EVERY_ROW] += count
        rows, numbers = np.repeat(np.arange(count), len(members)), np.tile(members, count)
        return [(self._port, with_numbers(batch, rows, numbers, self._name))]
