"""Binding of scalar expressions: sqlglot trees to typed `planner.scalar` trees.

`BINDERS` is a registry by the class of the node. Binding is recursive (an operand may be a call, an
argument an operator), so each module binds nested nodes by `bind_scalar` and adds its own binders
in a function `register_binders`, which `planner.binder` calls once. So the modules do not import
each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from parser.types import BOOLEAN, NULL, Root
from planner.binder import refusals
from planner.binder.expressions import literals
from planner.binder.scope import Place
from planner.scalar import Scalar

Binder: TypeAlias = Callable[[exp.Expression, Place], Scalar]


def bind_scalar(node: exp.Expression, place: Place) -> Scalar:
    """The expression with names resolved and types found. PlanError or UnsupportedError with a
    position."""
    binder = BINDERS.get(type(node))
    if binder is None:
        raise refusals.of_expression(node)
    return binder(node, place)


def bind_condition(node: exp.Expression, place: Place) -> Scalar:
    """An expression that must be BOOLEAN; an untyped NULL becomes one."""
    return as_condition(bind_scalar(node, place), node, place.clause)


def as_condition(bound: Scalar, node: exp.Expression, user: str) -> Scalar:
    if bound.type.root is Root.NULL:
        return literals.null(BOOLEAN)
    if bound.type.root is not Root.BOOLEAN:
        raise PlanError(
            f"{user} takes a condition, but the expression is {bound.type}",
            hint="compare it with something, such as x <> 0",
            position=position_of(node),
        )
    return bound


def as_column(bound: Scalar, node: exp.Expression) -> Scalar:
    """A column of a query's result: it has a type."""
    if bound.type.root is Root.NULL:
        hint = "give NULL a type: CAST(NULL AS ...)"
        raise PlanError("a column is NULL without a type", hint=hint, position=position_of(node))
    return bound


def bind_subquery(node: exp.Expression, place: Place) -> Scalar:
    """The value of an expression that has a subquery in it."""
    if place.subqueries is None:
        raise refusals.of_subquery(node, place.clause)
    return place.subqueries.value(node, place)


def qualifiers(node: exp.Expression) -> tuple[str, ...]:
    """Returns the qualifiers of a column name: catalog, database and table, as far as they are
    given."""
    return tuple(
        node.args[k].name for k in ("catalog", "db", "table") if node.args.get(k) is not None
    )


def _literal(node: exp.Expression, place: Place) -> Scalar:
    assert isinstance(node, exp.Literal)
    return literals.text(node.name) if node.is_string else literals.number(node)


# How the nodes of each kind are bound: other modules bring theirs.
BINDERS: dict[type[exp.Expression], Binder] = {
    exp.Literal: _literal,
    exp.HexString: lambda n, p: literals.binary(n),
    exp.Boolean: lambda n, p: literals.boolean(n.this),
    exp.Null: lambda n, p: literals.null(BOOLEAN if n.args.get("kind") else NULL),
    exp.National: lambda n, p: literals.text(n.this.name),
    exp.Introducer: lambda n, p: literals.text(n.args["expression"].name),
    exp.Interval: lambda n, p: literals.interval(n),
    exp.Paren: lambda n, p: bind_scalar(n.this, p),
}
