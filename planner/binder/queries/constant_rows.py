"""VALUES as plans: rows of constants."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from parser.types import Column, DataType, Schema
from planner.binder.expressions.casts import implicit_cast
from planner.binder.expressions.scalars import as_column, bind_scalar
from planner.binder.scope import (
    Context,
    Place,
    Query,
    Scope,
)
from planner.logical import Values
from planner.scalar import Scalar
from udf.casts.coercion import common_type


def bind_values(node: exp.Values, context: Context) -> Query:
    """The rows of VALUES, each column of the type that all its values have in common."""
    place = Place(context, Scope(), "VALUES")
    rows = [
        [as_column(bind_scalar(e, place), e) for e in row.expressions] for row in node.expressions
    ]
    widths = {len(r) for r in rows}
    if len(widths) > 1:
        raise PlanError(
            "the rows of VALUES have different numbers of columns", position=position_of(node)
        )
    names = tuple(f"EXPR${i}" for i in range(widths.pop()))
    kinds = [_values_type([r[i] for r in rows], i, node) for i in range(len(names))]
    cast = tuple(
        tuple(implicit_cast(v, t, node) for v, t in zip(r, kinds, strict=True)) for r in rows
    )
    schema = Schema(tuple(Column(n, t) for n, t in zip(names, kinds, strict=True)))
    return Query(Values(cast, schema, context.salt(e for r in cast for e in r)), names)


def _values_type(values: Sequence[Scalar], index: int, node: exp.Expression) -> DataType:
    common = common_type([v.type for v in values])
    if common is None:
        given = ", ".join(dict.fromkeys(str(v.type.plain) for v in values))
        message = f"column {index + 1} of VALUES has types that do not go together"
        raise PlanError(message, detail=f"the types are {given}", position=position_of(node))
    return common
