"""Queries and what stands in FROM, as plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnknownObject
from parser.types import Column, Schema
from planner.binder import pool, refusals
from planner.binder.expressions.scalars import as_condition, bind_scalar
from planner.binder.queries import interval_joins as intervals
from planner.binder.queries import (
    join_hints,
    joins,
    laterals,
    new_terms,
    ordering,
    select_items,
    set_operations,
)
from planner.binder.queries.aggregate_calls import is_aggregated
from planner.binder.queries.changelog_functions import (
    bind_changelog_function,
    is_changelog_function,
)
from planner.binder.queries.column_names import alias_columns, renamed, wrong_count
from planner.binder.queries.constant_rows import bind_values
from planner.binder.queries.process_functions import bind_process_function, process_function
from planner.binder.queries.sources import query_of_table, resalted
from planner.binder.queries.table_hints import with_hints
from planner.binder.scope import (
    Context,
    Field,
    Place,
    Query,
    Scope,
    UnknownColumn,
    check_nodes,
    did_you_mean,
    distinct_names,
)
from planner.binder.subqueries.expressions import Subqueries
from planner.binder.windows import aggregates, tvf_aggregates
from planner.binder.windows import table_functions as windows
from planner.binder.windows.alert_periods import bind_alert_function, is_alert_function
from planner.binder.windows.over import OverCalls, with_aliases
from planner.binder.windows.patterns import bind_match
from planner.catalog import Table, View
from planner.logical import Filter, LogicalPlan, Project, SetOperation, Union, Values
from planner.scalar import ColumnRef, Scalar

# Stands for the missing FROM of a SELECT that is one row of constants.
_NOTHING = Values(((),), Schema(()))


def bind_query(node: exp.Expression, context: Context) -> Query:
    """Any query: SELECT, VALUES, UNION ALL, one in parentheses, with common tables before it."""
    context = _common_tables(node, context)
    refusals.check_clauses(node)
    query = _bound(node, context)
    if isinstance(node, exp.Select) or not ordering.is_ordered(node):
        return query
    ordered = ordering.Ordering(
        node,
        query.names,
        _columns(query),
        batch=context.batch,
        inside=context.inside,
        kept=context.of_view,
    )
    place = Place(context, query.scope(()), "ORDER BY")
    ordered.bind(lambda item: bind_scalar(item, place))
    return ordered.applied(_with_hidden(query, ordered, context))


def _bound(node: exp.Expression, context: Context) -> Query:
    """A query without what stands behind it; that of a SELECT may name what it does not give."""
    match node:
        case exp.Select():
            return _select(node, context)
        case exp.Values():
            return bind_values(node, context)
        case exp.Union():
            query = _union(node, context)
            return _distinct(query, context) if node.args.get("distinct") else query
        case exp.SetOperation():
            return _set_operation(node, context)
        case exp.Subquery():
            return bind_query(node.this, context)
    raise refusals.of_expression(node)


def _common_tables(node: exp.Expression, context: Context) -> Context:
    with_ = node.args.get("with_")
    if with_ is None:
        return context
    for cte in with_.expressions:
        if with_.args.get("recursive"):
            refusals.check_recursion(cte)
        query = renamed(bind_query(cte.this, context.within()), alias_columns(cte), cte)
        check_nodes(query.plan.size, position_of(cte))
        twice = next((n for i, n in enumerate(query.names) if n in query.names[:i]), None)
        if twice is not None:
            hint = (
                "give each column its own name with AS, or name them behind the table: w (a, b)"
                " AS (…)"
            )
            message = f"common table '{cte.alias}' has two columns '{twice}'"
            raise PlanError(message, hint=hint, position=position_of(cte))
        context = context.with_ctes({cte.alias: query})
    return context


def _union(node: exp.Union, context: Context) -> Query:
    branches: list[Query] = []
    operands: list[exp.Expression] = [node]
    while operands:
        current = operands.pop()
        # Those of `node` are in the context.
        plain = current is node or not current.args.get("with_")
        alike = isinstance(current, exp.Union) and bool(current.args.get("distinct")) is bool(
            node.args.get("distinct")
        )
        if alike and plain:
            refusals.check_clauses(current)
            operands += (current.args["expression"], current.this)
        else:
            branches.append(bind_query(current, context.within()))
    inputs, schema = set_operations.alike(branches, node)
    return Query(Union(inputs, schema), branches[0].names)


def _set_operation(node: exp.SetOperation, context: Context) -> Query:
    within = context.within()
    branches = [bind_query(node.this, within), bind_query(node.args["expression"], within)]
    (left, right), schema = set_operations.alike(branches, node)
    every = not node.args.get("distinct")
    plain = Schema(tuple(Column(c.name, c.type.made_from(c.type)) for c in schema))
    return Query(
        SetOperation(left, right, plain, isinstance(node, exp.Except), every), branches[0].names
    )


def _distinct(query: Query, context: Context) -> Query:
    return replace(query, plan=tvf_aggregates.distinct(query.plan, context.batch))


def _select(node: exp.Select, context: Context) -> Query:
    grouped = is_aggregated(node, context.catalog)
    inside, plain = context.inside, not grouped and _gives_rows_as_they_are(node)
    plan, scope, kept_ms = _from(node, context if plain else context.within(), grouped)
    context = context.within()
    subqueries = Subqueries(scope, context, bind_query)
    where = node.args.get("where")
    if where is not None:
        plan = _where(node, plan, subqueries)
    if node.args.get("joins"):
        plan = intervals.recognize_interval_joins(plan)
    # A row time that went through a join is none any more.
    if node.args.get("joins") or subqueries.names:
        scope = joins.typed(scope, plan)
    overs = OverCalls(node, context.batch)
    grouping = (
        aggregates.Grouping(node, plan, scope, context, overs, subqueries) if grouped else None
    )
    binder = grouping or aggregates.Ungrouped(scope, context, overs, subqueries)
    names, values = select_items.items(node.expressions, binder, Place(context, scope, "SELECT"))
    qualify = node.args.get("qualify")
    condition = None
    if qualify is not None:
        condition = as_condition(
            binder.bind(with_aliases(qualify.this, node, scope)), qualify, "QUALIFY"
        )
    ordered = ordering.Ordering(
        node, names, values, batch=context.batch, inside=inside, kept=context.of_view
    )
    ordered.bind(binder.bind)
    if grouping is not None:
        plan = join_hints.forgetting(grouping.plan(node.args.get("having")), kept_ms)
    plan = overs.plan(subqueries.join(plan))
    if subqueries.names:
        values = [_of(plan, v) for v in values]
    if condition is not None:
        plan = Filter(plan, condition, context.salt((condition,)))
    if node.args.get("distinct"):
        query = _distinct(_projected(plan, names, values, context), context)
        query = replace(query, plan=join_hints.forgetting(query.plan, kept_ms))
        return ordered.applied(_with_hidden(query, ordered, context))
    query = _projected(
        plan, (*names, *ordered.hidden), [*values, *ordered.hidden.values()], context
    )
    return ordered.applied(Query(query.plan, names))


def _gives_rows_as_they_are(node: exp.Select) -> bool:
    """True if the query preserves the order of its one relation, a view.

    Flink keeps the order of the view then."""
    source = node.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table) or source.this.args.get("match"):
        return False
    return not (node.args.get("joins") or node.args.get("distinct") or ordering.is_ordered(node))


def _from(node: exp.Select, context: Context, grouped: bool) -> tuple[LogicalPlan, Scope, int]:
    """Binds FROM.

    Returns the plan, the columns in scope, and the state retention that a hint gives the groups of
    its one relation (ms, 0: for ever)."""
    source, joined = node.args.get("from_"), node.args.get("joins") or ()
    if source is None:
        return _NOTHING, Scope(), 0
    relations = [n.alias_or_name for n in (source.this, *(j.this for j in joined))]
    join_hints.note_retries(node)
    ttls = join_hints.state_ttls(node, relations, grouped or bool(node.args.get("distinct")))
    kept_ms = ttls.get(relations[0], 0) if len(relations) == 1 else 0
    return *_joined(source.this, joined, context, ttls), kept_ms


def _of(plan: LogicalPlan, value: Scalar) -> Scalar:
    """A column as it is in `plan`."""
    return (
        pool.column(value.name, plan.schema.type(value.name))
        if isinstance(value, ColumnRef)
        else value
    )


def _columns(query: Query) -> tuple[ColumnRef, ...]:
    return tuple(pool.column(c.name, c.type) for c in query.plan.schema)


def _with_hidden(query: Query, ordered: ordering.Ordering, context: Context) -> Query:
    """The query with what it is ordered by, computed of what it gives, behind its columns."""
    if not ordered.hidden:
        return query
    values = (*_columns(query), *ordered.hidden.values())
    columns = (*query.plan.schema.names, *ordered.hidden)
    plan = Project(query.plan, tuple(zip(columns, values, strict=True)), context.salt(values))
    return replace(query, plan=plan)


def _where(node: exp.Select, plan: LogicalPlan, subqueries: Subqueries) -> LogicalPlan:
    plain, asking = new_terms.split(node.args["where"].this)
    try:
        if plain is not None:
            plan = subqueries.where(plan, plain)
        if not asking:
            return plan
        place = Place(subqueries.context, subqueries.scope, "WHERE", subqueries=subqueries)
        return new_terms.filtered(plan, asking, place)
    except UnknownColumn as error:
        if error.subject is not None and error.subject in (e.alias for e in node.expressions):
            error.hint = (
                f"WHERE comes before SELECT: repeat the expression that is called {error.subject}"
            )
        raise


def _projected(
    plan: LogicalPlan, names: tuple[str, ...], values: Sequence[Scalar], context: Context
) -> Query:
    columns = distinct_names(names)
    if plan is _NOTHING:
        schema = Schema(tuple(Column(n, v.type) for n, v in zip(columns, values, strict=True)))
        return Query(Values((tuple(values),), schema, context.salt(values)), names)
    if columns == plan.schema.names and all(
        isinstance(v, ColumnRef) and v.name == c for c, v in zip(columns, values, strict=True)
    ):
        return Query(plan, names)
    return Query(
        Project(plan, tuple(zip(columns, values, strict=True)), context.salt(values)), names
    )


def _joined(
    source: exp.Expression,
    joined: Iterable[exp.Join],
    context: Context,
    ttls: Mapping[str, int],
) -> tuple[LogicalPlan, Scope]:
    """A relation and all that is joined to it, from the left; `ttls`: how long the rows of each are
    kept, by name."""
    plan, scope = _relation(source, context)
    for node in joined:
        if isinstance(node.this, exp.Lateral | exp.Unnest):
            refusals.check_clauses(node.this)
        if laterals.is_lateral_join(node, context.catalog):
            plan, scope = laterals.join(plan, scope, node, context)
        else:
            _check_name(node.this, scope)
            plan, scope = joins.join(
                (plan, scope), node, context, joins.Binders(_relation, bind_query), ttls
            )
    return plan, scope


def _check_name(node: exp.Expression, scope: Scope) -> None:
    if node.alias_or_name and scope.has_relation((node.alias_or_name,)):
        message = f"two relations of FROM are called '{node.alias_or_name}'"
        raise PlanError(message, hint="give one another name with AS", position=position_of(node))


def _relation(node: exp.Expression, context: Context) -> tuple[LogicalPlan, Scope]:
    """Binds a relation of FROM. Returns its plan and the columns that it brings into scope."""
    match = node.args.get("match")
    if match is None:
        return _source(node, context, alias_columns(node))
    plan, scope = _source(node, context, ())
    fields = scope.named
    if tuple(f.column.name for f in fields) != plan.schema.names:
        plan = Project(
            plan,
            tuple(
                zip(distinct_names(f.name for f in fields), (f.column for f in fields), strict=True)
            ),
        )
    query = Query(plan, tuple(f.name for f in fields))
    query = renamed(bind_match(match, query, context), alias_columns(node), node)
    return query.plan, query.scope((node.alias,) if node.alias else ())


def _source(
    node: exp.Expression, context: Context, names: Sequence[str]
) -> tuple[LogicalPlan, Scope]:
    """Binds a relation of FROM without MATCH_RECOGNIZE; `names` are the aliases of its columns, if
    any."""
    refusals.check_clauses(node)
    if isinstance(node, exp.Unnest) or laterals.table_function(node, context.catalog) is not None:
        return laterals.alone(node, context)
    name: tuple[str, ...] = (node.alias,) if node.alias else ()
    match node:
        case exp.Table():
            query, own = _table(node, context)
            name = name or own
        case exp.Subquery() if _is_joined(node.this):
            return _parenthesised(node, context)
        case exp.Subquery():
            query = bind_query(node.this, context)
        case exp.TableFromRows() if function := process_function(node, context.catalog):
            query = bind_process_function(function, node.this, context, _table_argument)
        case exp.TableFromRows() if is_changelog_function(node.this):
            query = bind_changelog_function(node.this, context, _table_argument)
        case exp.TableFromRows() if is_alert_function(node.this):
            query = bind_alert_function(node.this, context, _table_argument)
        case exp.TableFromRows():
            query = windows.bind_table_function(node.this, context, _table_argument)
        case exp.Values():
            query = bind_query(node, context)
        case _:
            raise refusals.of_relation(node)
    query = renamed(query, names, node)
    return query.plan, query.scope(name)


def _is_joined(inner: exp.Expression) -> bool:
    """True if the parentheses hold no query but a relation, perhaps joined to others."""
    if isinstance(inner, exp.Subquery):
        return bool(inner.args.get("joins"))
    return not isinstance(inner, exp.Query | exp.Values)


def _parenthesised(node: exp.Subquery, context: Context) -> tuple[LogicalPlan, Scope]:
    """A relation, or several that are joined, in parentheses; with a name all columns belong to
    that."""
    plan, scope = _joined(node.this, node.this.args.get("joins") or (), context, {})
    if not node.alias:
        return plan, scope
    fields = scope.named
    names = alias_columns(node) or [f.name for f in fields]
    if len(names) != len(fields):
        raise wrong_count(names, [f.name for f in fields], node)
    return plan, Scope(
        tuple(Field((node.alias,), n, f.column) for n, f in zip(names, fields, strict=True))
    )


def _table_argument(node: exp.Expression, context: Context) -> Query:
    """TABLE name or TABLE (query) as argument of a table function; a bare name is a column to the
    parser."""
    if isinstance(node, exp.Subquery):
        return bind_query(node.this, context)
    if isinstance(node, exp.Column):
        parts = [node.args.get(k) for k in ("this", "table", "db")]
        keys = zip(("this", "db", "catalog"), parts, strict=True)
        node = exp.Table(**{k: p.copy() for k, p in keys if p is not None})
    if not isinstance(node, exp.Table):
        raise PlanError(
            "the first argument must be TABLE name or TABLE (query)", position=position_of(node)
        )
    return _table(node, context)[0]


def _table(node: exp.Table, context: Context) -> tuple[Query, tuple[str, ...]]:
    """A common table, a view or a table, and the name by which its columns can be qualified."""
    name = tuple(
        node.args[k].name for k in ("catalog", "db", "this") if node.args.get(k) is not None
    )
    hints = [h for given in node.args.get("hints") or () for h in given.expressions]
    common = context.ctes.get(name[0]) if len(name) == 1 else None
    target = common or context.catalog.get(name)
    if hints and isinstance(target, View | Query):
        hint = "write them behind the names of its tables"
        raise PlanError(
            "hints belong to tables, not to queries", hint=hint, position=position_of(node)
        )
    if isinstance(target, Query):
        return target, name
    if isinstance(target, Table):
        target = with_hints(target, hints, read=True)
        if target.by_key:
            again = node.meta.get(join_hints.RETRIES, {})
            target = replace(target, options={**target.options, **again})
        return query_of_table(target, context), target.name
    if isinstance(target, View):
        if target.broken:
            message = f"the query of view '{target.name[2]}' is not valid any more"
            raise PlanError(
                message,
                detail=target.broken,
                hint="write ALTER VIEW … AS",
                position=position_of(node),
            )
        plan = ordering.of_view(target, context, position_of(node))
        context.write_out(plan, node)
        plan = resalted(plan, context)
        return Query(plan, plan.schema.names), target.name
    raise unknown_table(name, context, node)


def unknown_table(
    name: tuple[str, ...], context: Context, node: exp.Expression | None
) -> UnknownObject:
    catalog = context.catalog
    known = [*context.ctes, *catalog.names(Table), *catalog.names(View)]
    elsewhere = catalog.places_of(name[-1])
    if elsewhere:
        hint: str | None = f"there is {', '.join(elsewhere)}: write its whole name, or USE before"
    else:
        hint = did_you_mean(name[-1], known, "table") if known else "create it first: CREATE TABLE"
    return UnknownObject(
        f"unknown table '{'.'.join(name)}'",
        hint=hint,
        position=position_of(node) if node is not None else None,
    )
