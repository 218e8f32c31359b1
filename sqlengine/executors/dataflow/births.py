"""Watermarks, and versions of look-up tables, with which joins begin that come to a running graph.

Each operation learns the watermark of a table from the rows and ticks that it gets. A join waits
for both inputs: one that comes later would take rows for early ones that all others know to be
late, until it has had a tick of each. So it begins with what the tables have reached, as an
operation over one input does, and a family need not know when its members came. A look-up in a
mapped file begins with the version that others look up in: the next one may come much later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa

from planner.logical import BinaryJoin, LogicalPlan, LookupJoin, time_origin
from sqlengine.batch import MIN_WATERMARK
from sqlengine.executors.dataflow.running_node import RunningNode
from sqlengine.operators.joins.mapped import VERSION
from sqlengine.operators.ports import WATERMARKS, combined, raise_to
from sqlengine.operators.watermark import WatermarkOperator
from sqlengine.state.table import KeyedTable


@dataclass(frozen=True)
class Births:
    """The state of others from which joins of a new plan begin: `versions`, as look-ups in mapped
    files keep them, by the digest of the scan."""

    versions: Mapping[str, pa.Table] = field(default_factory=dict)

    @classmethod
    def before(cls, running: Iterable[RunningNode], tables: Mapping[str, KeyedTable]) -> Self:
        """Returns what these operators know before a change of the plan."""
        found: dict[str, pa.Table] = {}
        for node in running:
            plan = node.node.plan
            if isinstance(plan, LookupJoin) and plan.shares_table:
                own = (tables[name] for name in node.context.names if name.endswith(f"/{VERSION}"))
                found.update((plan.right.digest, table.dump()) for table in own if len(table))
        return cls(found)

    def begin(self, new: RunningNode, running: Iterable[RunningNode]) -> None:
        """Fills tables of a new join that would begin empty."""
        plan, begun = new.node.plan, new.context.begun
        if isinstance(plan, LookupJoin) and plan.shares_table and VERSION in begun:
            version = self.versions.get(plan.right.digest)
            if version is not None:
                begun[VERSION].load(version)
        elif isinstance(plan, BinaryJoin) and WATERMARKS in begun:
            begin_with_watermarks(plan, begun[WATERMARKS], running)


def begin_with_watermarks(
    plan: BinaryJoin, table: KeyedTable, running: Iterable[RunningNode]
) -> None:
    """Sets the watermarks of a join's inputs to those of the tables that they are rows of, where
    nothing in between has one of its own."""
    reached = {
        node.plan.digest: operator.watermark
        for node, operator in ((r.node, r.operator) for r in running)
        if isinstance(operator, WatermarkOperator) and isinstance(node.plan, LogicalPlan)
    }
    known = {p: reached.get(time_origin(i), MIN_WATERMARK) for p, i in enumerate(plan.inputs)}
    raise_to(table, combined(known))
