"""ORDER BY, LIMIT, FETCH and OFFSET at the end of a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, Position, UnsupportedError
from planner.analysis.top_n import rewrite_top_n
from planner.binder import pool, refusals
from planner.binder.scope import Context, Query, distinct_names
from planner.binder.windows.over import sort_keys
from planner.catalog import View
from planner.logical import LogicalPlan, Materialize, Project, Rank, SortKey, TemporalSort
from planner.logical.ranks import MAX_RANK
from planner.rewrite import nodes, replace_where
from planner.scalar import ColumnRef, Scalar, columns_of

# How the columns are called that an order computes and the query does not give.
HIDDEN = "sort$"


@dataclass
class Ordering:
    """ORDER BY of one query over its columns `names`. `hidden` are columns that it sorts by and
    does not give. `batch`: any order will do, since all rows are there before the first goes out.
    `inside`: the query stands in another one, to which its rows have no order; it orders only to
    cut. `kept`: it is a view's, whose order is checked where it is read."""

    node: exp.Expression
    names: Sequence[str]
    values: Sequence[Scalar]
    hidden: dict[str, Scalar] = field(default_factory=dict)
    keys: tuple[SortKey, ...] = ()
    batch: bool = False
    inside: bool = False
    kept: bool = False

    def bind(self, bind: Callable[[exp.Expression], Scalar]) -> None:
        """Finds the keys: a column by its name or number, or any expression. A name means what
        SELECT calls so, before any column of its input. PlanError where SELECT calls several
        columns so. An order that nothing reads is forgotten once its names are known to be
        right."""
        columns = distinct_names(self.names)

        def column(item: exp.Expression) -> str:
            if isinstance(item, exp.Literal) and not item.is_string and item.name.isdigit():
                if not 1 <= int(item.name) <= len(columns):
                    raise PlanError(
                        f"ORDER BY {item.name} names no column", position=position_of(item)
                    )
                return columns[int(item.name) - 1]
            # A name is looked for in SELECT first, and there it must be one column.
            self._check_names(item)
            if isinstance(item, exp.Column) and not item.table and item.name in self.names:
                return columns[list(self.names).index(item.name)]
            return self._column(bind(_with_selected(item, self.node)), columns)

        self.keys = sort_keys(self.node.args.get("order"), column)
        # Above a DISTINCT only selected columns are left to sort by.
        if isinstance(self.node, exp.Select) and self.node.args.get("distinct"):
            self._computed_above()
        if self.inside and not self._cuts():
            self.keys, self.hidden = (), {}

    def _cuts(self) -> bool:
        return _number(self.node, "limit") is not None or bool(_number(self.node, "offset"))

    def _check_names(self, item: exp.Expression) -> None:
        own = item.find_ancestor(exp.Query)
        # Names inside a subquery of the item belong to that subquery.
        for part in item.find_all(exp.Column):
            if (
                not part.table
                and self.names.count(part.name) > 1
                and part.find_ancestor(exp.Query) is own
            ):
                hint = "give each column its own name with AS"
                raise PlanError(
                    f"column '{part.name}' is ambiguous", hint=hint, position=position_of(part)
                )

    def _computed_above(self) -> None:
        """Makes the hidden columns ones of what the query gives. PlanError where that does not tell
        them."""
        of = dict(zip((v.digest for v in self.values), distinct_names(self.names), strict=True))

        def selected(value: Scalar) -> Scalar | None:
            return pool.column(of[value.digest], value.type) if value.digest in of else None

        for name, value in self.hidden.items():
            self.hidden[name] = replace_where(value, selected)
            if not columns_of(self.hidden[name]) <= {*of.values()}:
                message = "ORDER BY of SELECT DISTINCT names what is not selected"
                raise PlanError(message, position=position_of(self.node.args["order"]))

    def _column(self, value: Scalar, columns: Sequence[str]) -> str:
        # An expression that SELECT has, too, needs no hidden column.
        for name, known in (*zip(columns, self.values, strict=True), *self.hidden.items()):
            if known.digest == value.digest:
                return name
        (name,) = distinct_names([f"{HIDDEN}{len(self.hidden)}"], [*columns, *self.hidden])
        self.hidden[name] = value
        return name

    def applied(self, query: Query) -> Query:
        """The query (hidden columns behind its own) in order, cut to what LIMIT and OFFSET
        leave."""
        plan = self._ordered(query.plan)
        if self.hidden:
            own = query.plan.schema.names[: len(query.names)]
            plan = Project(plan, tuple((n, pool.column(n, plan.schema.type(n))) for n in own))
        return query if plan is query.plan else Query(plan, query.names)

    def _ordered(self, plan: LogicalPlan) -> LogicalPlan:
        limit, offset = _number(self.node, "limit"), _number(self.node, "offset")
        if self.batch:
            return self._in_batch(plan, limit, offset or 0)
        if limit is not None:
            start = (offset or 0) + 1
            # `start` counts from 1, and `end` is included; MAX_RANK keeps the sum within bounds.
            return _first(plan, self.keys, start, min(start - 1 + limit, MAX_RANK))
        if offset or (self.keys and offset is not None):
            position = position_of(self.node.args["offset"])
            raise UnsupportedError(
                "OFFSET without LIMIT is not supported", hint="add LIMIT", position=position
            )
        if not self.keys:
            return plan
        sorted_plan = TemporalSort(rewrite_top_n(plan), self.keys)
        if not self.kept:
            check_order(sorted_plan, position_of(self.node.args["order"]))
        return sorted_plan

    def _in_batch(self, plan: LogicalPlan, limit: int | None, offset: int) -> LogicalPlan:
        end = None if limit is None else offset + limit
        if not self.keys and not offset and end is None:
            return plan
        return Materialize(plan, self.keys, offset + 1, end)


