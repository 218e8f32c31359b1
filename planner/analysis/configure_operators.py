"""Settings of a job as parameters of its stateful operations."""

from __future__ import annotations

from dataclasses import replace

from planner.analysis.context import AnalysisContext
from planner.logical import AssignWatermark, IntervalJoin, LogicalPlan, Sink, Stateful
from planner.rewrite import transform, transform_sink
from planner.settings import (
    AGG_PHASES,
    AGG_STRATEGIES,
    CLEANUP,
    FILTER_PUSH_DOWN,
    LATE_ROWS,
    MAX_FUTURE,
    MINI_BATCH,
    SOURCE_IDLE,
    STATE_TTL,
    WATERMARK_INTERVAL,
    duration_ms,
    flag,
    one_of,
)


def configure_operators(sink: Sink, context: AnalysisContext) -> Sink:
    """Sets mini-batch, the TTL of state, the cleaning of interval joins, idle sources, the interval
    of watermarks, the bound for rows in the future, and dead letters of late rows as the settings
    say.

    >>> from planner.examples import show
    >>> show('configure_operators', '''
    ... SET 'table.exec.state.ttl' = '1 h';
    ... SELECT k, COUNT(*) AS n FROM e GROUP BY k''')
    GroupAggregate by k: COUNT(*) AS aggregate$0
      Project k
    -->
    GroupAggregate by k: COUNT(*) AS aggregate$0  [state TTL 3600000 ms]
      Project k

    In batch mode none of them has a meaning. PlanError for an invalid value.
    """
    settings = context.settings
    flag(settings, FILTER_PUSH_DOWN, default=True)  # refused here, read where graphs are opened
    if context.batch:
        return sink
    row_by_row = not flag(settings, MINI_BATCH, default=True)
    ttl_ms = duration_ms(settings, STATE_TTL)
    cleanup_ms, idle_ms = duration_ms(settings, CLEANUP), duration_ms(settings, SOURCE_IDLE)
    interval_ms = duration_ms(settings, WATERMARK_INTERVAL)
    future_ms = duration_ms(settings, MAX_FUTURE)
    one_of(settings, AGG_PHASES, AGG_STRATEGIES)  # refused here, read where plans are cut
    dead_letters = one_of(settings, LATE_ROWS, ("DROP", "DEAD-LETTER")) != "DROP"

    def set_up(node: LogicalPlan) -> LogicalPlan:
        if isinstance(node, IntervalJoin) and cleanup_ms:
            node = replace(node, cleanup_ms=cleanup_ms)  # a join is stateful, too
        if isinstance(node, AssignWatermark):
            configured = replace(
                node,
                idle_ms=node.idle_ms or idle_ms,
                interval_ms=0 if node.pushed else interval_ms,
                max_future_ms=node.max_future_ms or future_ms,
            )
            if configured.max_future_ms:
                configured = replace(configured, zone=context.zone)
            return node if configured.parameters == node.parameters else configured
        if not isinstance(node, Stateful):
            return node
        if node.judges_lateness and any(i.changes for i in node.inputs):
            node = node.with_inputs([transform(i, _unfolded) for i in node.inputs])
        values = (
            (row_by_row or node.row_by_row) and node.depends_on_batches,
            node.ttl_ms or ttl_ms,  # a hint in the query goes before the setting
            dead_letters and node.drops_late,
        )
        if values == (node.row_by_row, node.ttl_ms, node.tells_late):
            return node
        return replace(node, row_by_row=values[0], ttl_ms=values[1], tells_late=values[2])

    return transform_sink(sink, set_up)


def _unfolded(node: LogicalPlan) -> LogicalPlan:
    """The node row by row where it emits changes with a time attribute: a window above assigns each
    change by its time, and a change that is folded into a later one has lost its own."""
    if not isinstance(node, Stateful) or not node.folds or not node.changes:
        return node
    return replace(node, row_by_row=True) if any(c.type.is_rowtime for c in node.schema) else node
