"""From a node of windows to its operator."""

from __future__ import annotations

from typing import TypeAlias

from planner.logical import EmittingAggregate, SessionAssign, WindowAggregate, WindowAssign, WindowJoin, WindowRank
from sqlengine.operators.base import Operator
from sqlengine.operators.session_windows import SessionAggregateOperator, SessionAssignOperator
from sqlengine.operators.window_aggregate import WindowAggregateOperator
from sqlengine.operators.window_assign import WindowAssignOperator
from sqlengine.operators.window_emit import EmittingAggregateOperator
from sqlengine.operators.window_join import WindowJoinOperator
from sqlengine.operators.window_rank import WindowRankOperator
from sqlengine.operators.window_slices import SlicedAggregateOperator

Windowed: TypeAlias = WindowAssign | SessionAssign | WindowAggregate | WindowRank | WindowJoin


def window_operator(plan: Windowed, owner: str) -> Operator:
    """The operator of `plan`, whose rows in error are `owner`'s."""
    match plan:
        case WindowAssign():
            return WindowAssignOperator(plan)
        case SessionAssign():
            return SessionAssignOperator(plan, owner)
        case WindowRank():
            return WindowRankOperator(plan, owner)
        case WindowJoin():
            return WindowJoinOperator(plan, owner)
        case EmittingAggregate():
            return EmittingAggregateOperator(plan, owner)
    if plan.session is not None:
        return SessionAggregateOperator(plan, owner)
    return SlicedAggregateOperator(plan, owner) if plan.shared is not None else WindowAggregateOperator(plan, owner)
