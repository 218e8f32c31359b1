"""Delivery: operations between a query and the table that it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from parser.errors import PlanError, UnsupportedError
from planner.analysis.context import AnalysisContext
from planner.capabilities import Overwrite
from planner.catalog import Table
from planner.logical import (
    Constrain,
    DropUpdateBefore,
    LogicalPlan,
    Names,
    Scan,
    Sink,
    UpsertMaterialize,
)
from planner.logical.change_kinds import INSERT_ONLY, ChangelogMode, ModifyKindSet
from planner.logical.constraints import has_length, parts
from planner.rewrite import nodes
from planner.settings import NOT_NULL, RUNTIME_MODE, flag, one_of

MATERIALIZE: Final = "table.exec.sink.upsert-materialize"
REQUIRE_CONFLICT: Final = "table.exec.sink.require-on-conflict"
LENGTHS: Final = "table.exec.sink.type-length-enforcer"
NESTED: Final = "table.exec.sink.nested-constraint-enforcer"
MATERIALIZE_VALUES = ("AUTO", "NONE", "FORCE")


def deliver(sink: Sink, context: AnalysisContext) -> Sink:
    """Puts between the query and its table what the table needs to take the query's changes: checks
    of values, an `UpsertMaterialize` where the query's upsert key is not the primary key, a
    `DropUpdateBefore` where rows are replaced by their key (Flink:
    FlinkChangelogModeInferenceProgram).

    >>> from planner.examples import show
    >>> show("deliver", "INSERT INTO totals SELECT k, COUNT(*) AS n FROM e GROUP BY k")
    Project CHECK NOT NULL(k, 'k') AS k, n
    -->
    DropUpdateBefore
      Project CHECK NOT NULL(k, 'k') AS k, n

    UnsupportedError where the table cannot be written, or does not take what the query gives,
    PlanError where ON CONFLICT is missing or has no place, or OVERWRITE needs batch mode.
    """
    if sink.table is None:
        return sink
    capabilities = context.capabilities_of(sink.table).sink
    if capabilities is None:
        raise cannot_be_written(sink.table)
    if sink.overwrite:
        _check_overwrite(sink.table, capabilities.overwrite, context)
    plan = _delivered(sink, sink.table, capabilities.changelog, context.settings)
    return replace(sink, input=plan, conflict="", apart=capabilities.isolated_jobs)


def _delivered(
    sink: Sink, table: Table, declared: ChangelogMode, settings: Mapping[str, str]
) -> LogicalPlan:
    """The sink's input with what the table needs."""
    requested = declared.as_requested and not sink.input.changes  # the query makes the mode
    mode = INSERT_ONLY if requested else declared
    _check_conflict(sink, table, mode)
    _check_taken(sink.input, table, mode, declared.has_delete)
    plan = _constrained(sink.input, table, settings)
    if _is_materialized(sink, table, mode, settings):
        key = _upsert_key(plan, frozenset(table.primary_key)) or ()
        return UpsertMaterialize(plan, table.primary_key, key, sink.conflict or "DEDUPLICATE")
    by_key = mode.is_upsert and not mode.as_requested
    if by_key and ModifyKindSet.UPDATES in plan.changes and _can_drop(plan, table):
        return DropUpdateBefore(plan)
    return plan


def cannot_be_written(table: Table) -> UnsupportedError:
    """The error for a table whose connector has no sink."""
    return UnsupportedError(
        f"table '{table.display}' with connector '{table.connector}' cannot be written",
        hint="it can be read; rows go into a table of another connector, such as 'topic'",
    )


def _check_overwrite(table: Table, overwrite: Overwrite, context: AnalysisContext) -> None:
    if overwrite is Overwrite.UNSUPPORTED:
        raise UnsupportedError(
            f"INSERT OVERWRITE of table '{table.display}' is not supported",
            detail=f"connector '{table.connector}' only adds rows",
            hint="write INSERT INTO",
        )
    if overwrite is Overwrite.BATCH and not context.batch:
        raise PlanError(
            f"INSERT OVERWRITE of table '{table.display}' needs batch mode",
            detail="a stream has no end at which its rows could replace the others",
            hint=f"SET '{RUNTIME_MODE}' = 'batch'",
        )


