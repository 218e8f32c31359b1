"""Joins: what ON, USING and NATURAL say, and the columns that are in reach behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from planner.analysis import window_operations
from planner.analysis.top_n import rewrite_top_n
from planner.binder import pool
from planner.binder.expressions import literals
from planner.binder.expressions.calls import function_call
from planner.binder.expressions.scalars import bind_condition
from planner.binder.queries import temporal_joins as temporals
from planner.binder.scope import Context, Field, Outer, Place, Scope, distinct_names
from planner.binder.subqueries import domains
from planner.binder.subqueries import join_conditions as join_subqueries
from planner.binder.subqueries.decorrelate import outward, pulled
from planner.binder.subqueries.expressions import BindQuery
from planner.logical import GroupAggregate, Join, JoinKind, LogicalPlan, Project
from planner.rewrite import conjunction, references, substitute
from planner.scalar import ColumnRef, Literal, Scalar, conjuncts_of

# A plan, and the columns of it that can be named.
Relation = tuple[LogicalPlan, Scope]
BindRelation = Callable[[exp.Expression, Context], Relation]


class Binders(NamedTuple):
    """The binders of relations in FROM and of queries."""

    relation: BindRelation
    query: BindQuery


TRUE = literals.boolean(True)


def join(
    left: Relation, node: exp.Join, context: Context, bind: Binders, ttls: Mapping[str, int]
) -> Relation:
    """Joins `left` to the relation that `node` names.

    `ttls` are the retention times of relations in ms, by name. PlanError and UnsupportedError carry
    the position."""
    _check(node)
    right, moved, absent = _right(left, node, context, bind.relation)
    kind = JoinKind(node.args.get("side") or "INNER")
    both = Scope((*left[1].fields, *right[1].fields))
    shared = _shared(node, left[1], right[1])
    place = Place(context, both, "ON")
    plain, with_subqueries = _on(node)
    own = _conditions(shared, plain, place, node)
    plans = left[0], right[0]
    if with_subqueries and kind is not JoinKind.INNER:
        # An outer join pads rows whose condition is not TRUE: subqueries must be known before it.
        beside = join_subqueries.Beside.of(left[1], right[1], context, bind.query)
        own += beside.conditions(with_subqueries, place)
        plans = beside.joined(*plans)
    conditions = [*moved, *own]
    condition = conjunction(conditions) if conditions else TRUE
    plan = _joined(plans, kind, condition, node, (left[1], context))
    plan = _with_ttls(plan, left[1], right[1], ttls)
    if with_subqueries:
        above = with_subqueries if kind is JoinKind.INNER else []
        plan = join_subqueries.filtered(plan, both, above, context, bind.query)
        plan = join_subqueries.only(plan, (*left[0].schema.names, *right[0].schema.names))
    unconditional = not with_subqueries and all(c == TRUE for c in own)
    if absent and kind is JoinKind.LEFT and unconditional:
        plan = _with_absent(plan, *absent, node)
    if shared:
        return _merged(plan, kind, (left[1], right[1]), shared, node)
    return plan, typed(both, plan)


def _conditions(
    shared: Mapping[str, tuple[ColumnRef, ColumnRef]],
    on: Sequence[exp.Expression],
    place: Place,
    node: exp.Join,
) -> list[Scalar]:
    """Binds the conjuncts of the join condition: equal shared columns, and the parts of ON."""
    equalities = [function_call("=", pair, node) for pair in shared.values()]
    return equalities + [c for part in on for c in conjuncts_of(bind_condition(part, place))]


def _on(node: exp.Join) -> tuple[list[exp.Expression], list[exp.Expression]]:
    """The conjuncts of ON without subqueries, and those with some."""
    condition = node.args.get("on")
    return join_subqueries.parts(condition) if condition is not None else ([], [])


def _joined(
    plans: tuple[LogicalPlan, LogicalPlan],
    kind: JoinKind,
    condition: Scalar,
    node: exp.Join,
    left: tuple[Scope, Context],
) -> LogicalPlan:
    time = temporals.version_of(node)
    if not left[1].batch:  # ranks within windows only come
        plans = _ranked(plans[0]), _ranked(plans[1])
    return (
        window_operations.join(*plans, kind, condition)
        if time is None
        else temporals.temporal_join(*plans, kind, condition, time, *left)
    )


def _ranked(plan: LogicalPlan) -> LogicalPlan:
    return rewrite_top_n(plan) if plan.changes else plan


def _check(node: exp.Join) -> None:
    """PlanError where a condition stands behind a join that has none."""
    conditions = [node.args[k] for k in ("on", "using") if node.args.get(k)]
    word = node.args.get("method") or (node.args.get("kind") == "CROSS" and "CROSS")
    if conditions and word in ("NATURAL", "CROSS"):
        hint = "leave out the condition, or write JOIN … ON"
        raise PlanError(f"{word} JOIN takes no condition", hint=hint, position=position_of(node))


class _Right(NamedTuple):
    """The right side of a join, and conditions that were pulled out of it.

    `absent`: a column of it, and its value where there is no row."""

    relation: Relation
    moved: list[Scalar]
    absent: tuple[str, Scalar] | None = None


def _with_absent(plan: LogicalPlan, name: str, value: Scalar, node: exp.Expression) -> Project:
    """Replaces NULL by the value for no rows. As in Flink the column stays nullable."""
    value_or_default = function_call(
        "COALESCE", (pool.column(name, plan.schema.type(name)), value), node
    )
    items = dict(references(plan.schema, plan.schema.names))
    return Project(
        plan,
        tuple(
            {
                **items,
                name: replace(value_or_default, type=value_or_default.type.with_nullable(True)),
            }.items()
        ),
    )


def _right(left: Relation, node: exp.Join, context: Context, relation: BindRelation) -> _Right:
    named = node.this
    if isinstance(named, exp.Lateral) and isinstance(named.this, exp.Subquery):
        return _lateral(left, named, context, relation)
    if temporals.version_of(node) is not None:
        named = named.copy()
        named.set("version", None)
    return _Right(with_distinct_names(relation(named, context), left[0]), [])


def _with_ttls(
    plan: LogicalPlan, left: Scope, right: Scope, ttls: Mapping[str, int]
) -> LogicalPlan:
    if not isinstance(plan, Join):
        return plan
    return replace(plan, ttls_ms=(_ttl(left, ttls), _ttl(right, ttls)))


def _ttl(scope: Scope, ttls: Mapping[str, int]) -> int | None:
    """Returns the retention time of a side with one relation in ms; None where no hint gives it."""
    names = {f.relation[-1] for f in scope.fields if f.relation}
    return ttls.get(names.pop()) if len(names) == 1 else None


def _lateral(left: Relation, node: exp.Lateral, context: Context, relation: BindRelation) -> _Right:
    """LATERAL (SELECT …): the query without what it says of the rows on its left, and that as
    conditions."""
    named = exp.Subquery(this=node.this.this, alias=node.args.get("alias"))
    plan, scope = relation(named, replace(context, outer=Outer(left[1], context.outer)))
    conditions: Sequence[Scalar]
    try:
        below, conditions = pulled(plan, node, repeats=False)
    except UnsupportedError:
        over_domain, _, conditions = domains.over_domain(plan, (), node)
        below = domains.within(over_domain, left[0], lambda e: e)
    right, scope = with_distinct_names((below, scope), left[0])
    names = dict(zip(below.schema.names, right.schema.names, strict=True))
    absent = _of_no_rows(plan)
    known = None if absent is None else (names[plan.schema.names[0]], absent)
    return _Right((right, scope), [outward(c, names) for c in conditions], known)


def _of_no_rows(plan: LogicalPlan) -> Scalar | None:
    """Returns what a query that only counts gives for no rows.

    None for all others: as in Flink they give no row there, also where they compute something
    besides the count."""
    if (
        not isinstance(plan, Project)
        or len(plan.items) != 1
        or not isinstance(plan.input, GroupAggregate)
    ):
        return None
    value, group = plan.items[0][1], plan.input
    if group.keys or len(group.aggregates) != 1 or value.type.nullable:
        return None
    call = group.aggregates[0]
    return (
        substitute(value, {call.name: Literal(0, call.type)})
        if call.function.startswith("COUNT")
        else None
    )


def with_distinct_names(relation: Relation, other: LogicalPlan) -> Relation:
    """The relation with none of the names of `other` in its plan."""
    plan, scope = relation
    names = plan.schema.names
    fresh = distinct_names(names, other.schema.names)
    if fresh == names:
        return relation
    renamed = dict(zip(names, fresh, strict=True))
    items = ((new, pool.column(old, plan.schema.type(old))) for old, new in renamed.items())
    fields = (
        replace(f, column=pool.column(renamed[f.column.name], f.column.type)) for f in scope.fields
    )
    return Project(plan, tuple(items)), Scope(tuple(fields))


def typed(scope: Scope, plan: LogicalPlan) -> Scope:
    """Returns the same columns with the types that they have in `plan`."""
    kinds = {c.name: c.type for c in plan.schema}
    return Scope(
        tuple(
            replace(f, column=pool.column(f.column.name, kinds[f.column.name]))
            for f in scope.fields
        )
    )


def _shared(node: exp.Join, left: Scope, right: Scope) -> dict[str, tuple[ColumnRef, ColumnRef]]:
    """The columns by which USING or NATURAL joins, by their names."""
    if node.args.get("using"):
        names = [c.name for c in node.args["using"]]
    elif node.args.get("method") == "NATURAL":
        known = {f.name for f in right.named}
        names = list(dict.fromkeys(f.name for f in left.named if f.name in known))
    else:
        return {}
    return {name: (left.resolve(name, (), node), right.resolve(name, (), node)) for name in names}


def _of_right(kind: JoinKind, left: ColumnRef, right: ColumnRef) -> bool:
    """True if a shared column is that of the right side: where the left one may be NULL without a
    match, or, as both are equal, where its type says more."""
    return kind is JoinKind.RIGHT or (
        kind is JoinKind.INNER and left.type.nullable and not right.type.nullable
    )


def _merged(
    plan: LogicalPlan,
    kind: JoinKind,
    scopes: tuple[Scope, Scope],
    shared: dict[str, tuple[ColumnRef, ColumnRef]],
    node: exp.Join,
) -> Relation:
    """Merges the columns of USING or NATURAL: each comes first, and once.

    Behind the name of a relation the column of each side can still be named."""
    both = typed(Scope(tuple(f for s in scopes for f in s.fields)), plan)
    sides = {
        name: tuple(pool.column(c.name, plan.schema.type(c.name)) for c in pair)
        for name, pair in shared.items()
    }
    if kind is JoinKind.FULL or any(not a.type.same_as(b.type) for a, b in sides.values()):
        plan, common = _coalesced(plan, sides, node)
    else:
        common = {
            name: right if _of_right(kind, left, right) else left
            for name, (left, right) in sides.items()
        }
    hidden = {c.name for pair in sides.values() for c in pair}
    rest = (replace(f, merged=f.merged or f.column.name in hidden) for f in both.fields)
    return plan, Scope((*(Field((), name, column) for name, column in common.items()), *rest))


def _coalesced(
    plan: LogicalPlan, sides: Mapping[str, tuple[ColumnRef, ...]], node: exp.Join
) -> tuple[LogicalPlan, dict[str, ColumnRef]]:
    """Adds COALESCE(left, right) for each shared column, by name: neither side alone has it."""
    fresh = dict(zip(sides, distinct_names(sides, plan.schema.names), strict=True))
    values = {name: function_call("COALESCE", pair, node) for name, pair in sides.items()}
    items = (
        *references(plan.schema, plan.schema.names),
        *((fresh[name], value) for name, value in values.items()),
    )
    columns = {name: pool.column(fresh[name], values[name].type) for name in sides}
    return Project(plan, items), columns
