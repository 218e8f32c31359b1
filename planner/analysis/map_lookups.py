"""Tables of look-ups that are kept as a whole become files that are mapped into memory."""

from __future__ import annotations

from dataclasses import replace

from parser.errors import UnsupportedError
from planner.logical import (
    AssignWatermark,
    Filter,
    LogicalPlan,
    LookupJoin,
    MappedScan,
    Project,
    Scan,
    Sink,
)
from planner.rewrite import transform_sink


def map_lookups(sink: Sink) -> Sink:
    """Puts the plan over the table of a look-up into its scan, which gives versions of it instead
    of rows. The columns that the join compares are the index of each version.

    >>> from planner.examples import show
    >>> show('map_lookups', '''
    ... SELECT a.id, d.name FROM asked AS a
    ... JOIN dim FOR SYSTEM_TIME AS OF a.p AS d ON a.id = d.id''')
    Project id AS id0, name
      Scan dim (filesystem), read again when it changes
    -->
    MappedScan dim (filesystem), read again when it changes, found by id0 in a mapped file

    UnsupportedError for a table that is a changelog: it has no versions.
    """
    return transform_sink(sink, _mapped)


def _mapped(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, LookupJoin) or isinstance(node.right, MappedScan):
        return node
    scan = _scan_below(node.right)
    if scan is None or not scan.reloaded:
        return node
    if scan.changes:
        raise UnsupportedError(
            f"table '{scan.table.display}' is a changelog, and has no versions to look rows up in",
            hint="leave out the options 'lookup…': then rows are looked up in what it has read",
        )
    null_safe = tuple(dict.fromkeys(e.right for e in node.equalities if e.null_safe))
    mapped = MappedScan(
        scan.table, scan.where, True, node.right, node.keys(1), null_safe, _unique(node)
    )
    return replace(node, right=mapped)


def _unique(join: LookupJoin) -> tuple[str, ...]:
    """Returns the columns that tell the rows of the table apart; none where nothing does. A primary
    key is a promise: two rows of one that are found by different keys are both there."""
    keys = join.keys(1)
    return tuple(dict.fromkeys((*keys, *join.primary_key))) if join.primary_key else ()


def _scan_below(plan: LogicalPlan) -> Scan | None:
    """Returns the scan below operations that compute each row from one row."""
    while isinstance(plan, Project | Filter | AssignWatermark):
        plan = plan.input
    return plan if isinstance(plan, Scan) else None
