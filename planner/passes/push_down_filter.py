"""Filters move towards their source."""

from __future__ import annotations

from dataclasses import replace

from parser.types import BOOLEAN
from planner.analysis.totality import can_fail
from planner.logical import (
    BinaryJoin,
    Filter,
    LogicalPlan,
    Normalize,
    Project,
    Stateful,
    TableFunction,
    Union,
    WindowAssign,
)
from planner.passes.into_joins import filtered_join, into_sides
from planner.rewrite import substitute, transform
from planner.scalar import (
    Call,
    ColumnRef,
    Scalar,
    columns_of,
    is_deterministic,
    is_deterministic_per_epoch,
    walk,
)

# Substituting what a subquery computes may repeat it; beyond this the filter stays where it is.
MAX_NODES = 20_000


def push_down_filter(plan: LogicalPlan) -> LogicalPlan:
    """Moves filters through projections, unions, joins and window assignment (Calcite:
    FilterProjectTransposeRule, FilterSetOpTransposeRule; Flink: FlinkFilterJoinRule), so that fewer
    rows are worked on and filters of many jobs meet above one scan.

    >>> from planner.examples import show
    >>> show("push_down_filter", "SELECT * FROM (SELECT a + 1 AS x, s FROM t) WHERE s = 'x'")
    Filter (s = 'x')
      Project (a + 1) AS x, s
        Scan t (topic)
    -->
    Project (a + 1) AS x, s
      Filter (s = 'x')
        Scan t (topic)

    Never below a watermark or a scan, which many jobs share, and never through or with anything
    non-deterministic, but for what asks for the time of rows that a table updates.
    """
    return transform(plan, _push)


def _push(node: LogicalPlan) -> LogicalPlan:
    if isinstance(node, BinaryJoin):
        # With late rows going to a table no row may be dropped before the join.
        return node if node.late is not None else into_sides(node, _push)
    if not isinstance(node, Filter):
        return node
    below = node.input
    # A predicate that reads the time may be put here, as nowhere else.
    if isinstance(below, Normalize) and is_deterministic_per_epoch(node.predicate):
        return _into_normalize(node, below)
    if isinstance(below, Stateful) and below.late is not None:
        return node  # all its late rows go to the table, also those that the filter would drop
    return _through(node, below) if is_deterministic(node.predicate) else node


def _through(node: Filter, below: LogicalPlan) -> LogicalPlan:
    match below:
        case Project():
            return _through_project(node, below)
        case Union():
            return replace(
                below, branches=tuple(_into_branch(node, below, b) for b in below.branches)
            )
        case WindowAssign():
            return _through_window(node, below)
        case TableFunction():
            return _through_table_function(node, below)
        case BinaryJoin():
            return filtered_join(node, below, _push)
        case Filter():
            return _through_filter(node, below)
    return node


def _through_project(node: Filter, project: Project) -> LogicalPlan:
    if not all(is_deterministic(e) for _, e in project.items):
        return node
    values = dict(project.items)
    # Columns are free to substitute; only what is computed grows the tree.
    computed = [
        v
        for v in map(values.get, _uses(node.predicate))
        if v is not None and not isinstance(v, ColumnRef)
    ]
    if sum(_size(v) for v in computed) > MAX_NODES:
        return node
    moved = Filter(project.input, substitute(node.predicate, values), node.salt or project.salt)
    return replace(project, input=_push(moved))


def _through_window(node: Filter, window: WindowAssign) -> LogicalPlan:
    """Only a filter that cannot fail: rows without a time have no window, so that the filter has
    never seen them."""
    if can_fail(node.predicate) or columns_of(node.predicate) & set(window.names):
        return node
    return replace(window, input=_push(replace(node, input=window.input)))


def _through_table_function(node: Filter, function: TableFunction) -> LogicalPlan:
    """Only a filter that cannot fail: it has never seen rows for which the function returns no row
    or fails."""
    made = {c.name for c in function.columns}
    if (
        can_fail(node.predicate)
        or columns_of(node.predicate) & made
        or not function.call.deterministic
    ):
        return node
    return replace(function, input=_push(replace(node, input=function.input)))


def _into_branch(node: Filter, union: Union, branch: LogicalPlan) -> LogicalPlan:
    pairs = zip(union.schema.names, branch.schema, strict=True)
    values: dict[str, Scalar] = {name: ColumnRef(c.name, c.type) for name, c in pairs}
    return _push(Filter(branch, substitute(node.predicate, values), node.salt))


def _into_normalize(node: Filter, normalize: Normalize) -> LogicalPlan:
    """Puts the filter into the normalization: a row that does not pass does not exist, so that an
    earlier version that did pass is retracted as -D.

    Where changes are folded nothing shows of that, and the filter stays above, so that jobs with
    other filters share the state. A predicate that asks for the time is evaluated once for each
    row, when it comes."""
    if not normalize.row_by_row and is_deterministic(node.predicate):
        return node
    inner = normalize.predicate
    both = node.predicate if inner is None else Call("AND", (inner, node.predicate), BOOLEAN)
    return replace(normalize, predicate=both)


def _through_filter(node: Filter, other: Filter) -> LogicalPlan:
    """Moves the filter below another one if it cannot fail on rows that it has not seen before, and
    if it moves on from there."""
    if can_fail(node.predicate) or not is_deterministic(other.predicate):
        return node
    # The filter moves only if it goes past more than the other filter: else the two would change
    # places for ever.
    moved = _push(replace(node, input=other.input))
    stays = (
        isinstance(moved, Filter)
        and moved.predicate is node.predicate
        and moved.input is other.input
    )
    return node if stays else replace(other, input=moved)


def _uses(expression: Scalar) -> list[str]:
    return [n.name for n in walk(expression) if isinstance(n, ColumnRef)]


def _size(expression: Scalar) -> int:
    return sum(1 for _ in walk(expression))
