"""Subqueries in expressions: IN, EXISTS and single values become joins of the query that they stand
in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import BIGINT, TimeAttribute
from planner.analysis import window_operations
from planner.binder import pool
from planner.binder.expressions import literals
from planner.binder.expressions.calls import function_call
from planner.binder.expressions.negation import negation, orders_floats
from planner.binder.expressions.scalars import BINDERS, bind_condition, bind_scalar, bind_subquery
from planner.binder.queries.temporal_joins import primary_key_of, temporal_join
from planner.binder.scope import OUTER, Context, Outer, Place, Query, Scope
from planner.binder.subqueries import domains
from planner.binder.subqueries.decorrelate import (
    inner_columns,
    is_correlated,
    is_outer,
    outward,
    pulled,
)
from planner.binder.subqueries.shapes import Inner, always, by_keys, meeting, of_no_rows
from planner.binder.subqueries.syntax import (
    QUANTIFIED,
    asks,
    conjuncts_of,
    is_asked_for_truth,
    is_membership,
    query_of,
    without_version,
)
from planner.logical import AggregateCall, Filter, GroupAggregate, JoinKind, LogicalPlan, Project
from planner.rewrite import conjunction, replace_where, substitute
from planner.scalar import ColumnRef, Literal, Scalar

BindQuery = Callable[[exp.Expression, Context], Query]
_COUNT = BIGINT.with_nullable(False)
# With which of the values that tells.
_BOUNDS = {"<": ("MAX",), "<=": ("MAX",), ">": ("MIN",), ">=": ("MIN",), "<>": ("MIN", "MAX")}


@dataclass
class Subqueries:
    """The subqueries of one SELECT. Those in expressions become columns with names of their own,
    which `join` brings to the plan that they are computed over; those that are conditions
    themselves filter it."""

    scope: Scope
    context: Context
    bind_query: BindQuery
    prefix: str = "subquery"
    names: set[str] = field(default_factory=set)
    # Of those that were bound, by their text.
    values: dict[exp.Expression, Scalar] = field(default_factory=dict)
    _waiting: list[tuple[LogicalPlan, JoinKind, Scalar]] = field(default_factory=list)

    def where(self, plan: LogicalPlan, node: exp.Expression) -> LogicalPlan:
        """The rows of `plan` for which a condition is TRUE. What needs no subquery is asked
        first."""
        parts = list(conjuncts_of(node))
        place = Place(self.context, self.scope, "WHERE", subqueries=self)
        plain = [p for p in parts if asks(p) is None]
        if plain:
            predicate = (
                conjunction([bind_condition(p, place) for p in plain])
                if len(plain) < len(parts)
                else None
            )
            plan = self._filtered(
                plan, predicate if predicate is not None else bind_condition(node, place)
            )
        for part in parts:
            asked = asks(part)
            if asked is not None:
                plan = self._among(plan, *asked, place)
        return plan

    def _filtered(self, plan: LogicalPlan, predicate: Scalar) -> LogicalPlan:
        return Filter(self.join(plan), predicate, self.context.salt((predicate,)))

    def join(
        self, plan: LogicalPlan, above: Callable[[Scalar], Scalar] = lambda e: e
    ) -> LogicalPlan:
        """The plan with the columns of the subqueries bound so far; `above` gives what stands there
        for a column of the query."""
        around = plan
        for right, kind, condition in self._waiting:
            right = domains.within(right, around, above)
            plan = window_operations.join(
                plan, right, kind, replace_where(condition, lambda e: self._outside(e, above))
            )
        self._waiting.clear()
        return plan

    def _outside(self, node: Scalar, above: Callable[[Scalar], Scalar]) -> Scalar | None:
        return above(node) if isinstance(node, ColumnRef) and node.name not in self.names else None

    # ---- as conditions ---------------------------------------------------------------------------

    def _among(
        self, plan: LogicalPlan, node: exp.Expression, negated: bool, place: Place
    ) -> LogicalPlan:
        """A semi-join, or an anti-join; of FOR SYSTEM_TIME AS OF a look-up."""
        operands = _operands(node, place)
        plan = self.join(plan)
        query, time = without_version(query_of(node))
        inner = self._inner(query, len(operands), repeats=True)
        if isinstance(node, exp.Exists) and always(inner):
            return Filter(plan, literals.boolean(False)) if negated else plan
        tests = [
            _equal_or_unknown(a, b, node) if negated else function_call("=", (a, b), node)
            for a, b in zip([_inward(o) for o in operands], inner.values, strict=True)
        ]
        condition = conjunction([*inner.conditions, *tests] or [literals.boolean(True)])
        kind = JoinKind.ANTI if negated else JoinKind.SEMI
        identity = [] if time is None else primary_key_of(inner.plan)
        right, (condition, *_) = self._named(inner.plan, [condition, *identity])
        right = domains.within(right, plan, lambda e: e)
        if time is None:
            return window_operations.join(plan, right, kind, condition)
        return temporal_join(plan, right, kind, condition, time, self.scope, self.context)

    # ---- as values -------------------------------------------------------------------------------

    def value(self, node: exp.Expression, place: Place) -> Scalar:
        """The value of a subquery, of IN or of EXISTS, as a column that `join` will bring."""
        found = self._value(node, place)
        self.values[node] = found
        return found

    def _value(self, node: exp.Expression, place: Place) -> Scalar:
        if isinstance(node, exp.Subquery):
            return self._single(node)
        if isinstance(node, exp.Exists):
            inner = self._inner(query_of(node), 0, repeats=True)
            if always(inner):
                return literals.boolean(True)
            (found,) = self._joined(self._distinct(meeting(inner, node), node), [self._mark])
            return function_call("IS NOT NULL", (found,), node)
        if is_membership(node):
            return self._contains(node, place)
        return self._compared(node, place)

    def _single(self, node: exp.Expression) -> Scalar:
        inner = self._inner(query_of(node), 1, repeats=False)
        plan = inner.plan
        if not isinstance(plan, GroupAggregate) or not of_no_rows(plan, inner):
            return self._only(meeting(inner, node), node)
        (value,) = inner.values
        counted = set()
        if inner.conditions:  # of no rows COUNT is 0
            counted = {
                a.name for a in plan.aggregates if a.function.startswith(("COUNT", "APPROX_COUNT"))
            }
        columns = inner_columns((value,))
        brought = self._joined(inner, columns)
        named = {
            c.name: _or_none(b, node) if c.name in counted else b
            for c, b in zip(columns, brought, strict=True)
        }
        return substitute(value, named)

    def _only(self, inner: Inner, node: exp.Expression) -> Scalar:
        """The value of the only row; an error where there are several."""
        (value,) = inner.values
        kind = value.type.as_attribute(TimeAttribute.NONE)
        keyed = by_keys(inner, [("value", value)], node)
        calls = (
            AggregateCall("count", "COUNT", None, _COUNT),
            AggregateCall(
                "only", "FIRST_VALUE", "value", kind.made_from(value.type).with_nullable(True), kind
            ),
        )
        plan = GroupAggregate(keyed.plan, keyed.keys, calls)
        columns = [ColumnRef("count", _COUNT), ColumnRef("only", calls[1].type)]
        count, only = self._joined(keyed.joined(plan), columns)
        return function_call("CHECK ONE ROW", (only, count), node)

    def _contains(self, node: exp.Expression, place: Place) -> Scalar:
        """x IN (SELECT y …): TRUE with a match; else UNKNOWN if x is NULL or some y is, unless
        there is no row at all."""
        operands = _operands(node, place)
        inner = meeting(self._inner(query_of(node), len(operands), repeats=True), node)
        tests = [
            function_call("=", pair, node)
            for pair in zip(map(_inward, operands), inner.values, strict=True)
        ]
        both = replace(inner, conditions=(*inner.conditions, *tests))
        (found,) = self._joined(self._distinct(both, node), [self._mark])
        matched = function_call("IS NOT NULL", (found,), node)
        sure = not any(v.type.nullable for v in (*operands, *inner.values))
        if sure or is_asked_for_truth(node):
            return matched
        total, *known = self._counted(inner, node)
        return _three_valued([matched], operands, total, known, node)

    def _compared(self, node: exp.Expression, place: Place) -> Scalar:
        """x < ANY (SELECT y …): x is compared with the least or the greatest y; ALL is what is not
        so for any."""
        every = isinstance(node.args["expression"], exp.All)
        operator = QUANTIFIED[type(node)][every]
        (operand,) = operands = _operands(node, place)
        inner = meeting(self._inner(query_of(node), 1, repeats=True), node)
        kind = inner.values[0].type.as_attribute(TimeAttribute.NONE)
        bounds = [
            AggregateCall(f"bound{i}", f, "value0", kind.with_nullable(True), kind)
            for i, f in enumerate(_BOUNDS[operator])
        ]
        total, known, *brought = self._counted(inner, node, bounds)
        tests = [function_call(operator, (operand, b), node) for b in brought]
        found = _three_valued(tests, operands, total, [known], node)
        return negation(found, node) if every else found

    def _counted(
        self, inner: Inner, node: exp.Expression, more: Sequence[AggregateCall] = ()
    ) -> list[Scalar]:
        """Joins aggregates of the subquery to the outer rows, and returns their columns.

        They are the number of rows, the number of each value that is not NULL, then `more` over
        the values. As in Flink, outer rows wait for the first row of an uncorrelated subquery."""
        values = [(f"value{i}", v) for i, v in enumerate(inner.values)]
        keyed = by_keys(inner, values, node)
        calls = (
            AggregateCall("count", "COUNT", None, _COUNT),
            *(
                AggregateCall(f"known{i}", "COUNT", n, _COUNT, v.type)
                for i, (n, v) in enumerate(values)
            ),
            *more,
        )
        counts = keyed.joined(GroupAggregate(keyed.plan, keyed.keys, calls))
        kind = JoinKind.INNER if inner.alone else JoinKind.LEFT
        return self._joined(counts, [ColumnRef(c.name, c.type) for c in calls], kind)

    # ---- parts -----------------------------------------------------------------------------------

    @property
    def _mark(self) -> ColumnRef:
        return ColumnRef("found", literals.boolean(True).type)

    def _distinct(self, inner: Inner, node: exp.Expression) -> Inner:
        """The rows that conditions tell apart, each once, with a mark: `found`."""
        keyed = by_keys(inner, [("found", literals.boolean(True))], node)
        return keyed.joined(GroupAggregate(keyed.plan, (*keyed.keys, "found"), ()))

    def _inner(self, query: exp.Expression, width: int, *, repeats: bool) -> Inner:
        """The subquery of an expression, with so many columns (0: whatever they are). `repeats`:
        rows may come several times."""
        context = replace(self.context, outer=Outer(self.scope, self.context.outer))
        bound = self.bind_query(query, context)
        if width and len(bound.names) != width:
            raise PlanError(
                f"the subquery has {len(bound.names)} columns, and {width}"
                f" {'is' if width == 1 else 'are'} wanted",
                detail=f"the columns are {', '.join(bound.names)}",
                position=position_of(query),
            )
        plan = bound.plan
        values: list[Scalar] = [pool.column(c.name, c.type) for c in plan.schema]
        while isinstance(plan, Project):
            values = [substitute(v, dict(plan.items)) for v in values]
            plan = plan.input
        wanted = tuple(values) if width else ()
        alone = not is_correlated(plan) and not any(map(is_outer, wanted))
        try:
            below, conditions = pulled(plan, query, repeats=repeats)
        except UnsupportedError:
            return Inner(*domains.over_domain(plan, wanted, query))
        return Inner(below, wanted, tuple(conditions), alone, plan)

    def _joined(
        self, inner: Inner, columns: Sequence[ColumnRef], kind: JoinKind = JoinKind.LEFT
    ) -> list[Scalar]:
        """Columns of the subquery as the query will have them, once it is joined."""
        condition = conjunction(inner.conditions or [literals.boolean(True)])
        right, (condition, *values) = self._named(inner.plan, [condition, *columns])
        self._waiting.append((right, kind, condition))
        return [
            pool.column(v.name, v.type.with_nullable(True))
            for v in values
            if isinstance(v, ColumnRef)
        ]

    def _named(
        self, plan: LogicalPlan, expressions: Sequence[Scalar]
    ) -> tuple[LogicalPlan, list[Scalar]]:
        """The columns of the plan that expressions read, by names that nothing else has, and the
        expressions over them and the query around."""
        names: dict[str, str] = {}
        for column in inner_columns(expressions):
            names[column.name] = self._fresh()
        if not names:  # a row without columns is a row
            names[plan.schema.names[0]] = self._fresh()
        items = tuple((new, pool.column(old, plan.schema.type(old))) for old, new in names.items())
        return Project(plan, items), [outward(e, names) for e in expressions]

    def _fresh(self) -> str:
        taken = {f.column.name for f in self.scope.fields}
        number = len(self.names)
        while f"{self.prefix}${number}" in taken:
            number += 1
        name = f"{self.prefix}${number}"
        self.names.add(name)
        return name


@dataclass(frozen=True)
class GroupedSubqueries:
    """Subqueries of a query with GROUP BY: those of its keys are computed `inside`, all others
    above its groups."""

    inside: Subqueries
    above: Subqueries

    def value(self, node: exp.Expression, place: Place) -> Scalar:
        known = self.inside.values.get(node)
        return self.above.value(node, place) if known is None else known


def _three_valued(
    tests: Sequence[Scalar],
    operands: Sequence[Scalar],
    total: Scalar,
    known: Sequence[Scalar],
    node: exp.Expression,
) -> Scalar:
    """TRUE where a test is; else FALSE without any row, UNKNOWN where a value is NULL on either
    side, and FALSE. A test that NaN makes neither TRUE nor its opposite is what is left instead of
    FALSE, so that NOT of it is FALSE, too."""
    unknown = [function_call("IS NULL", (o,), node) for o in operands]
    unknown += [function_call("<", (k, total), node) for k in known]
    args: list[Scalar] = []
    for test in tests:
        args += (test, literals.boolean(True))
    none = function_call(
        "IS NOT TRUE", (function_call(">", (total, Literal(0, _COUNT)), node),), node
    )
    args += (none, literals.boolean(False))
    doubt = unknown[0] if len(unknown) == 1 else function_call("OR", tuple(unknown), node)
    null = literals.null(literals.boolean(True).type.with_nullable(True))
    left = tests[0] if orders_floats(tests[0]) else literals.boolean(False)
    return function_call("CASE", (*args, doubt, null, left), node)


def _or_none(count: Scalar, node: exp.Expression) -> Scalar:
    """A count, 0 where there is nothing to count; as in Flink its type has NULL all the same."""
    found = function_call("COALESCE", (count, Literal(0, _COUNT)), node)
    return replace(found, type=found.type.with_nullable(True))


def _inward(operand: Scalar) -> Scalar:
    """A value of the query around, as the subquery calls it."""
    return replace_where(
        operand, lambda e: pool.column(OUTER + e.name, e.type) if isinstance(e, ColumnRef) else None
    )


def _equal_or_unknown(left: Scalar, right: Scalar, node: exp.Expression) -> Scalar:
    """NOT IN keeps a row only if each comparison is FALSE."""
    tests = [function_call("=", (left, right), node)]
    tests += [function_call("IS NULL", (v,), node) for v in (left, right) if v.type.nullable]
    return tests[0] if len(tests) == 1 else function_call("OR", tuple(tests), node)


def _operands(node: exp.Expression, place: Place) -> list[Scalar]:
    """Returns the expressions to the left of IN; none for EXISTS."""
    if isinstance(node, exp.Exists):
        return []
    left = node.this
    while isinstance(left, exp.Paren):
        left = left.this
    return [
        bind_scalar(e, place) for e in (left.expressions if isinstance(left, exp.Tuple) else [left])
    ]


def register_binders() -> None:
    """Makes `bind_scalar` know subqueries."""
    BINDERS.update({exp.Subquery: bind_subquery, exp.Exists: bind_subquery})
