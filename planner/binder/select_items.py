"""The items of a SELECT: what *, table.* and row.* stand for."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from planner.binder import nested
from planner.binder.aggregates import Grouping, Ungrouped
from planner.binder.scalars import as_column, bind_scalar, qualifiers
from planner.binder.scope import Place
from planner.scalar import Scalar


def items(node: exp.Expression, binder: Grouping | Ungrouped, place: Place) -> Iterable[tuple[str | None, Scalar]]:
    """The columns of one select item; the name is None where the text gives none. `place`: below an aggregate."""
    starred = _starred(node, place)
    if starred is not None:
        return [(name, binder.above(value, node)) for name, value in starred]
    if isinstance(node, exp.Alias):
        return [(node.alias, as_column(binder.bind(node.this), node.this))]
    inner = node
    while isinstance(inner, exp.Paren):
        inner = inner.this
    return [(inner.name if isinstance(inner, exp.Column) else None, as_column(binder.bind(node), node))]


def _starred(node: exp.Expression, place: Place) -> list[tuple[str, Scalar]] | None:
    if isinstance(node, exp.Star):
        if not place.scope.fields:
            raise PlanError("SELECT * needs a FROM", position=position_of(node))
        return [(f.name, f.column) for f in place.scope.named]
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        named = qualifiers(node)
        row = _before_star(node)
        if place.scope.has_relation(named) or not nested.is_in_reach(row, place.scope):
            return [(f.name, f.column) for f in place.scope.of_relation(named, node)]
        return nested.fields_of(bind_scalar(row, place), node)
    if isinstance(node, exp.Dot) and isinstance(node.args["expression"], exp.Star) and _is_path(node.this):
        return nested.fields_of(bind_scalar(node.this, place), node)
    return None


def _before_star(node: exp.Column) -> exp.Column:
    """customer.address of customer.address.*"""
    *before, last = (node.args[k].copy() for k in ("catalog", "db", "table") if node.args.get(k) is not None)
    return exp.Column(this=last, **dict(zip(("table", "db"), reversed(before), strict=False)))


def _is_path(node: exp.Expression) -> bool:
    """Whether names alone stand there, with points between them."""
    while isinstance(node, exp.Dot):
        node = node.this
    return isinstance(node, exp.Column)
