"""The tables that a process function is called with: several become one, which tells them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from parser.types import INT, Column, Schema
from planner.binder import pool
from planner.binder.expressions import literals
from planner.binder.scope import Query
from planner.logical import LogicalPlan, Project, Union
from planner.scalar import ColumnRef, Literal, Scalar
from udf.user import TableParameter

# Columns of the rows of several tables: which one they are of, and their time.
NUMBER: Final = "#table"
TIME: Final = "#time"


@dataclass(frozen=True)
class BoundTable:
    """A bound table: its rows, the columns of PARTITION BY, and its time."""

    parameter: TableParameter
    query: Query
    keys: tuple[ColumnRef, ...]
    time: ColumnRef | None
    node: exp.Expression


def united(tables: Sequence[BoundTable]) -> tuple[LogicalPlan, list[tuple[str, str]]]:
    """The rows of several tables as one: the number of the table, its keys as the common ones and
    again as its own, its time, and the columns of all, NULL but for its own."""
    common = common_keys(tables[0])
    columns: list[Column] = [Column(NUMBER, INT.with_nullable(False))]
    columns += [
        Column(name, kinds[0].plain.with_nullable(any(k.nullable for k in kinds)))
        for name, *kinds in zip(common, *([k.type for k in t.keys] for t in tables), strict=True)
    ]
    times = [t.time.type for t in tables if t.time is not None]
    if times:
        columns.append(Column(TIME, times[0]))
    for number, table in enumerate(tables):
        columns += [Column(f"{number}.{c.name}", c.type.plain) for c in table.query.plan.schema]
    schema = Schema(tuple(columns))
    branches = tuple(_branch(number, table, schema, common) for number, table in enumerate(tables))
    shown = [
        (common_name, key.name)
        for table in tables
        for common_name, key in zip(common, table.keys, strict=True)
    ]
    return Union(branches, schema), shown


def common_keys(table: BoundTable) -> list[str]:
    """The names of the keys that the rows of several tables have in common."""
    return [f"#k{i}" for i in range(len(table.keys))]


def _branch(number: int, table: BoundTable, schema: Schema, common: Sequence[str]) -> LogicalPlan:
    own = {f"{number}.{c.name}": pool.column(c.name, c.type) for c in table.query.plan.schema}
    keys = dict(zip(common, table.keys, strict=True))
    items: list[tuple[str, Scalar]] = []
    for column in schema:
        value: Scalar
        if column.name == NUMBER:
            value = Literal(number, INT.with_nullable(False))
        elif column.name == TIME:
            assert table.time is not None
            value = table.time
        elif column.name in keys:
            value = keys[column.name]
        else:
            value = own.get(column.name) or literals.null(column.type)
        items.append((column.name, value))
    return Project(table.query.plan, tuple(items))
