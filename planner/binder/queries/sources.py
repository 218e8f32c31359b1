"""Plans of tables and views as a query finds them."""

from __future__ import annotations

from dataclasses import replace

from parser.errors import PlanError, UnsupportedError
from planner.binder import pool
from planner.binder.metadata import as_declared
from planner.binder.scope import Context, Query
from planner.catalog import Table
from planner.logical import (
    AssignWatermark,
    Filter,
    LogicalPlan,
    Normalize,
    ProcessFunction,
    Project,
    Scan,
    TableFunction,
    Values,
)
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.process_functions import VARYING
from planner.rewrite import transform
from planner.scalar import Scalar
from planner.settings import (
    CDC_DUPLICATES,
    IDLE_OPTION,
    MAX_FUTURE_OPTION,
    PUSH_DOWN,
    duration_ms,
    flag,
)

_LIMIT = 1024

# A table's plan, and the names in it, are one object for all statements that read it. The entry
# holds the table, so that its id stays its own.
_queries: dict[tuple[int, str, bool, bool], tuple[Table, Query]] = {}


def query_of_table(table: Table, context: Context) -> Query:
    """Scan, then metadata in their declared types, then computed columns in the order of the
    declaration, then the watermark, then changes told in full. In batch mode there is no watermark,
    and no column is the time of events more than another."""
    check_connector(table)
    if context.batch and table.changes:
        raise UnsupportedError(
            f"table '{table.display}' cannot be read in batch mode: its rows change",
            hint="SET 'execution.runtime-mode' = 'streaming'",
        )
    salt = context.salt(e for _, e in table.computed)
    normalized = _is_normalized(table, context)
    key = (id(table), salt, normalized, context.batch)
    cached = _queries.get(key)
    if cached is not None:
        return cached[1]
    query = Query(_build(table, salt, normalized, context.batch), table.schema.names)
    if len(_queries) >= _LIMIT:
        _queries.clear()
    _queries[key] = (table, query)
    return query


def check_connector(table: Table) -> None:
    """A table without a connector can be the base of others (LIKE), but it has no rows."""
    if "connector" not in table.options:
        raise PlanError(
            f"table '{table.display}' has no connector",
            hint="write WITH ('connector' = 'topic', …)",
        ).about_table(table.name)


def _is_normalized(table: Table, context: Context) -> bool:
    """True if the changes of the table must be completed (-U, full rows) or deduplicated before
    they are used."""
    if ModifyKindSet.UPSERTS in table.changes:
        if not table.primary_key:
            raise PlanError(
                f"table '{table.display}' gives updates without the rows that they replace, and has"
                " no primary key",
                hint="declare PRIMARY KEY (…) NOT ENFORCED",
            )
        return True
    if not table.changes or not flag(context.settings, CDC_DUPLICATES, default=False):
        return False
    if not table.primary_key:
        raise PlanError(
            f"'{CDC_DUPLICATES}' needs the primary key of table '{table.display}'",
            hint="declare PRIMARY KEY (…) NOT ENFORCED",
        )
    return True


def _build(table: Table, salt: str, normalized: bool, batch: bool) -> LogicalPlan:
    plan = as_declared(Scan(table), table)
    if table.schema.names != plan.schema.names:
        computed: dict[str, Scalar] = dict(table.computed)
        items = (
            (n, computed.get(n) or pool.column(n, plan.schema.type(n))) for n in table.schema.names
        )
        plan = Project(plan, tuple(items), salt)
    if table.watermark is not None and not batch:
        idle_ms = duration_ms(table.options, IDLE_OPTION)
        pushed = flag(table.options, PUSH_DOWN, default=False)
        future_ms = duration_ms(table.options, MAX_FUTURE_OPTION)
        plan = AssignWatermark(
            plan, table.watermark, idle_ms=idle_ms, pushed=pushed, max_future_ms=future_ms
        )
    return Normalize(plan, table.primary_key) if normalized else plan


def resalted(plan: LogicalPlan, context: Context) -> LogicalPlan:
    """A view's plan for one more reader: what gives another value at each evaluation is evaluated
    anew for it."""
    return transform(plan, lambda node: _resalt(node, context))


def _resalt(node: LogicalPlan, context: Context) -> LogicalPlan:
    match node:
        case Filter():
            salt = context.salt((node.predicate,)) if node.salt else ""
        case TableFunction():
            salt = context.salt((node.call,)) if node.salt else ""
        case ProcessFunction():
            # One with an identity has one memory, whoever reads it.
            salt = context.salt((VARYING,)) if node.salt and not node.uid else node.salt
        case Project():
            salt = context.salt(e for _, e in node.items) if node.salt else ""
        case Values():
            salt = context.salt(e for r in node.rows for e in r) if node.salt else ""
        case _:
            return node
    return node if salt == node.salt else replace(node, salt=salt)
