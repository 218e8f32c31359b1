"""OVER over streams: which windows Flink runs, and which numbers of rows can only be a Top-N."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from parser.errors import PlanError, UnsupportedError
from planner.logical import LogicalPlan, Over, OverCall
from udf.aggregates.registry import is_aggregate

_KNOWN: Final = ("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG")


def check_overs(plan: LogicalPlan) -> None:
    for over in overs(plan):
        _check_over(over)


def overs(plan: LogicalPlan) -> Iterator[Over]:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        waiting += node.inputs
        if isinstance(node, Over):
            yield node


def may_rank(over: Over) -> bool:
    """Whether the OVER can be but a Top-N: it numbers rows in a descending order, in which streams
    have no OVER."""
    return [c.function for c in over.calls] == ["ROW_NUMBER"] and any(
        k.descending for k in over.order
    )


def _check_over(node: Over) -> None:
    """Refuses what Flink does not run over streams either."""
    missing = next(
        (c.function for c in node.calls if c.function not in _KNOWN and not is_aggregate(_base(c))),
        None,
    )
    if missing is not None:
        raise UnsupportedError(f"{missing} is not supported over a stream", position=node.position)
    if not node.order:
        hint = "order by a time attribute, or group by the columns"
        raise PlanError("OVER over a stream needs ORDER BY", hint=hint, position=node.position)
    if any(k.descending for k in node.order):
        hint = (
            "for the first rows of an order filter by ROW_NUMBER() in a query above: WHERE n <= 10"
        )
        raise PlanError(
            "OVER over a stream must be ordered ascending", hint=hint, position=node.position
        )
    if node.in_time:
        if node.input.changes:
            raise PlanError(
                "OVER in the order of time needs rows that are only added", position=node.position
            )
        return
    if len(node.order) > 1 and any(_is_time(node, k.column) for k in node.order):
        raise PlanError("OVER may be ordered by one time attribute alone", position=node.position)
    lags = [c for c in node.calls if c.function == "LAG"]
    if node.frame.preceding is not None or any(not c.constants for c in lags):
        raise UnsupportedError(
            "a bounded frame, or LAG with a varying offset, needs an order by a time attribute",
            detail=f"it is ordered by {', '.join(map(str, node.order))}",
            position=node.position,
        )


def _base(call: OverCall) -> str:
    return call.function.removesuffix(" DISTINCT")


def _is_time(node: Over, column: str) -> bool:
    kind = node.input.schema.type(column)
    return kind.is_rowtime or kind.is_proctime
