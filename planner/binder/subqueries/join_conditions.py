"""Subqueries in ON: those of an inner join filter its rows; in other joins a subquery is computed
beside the rows of the one side that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from parser.errors import PlanError
from planner.binder import refusals
from planner.binder.expressions.scalars import bind_condition
from planner.binder.scope import Context, Place, Scope, UnknownColumn
from planner.binder.subqueries.expressions import BindQuery, Subqueries
from planner.binder.subqueries.syntax import conjuncts_of
from planner.logical import LogicalPlan, Project
from planner.rewrite import references
from planner.scalar import Scalar


def parts(node: exp.Expression) -> tuple[list[exp.Expression], list[exp.Expression]]:
    """The conditions of an ON without subqueries, and those with some."""
    plain: list[exp.Expression] = []
    asking: list[exp.Expression] = []
    for part in conjuncts_of(node):
        (plain if part.find(exp.Query) is None else asking).append(part)
    return plain, asking


def filtered(
    plan: LogicalPlan,
    scope: Scope,
    wanted: list[exp.Expression],
    context: Context,
    bind_query: BindQuery,
) -> LogicalPlan:
    """The rows of an inner join for which conditions with subqueries are TRUE."""
    subqueries = Subqueries(scope, context, bind_query)
    for part in wanted:
        plan = subqueries.where(plan, part)
    return plan


def only(plan: LogicalPlan, names: tuple[str, ...]) -> LogicalPlan:
    """The plan with these columns."""
    return plan if plan.schema.names == names else Project(plan, references(plan.schema, names))


@dataclass(frozen=True)
class Beside:
    """The subqueries of a join that keeps rows: `sides` are those over the left and over the right
    side's columns."""

    sides: tuple[Subqueries, Subqueries]

    @classmethod
    def of(cls, left: Scope, right: Scope, context: Context, bind_query: BindQuery) -> Beside:
        return cls(
            (
                Subqueries(left, context, bind_query, "left"),
                Subqueries(right, context, bind_query, "right"),
            )
        )

    def conditions(self, wanted: list[exp.Expression], place: Place) -> Iterator[Scalar]:
        for part in wanted:
            yield bind_condition(part, replace(place, subqueries=self))

    def value(self, node: exp.Expression, place: Place) -> Scalar:
        """Beside the right side, if that has all that the subquery reads: its rows may be fewer."""
        for side in reversed(self.sides):
            try:
                return side.value(node, replace(place, scope=side.scope))
            except UnknownColumn:
                continue
        hint = "join a query that has the subquery's value as a column"
        raise self._refusal(node, hint)

    def _refusal(self, node: exp.Expression, hint: str) -> PlanError:
        return refusals.of_expression(node, "a subquery in ON that reads both sides", hint)

    def joined(self, left: LogicalPlan, right: LogicalPlan) -> tuple[LogicalPlan, LogicalPlan]:
        """Both sides with the columns of their subqueries."""
        a, b = self.sides
        return a.join(left), b.join(right)
