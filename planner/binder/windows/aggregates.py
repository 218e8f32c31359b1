"""Binds GROUP BY: the projection below the aggregate, the aggregate, and the expressions above
it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from parser.types import BIGINT, DataType, TimeAttribute
from planner.analysis import two_step_windows
from planner.binder import pool, refusals
from planner.binder.expressions.calls import function_call, time_kept, user_arguments
from planner.binder.expressions.scalars import bind_condition, bind_scalar
from planner.binder.queries import grouping_sets, nullability
from planner.binder.queries.aggregate_calls import aggregate_argument, of_all_rows, user_aggregate
from planner.binder.scope import Context, Place, Scope, distinct_names
from planner.binder.subqueries.expressions import GroupedSubqueries, Subqueries
from planner.binder.windows import group_windows, tvf_aggregates
from planner.binder.windows.aggregate_input import AggregateInput
from planner.binder.windows.over import OverCalls
from planner.catalog import Function, Table
from planner.logical import (
    WINDOW_COLUMNS,
    AggregateCall,
    AlignedWindow,
    Expand,
    Filter,
    GroupAggregate,
    LogicalPlan,
    Project,
    Session,
    Window,
    WindowBound,
    window_columns,
)
from planner.rewrite import replace_where
from planner.scalar import Call, ColumnRef, Literal, Scalar, columns_of
from planner.settings import late_table_name
from udf.aggregates.registry import bind_aggregate

# GROUPING and the like.
_MARK = BIGINT.with_nullable(False)


class Grouping:
    """Binds one query with GROUP BY.

    Expressions of its select list and HAVING are bound first, which finds the aggregates; `plan`
    then returns the input of the select list."""

    def __init__(
        self,
        node: exp.Select,
        plan: LogicalPlan,
        scope: Scope,
        context: Context,
        overs: OverCalls,
        subqueries: Subqueries,
    ) -> None:
        self.input = AggregateInput(plan)
        self.overs = overs
        self.context = context
        self.subqueries = subqueries
        # Subqueries in keys and arguments, below the aggregate.
        self.inside = Subqueries(scope, context, subqueries.bind_query, "inside")
        grouped = GroupedSubqueries(self.inside, subqueries)
        self.place = Place(context, scope, "SELECT", self._special, grouped)
        self.keys: list[str] = []
        # The digest of a grouped expression -> the aggregate's column.
        self.grouped: dict[str, ColumnRef] = {}
        self.legacy: Window | None = None
        self.window: list[str] = []
        # The columns that each grouping set groups by.
        self.sets: list[frozenset[str]] = []
        # Columns with one value for each set: GROUPING and the like.
        self.marks: dict[str, list[int]] = {}
        self.position = position_of(node.args.get("group") or node)
        self._group(node)

    def bind(self, node: exp.Expression) -> Scalar:
        return self.above(bind_scalar(node, self.place), node)

    def above(self, value: Scalar, node: exp.Expression) -> Scalar:
        """Replaces grouped expressions by the aggregate's columns.

        PlanError for a column of the input that is left: it is not grouped by. The aggregate's
        other columns have names that the input does not have."""
        replace_in = nullability.replaced if len(self.sets) > 1 else replace_where
        replaced = replace_in(value, lambda e: self.grouped.get(e.digest))
        known = (
            self.input.results
            | self.overs.names
            | self.subqueries.names
            | {c.name for c in self.grouped.values()}
        )
        unknown = columns_of(replaced) - known
        if unknown:
            raise refusals.not_grouped(min(unknown), node)
        return replaced

    def plan(self, having: exp.Expression | None) -> LogicalPlan:
        """Returns projection, aggregate, HAVING."""
        predicate = None
        if having is not None:
            predicate = self.above(bind_condition(having.this, self.place), having)
        below = self.inside.join(self.input.plan)
        items = (*self.input.columns.items(), *self._late_columns(below))
        if items:
            below = group_windows.narrowed(below, items) if self.legacy is not None else below
            below = Project(below, items, self.context.salt(self.input.salted))
        plan = self.subqueries.join(
            self._aggregated(below), lambda e: self.above(e, having or exp.Select())
        )
        if predicate is None:
            return plan
        return Filter(plan, predicate, self.context.salt((predicate,)))

    def _late_columns(self, below: LogicalPlan) -> Iterator[tuple[str, Scalar]]:
        """Yields columns that the aggregate does not read, but the table of its late rows has."""
        name = late_table_name(self.context.settings)
        table = self.context.catalog.get(name) if name and self.window else None
        for column in table.schema.names if isinstance(table, Table) else ():
            if column in below.schema and column not in self.input.columns:
                yield column, pool.column(column, below.schema.type(column))

    def _aggregated(self, below: LogicalPlan) -> LogicalPlan:
        keys, calls = tuple(self.keys), tuple(self.input.calls.values())
        if len(self.sets) > 1:
            below, calls = self._expanded(below, calls)
            keys = (*keys, *self.marks)
        if self.window:
            start, end, time = self.window
            try:
                if self.legacy is not None:
                    return group_windows.legacy_aggregate(
                        below, keys, calls, (start, end, time), self.legacy, self.context
                    )
                group_windows.check_no_early_or_late_fire(self.context)
                made = tvf_aggregates.aggregated(
                    below, keys, calls, (start, end, time), self.context.batch
                )
                return two_step_windows.mark_two_step_windows(made)
            except PlanError as error:
                raise error.at(self.position) from None
        return GroupAggregate(below, keys, calls)

    def _expanded(
        self, below: LogicalPlan, calls: tuple[AggregateCall, ...]
    ) -> tuple[LogicalPlan, tuple[AggregateCall, ...]]:
        """Returns each row once for each grouping set, with NULL in the columns that the set does
        not group by.

        Calls read copies of these columns, which keep their values."""
        read = {n: self.input.fresh(n) for c in calls for n in c.columns if n in self.keys}
        calls = tuple(
            replace(c, argument=_of(read, c.argument), filter_column=_of(read, c.filter_column))
            for c in calls
        )
        self._mark("set", list(range(len(self.sets))))
        copies = tuple((copy, name) for name, copy in read.items())
        marks = tuple((name, tuple(values)) for name, values in self.marks.items())
        return Expand(below, tuple(self.keys), tuple(self.sets), copies, marks), calls

    def _mark(self, prefix: str, values: list[int]) -> ColumnRef:
        name = self.input.fresh(prefix)
        self.marks[name] = values
        self.input.results.add(name)
        return pool.column(name, _MARK)

    def _group(self, node: exp.Select) -> None:
        """Binds the expressions of GROUP BY: the window, the keys, and the grouping sets."""
        sets = grouping_sets.sets_of(node.args.get("group"))
        expressions = list({id(e): e for s in sets for e in s}.values())
        # As in Flink: an empty set among others makes no result NULL in type.
        self.grouped_by_all = not any(sets)
        windows = [e for e in expressions if group_windows.is_group_window(e)]
        if windows:
            self._group_window(windows)
        place = self._within("GROUP BY")
        plain = [e for e in expressions if not group_windows.is_group_window(e)]
        bound = {id(e): bind_scalar(e, place) for e in plain}
        digests = [frozenset(bound[id(e)].digest for e in s if id(e) in bound) for s in sets]
        values = list(bound.values())
        if not windows:
            shared = [v for v in values if _in_all(v, digests)]
            self._table_window(shared, single=len(sets) == 1)
        self._keys(values, digests)
        self.sets = self._named_sets(digests)

    def _named_sets(self, digests: Sequence[frozenset[str]]) -> list[frozenset[str]]:
        """Returns the grouping sets by names of columns, in Flink's order, whatever that of the
        text."""
        names = {digest: column.name for digest, column in self.grouped.items()}
        grouped = [frozenset(names[d] for d in group if d in names) for group in digests]
        return sorted(grouped, key=lambda s: tuple(k not in s for k in self.keys))

    def _keys(self, values: Sequence[Scalar], sets: Sequence[frozenset[str]]) -> None:
        """Makes keys of the grouped values; `sets`: the digests of those in each grouping set."""
        for value in values:
            if not isinstance(value, Literal) and value.digest not in self.grouped:
                self._key(value, everywhere=_in_all(value, sets))
        if values and len(sets) == 1 and not (self.grouped or self.window):
            # Groups by literals alone: no group is there without rows, as it is for an aggregate of
            # all rows.
            self._key(values[0], everywhere=True)

    def _group_window(self, windows: list[exp.Expression]) -> None:
        """Binds TUMBLE(time, size) of GROUP BY; PlanError for several windows."""
        if len(windows) > 1:
            raise PlanError("a query groups by one window", position=position_of(windows[1]))
        self.legacy = self._named_window(windows[0].name.upper(), windows[0])
        names = distinct_names(WINDOW_COLUMNS, self.input.plan.schema.names)
        if isinstance(self.legacy, Session):
            time = self.legacy.time_column
            self.window = list(names)
            self.input.forward(time)
            return
        assert isinstance(self.legacy, AlignedWindow)
        self.input.plan = group_windows.legacy_plan(self.input.plan, self.legacy, names)
        self._read_window(list(names))

    def _table_window(self, bound: list[Scalar], *, single: bool) -> None:
        """Groups by the window of a table function below, if its start and end are grouped.

        `single`: there is one grouping set."""
        known = self.input.plan.window_properties
        columns = [value for value in bound if isinstance(value, ColumnRef)]
        if known is None or known.start_and_end([c.name for c in columns]) is None:
            return
        if not tvf_aggregates.fits_sessions(self.input.plan, bound, single):
            return
        first = known.first_bounds(c.name for c in columns)
        names = []
        for which in WindowBound:
            name = first.get(which)
            if name is None:
                self.input.plan, name = tvf_aggregates.with_bound(self.input.plan, which)
            names.append(name)
        self._read_window(names)
        for column in columns:
            if column.name in known.bounds:
                name = names[known.bounds[column.name]]
                self.grouped[column.digest] = pool.column(name, column.type)

    def _read_window(self, names: list[str]) -> None:
        self.window = names
        for name in names:
            self.input.forward(name)

    def _key(self, value: Scalar, *, everywhere: bool) -> None:
        """Groups by a value. `everywhere`: all grouping sets do; where one does not, the key is
        NULL."""
        name = self.input.column(value, "key")
        self.keys.append(name)
        kind = value.type if everywhere else value.type.with_nullable(True)
        self.grouped[value.digest] = pool.column(name, kind)

    def _special(self, node: exp.Expression) -> Scalar | None:
        """Returns the aggregate's column for an aggregate or a bound of the group window; None for
        others."""
        if isinstance(node, exp.Window):
            return self.overs.column(node, self.bind)
        condition = None
        call = node
        if isinstance(node, exp.Filter):
            call, condition = node.this, node.args["expression"].this
        name = call.name.upper()
        user = user_aggregate(call, self.context.catalog)
        if user is not None:
            return self._user_aggregate(user, call, condition)
        if name in refusals.AGGREGATES:
            return self._aggregate(call, condition)
        if name in grouping_sets.FUNCTIONS and condition is None:
            return self._grouping(name, call)
        bound = group_windows.bound_of(name)
        if bound is not None and self.legacy is not None and condition is None:
            return self._bound(*bound, call)
        return None

    def _grouping(self, name: str, node: exp.Expression) -> Scalar:
        place = Place(self.context, self.place.scope, name)
        columns = []
        for argument in node.expressions:
            column = self.grouped.get(bind_scalar(argument, place).digest)
            if column is None:
                raise PlanError(
                    f"the argument of {name} is not grouped by", position=position_of(argument)
                )
            columns.append(column.name)
        if bool(columns) is (name == "GROUP_ID"):
            raise PlanError(
                f"{name} takes {'no' if columns else 'grouped'} columns", position=position_of(node)
            )
        values = grouping_sets.marks(name, columns, self.sets)
        if len(self.sets) == 1:
            return Literal(values[0], _MARK)
        known = next(
            (n for n, marks in self.marks.items() if marks == values and n.startswith("mark")), None
        )
        return self._mark("mark", values) if known is None else pool.column(known, _MARK)

    def _bound(self, window: str, role: int, node: exp.Expression) -> Scalar:
        named = self._named_window(window, node)
        if named != self.legacy:
            raise PlanError(
                f"{node.name} names another window than GROUP BY does", position=position_of(node)
            )
        if role == group_windows.PROCTIME_ROLE:
            return function_call("PROCTIME", (), node)
        column = window_columns(self.input.plan.schema, named.time_column, self.window)[role]
        if role == group_windows.ROWTIME_ROLE and column.type.is_proctime:
            hint = f"use {window}_PROCTIME"
            raise PlanError(
                "a window of processing time has no row time", hint=hint, position=position_of(node)
            )
        self.input.results.add(column.name)
        if role == group_windows.ROWTIME_ROLE:  # as in Flink, TUMBLE_ROWTIME may be NULL
            return pool.column(column.name, column.type.with_nullable(True))
        return pool.column(column.name, column.type)

    def _within(self, clause: str) -> Place:
        """A place below the aggregate."""
        return Place(self.context, self.place.scope, clause, subqueries=self.inside)

    def _named_window(self, window: str, node: exp.Expression) -> Window:
        return group_windows.group_window(
            window, node, Place(self.context, self.place.scope, "GROUP BY")
        )

    def _aggregate(self, node: exp.Expression, condition: exp.Expression | None) -> Scalar:
        name, argument = of_all_rows(*aggregate_argument(node, self._within("an aggregate")))
        if argument is not None and len(self.sets) > 1:
            argument = nullability.of_sets(
                argument, frozenset(c.name for c in self.grouped.values() if c.type.nullable)
            )
        kinds = [] if argument is None else [argument.type.as_attribute(TimeAttribute.NONE)]
        try:
            result = bind_aggregate(
                name, kinds, grouped=condition is None and not self.grouped_by_all
            ).result_type
        except PlanError as error:
            raise error.at(position_of(node)) from None
        shown = result if argument is None else time_kept(name, argument, result)
        return self._call(name, argument, shown, condition)

    def _user_aggregate(
        self, function: Function, node: exp.Expression, condition: exp.Expression | None
    ) -> Scalar:
        """Several arguments travel as one ROW."""
        refusals.check_arguments(node)
        args, _, result = user_arguments(function, node, self._within("an aggregate"))
        user = function.user
        if not user.deterministic:
            self.input.varying.append(Call(user.identity, args, result, False))
        packed = len(user.parameters) > 1 or user.variadic
        argument = function_call("ROW", args, node) if packed else args[0] if args else None
        return self._call(user.identity, argument, result, condition)

    def _call(
        self, name: str, argument: Scalar | None, result: DataType, condition: exp.Expression | None
    ) -> Scalar:
        place = self._within("FILTER")
        predicate = None if condition is None else bind_condition(condition, place)
        return self.input.call(name, argument, result, predicate)


def _in_all(value: Scalar, sets: Sequence[frozenset[str]]) -> bool:
    """Returns True if the value is in every grouping set, by digests."""
    return all(value.digest in s for s in sets)


def _of(copies: Mapping[str, str], name: str | None) -> str | None:
    return None if name is None else copies.get(name, name)


class Ungrouped:
    """A query without GROUP BY: its select list is bound over the input itself."""

    def __init__(
        self, scope: Scope, context: Context, overs: OverCalls, subqueries: Subqueries
    ) -> None:
        self.place = Place(context, scope, "SELECT", self._special, subqueries)
        self._overs = overs

    def bind(self, node: exp.Expression) -> Scalar:
        return bind_scalar(node, self.place)

    def above(self, value: Scalar, node: exp.Expression) -> Scalar:
        return value

    def _special(self, node: exp.Expression) -> Scalar | None:
        return self._overs.column(node, self.bind) if isinstance(node, exp.Window) else None
