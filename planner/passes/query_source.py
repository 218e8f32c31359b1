"""Sources that ask others for rows ask for what a plan wants."""

from __future__ import annotations

from dataclasses import replace

from parser.types import Root, Schema
from planner.logical import Filter, LogicalPlan, LookupJoin, Names, Project, Rank, Scan
from planner.rewrite import conjunction, conjuncts
from planner.scalar import COMPARISONS, Call, ColumnRef, Literal, Scalar, columns_of

_OF_NULL = ("IS NULL", "IS NOT NULL")


def query_source(plan: LogicalPlan) -> LogicalPlan:
    """Hands columns, simple conditions and LIMIT to the scan of a table that is queried, such as
    one in a database (Flink: PushProjectIntoTableSourceScanRule, PushFilterIntoTableSourceScanRule,
    PushLimitIntoTableSourceScanRule).

    >>> from planner.examples import show
    >>> show("query_source", "SELECT id FROM kept WHERE id > 3 AND v < 0.5")
    Scan kept (jdbc)
    -->
    Scan kept (jdbc), asks for id, v, asks for rows where ((id > 3) AND (v < 0.5))

    The filter above stays: the source leaves out a condition by which the database would mean
    another one. Not below a watermark, which rows that are not read would not move, and not in the
    table of a look-up, which is one for all jobs.
    """
    return _asking(plan, None, 0)


def _asking(node: LogicalPlan, wanted: Names | None, limit: int) -> LogicalPlan:
    """Returns the plan with scans that ask for the columns `wanted` (None: all) and at most `limit`
    rows (0: all)."""
    if isinstance(node, Scan):
        return _narrowed(node, None, wanted, limit)
    if isinstance(node, Filter) and isinstance(node.input, Scan):
        read = None if wanted is None else wanted | columns_of(node.predicate)
        return _with_input(node, _narrowed(node.input, node.predicate, read, 0))
    if isinstance(node, Project):
        items = [expression for _, expression in node.items]
        read = frozenset().union(*map(columns_of, items))
        return _with_input(node, _asking(node.input, read, limit))
    if isinstance(node, Rank) and node.limits and not node.order and not node.partition:
        return _with_input(node, _asking(node.input, None, node.end))
    if isinstance(node, LookupJoin):
        return node.with_inputs([_asking(node.left, None, 0), node.right])
    below = [_asking(source, None, 0) for source in node.inputs]
    same = all(new is old for new, old in zip(below, node.inputs, strict=True))
    return node if same else node.with_inputs(below)


def _with_input(node: LogicalPlan, below: LogicalPlan) -> LogicalPlan:
    return node if below is node.inputs[0] else node.with_inputs([below])


def _narrowed(scan: Scan, predicate: Scalar | None, wanted: Names | None, limit: int) -> Scan:
    if not scan.table.queried or scan.looked_up or scan.where is not None or scan.limit:
        return scan
    parts = [] if predicate is None else [p for p in conjuncts(predicate) if is_simple(p)]
    where = conjunction(parts) if parts else None
    table, names = scan.table, scan.table.physical.names
    if wanted is not None and not wanted >= set(names) and not table.metadata:
        wanted |= set(table.options.values())  # which may name a column
        kept = tuple(c for c in table.physical if c.name in wanted) or table.physical.columns[:1]
        key = table.primary_key if set(table.primary_key) <= {c.name for c in kept} else ()
        table = replace(table, physical=Schema(kept), primary_key=key)
    if where is None and not limit and table is scan.table:
        return scan
    return replace(scan, table=table, where=where, limit=limit)


def is_simple(part: Scalar) -> bool:
    """True for a comparison of a column with a constant, a test of one for NULL, and OR of such."""
    if not isinstance(part, Call):
        return False
    if part.function == "OR":
        return all(is_simple(a) for a in part.args)
    if part.function in _OF_NULL:
        return isinstance(part.args[0], ColumnRef)
    if part.function not in COMPARISONS and part.function not in ("IN", "BETWEEN"):
        return False
    first, *others = part.args
    return (
        isinstance(first, ColumnRef)
        and len(others) > 0
        and all(isinstance(o, Literal) and o.value is not None for o in others)
        and all(_alike(first, o) for o in others)
    )


def _alike(column: ColumnRef, constant: Scalar) -> bool:
    """True if a database compares the two as we do: numbers without a fraction, or of one type."""
    left, right = column.type, constant.type
    both_whole = (left.is_integer or left.root is Root.DECIMAL) and right.is_integer
    return left.root is right.root or both_whole or (left.is_string and right.is_string)
