"""The watermarks with which joins begin that come to a running graph.

Each operation learns the watermark of a table from the rows and ticks that it gets. A join waits
for both inputs: one that comes later would take rows for early ones that all others know to be
late, until it has had a tick of each. So it begins with what the tables have reached, as an
operation over one input does, and a family need not know when its members came."""

from __future__ import annotations

from collections.abc import Iterable

from planner.logical import BinaryJoin, LogicalPlan, time_origin
from sqlengine.batch import MIN_WATERMARK
from sqlengine.executors.dataflow.running_node import RunningNode
from sqlengine.operators.ports import combined, raise_to
from sqlengine.operators.watermark import WatermarkOperator
from sqlengine.state.table import KeyedTable


def begin_with_watermarks(
    plan: LogicalPlan, table: KeyedTable, running: Iterable[RunningNode]
) -> None:
    """Sets the watermarks of a join's inputs to those of the tables that they are rows of, where
    nothing in between has one of its own."""
    if not isinstance(plan, BinaryJoin):
        return
    reached = {
        node.plan.digest: operator.watermark
        for node, operator in ((r.node, r.operator) for r in running)
        if isinstance(operator, WatermarkOperator) and isinstance(node.plan, LogicalPlan)
    }
    known = {p: reached.get(time_origin(i), MIN_WATERMARK) for p, i in enumerate(plan.inputs)}
    raise_to(table, combined(known))