def _constrained(plan: LogicalPlan, table: Table, settings: Mapping[str, str]) -> LogicalPlan:
    """The plan with a check of NOT NULL, lengths and nested types of the table's columns, as far as
    the settings demand one (Flink: ConstraintEnforcer)."""
    lengths = one_of(settings, LENGTHS, ("IGNORE", "TRIM_PAD", "ERROR"))
    nested = one_of(settings, NESTED, ("IGNORE", "ROWS", "ROWS_AND_COLLECTIONS"))
    nulls = one_of(settings, NOT_NULL, ("ERROR", "DROP"))
    if (lengths, nested, nulls) == ("IGNORE", "IGNORE", "ERROR"):
        return plan
    columns = tuple(c for c in table.schema if c.name in plan.schema)
    demands = any(
        (not part.nullable and (nulls == "DROP" or part is not c.type))
        or (lengths != "IGNORE" and has_length(part))
        for c in columns
        for part in parts(c.type, nested)
    )
    return Constrain(plan, columns, lengths, nested, nulls) if demands else plan


def _upsert_key(plan: LogicalPlan, within: Names | None = None) -> tuple[str, ...] | None:
    """The shortest upsert key of the plan in the order of its columns, one inside `within` where
    there is one; None where the plan has no key at all."""
    keys = sorted(
        plan.upsert_keys,
        key=lambda k: (not (within is not None and k <= within), len(k), sorted(k)),
    )
    return tuple(n for n in plan.schema.names if n in keys[0]) if keys else None


def _can_drop(plan: LogicalPlan, table: Table) -> bool:
    """True if the table can do without -U: the rows that it replaces by its key are those that the
    query updates."""
    key = frozenset(table.primary_key)
    return plan.after_only and (not key or key in plan.upsert_keys)


def _is_materialized(
    sink: Sink, table: Table, mode: ChangelogMode, settings: Mapping[str, str]
) -> bool:
    how = one_of(settings, MATERIALIZE, MATERIALIZE_VALUES)
    if not mode.is_upsert or not table.primary_key or how == "NONE":
        return False
    if how == "FORCE":
        return True
    if not sink.input.changes and sink.conflict == "DEDUPLICATE":
        return False
    key = frozenset(table.primary_key)
    if any(k <= key for k in sink.input.upsert_keys):
        return False
    if not sink.conflict and flag(settings, REQUIRE_CONFLICT, default=True):
        raise _missing_conflict(sink.input, table)
    return True


def _missing_conflict(plan: LogicalPlan, table: Table) -> PlanError:
    own = _upsert_key(plan)
    return PlanError(
        "the query has an upsert key that differs from the primary key of the sink table"
        f" '{'.'.join(table.name)}'",
        detail=(
            f"primary key: {', '.join(table.primary_key)}; upsert key:"
            f" {', '.join(own) if own else 'none'}"
        ),
        hint=(
            "say what happens to rows of one primary key: ON CONFLICT DO DEDUPLICATE (the last one"
            " is there), DO NOTHING (the first one is), or DO ERROR"
        ),
    )


def _check_conflict(sink: Sink, table: Table, mode: ChangelogMode) -> None:
    if not sink.conflict:
        return
    if not mode.is_upsert:
        raise PlanError(
            "ON CONFLICT clause is only allowed for upsert sinks; the sink"
            f" '{'.'.join(table.name)}' is not an upsert "
            + (
                "sink because it only takes new rows"
                if mode.is_insert_only
                else "sink because it requires UPDATE_BEFORE (retract mode)"
            )
        )
    tables = (n.table for n in nodes(sink.input) if isinstance(n, Scan))
    bare = sorted({".".join(t.name) for t in tables if t.watermark is None})
    if sink.conflict in ("ERROR", "NOTHING") and bare:
        raise PlanError(
            f"ON CONFLICT DO {sink.conflict} requires all source tables to define watermarks",
            detail=f"without one: {', '.join(bare)}",
            hint="declare WATERMARK FOR … AS … in these tables, or use ON CONFLICT DO DEDUPLICATE",
        )


def _check_taken(plan: LogicalPlan, table: Table, mode: ChangelogMode, deletes: bool) -> None:
    """UnsupportedError when a query changes rows that it has written in a way that its table does
    not take."""
    if mode.is_insert_only and plan.changes:
        raise UnsupportedError(
            f"table '{table.display}' takes new rows only, but the query updates or deletes rows"
            " that it has written",
            detail=f"as it is defined, connector '{table.connector}' cannot take changes back",
            hint=(
                "write to a topic with a PRIMARY KEY and 'upsert' = 'true', or aggregate by windows"
                " (TUMBLE)"
            ),
        )
    if ModifyKindSet.DELETES in plan.changes and not deletes:
        raise UnsupportedError(
            f"table '{table.display}' takes no rows -D, but the query deletes rows that it has"
            " written",
            detail=f"connector '{table.connector}' takes new rows and updates",
        )