def check_order(sort: TemporalSort, position: Position | None) -> None:
    """PlanError where a stream cannot be in this order."""
    first = sort.order[0]
    items = dict(sort.input.items) if isinstance(sort.input, Project) else {}
    shown = (
        items.get(first.column, first.column) if first.column.startswith(HIDDEN) else first.column
    )
    kind = sort.input.schema.type(first.column)
    if first.descending or not (kind.is_rowtime or kind.is_proctime):
        raise PlanError(
            "ORDER BY over a stream must begin with a time attribute, ascending",
            detail=f"it begins with {shown}, which is {kind}",
            hint="add LIMIT for the first rows of another order",
            position=position,
        )
    if sort.input.changes:
        detail = "rows of its input are updated or go"
        raise PlanError(
            "ORDER BY a time needs rows that are only added", detail=detail, position=position
        )


def _first(plan: LogicalPlan, keys: tuple[SortKey, ...], start: int, end: int) -> LogicalPlan:
    """The first rows of the order. Of rows that change they are taken before columns are left out:
    the others may tell which row is which."""
    items = dict(plan.items) if isinstance(plan, Project) else {}
    columns = {name: e.name for name, e in items.items() if isinstance(e, ColumnRef)}
    if not plan.changes or not keys or not items or len(columns) < len(items):
        return Rank(plan, (), keys, start, end, limits=True)
    below = tuple(replace(k, column=columns[k.column]) for k in keys)
    # Columns that are left out tell rows apart, so the rank stands below the projection.
    return plan.with_inputs((Rank(plan.inputs[0], (), below, start, end, limits=True),))


def _with_selected(item: exp.Expression, node: exp.Expression) -> exp.Expression:
    """The item with what SELECT calls by a name in the place of that name, subqueries left out. In
    an aggregate a name of another aggregate is one of the input's columns."""
    # By name in SELECT; what has no name there cannot be meant.
    selected = node.expressions if isinstance(node, exp.Select) else ()
    named = {
        e.alias_or_name: e.unalias() for e in selected if isinstance(e, exp.Alias | exp.Column)
    }
    root = exp.Paren(this=item.copy())
    # A copy in a list, since the tree changes on the way.
    for part in list(root.find_all(exp.Column)):
        meant = named.get(part.name)
        if meant is None or part.table or part.find_ancestor(exp.Query) is not None:
            continue
        # SUM(x) in ORDER BY, where x is an aggregate itself: x means the input's column.
        if not (_is_aggregated(part) and any(map(_is_aggregate, meant.find_all(exp.Anonymous)))):
            part.replace(exp.Paren(this=meant.copy()))
    replaced_root: exp.Expression = root.this
    return replaced_root


def _is_aggregated(part: exp.Expression) -> bool:
    """True if the part stands in an aggregate that is not over a window."""
    around = part.find_ancestor(exp.Anonymous)
    while around is not None and (
        not _is_aggregate(around) or isinstance(around.parent, exp.Window)
    ):
        around = around.find_ancestor(exp.Anonymous)
    return around is not None


def _is_aggregate(call: exp.Expression) -> bool:
    return call.name.upper() in refusals.AGGREGATES


def of_view(view: View, context: Context, position: Position | None) -> LogicalPlan:
    """A view's plan, as a query reads it: without its order where the query does not give its rows
    as they are, and the view shows what it orders by. PlanError where an order that stays is none
    for a stream."""
    plan = view.plan.inputs[0] if context.inside and view.ordered else view.plan
    if not (context.of_view or context.batch):
        for sort in (n for n in nodes(plan) if isinstance(n, TemporalSort)):
            check_order(sort, position)
    return plan


def is_only_ordered(node: exp.Expression, plan: LogicalPlan) -> bool:
    """True if the top of the query's plan is its own ORDER BY alone, without a limit."""
    while isinstance(node, exp.Subquery):
        node = node.this
    cuts = isinstance(plan, Materialize) and (plan.start, plan.end) != (1, None)
    return (
        is_ordered(node)
        and isinstance(plan, TemporalSort | Materialize)
        and bool(plan.order)
        and not cuts
    )


def is_ordered(node: exp.Expression) -> bool:
    """True if the query has ORDER BY, LIMIT or OFFSET."""
    return any(node.args.get(k) is not None for k in ("order", "limit", "offset"))


def _number(node: exp.Expression, clause: str) -> int | None:
    clause_node = node.args.get(clause)
    if clause_node is None:
        return None
    value = clause_node.args.get("expression")
    if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit():
        raise PlanError(f"{clause.upper()} takes a whole number", position=position_of(clause_node))
    return int(value.name)
