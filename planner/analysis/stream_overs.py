"""OVER over streams: which windows Flink runs, and which row numbers can only be a Top-N."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from parser.errors import PlanError, UnsupportedError
from planner.logical import ALERT_FUNCTIONS, LogicalPlan, Over, OverCall
from planner.rewrite import nodes
from udf.aggregates.registry import is_aggregate

# The functions besides aggregates that have a result for each row as it comes.
_KNOWN: Final = ("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", *ALERT_FUNCTIONS)


def overs(plan: LogicalPlan) -> Iterator[Over]:
    """Every OVER of a plan."""
    return (n for n in nodes(plan) if isinstance(n, Over))


def may_rank(over: Over) -> bool:
    """True if the OVER can only be a Top-N: it numbers rows in a descending order, in which streams
    have no OVER."""
    functions = [c.function for c in over.calls]
    return functions == ["ROW_NUMBER"] and any(k.descending for k in over.order)


def check_overs(plan: LogicalPlan) -> None:
    """PlanError or UnsupportedError for an OVER that Flink does not run over streams either."""
    for over in overs(plan):
        _check_functions(over)
        _check_order(over)
        if not over.in_time:
            _check_without_time(over)


def _check_functions(over: Over) -> None:
    for call in over.calls:
        if call.function not in _KNOWN and not is_aggregate(_base(call)):
            message = f"{call.function} is not supported over a stream"
            raise UnsupportedError(message, position=over.position)


def _check_order(over: Over) -> None:
    if not over.order:
        hint = "order by a time attribute, or group by the columns"
        raise PlanError("OVER over a stream needs ORDER BY", hint=hint, position=over.position)
    if any(k.descending for k in over.order):
        message = "OVER over a stream must be ordered ascending"
        hint = "for the first rows of an order filter by ROW_NUMBER() in a query above:"
        raise PlanError(message, hint=f"{hint} WHERE n <= 10", position=over.position)
    if over.in_time and over.input.changes:
        message = "OVER in the order of time needs rows that are only added"
        raise PlanError(message, position=over.position)


def _check_without_time(over: Over) -> None:
    """An order of values is that of the rows so far: a new row may come between two of them."""
    if len(over.order) > 1 and any(_is_time(over, k.column) for k in over.order):
        raise PlanError("OVER may be ordered by one time attribute alone", position=over.position)
    alerts = [c.function for c in over.calls if c.function in ALERT_FUNCTIONS]
    if alerts:
        hint = f"{alerts[0]}(…) OVER (PARTITION BY … ORDER BY PROCTIME())"
        message = f"{alerts[0]} needs an order by a time attribute"
        raise PlanError(message, hint=hint, position=over.position)
    lags = [c for c in over.calls if c.function == "LAG"]
    if over.frame.preceding is not None or any(not c.constants for c in lags):
        raise UnsupportedError(
            "a bounded frame, or LAG with a varying offset, needs an order by a time attribute",
            detail=f"it is ordered by {', '.join(map(str, over.order))}",
            position=over.position,
        )


def _base(call: OverCall) -> str:
    return call.function.removesuffix(" DISTINCT")


def _is_time(over: Over, column: str) -> bool:
    kind = over.input.schema.type(column)
    return kind.is_rowtime or kind.is_proctime
