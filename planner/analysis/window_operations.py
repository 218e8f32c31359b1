"""Joins and ranks within windows, which give final rows once a window is over, are made of those
whose inputs' rows are in windows (Flink's StreamPhysicalWindowJoinRule and
StreamPhysicalWindowRankRule)."""

from __future__ import annotations

from planner.logical import (
    BinaryJoin,
    Join,
    JoinKind,
    LogicalPlan,
    Rank,
    WindowBound,
    WindowJoin,
    WindowRank,
)
from planner.scalar import Scalar


def as_window_rank(rank: Rank) -> Rank:
    """The rank within windows, if its partition has the start and end of one and its input is
    insert-only; else the rank as it is."""
    below = rank.input.window_properties
    bounds = None if rank.input.changes or below is None else below.start_and_end(rank.partition)
    if bounds is None:
        return rank
    return WindowRank(
        rank.input, rank.partition, rank.order, rank.start, rank.end, rank.rank_name, bounds=bounds
    )


def join(left: LogicalPlan, right: LogicalPlan, kind: JoinKind, condition: Scalar) -> LogicalPlan:
    """The join of two inputs that have no name in common: window by window where its condition says
    so."""
    plain = Join(left, right, kind, condition)
    return as_window_join(plain) or plain


def as_window_join(join: BinaryJoin) -> WindowJoin | None:
    """The join window by window, if its condition says that rows of both sides are in the same
    window of the same kind, and both sides are insert-only; else None."""
    left, right = (side.window_properties for side in join.inputs)
    if join.left.changes or join.right.changes or left is None or right is None:
        return None
    pairs: dict[WindowBound, tuple[str, str]] = {}
    for pair in join.equalities:
        bound = left.bounds.get(pair.left)
        if bound is not None and bound is right.bounds.get(pair.right):
            pairs.setdefault(bound, pair.sides)
    if not {WindowBound.START, WindowBound.END} <= pairs.keys():
        return None
    if not left.window.is_like(right.window):
        return None
    starts, ends = pairs[WindowBound.START], pairs[WindowBound.END]
    return WindowJoin(join.left, join.right, join.kind, join.condition, starts, ends)
