"""The identities of the process functions of a job: what they remember is kept under these."""

from __future__ import annotations

from parser.errors import PlanError
from planner.logical import LogicalPlan, ProcessFunction
from planner.rewrite import nodes


def check_uids(plan: LogicalPlan, known: dict[str, ProcessFunction]) -> None:
    """PlanError where an identity is that of two calls that differ: their memories would be one.
    `known` are the calls of the same job before, which those of the plan join."""
    for node in nodes(plan):
        if not isinstance(node, ProcessFunction) or not node.uid:
            continue
        first = known.setdefault(node.uid, node)
        if first.digest != node.digest:
            first, second = sorted((first, node), key=_place)
            raise PlanError(
                f"uid '{node.uid}' is that of two calls of process functions which differ:"
                f" '{first.called}' and '{second.called}'",
                detail=f"the first one stands at {first.position}; what a call remembers is kept"
                " under its uid, by default the name of the function",
                hint="give each call a uid of its own: uid => 'name'",
                position=second.position,
            )


def _place(node: ProcessFunction) -> tuple[int, int]:
    return (node.position.line, node.position.column) if node.position else (0, 0)
