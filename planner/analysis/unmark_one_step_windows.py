"""Windows that are aggregated in one step keep DISTINCT values in the order in which they come."""

from __future__ import annotations

from typing import Final

from planner.analysis.context import AnalysisContext
from planner.analysis.two_step_windows import with_functions
from planner.logical import LogicalPlan, Sink, WindowAggregate, windows_below
from planner.rewrite import transform_sink
from planner.settings import AGG_PHASES, AGG_STRATEGIES, one_of
from udf.aggregates.registry import BUFFERED, aggregate_names

# A window with one of these has one step in Flink; of users' aggregates nothing is known.
_IN_ONE_STEP: Final = frozenset({"FIRST_VALUE", "LAST_VALUE", "SINGLE_VALUE", "JSON_ARRAYAGG"})


def unmark_one_step_windows(sink: Sink, context: AnalysisContext) -> Sink:
    """Takes the mark of `mark_two_step_windows` off the windows that Flink aggregates in one step:
    there lists of DISTINCT values are in the order in which the values come, not in that of a hash
    table. Which windows have two steps is said by Flink's TwoStageOptimizedWindowAggregateRule.

    >>> from planner.examples import show
    >>> show('unmark_one_step_windows', '''
    ... SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';
    ... SELECT ARRAY_AGG(DISTINCT v) AS vs
    ... FROM TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' HOUR)
    ... GROUP BY window_start, window_end''')
    WindowAggregate by window_start, window_end: ARRAY_AGG DISTINCT BUFFERED(v) AS aggregate$0
      Project window_start, window_end, window_time, v
    -->
    WindowAggregate by window_start, window_end: ARRAY_AGG DISTINCT(v) AS aggregate$0
      Project window_start, window_end, window_time, v
    """

    # The mark is part of the function's name: an aggregate without it is another operation.
    def unmark(node: LogicalPlan) -> LogicalPlan:
        if not isinstance(node, WindowAggregate) or _has_two_steps(node, context):
            return node
        names = (a.function for a in node.aggregates)
        return with_functions(node, {name: name.removesuffix(BUFFERED) for name in names})

    return transform_sink(sink, unmark)


def _has_two_steps(plan: WindowAggregate, context: AnalysisContext) -> bool:
    if plan.session is not None or not windows_below(plan.input)[0].in_two_steps:
        return False
    one_phase = one_of(context.settings, AGG_PHASES, AGG_STRATEGIES) == "ONE_PHASE"
    if context.batch or one_phase or plan.input.changes:
        return False
    functions = {a.function.partition(" ")[0] for a in plan.aggregates}
    by_event_time = plan.schema.type(plan.window_columns[2]).is_rowtime
    return by_event_time and functions <= {*aggregate_names()} - _IN_ONE_STEP
