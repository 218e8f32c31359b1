"""Projections above one another become one, and those that change nothing go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from planner.logical import LogicalPlan, Project
from planner.rewrite import substitute, transform
from planner.scalar import Call, ColumnRef, Scalar, is_deterministic, walk


def merge_projections(plan: LogicalPlan) -> LogicalPlan:
    """Merges a projection with the one below it (Calcite: ProjectMergeRule), and removes one that
    only hands on the columns of its input.

    >>> from planner.examples import show
    >>> show("merge_projections", "SELECT x + 1 AS y FROM (SELECT a * 2 AS x FROM t)")
    Project (x + 1) AS y
      Project (a * 2) AS x
        Scan t (topic)
    -->
    Project ((a * 2) + 1) AS y
      Scan t (topic)

    Only where nothing is computed more often than before and nothing non-deterministic is moved.
    """
    return transform(plan, _merge)


def _merge(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, Project):
        return node
    if _changes_nothing(node):
        return node.input
    one = into_one(node, node.input) if isinstance(node.input, Project) else None
    # Again, for there may be a third one below.
    return node if one is None else _merge(one)


def into_one(upper: Project, lower: Project) -> Project | None:
    """One projection for two, `lower` being the input of `upper`; None where that would compute
    something more often."""
    if not _mergeable(upper, lower):
        return None
    values = dict(lower.items)
    return Project(
        lower.input, tuple((n, _put(e, values)) for n, e in upper.items), upper.salt or lower.salt
    )


def _put(item: Scalar, values: Mapping[str, Scalar]) -> Scalar:
    """The item over the columns of the lower projection's input. A column keeps its type in the
    upper projection, which may be nullable where the lower one's is not."""
    value = substitute(item, values)
    if isinstance(item, ColumnRef) and isinstance(value, ColumnRef):
        return replace(value, type=item.type)
    return value


def _changes_nothing(node: Project) -> bool:
    return node.schema == node.input.schema and all(
        isinstance(e, ColumnRef) and e.name == n for n, e in node.items
    )


def _mergeable(upper: Project, lower: Project) -> bool:
    if not all(is_deterministic(e) for _, e in lower.items):
        return False
    uses = Counter(n.name for _, e in upper.items for n in walk(e) if isinstance(n, ColumnRef))
    # A computed column that is read twice would be computed twice.
    return all(uses[name] <= 1 for name, e in lower.items if isinstance(e, Call))
