"""Casts, written and implicit, of typed expressions."""

from __future__ import annotations

from sqlglot import exp

from parser.dialect import Flink, position_of
from parser.errors import PlanError
from parser.types import DataType, Root, time
from planner.binder.expressions import literals
from planner.scalar import Call, Literal, Scalar, is_deterministic
from udf.casts.cast import resolve_cast


def implicit_cast(
    value: Scalar, target: DataType, node: exp.Expression, function: str = "CAST"
) -> Scalar:
    """`value` as a `target` (nullability stays the value's). Literals that the target holds exactly
    become its own."""
    if value.type is target or value.type.same_as(target):
        return value
    if isinstance(value, Literal):
        kind = target.plain.with_nullable(value.type.nullable)
        retyped = literals.retyped(value, kind)
        if retyped is not None:
            return retyped
    return cast(function if value.type.is_string else "CAST", value, target, node)


def _text(node: exp.Expression) -> str:
    """Returns a column as the text has it; `value` for what is longer."""
    return node.sql(dialect=Flink) if isinstance(node, exp.Column) else "value"


def cast(function: str, value: Scalar, target: DataType, node: exp.Expression) -> Scalar:
    """CAST or TRY_CAST; of an untyped NULL, a typed one. CAST keeps NOT NULL, TRY_CAST never has
    it. As in Flink no TIME has more than three fractional digits."""
    if target.root is Root.TIME and target.precision > 3:
        target = time(3).with_nullable(target.nullable)
    if isinstance(value, Literal) and value.value is None:
        return literals.null(target)
    try:
        kind = resolve_cast(value.type, target, try_cast=function == "TRY_CAST")
    except PlanError as error:
        value_node = node.this if isinstance(node, exp.Cast) else node
        if error.hint is not None:
            error.hint = error.hint.format(_text(value_node))
        raise error.at(position_of(node)) from None
    return Call(function, (value,), kind, is_deterministic(value), position_of(node))
