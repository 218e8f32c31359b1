"""Columns that nobody above reads are dropped from projections and before windows.

SELECT c FROM (SELECT a + 1 AS b, c FROM t LIMIT-less subquery) WHERE b > 1

Project c                                       Project c
  Filter (b > 1)                                  Filter (b > 1)
    Project (a + 1) AS b, c, d                      Project (a + 1) AS b, c
"""

from __future__ import annotations

from dataclasses import replace

from planner.logical import (
    AssignWatermark,
    Filter,
    LogicalPlan,
    Project,
    Scan,
    TableFunction,
    Values,
    WindowAggregate,
    WindowAssign,
)
from planner.merge import with_inputs
from planner.rewrite import is_column, references
from planner.scalar import columns_of

Names = frozenset[str]


def prune_projection(plan: LogicalPlan) -> LogicalPlan:
    """Stops above a scan and its watermark: those are shared by many jobs and keep all columns, in the same way as the
    columns that a connector decodes are settled over all jobs and not here."""
    return _prune(plan, frozenset(plan.schema.names))


def _prune(node: LogicalPlan, wanted: Names) -> LogicalPlan:
    """The node with at least the columns `wanted`, in the order in which it had them."""
    match node:
        case Scan() | AssignWatermark() | Values():
            return node
        case Project():
            return _project(node, wanted)
        case Filter():
            return with_inputs(node, (_prune(node.input, wanted | columns_of(node.predicate)),))
        case TableFunction():
            made = {c.name for c in node.columns}
            return with_inputs(node, (_prune(node.input, (wanted - made) | columns_of(node.call)),))
        case WindowAssign():
            return _window_assign(node, wanted)
        case WindowAggregate():
            return with_inputs(node, (_prune(node.input, _read_by_aggregate(node)),))
    # A union gives columns by position and a sink writes them all: their inputs keep every column.
    return with_inputs(node, tuple(_prune(i, frozenset(i.schema.names)) for i in node.inputs))


def _project(node: Project, wanted: Names) -> LogicalPlan:
    kept = tuple((n, e) for n, e in node.items if n in wanted)
    if not kept:  # a batch without columns would lose its number of rows
        kept = (next((i for i in node.items if is_column(i[1])), node.items[0]),)
    read = frozenset[str]().union(*(columns_of(e) for _, e in kept))
    pruned = node if len(kept) == len(node.items) else replace(node, items=kept)
    return with_inputs(pruned, (_prune(node.input, read),))


def _window_assign(node: WindowAssign, wanted: Names) -> LogicalPlan:
    read = (wanted - set(node.names)) | {node.window.time_column}
    below = _prune(node.input, read)
    if not isinstance(below, Scan | AssignWatermark | Project) and not read >= set(below.schema.names):
        below = Project(below, references(below.schema, (n for n in below.schema.names if n in read)))
    return with_inputs(node, (below,))


def _read_by_aggregate(node: WindowAggregate) -> Names:
    arguments = {c for a in node.aggregates for c in (a.argument, a.filter_column) if c is not None}
    return frozenset(node.keys) | frozenset(node.window_columns) | arguments
