"""Correlated subqueries whose conditions cannot be moved out are computed for each value that the
outer query has in the columns that they read.

These values, each once, are their *domain*."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from parser.types import Column, Schema, TimeAttribute
from planner.binder import pool
from planner.binder.expressions import literals
from planner.binder.expressions.calls import function_call
from planner.binder.scope import OUTER, distinct_names
from planner.binder.subqueries.decorrelate import is_correlated, is_outer, too_entangled
from planner.logical import (
    GroupAggregate,
    Join,
    JoinKind,
    LogicalPlan,
    Project,
    SetOperation,
    Union,
    Values,
)
from planner.logical.node import (
    changes_of_inputs,
    constant_if_insert_only,
    never,
    no_columns,
)
from planner.rewrite import conjunction, map_expressions, references, replace_where, transform
from planner.scalar import ColumnRef, Scalar, conjuncts_of, walk

_TRUE = literals.boolean(True)


@dataclass(frozen=True)
class Domain(LogicalPlan):
    """Placeholder for the values of columns of the outer query, which `names` rename, until that
    query's plan is known."""

    columns: tuple[ColumnRef, ...]
    names: tuple[str, ...]

    changes = cached_property(changes_of_inputs)
    column_sources = no_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def schema(self) -> Schema:
        kinds = (c.type.as_attribute(TimeAttribute.NONE) for c in self.columns)
        return Schema(tuple(Column(n, t) for n, t in zip(self.names, kinds, strict=True)))

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.names, "|", *(c.digest for c in self.columns))


def within(
    plan: LogicalPlan, around: LogicalPlan, above: Callable[[Scalar], Scalar]
) -> LogicalPlan:
    """Returns the plan with the values that the outer query `around` has instead of their
    placeholder; `above` gives the expression for a column."""

    def found(node: LogicalPlan) -> LogicalPlan:
        if not isinstance(node, Domain):
            return node
        items = tuple((n, above(c)) for n, c in zip(node.names, node.columns, strict=True))
        # An aggregate without calls: each combination of values once.
        return GroupAggregate(Project(around, items), node.names, ())

    return transform(plan, found)


def over_domain(
    plan: LogicalPlan, values: Sequence[Scalar], node: exp.Expression
) -> tuple[LogicalPlan, tuple[Scalar, ...], tuple[Scalar, ...]]:
    """Returns a subquery computed over its domain, its values, and the conditions by which rows of
    the outer query match it."""
    # By name, so that a column that is read twice is one of the domain.
    columns = {c.name: c for e in (*_expressions(plan), *values) for c in _of_around(e)}
    names = distinct_names(["around"] * len(columns), _names(plan))
    domain = Domain(
        tuple(replace(c, name=c.name.removeprefix(OUTER)) for c in columns.values()), names
    )
    found = _Dependent(domain, node)
    own = [pool.column(c.name, c.type) for c in domain.schema]
    conditions = [
        # NULL of the outer query must match NULL of the domain, which = would not.
        function_call("IS NOT DISTINCT FROM", p, node)
        for p in zip(columns.values(), own, strict=True)
    ]
    return found.plan(plan), tuple(map(found.inward, values)), tuple(conditions)


def _of_around(expression: Scalar) -> Iterator[ColumnRef]:
    for node in walk(expression):
        # Two prefixes mean a query further out, of which this domain knows nothing.
        if (
            isinstance(node, ColumnRef)
            and node.name.startswith(OUTER)
            and not node.name.startswith(OUTER * 2)
        ):
            yield node


def _expressions(plan: LogicalPlan) -> Iterator[Scalar]:
    yield from plan.expressions
    for source in plan.inputs:
        yield from _expressions(source)


def _names(plan: LogicalPlan) -> Iterator[str]:
    yield from plan.schema.names
    for source in plan.inputs:
        yield from _names(source)


