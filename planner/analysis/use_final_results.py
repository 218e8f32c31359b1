"""Batch mode: operations give their final results alone."""

from __future__ import annotations

from dataclasses import replace

from planner.analysis.context import AnalysisContext
from planner.logical import (
    AssignWatermark,
    GroupAggregate,
    LogicalPlan,
    Materialize,
    Over,
    Sink,
    TemporalSort,
)
from planner.rewrite import transform_sink


def use_final_results(sink: Sink, context: AnalysisContext) -> Sink:
    """Puts a `Materialize` behind each operation that updates its own results, in batch mode.

    It waits for the end of input, so that no operation retracts anything, and a sum of sums is that
    of the final ones.

    >>> from planner.examples import show
    >>> show('use_final_results', '''
    ... SET 'execution.runtime-mode' = 'batch';
    ... SELECT k, COUNT(*) AS n FROM e GROUP BY k''')
    GroupAggregate by k: COUNT(*) AS aggregate$0
    -->
    Materialize
      GroupAggregate by k: COUNT(*) AS aggregate$0
    """
    return transform_sink(sink, _final) if context.batch else sink


def _final(node: LogicalPlan) -> LogicalPlan:
    match node:
        case Sink():
            return node
        case AssignWatermark() | Over():
            # The binder sets this in batch mode, but not in a view from before the mode changed.
            node = replace(node, at_end=True)
        case TemporalSort():
            node = Materialize(node.input, node.order, 1, None)
        case GroupAggregate(keys=(), aggregates=(_, *_)):
            node = replace(node, always=True)
    return Materialize(node) if node.changes else node
