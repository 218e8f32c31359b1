"""Columns that nobody reads are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.logical import (
    AssignWatermark,
    Filter,
    GroupAggregate,
    LogicalPlan,
    Names,
    Over,
    Project,
    Rank,
    Scan,
    Union,
    Values,
    WindowAssign,
)
from planner.rewrite import is_column, references

_NOTHING: Names = frozenset()


def prune_projection(plan: LogicalPlan) -> LogicalPlan:
    """Drops columns that nobody above reads from projections, from the branches of UNION ALL and
    before windows, and calls of aggregates whose results nobody reads (those of OVER:
    `unread_over`).

    >>> from planner.examples import show
    >>> show('prune_projection', '''
    ... SELECT a
    ... FROM (SELECT a, LOWER(s) AS l FROM t UNION ALL SELECT a, s FROM u)''')
    Project a, LOWER(s) AS l
      Scan t (topic)
    Project a, s
      Scan u (topic)
    -->
    Project a
      Scan t (topic)
    Project a
      Scan u (topic)

    Stops above a scan and its watermark: those are shared by many jobs and keep all columns. Which
    columns a connector decodes is decided over all jobs (`planner.graph.required_columns`).
    """
    return _prune(plan, frozenset(plan.schema.names))


def _prune(node: LogicalPlan, wanted: Names, named: Names = _NOTHING) -> LogicalPlan:
    """The node with at least the columns `wanted`, in the order in which it has them.

    `named`: the columns that a rank above takes, also those that nobody reads: as in Flink an
    aggregate call stays for it, and with the call the updates that it emits. Where updates are
    folded (mini-batch) there would be none to see."""
    if isinstance(node, Scan | AssignWatermark | Values):
        return node
    if isinstance(node, Project):
        return _project(node, wanted, named)
    if isinstance(node, Union):
        return _union(node, wanted)
    # Row by row an aggregate's calls show in its updates.
    kept = wanted | named if isinstance(node, GroupAggregate) and node.row_by_row else wanted
    node = node if isinstance(node, Over) else node.pruned(kept)
    read = [node.needs(kept, port) for port in range(len(node.inputs))]
    named = frozenset(node.input.schema.names) if isinstance(node, Rank) else named
    # Only filters and ranks hand on what is named above.
    named = named if isinstance(node, Filter | Rank) else _NOTHING
    below = [_prune(source, names, named) for source, names in zip(node.inputs, read, strict=True)]
    if node.reads_all_columns or (
        isinstance(node, WindowAssign) and not isinstance(below[0], Scan | AssignWatermark)
    ):
        # These take all columns of their input: a projection in between narrows it.
        below = [_narrowed(source, names) for source, names in zip(below, read, strict=True)]
    return node.with_inputs(below)


def _project(node: Project, wanted: Names, named: Names) -> LogicalPlan:
    kept = tuple((n, e) for n, e in node.items if n in wanted)
    if not kept:  # a batch without columns would lose its number of rows
        kept = (next((i for i in node.items if is_column(i[1])), node.items[0]),)
    pruned = node if len(kept) == len(node.items) else replace(node, items=kept)
    return pruned.with_inputs(
        [_prune(node.input, pruned.reads(wanted | {kept[0][0]}, 0), node.reads(named, 0))]
    )


def _union(node: Union, wanted: Names) -> Union:
    """The union of branches that have the columns read above only, as in Flink: an aggregate call
    that nobody reads goes there, and with it its updates."""
    names = node.schema.names
    # At least one column, so that rows can be counted.
    places = [i for i, name in enumerate(names) if name in wanted] or [0]
    branches = tuple([_taking(branch, places) for branch in node.branches])
    return replace(
        node, branches=branches, row_schema=node.schema.select(tuple([names[i] for i in places]))
    )


def _taking(branch: LogicalPlan, places: Sequence[int]) -> LogicalPlan:
    """A branch of a union with the columns at these places."""
    names = branch.schema.names
    taken = [names[i] for i in places]
    if len(taken) < len(names) and not isinstance(branch, Project):
        branch = Project(branch, references(branch.schema, taken))
    return _prune(branch, frozenset(taken))


def _narrowed(below: LogicalPlan, read: Names) -> LogicalPlan:
    """The input of a node that takes all columns, with a projection to those that it reads."""
    names = below.schema.names
    if isinstance(below, Project) or read >= set(names):
        return below
    return Project(below, references(below.schema, [n for n in names if n in read] or names[:1]))
