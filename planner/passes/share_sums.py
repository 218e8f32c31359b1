"""AVG and SUM are made of one sum and one count, in the type of their argument, where fewer are needed so, as in Flink;
always beside a variance, which is made of them, too. Integers that wrap around and -0.0 show it.

SELECT AVG(i) AS a, SUM(i) AS s, COUNT(i) AS n FROM t

GroupAggregate: AVG(i), SUM(i), COUNT(i)        GroupAggregate: AVG SUMMED(i), SUM SUMMED(i), COUNT(i)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from parser.types import Schema
from planner.logical import AggregateCall, GroupAggregate, LogicalPlan, WindowAggregate
from planner.rewrite import transform

# Function, argument, filter: calls that agree in these are computed once.
_Part: TypeAlias = tuple[str, str | None, str | None]


def share_sums(plan: LogicalPlan) -> LogicalPlan:
    """After calls that nobody reads are gone, since it counts them."""
    return transform(plan, _shared)


def _shared(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, GroupAggregate | WindowAggregate):
        return node
    calls, below = node.aggregates, node.input.schema
    kinds = {_kind(c) for c in calls}
    if not kinds & {"AVG", "SUM"}:
        return node
    parts = {part for c in calls for part in _parts(c, below)}
    varies = any(k.startswith(("VAR", "STDDEV")) for k in kinds)
    if not varies and len(parts) >= len({_part(c.function, c, below) for c in calls}):
        return node
    return replace(node, aggregates=tuple(_summed(c) for c in calls))


def _kind(call: AggregateCall) -> str:
    return call.function.partition(" ")[0]


def _parts(call: AggregateCall, below: Schema) -> list[_Part]:
    kind = _kind(call)
    if kind not in ("AVG", "SUM"):
        return [_part(call.function, call, below)]
    total = _part(call.function.replace("AVG", "SUM"), call, below)
    if kind == "SUM" and not call.type.nullable:
        return [total]
    return [total, _part(call.function.replace(kind, "COUNT"), call, below)]


def _part(function: str, call: AggregateCall, below: Schema) -> _Part:
    """COUNT of what is never NULL is COUNT(*)."""
    argument = call.argument
    if function == "COUNT" and argument is not None and not below.type(argument).nullable:
        argument = None
    return function, argument, call.filter_column


def _summed(call: AggregateCall) -> AggregateCall:
    kind = _kind(call)
    return replace(call, function=call.function.replace(kind, f"{kind} SUMMED")) if kind in ("AVG", "SUM") else call