class _Dependent:
    """Makes plans that have the columns of the domain besides their own, and read no others of the
    outer query."""

    def __init__(self, domain: Domain, node: exp.Expression) -> None:
        self._domain = domain
        self._node = node
        self._own: Mapping[str, Scalar] = {
            OUTER + c.name: pool.column(n, domain.schema.type(n))
            for c, n in zip(domain.columns, domain.names, strict=True)
        }

    def inward(self, expression: Scalar) -> Scalar:
        """Returns the expression with columns of the outer query by the names of the domain; those
        of a query further out are one query nearer now."""

        def find(node: Scalar) -> Scalar | None:
            if not isinstance(node, ColumnRef) or not node.name.startswith(OUTER):
                return None
            # Not of this domain: one level nearer, since the domain's query is joined to it.
            return self._own.get(node.name) or pool.column(node.name.removeprefix(OUTER), node.type)

        return replace_where(expression, find)

    def plan(self, plan: LogicalPlan) -> LogicalPlan:
        if not is_correlated(plan):
            # What does not read the outer query is the same for each value.
            return Join(self._domain, plan, JoinKind.INNER, _TRUE)
        match plan:
            case Values():
                return self._values(plan)
            case Union():
                return Union(tuple(self._last(i) for i in plan.inputs), self._wider(plan.schema))
            case SetOperation():
                left, right = (self._last(i) for i in plan.inputs)
                row_schema = self._wider(plan.schema)
                return replace(plan, left=left, right=right, row_schema=row_schema)
            case Join():
                return self._join(plan)
        if len(plan.inputs) != 1:
            raise too_entangled(self._node)
        inward = map_expressions(plan.with_inputs([self.plan(plan.inputs[0])]), self.inward)
        dependent = inward.for_each(self._domain.schema)
        if dependent is None:
            raise too_entangled(self._node)
        return dependent

    def _references(self) -> tuple[tuple[str, Scalar], ...]:
        return references(self._domain.schema, self._domain.names)

    def _wider(self, schema: Schema) -> Schema:
        return Schema((*schema, *self._domain.schema))

    def _last(self, plan: LogicalPlan) -> LogicalPlan:
        """Returns the plan with the columns of the domain behind its own."""
        items = (*references(plan.schema, plan.schema.names), *self._references())
        return Project(self.plan(plan), items)

    def _values(self, plan: Values) -> LogicalPlan:
        rows = [
            Project(
                self._domain,
                (*zip(plan.schema.names, map(self.inward, row), strict=True), *self._references()),
            )
            for row in plan.rows
        ]
        return rows[0] if len(rows) == 1 else Union(tuple(rows), self._wider(plan.schema))

    def _join(self, plan: Join) -> LogicalPlan:
        """Joins the sides that need the domain over it; a side that is kept whole is so for each
        value of it."""
        asks = any(is_outer(p) for p in conjuncts_of(plan.condition))
        sides = [is_correlated(i) for i in plan.inputs]
        if plan.kind is JoinKind.FULL:
            raise too_entangled(self._node)
        # The side whose rows the join keeps: that side needs the domain for its padding.
        first = plan.kind is not JoinKind.RIGHT
        needed = [
            sides[0] or (first and (asks or not sides[1] or plan.kind is not JoinKind.INNER)),
            sides[1] or not first,
        ]
        condition = self.inward(plan.condition)
        if not all(needed):
            made = [self.plan(i) if n else i for i, n in zip(plan.inputs, needed, strict=True)]
            return replace(plan, left=made[0], right=made[1], condition=condition)
        kept, other = (0, 1) if first else (1, 0)
        # Both sides have the domain: its columns get other names on one side, and must be equal.
        renamed, equal = self._renamed(self.plan(plan.inputs[other]), plan)
        made = [self.plan(plan.inputs[kept]), renamed]
        condition = conjunction([*conjuncts_of(condition), *equal])
        return replace(plan, left=made[kept], right=made[1 - kept], condition=condition)

    def _renamed(self, plan: LogicalPlan, join: Join) -> tuple[LogicalPlan, list[Scalar]]:
        """Returns a side with other names for the domain's columns, and the conditions that they
        equal those of the other side."""
        own = self._domain.names
        fresh = distinct_names(own, (*_names(join), *_names(plan)))
        names = dict(zip(own, fresh, strict=True))
        items = tuple((names.get(n, n), e) for n, e in references(plan.schema, plan.schema.names))
        pairs = [
            (pool.column(n, plan.schema.type(n)), pool.column(names[n], plan.schema.type(n)))
            for n in own
        ]
        return Project(plan, items), [
            function_call("IS NOT DISTINCT FROM", p, self._node) for p in pairs
        ]
