"""Tables of look-ups that are no inputs of their own: those kept as a whole become files that are
mapped into memory, others are asked for the rows of keys."""

from __future__ import annotations

from dataclasses import replace

from parser.errors import UnsupportedError
from planner.logical import (
    AskedScan,
    AssignWatermark,
    Filter,
    LogicalPlan,
    LookedUpScan,
    LookupJoin,
    MappedScan,
    Project,
    Scan,
    Sink,
)
from planner.rewrite import transform_sink
from planner.scalar import ColumnRef
from planner.settings import CACHE_OPTION, NO_CACHE, PARTIAL
from planner.tables import Table


def map_lookups(sink: Sink) -> Sink:
    """Puts the plan over the table of a look-up into its scan, which gives versions of it instead
    of rows, or nothing where the join asks it. The columns that the join compares are the index of
    each version, or what is asked for.

    >>> from planner.examples import show
    >>> show('map_lookups', '''
    ... SELECT a.id, d.name FROM asked AS a
    ... JOIN dim FOR SYSTEM_TIME AS OF a.p AS d ON a.id = d.id''')
    Project id AS id0, name
      Scan dim (filesystem), looked up
    -->
    MappedScan dim (filesystem), looked up in a mapped file by id0, read again when it changes

    UnsupportedError for a table that is a changelog: it has no versions; and for one that cannot be
    asked for what the join compares.
    """
    return transform_sink(sink, _looked_up)


def asks(table: Table) -> bool:
    """True if the table is asked for the rows of keys, by its options."""
    return table.by_key and _cache_of(table) in (PARTIAL, NO_CACHE)


def _cache_of(table: Table) -> str:
    return table.options.get(CACHE_OPTION, "").strip().upper()


def _looked_up(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, LookupJoin) or isinstance(node.right, LookedUpScan):
        return node
    scan = _scan_below(node.right)
    if scan is None or not scan.looked_up:
        return node
    if scan.changes:
        raise UnsupportedError(
            f"table '{scan.table.display}' is a changelog, and has no versions to look rows up in",
            hint="leave out the options 'lookup…': then rows are looked up in what it has read",
        )
    right = _asked(node, scan) if asks(scan.table) else _mapped(node, scan)
    return replace(node, right=right)


def _mapped(join: LookupJoin, scan: Scan) -> MappedScan:
    null_safe = tuple(dict.fromkeys(e.right for e in join.equalities if e.null_safe))
    return MappedScan(
        scan.table, scan.where, True, join.right, join.keys(1), null_safe, _unique(join)
    )


def _asked(join: LookupJoin, scan: Scan) -> AskedScan:
    found: dict[str, str] = {}
    for key in (e.right for e in join.equalities if not e.null_safe):
        name = _stored(join.right, key)
        # By each column once, though a view may give it several names.
        if name in scan.table.physical.names and name not in found.values():
            found[key] = name
    if not found:
        raise UnsupportedError(
            f"table '{scan.table.display}' cannot be asked for what the join compares",
            detail="that takes an equality with a column of the table itself, as in ON a.id = d.id",
            hint=f"add one, or hold the table as a whole: '{CACHE_OPTION}' = 'FULL'",
        )
    keeps = _cache_of(scan.table) == PARTIAL
    columns = tuple(found.values())
    return AskedScan(scan.table, scan.where, True, join.right, tuple(found), columns, keeps)


def _stored(plan: LogicalPlan, name: str) -> str | None:
    """Returns the column of the scan that a plan gives as `name`; None for a computed one."""
    while not isinstance(plan, Scan):
        if isinstance(plan, Project):
            value = dict(plan.items)[name]
            if not isinstance(value, ColumnRef):
                return None
            name = value.name
        (plan,) = plan.inputs
    return name


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
