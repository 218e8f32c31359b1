"""The state of tasks, for a graph that goes on in the server's process. Does not import Spark."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from planner.graph.physical import PhysicalPlan
from sqlengine.executors.spark.kept_state import KeptState
from sqlengine.executors.spark.plan import cut_plan
from sqlengine.executors.spark.tasks.state import TaskState
from sqlengine.executors.spark.worker import TIMES
from sqlengine.operators.ports import WATERMARKS


def tables_of_tasks(
    folder: str, state: TaskState, plan: PhysicalPlan, created: Mapping[str, int]
) -> dict[str, pa.Table]:
    """Returns all tables by their full names, as the embedded executor keeps them: with those of
    the nodes before an exchange, which tasks keep behind it.

    `folder` (a URI) has the files; `created`: the graph version that created each node with
    tables."""
    cut, kept = cut_plan(plan, created), KeptState(folder)
    kept.restore(state, plan.nodes)
    tables = {n: rows for n, rows in kept.tables().items() if not n.startswith(TIMES)}
    for node in created.keys() & {n.id for n in plan.in_order}:
        times = kept.times_before(node, cut, plan)
        if times is not None:
            tables[f"{node}@{created[node]}/{WATERMARKS}"] = times
    return tables
