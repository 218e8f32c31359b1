"""METADATA columns whose declared type is not that of the connector: they are cast, as by CAST."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp

from parser.types import Column, Root, TimeAttribute
from planner.binder import pool
from planner.binder.expressions.casts import cast
from planner.logical import LogicalPlan, Project, Scan
from planner.scalar import ColumnRef, Scalar
from planner.tables import MetadataColumn, Table

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


def read_in_utc(node: LogicalPlan) -> LogicalPlan:
    """Returns the node with times that a scan gives without a zone where they are declared so: in
    UTC that is what the cast makes of them."""
    if not isinstance(node, Project) or not isinstance(node.input, Scan):
        return node
    table = node.input.table
    given = {m.column.name: m for m in table.metadata if _is_local(m, table)}
    if not given:
        return node
    types = {n: table.schema.type(n).as_attribute(TimeAttribute.NONE) for n in given}
    metadata = (
        replace(m, column=Column(m.column.name, types.get(m.column.name, m.column.type)))
        for m in table.metadata
    )
    scan = replace(node.input, table=replace(table, metadata=tuple(metadata)))
    items = tuple((n, pool.column(n, types[n]) if n in given else e) for n, e in node.items)
    plain = all(isinstance(e, ColumnRef) and e.name == n for n, e in items)
    return scan if plain else replace(node, input=scan, items=items)


def _is_local(column: MetadataColumn, table: Table) -> bool:
    own, declared = column.column.type, table.schema.type(column.column.name)
    roots = declared.root is Root.TIMESTAMP and own.root is Root.TIMESTAMP_LTZ
    return roots and declared.precision >= own.precision


def as_written(name: str, value: Scalar, table: Table) -> Scalar:
    """Returns the value of a column in the type that the connector takes. PlanError where there is
    no such cast."""
    if all(m.column.name != name for m in table.metadata):
        return value
    kind = table.written_type(name)
    return value if value.type.same_as(kind) else cast("CAST", value, kind, _NOWHERE)
