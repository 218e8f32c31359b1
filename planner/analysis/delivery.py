"""How the changes of a query get to the table that it writes: which of them the table is told, and
what is between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from parser.errors import PlanError, UnsupportedError
from planner.capabilities import Overwrite, SinkCapabilities
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
from planner.settings import NOT_NULL, RUNTIME_MODE, flag, is_batch, one_of

MATERIALIZE: Final = "table.exec.sink.upsert-materialize"
REQUIRE_CONFLICT: Final = "table.exec.sink.require-on-conflict"
LENGTHS: Final = "table.exec.sink.type-length-enforcer"
NESTED: Final = "table.exec.sink.nested-constraint-enforcer"
MATERIALIZE_VALUES = ("AUTO", "NONE", "FORCE")


def deliver(sink: Sink, capabilities: SinkCapabilities | None, settings: Mapping[str, str]) -> Sink:
    """The sink with all that stands between the query and its table, by what the table can do as a
    sink (None: it cannot be written). UnsupportedError when it does not take what the query gives,
    PlanError when ON CONFLICT is missing or has no place, or OVERWRITE needs batch mode."""
    table = sink.table
    if table is None:
        return sink
    if capabilities is None:
        raise cannot_be_written(table)
    if sink.overwrite:
        _check_overwrite(table, capabilities.overwrite, settings)
    mode = capabilities.changelog
    if mode.as_requested and not sink.input.changes:
        mode = INSERT_ONLY  # the query makes it one
    _check_conflict(sink, table, mode)
    _check_taken(sink.input, table, mode, capabilities.changelog.has_delete)
    plan = constrained(sink.input, table, settings)
    if _is_materialized(sink, table, mode, settings):
        key = upsert_key(plan, frozenset(table.primary_key)) or ()
        plan = UpsertMaterialize(plan, table.primary_key, key, sink.conflict or "DEDUPLICATE")
    elif (
        mode.is_upsert
        and not mode.as_requested
        and ModifyKindSet.UPDATES in plan.changes
        and _can_drop(plan, table)
    ):
        plan = DropUpdateBefore(plan)
    return replace(sink, input=plan, conflict="", apart=capabilities.isolated_jobs)


def cannot_be_written(table: Table) -> UnsupportedError:
    """The error for a table whose connector has no sink."""
    return UnsupportedError(
        f"table '{table.display}' with connector '{table.connector}' cannot be written"
    )


def _check_overwrite(table: Table, overwrite: Overwrite, settings: Mapping[str, str]) -> None:
    if overwrite is Overwrite.UNSUPPORTED:
        raise UnsupportedError(
            f"INSERT OVERWRITE of table '{table.display}' is not supported",
            detail=f"connector '{table.connector}' only adds rows",
            hint="write INSERT INTO",
        )
    if overwrite is Overwrite.BATCH and not is_batch(settings):
        raise PlanError(
            f"INSERT OVERWRITE of table '{table.display}' needs batch mode",
            detail="a stream has no end at which its rows could replace the others",
            hint=f"SET '{RUNTIME_MODE}' = 'batch'",
        )


def constrained(plan: LogicalPlan, table: Table, settings: Mapping[str, str]) -> LogicalPlan:
    """The plan with rows as the types of the table's columns want them, as far as the settings
    say."""
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


def upsert_key(plan: LogicalPlan, within: Names | None = None) -> tuple[str, ...] | None:
    """The shortest upsert key of the plan, if it can be one inside `within`, in the order of its
    columns; None where there is no key at all."""
    keys = sorted(
        plan.upsert_keys,
        key=lambda k: (not (within is not None and k <= within), len(k), sorted(k)),
    )
    return tuple(n for n in plan.schema.names if n in keys[0]) if keys else None


def _can_drop(plan: LogicalPlan, table: Table) -> bool:
    """Whether the table can do without -U: the rows that it replaces by its key are those that the
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
    own = upsert_key(plan)
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
    bare = sorted({".".join(s.table.name) for s in _scans(sink.input) if s.table.watermark is None})
    if sink.conflict in ("ERROR", "NOTHING") and bare:
        raise PlanError(
            f"ON CONFLICT DO {sink.conflict} requires all source tables to define watermarks",
            detail=f"without one: {', '.join(bare)}",
            hint="declare WATERMARK FOR … AS … in these tables, or use ON CONFLICT DO DEDUPLICATE",
        )


def _scans(plan: LogicalPlan) -> Iterator[Scan]:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        waiting += node.inputs
        if isinstance(node, Scan):
            yield node


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
