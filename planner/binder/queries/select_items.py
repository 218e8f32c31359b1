"""The items of a SELECT: what *, table.* and row.* stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from parser.limits import refused
from planner.binder.expressions import nested
from planner.binder.expressions.scalars import as_column, bind_scalar, qualifiers
from planner.binder.scope import Field, Place, distinct_names
from planner.binder.windows.aggregates import Grouping, Ungrouped
from planner.scalar import Scalar


def items(
    nodes: Iterable[exp.Expression], binder: Grouping | Ungrouped, place: Place
) -> tuple[tuple[str, ...], list[Scalar]]:
    """The columns of SELECT with their names. Those that come from a * have names of their own, k0
    behind k, and may be called so; what the text names twice has the name twice. What it does not
    name is called by its place, or where rows are grouped by how many names there are before it.
    `place`: below an aggregate."""
    names: list[str] = []
    values: list[Scalar] = []
    for node in nodes:
        _check_count(len(values) + 1, node)
        starred = _starred(node, place)
        if starred is None:
            names.append(
                _name(node)
                or f"EXPR${len(names) if isinstance(binder, Ungrouped) else len(set(names))}"
            )
            value = node.this if isinstance(node, exp.Alias) else node
            values.append(as_column(binder.bind(value), value))
            continue
        names += distinct_names((name for name, _ in starred), names)
        values += [binder.above(value, node) for _, value in starred]
        _check_count(len(values), node)
    return tuple(names), values


def _check_count(count: int, node: exp.Expression) -> None:
    most = refused(count, "select_columns")
    if most is not None:
        raise PlanError(
            f"SELECT has more than {most:,} columns ('select-columns')",
            hint="put values of one kind into an array or a map",
            position=position_of(node),
        )


def _name(node: exp.Expression) -> str | None:
    """Returns the name that the text gives an item; None for an unnamed one."""
    if isinstance(node, exp.Alias):
        return node.alias
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Dot) and _is_path(node):
        return str(node.args["expression"].name)
    return node.name if isinstance(node, exp.Column) else None


def _starred(node: exp.Expression, place: Place) -> list[tuple[str, Scalar]] | None:
    if isinstance(node, exp.Star):
        if not place.scope.fields:
            raise PlanError("SELECT * needs a FROM", position=position_of(node))
        return _told_apart(place.scope.named, node)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        named = qualifiers(node)
        row = _before_star(node)
        if place.scope.has_relation(named) or not nested.is_in_scope(row, place.scope):
            return _told_apart(place.scope.of_relation(named, node), node)
        return nested.fields_of(bind_scalar(row, place), node)
    if (
        isinstance(node, exp.Dot)
        and isinstance(node.args["expression"], exp.Star)
        and _is_path(node.this)
    ):
        return nested.fields_of(bind_scalar(node.this, place), node)
    return None


def _told_apart(fields: Sequence[Field], node: exp.Expression) -> list[tuple[str, Scalar]]:
    twice = next((f.name for f in fields if f.twice), None)
    if twice is not None:
        hint = "give each column of the query below its own name with AS"
        raise PlanError(f"column '{twice}' is ambiguous", hint=hint, position=position_of(node))
    return [(f.name, f.column) for f in fields]


def _before_star(node: exp.Column) -> exp.Column:
    """customer.address of customer.address.*"""
    *before, last = (
        node.args[k].copy() for k in ("catalog", "db", "table") if node.args.get(k) is not None
    )
    return exp.Column(this=last, **dict(zip(("table", "db"), reversed(before), strict=False)))


def _is_path(node: exp.Expression) -> bool:
    """True if the expression is names with points between them."""
    while isinstance(node, exp.Dot):
        node = node.this
    return isinstance(node, exp.Column)
