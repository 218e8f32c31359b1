"""From a node of windows to its operator."""

from __future__ import annotations

from planner.logical import SessionAssign, WindowAggregate, WindowAssign
from sqlengine.operators.base import Operator
from sqlengine.operators.session_windows import SessionAggregateOperator, SessionAssignOperator
from sqlengine.operators.window_aggregate import WindowAggregateOperator
from sqlengine.operators.window_assign import WindowAssignOperator
from sqlengine.operators.window_slices import SlicedAggregateOperator


def window_operator(plan: WindowAssign | SessionAssign | WindowAggregate, owner: str) -> Operator:
    """The operator of `plan`, whose rows in error are `owner`'s."""
    match plan:
        case WindowAssign():
            return WindowAssignOperator(plan)
        case SessionAssign():
            return SessionAssignOperator(plan)
    if plan.session is not None:
        return SessionAggregateOperator(plan, owner)
    return SlicedAggregateOperator(plan, owner) if plan.shared is not None else WindowAggregateOperator(plan, owner)
