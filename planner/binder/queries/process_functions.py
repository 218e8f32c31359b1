"""Calls of process functions: F(input => TABLE t PARTITION BY k, on_time => DESCRIPTOR(ts), uid =>
'x')."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import Column, DataType
from planner.binder import pool
from planner.binder.expressions.casts import implicit_cast
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.queries.changelog_functions import is_changelog_function
from planner.binder.queries.ordering import check_order
from planner.binder.queries.process_arguments import ON_TIME, Arguments
from planner.binder.queries.process_tables import NUMBER, TIME, BoundTable, common_keys, united
from planner.binder.scope import Context, Place, Query, did_you_mean, distinct_names
from planner.binder.windows.alert_periods import is_alert_function
from planner.binder.windows.over import sort_keys
from planner.binder.windows.table_functions import is_window_function
from planner.catalog import Catalog, Function
from planner.logical import LogicalPlan, ProcessFunction, ProcessTable, Project, TemporalSort
from planner.logical.process_functions import VARYING
from planner.scalar import ColumnRef, Scalar
from udf.casts.coercion import can_assign
from udf.user import Kind, TableParameter, columns_of, type_named

TableArgument = Callable[[exp.Expression, Context], Query]

ROWTIME = "rowtime"


def process_function(node: exp.Expression, catalog: Catalog) -> Function | None:
    """The process function that a relation calls; None for any other relation."""
    called = node.this
    if not isinstance(node, exp.TableFromRows) or not isinstance(called, exp.Anonymous):
        return None
    # Functions of values are no relations, and hide none.
    hidden = any(
        is_own(called) for is_own in (is_window_function, is_changelog_function, is_alert_function)
    )
    path = (*(q.name for q in called.args.get("qualifiers") or ()), called.name)
    function = catalog.function(path, built_in=hidden)
    return function if function is not None and function.user.kind is Kind.PROCESS else None


def bind_process_function(
    function: Function, node: exp.Expression, context: Context, table: TableArgument
) -> Query:
    """The rows that a process function gives: the columns of PARTITION BY (or all that the table
    has), its own, and `rowtime` where `on_time` is given."""
    return _Binder(function, node, context).bound(table)


class _Binder:
    """Binds one call."""

    def __init__(self, function: Function, node: exp.Expression, context: Context) -> None:
        self._function, self._node, self._context = function, node, context
        self._arguments = Arguments(function, node, context)
        self._traits, self._error = self._arguments.traits, self._arguments.error

    def bound(self, table: TableArgument) -> Query:
        tables = self._tables(table)
        timed = tables[0].time is not None
        if self._traits.timed and not timed:
            has = "has timers, and needs" if self._traits.timers else "needs"
            hint = "add on_time => DESCRIPTOR(the column with a WATERMARK)"
            raise self._error(f"{has} to know the time", hint)
        self._check_keys(tables)
        if len(tables) == 1:
            below, shown = self._one(tables[0])
            number: str | None = None
        else:
            below, shown = united(tables)
            number = NUMBER
        return self._call(tables, below, shown, number)

    # ---- tables ----------------------------------------------------------------------------------

    def _tables(self, bind: TableArgument) -> list[BoundTable]:
        times = self._arguments.times
        found = [self._table(parameter, times, bind) for parameter in self._traits.tables]
        unused = set(times) - {t.time.name for t in found if t.time is not None}
        lacking = [t.parameter.name for t in found if t.time is None]
        if times and (unused or lacking):
            what = f"column '{min(unused)}'" if unused else f"table '{lacking[0]}'"
            hint = "name one column of each table, which has a WATERMARK"
            raise self._error(f"has an on_time that does not fit {what}", hint)
        if len({t.time.type.plain for t in found if t.time is not None}) > 1:
            node = self._arguments.given[ON_TIME]
            raise self._error("has times of several types", "CAST them in queries below", node)
        return found

    def _table(
        self, parameter: TableParameter, times: tuple[str, ...], bind: TableArgument
    ) -> BoundTable:
        node = self._arguments.given.get(parameter.name)
        if node is None:
            raise self._error(f"lacks its table '{parameter.name}'", None)
        if not isinstance(node, exp.Table | exp.Subquery | exp.Column):
            hint = f"write {parameter.name} => TABLE t PARTITION BY k"
            raise self._error(f"takes a table as '{parameter.name}'", hint, node)
        query = bind(node, self._context)
        if query.plan.changes:
            raise UnsupportedError(
                f"'{self._function.display}' takes rows that only come, but those of"
                f" '{parameter.name}' are updated",
                detail="SUPPORT_UPDATES is not there: a process function sees new rows",
                hint="call it before rows are aggregated or joined, or read TO_CHANGELOG",
                position=position_of(node),
            )
        keys, time = self._keys(node, query), self._time(query, times)
        if node.args.get("order") is not None:
            query = self._ordered(node, query, time)
        return BoundTable(parameter, query, keys, time, node)

    def _ordered(self, node: exp.Expression, query: Query, time: ColumnRef | None) -> Query:
        """The rows of a table in the order that the call asks for: by a time first."""

        def column(item: exp.Expression) -> str:
            value = bind_scalar(item, Place(self._context, query.scope(()), "ORDER BY"))
            if not isinstance(value, ColumnRef):
                hint = "compute it in a query below"
                raise self._error("takes columns in the ORDER BY of its table", hint, item)
            return value.name

        order = sort_keys(node.args["order"], column)
        if time is not None and order[0].column != time.name:
            hint = f"write ORDER BY {time.name}"
            raise self._error("is ordered by another column than that of on_time", hint, node)
        sort = TemporalSort(query.plan, order)
        check_order(sort, position_of(node.args["order"]))
        return Query(sort, query.names)

    def _keys(self, node: exp.Expression, query: Query) -> tuple[ColumnRef, ...]:
        partition = node.args.get("partition")
        keys = []
        for key in partition.expressions if partition is not None else ():
            value = bind_scalar(key, Place(self._context, query.scope(()), "PARTITION BY"))
            if not isinstance(value, ColumnRef):
                raise PlanError(
                    "PARTITION BY of a process function takes columns",
                    hint="compute it in a query below",
                    position=position_of(key),
                )
            keys.append(value)
        return tuple(keys)

    def _time(self, query: Query, times: tuple[str, ...]) -> ColumnRef | None:
        named = [n for n in times if n in query.names]
        if not named:
            return None
        column = query.plan.schema.columns[query.names.index(named[0])]
        fits = column.type.is_timestamp if self._context.batch else column.type.is_rowtime
        if not fits:
            hint = "declare WATERMARK FOR column AS … in CREATE TABLE"
            node = self._arguments.given[ON_TIME]
            raise self._error(f"needs a time attribute, but '{named[0]}' is none", hint, node)
        return pool.column(column.name, column.type)

    def _check_keys(self, tables: Sequence[BoundTable]) -> None:
        first = tables[0]
        for table in tables:
            name = table.parameter.name
            needed = self._traits.remembers and not self._traits.keyless
            if not table.keys and (needed or first.keys):
                hint = f"write {name} => TABLE t PARTITION BY k"
                raise self._error(f"needs PARTITION BY for its table '{name}'", hint, table.node)
            kinds = [k.type.plain for k in table.keys]
            if kinds != [k.type.plain for k in first.keys]:
                raise self._error(
                    f"is called with tables whose keys differ: '{first.parameter.name}' and"
                    f" '{name}'",
                    "PARTITION BY columns of the same types, in the same order",
                    table.node,
                )

    # ---- the plan --------------------------------------------------------------------------------

    def _one(self, table: BoundTable) -> tuple[LogicalPlan, list[tuple[str, str]]]:
        """The rows of the only table, with what the function asks for behind them; the columns that
        go on, each with its name in the text."""
        plan, names = (
            table.query.plan,
            dict(zip(table.query.plan.schema.names, table.query.names, strict=True)),
        )
        shown = plan.schema.names if self._traits.passes_columns else [k.name for k in table.keys]
        return plan, [(n, names[n]) for n in dict.fromkeys(shown)]

    def _call(
        self,
        tables: Sequence[BoundTable],
        below: LogicalPlan,
        shown: list[tuple[str, str]],
        number: str | None,
    ) -> Query:
        user, time = self._function.user, tables[0].time
        made, below = self._row_columns(tables, below, several=number is not None)
        names = (*(name for _, name in shown), *(name for name, _ in columns_of(user)))
        kinds = (
            *(below.schema.type(n) for n, _ in shown),
            *(kind.plain for _, kind in columns_of(user)),
        )
        at = None if time is None else TIME if number is not None else time.name
        if time is not None:
            names, kinds = (*names, ROWTIME), (*kinds, time.type.with_nullable(False))
        fresh = distinct_names(names)
        own = (k.name for k in tables[0].keys)
        keys = tuple(own) if number is None else tuple(common_keys(tables[0]))
        uid = self._arguments.uid
        # Calls of one uid are one, whatever they give: there is one memory.
        salt = f"{self._context.job}/{uid}" if uid else self._context.salt((VARYING,))
        plan = ProcessFunction(
            below,
            user.identity,
            self._function.display,
            tuple(self._arguments.scalars()),
            made,
            keys,
            at,
            uid,
            tuple(n for n, _ in shown),
            tuple(Column(n, k) for n, k in zip(fresh, kinds, strict=True)),
            self._memory(),
            number,
            self._traits.timers,
            "" if user.deterministic else salt,
            self._traits.views,
            position_of(self._node),
            ttl_ms=self._traits.ttl_ms,
        )
        return Query(plan, fresh)

    def _memory(self) -> str:
        parts = (self._traits.state, "timers" if self._traits.timers else "")
        return " and ".join(p for p in parts if p)

    def _row_columns(
        self, tables: Sequence[BoundTable], below: LogicalPlan, *, several: bool
    ) -> tuple[tuple[ProcessTable, ...], LogicalPlan]:
        """The columns that rows are made of, cast as the function asks."""
        own: dict[str, Scalar] = {}
        made = []
        for number, table in enumerate(tables):
            names = dict(zip(table.query.names, table.query.plan.schema.names, strict=True))
            prefix = f"{number}." if several else ""
            columns: list[tuple[str, str]] = []
            wanted = table.parameter.columns
            for name, kind in wanted if wanted is not None else ((n, None) for n in names):
                if name not in names:
                    hint = did_you_mean(name, list(names), "column")
                    what = f"needs a column '{name}' of '{table.parameter.name}'"
                    raise self._error(what, hint, table.node)
                column = prefix + names[name]
                if kind is not None:
                    column = self._cast(below, column, type_named(kind), table.node, own)
                columns.append((column, name))
            made.append(ProcessTable(table.parameter.name, tuple(columns)))
        if own:
            items = [(c.name, pool.column(c.name, c.type)) for c in below.schema]
            below = Project(below, (*items, *own.items()))
        return tuple(made), below

    def _cast(
        self,
        below: LogicalPlan,
        column: str,
        wanted: DataType,
        node: exp.Expression,
        own: dict[str, Scalar],
    ) -> str:
        """The column as a parameter's field has it: itself, or one that is computed for it."""
        given = below.schema.type(column)
        if given.plain.same_as(wanted.with_nullable(True)):
            return column
        if not can_assign(given.plain, wanted):
            raise self._error(
                f"takes {wanted.plain} as column '{column}', but it is {given.plain}",
                f"CAST it in a query: TABLE (SELECT CAST({column} AS {wanted.plain}) …)",
                node,
            )
        name = f"{column}:{wanted.plain}"
        own[name] = implicit_cast(
            pool.column(column, given), wanted.with_nullable(given.nullable), node
        )
        return name
