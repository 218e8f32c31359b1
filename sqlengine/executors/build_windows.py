"""Builds the operators of windowed nodes."""

from __future__ import annotations

from typing import TypeAlias

from planner.logical import (
    EmittingAggregate,
    LocalWindowAggregate,
    LogicalPlan,
    SessionAssign,
    WindowAggregate,
    WindowAssign,
    WindowJoin,
    WindowRank,
)
from planner.scalar import digest_of
from sqlengine.operators.base import Operator
from sqlengine.operators.windows.aggregate import WindowAggregateOperator
from sqlengine.operators.windows.assign import WindowAssignOperator
from sqlengine.operators.windows.emit import EmittingAggregateOperator
from sqlengine.operators.windows.join import WindowJoinOperator
from sqlengine.operators.windows.rank import WindowRankOperator
from sqlengine.operators.windows.session_windows import (
    SessionAggregateOperator,
    SessionAssignOperator,
)
from sqlengine.operators.windows.slices import SlicedAggregateOperator
from sqlengine.operators.windows.two_phases import LocalWindowAggregateOperator

Windowed: TypeAlias = (
    WindowAssign | SessionAssign | WindowAggregate | LocalWindowAggregate | WindowRank | WindowJoin
)


def window_operator(plan: Windowed) -> Operator:
    """Builds the operator of `plan`."""
    match plan:
        case WindowAssign():
            return WindowAssignOperator(plan)
        case SessionAssign():
            return SessionAssignOperator(plan)
        case WindowRank():
            return WindowRankOperator(plan)
        case WindowJoin():
            return WindowJoinOperator(plan, aligned=_take_turns(plan))
        case LocalWindowAggregate():
            return LocalWindowAggregateOperator(plan)
        case EmittingAggregate():
            return EmittingAggregateOperator(plan)
    if plan.session is not None:
        return SessionAggregateOperator(plan)
    return (
        SlicedAggregateOperator(plan) if plan.shared is not None else WindowAggregateOperator(plan)
    )


def _take_turns(plan: WindowJoin) -> bool:
    """True if rows of one source reach both sides in its order, so that the sides fire in turn.

    As in Flink, that holds where nothing selects rows on the left side, or the same on both."""
    (left, origin), (right, other) = map(_way, plan.inputs)
    return origin == other and left in ((), right)


def _way(plan: LogicalPlan) -> tuple[tuple[str, ...], str]:
    """The operations that select rows between the node that the rows have their watermark from and
    `plan`, and that node."""
    selecting = []
    while plan.forwards_row_time:
        if plan.selects_rows:
            selecting.append(digest_of(*plan.identity))
        (plan,) = plan.inputs
    return tuple(selecting), plan.digest
