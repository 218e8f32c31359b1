"""UNION, INTERSECT and EXCEPT: the common number of columns, and a common type for each."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from parser.types import Column, DataType, Schema
from planner.binder import pool
from planner.binder.expressions.casts import implicit_cast
from planner.binder.scope import Query
from planner.logical import LogicalPlan, Project
from udf.casts.coercion import common_type


def alike(
    branches: Sequence[Query], node: exp.SetOperation
) -> tuple[tuple[LogicalPlan, ...], Schema]:
    """The branches with columns of common types, and the schema: the names are those of the
    first."""
    _check_widths(branches, node)
    first = branches[0]
    kinds = [
        _branch_type([b.plan.schema.columns[i] for b in branches], i, node)
        for i in range(len(first.names))
    ]
    schema = Schema(
        tuple(Column(n, t) for n, t in zip(first.plan.schema.names, kinds, strict=True))
    )
    return tuple(_as_types(b.plan, kinds, node) for b in branches), schema


def _named(node: exp.Expression) -> str:
    """A set operation as people write it."""
    return f"{node.key.upper()}{'' if node.args.get('distinct') else ' ALL'}"


def _check_widths(branches: Sequence[Query], node: exp.Expression) -> None:
    for number, branch in enumerate(branches, 1):
        if len(branch.names) != len(branches[0].names):
            raise PlanError(
                f"query {number} of {_named(node)} has {len(branch.names)} columns, the first has"
                f" {len(branches[0].names)}",
                position=position_of(node),
            )


def _branch_type(columns: Sequence[Column], index: int, node: exp.Expression) -> DataType:
    kinds = [c.type for c in columns]
    common = common_type(kinds)
    if common is None:
        given = ", ".join(dict.fromkeys(str(t.plain) for t in kinds))
        raise PlanError(
            f"column {index + 1} ('{columns[0].name}') of {_named(node)} has types that do not go"
            " together",
            detail=f"the types are {given}",
            hint="cast them to one type",
            position=position_of(node),
        )
    if not all(t.same_as(common) for t in kinds):
        return common
    first, *others = (t.time for t in kinds)
    # A time attribute survives only if all branches have it.
    return common.as_attribute(first) if set(others) <= {first} else common.made_from(kinds[0])


def _as_types(plan: LogicalPlan, kinds: Sequence[DataType], node: exp.Expression) -> LogicalPlan:
    if all(c.type.same_as(t) for c, t in zip(plan.schema, kinds, strict=True)):
        return plan
    columns = zip(plan.schema, kinds, strict=True)
    return Project(
        plan,
        tuple((c.name, implicit_cast(pool.column(c.name, c.type), t, node)) for c, t in columns),
    )
