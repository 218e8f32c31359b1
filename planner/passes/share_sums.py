"""AVG and SUM of one argument share one sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.analysis.sums import begin_at_zero, kind_of, made_of_sums
from planner.logical import AggregateCall, GroupAggregate, LogicalPlan, WindowAggregate
from planner.rewrite import transform


def share_sums(plan: LogicalPlan) -> LogicalPlan:
    """Makes AVG and SUM of one sum and one count, in the type of their argument, where fewer are
    needed so (Calcite: AggregateReduceFunctionsRule); always beside a variance, which is made of
    others, too.

    >>> from planner.examples import show
    >>> show("share_sums", "SELECT AVG(a) AS x, VAR_POP(a) AS y FROM t")
    GroupAggregate by nothing: AVG(a) AS aggregate$0, VAR_POP(a) AS aggregate$1
      Project a
    -->
    GroupAggregate by nothing: AVG DIVIDED(a) AS aggregate$0, VAR_POP(a) AS aggregate$1
      Project a

    Integers that wrap around and -0.0 show the difference: a sum that is shared begins with 0
    (SUMMED), that of an average alone with its first value (DIVIDED). It counts calls, and so comes
    after those that nobody reads are gone.
    """
    return transform(plan, _shared)


def _shared(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, GroupAggregate | WindowAggregate):
        return node
    calls, schema = node.aggregates, node.input.schema
    if not any(kind_of(c) in ("AVG", "SUM") for c in calls) or not made_of_sums(calls, schema):
        return node
    average = "AVG SUMMED" if begin_at_zero(calls, schema) else "AVG DIVIDED"
    names = {"SUM": "SUM SUMMED", "AVG": average}
    return replace(node, aggregates=tuple(_renamed(c, names) for c in calls))


def _renamed(call: AggregateCall, names: Mapping[str, str]) -> AggregateCall:
    kind = kind_of(call)
    return replace(call, function=call.function.replace(kind, names.get(kind, kind)))
