"""METADATA columns whose declared type is not that of the connector: they are cast, as by CAST."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from planner.binder import pool
from planner.binder.expressions.casts import cast
from planner.logical import LogicalPlan, Project
from planner.scalar import Scalar
from planner.tables import Table

# The text says nothing of these casts.
_NOWHERE: Final = exp.Null()


def as_declared(plan: LogicalPlan, table: Table) -> LogicalPlan:
    """Returns the rows of a table's scan with its metadata in the types that the table declares."""
    items = tuple((c.name, _cast(pool.column(c.name, c.type), table, c.name)) for c in plan.schema)
    if all(value.type.same_as(c.type) for (_, value), c in zip(items, plan.schema, strict=True)):
        return plan
    return Project(plan, items)


def _cast(value: Scalar, table: Table, name: str) -> Scalar:
    kind = table.schema.type(name)
    return value if value.type.same_as(kind) else cast("CAST", value, kind, _NOWHERE)


def as_written(name: str, value: Scalar, table: Table) -> Scalar:
    """Returns the value of a column in the type that the connector takes. PlanError where there is
    no such cast."""
    kind = next((m.column.type for m in table.metadata if m.column.name == name), value.type)
    return value if value.type.same_as(kind) else cast("CAST", value, kind, _NOWHERE)
