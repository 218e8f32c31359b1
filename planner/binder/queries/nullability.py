"""Expressions over columns that may be NULL after all: a key is NULL in the rows of grouping sets
that leave it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from parser.errors import PlanError
from parser.types import DataType
from planner.binder.expressions.calls import plain_time
from planner.rewrite import replace_where
from planner.scalar import Call, ColumnRef, Literal, Scalar
from udf import registry
from udf.casts.cast import resolve_cast

# Calls of one argument that in Flink's aggregates are NOT NULL where the column below them is
# written as NOT NULL.
_AS_WRITTEN = frozenset({"NEG", "ABS"})


def replaced(expression: Scalar, find: Callable[[Scalar], Scalar | None]) -> Scalar:
    """Replaces as `replace_where`, and derives the types of calls above anew."""
    return _retyped(replace_where(expression, find))


def of_sets(argument: Scalar, nullable: frozenset[str]) -> Scalar:
    """The argument of an aggregate, in which those columns may be NULL, as in Flink: within a call,
    but not alone."""
    inner = argument
    while isinstance(inner, Call) and inner.function in _AS_WRITTEN:
        (inner,) = inner.args
    # A column alone, or a ROW of columns, keeps its type as written.
    if not isinstance(inner, Call) or inner.function == "ROW":
        return argument

    def as_nullable(part: Scalar) -> Scalar | None:
        known = isinstance(part, ColumnRef) and part.name in nullable
        return replace(part, type=part.type.with_nullable(True)) if known else None

    return replaced(argument, as_nullable)


def _retyped(expression: Scalar) -> Scalar:
    if not isinstance(expression, Call):
        return expression
    args = tuple(map(_retyped, expression.args))
    kind = _type(expression, args)
    return (
        expression
        if args == expression.args and kind == expression.type
        else replace(expression, args=args, type=kind)
    )


def _type(call: Call, args: tuple[Scalar, ...]) -> DataType:
    if call.function in ("CAST", "TRY_CAST"):
        return resolve_cast(args[0].type, call.type.plain, try_cast=call.function == "TRY_CAST")
    literals = [a.value if isinstance(a, Literal) else None for a in args]
    try:
        overload = registry.bind(
            call.function, tuple(plain_time(a.type) for a in args), literals
        ).result_type
    except PlanError:
        # Without an overload for the new types the call keeps its own type.
        return call.type
    return overload if overload.children else call.type.with_nullable(overload.nullable)
