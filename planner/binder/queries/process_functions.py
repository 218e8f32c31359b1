"""Calls of process functions: F(input => TABLE t PARTITION BY k, on_time => DESCRIPTOR(ts), uid =>
'x')."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import Column, DataType
from planner.binder import pool
from planner.binder.expressions.casts import implicit_cast
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.queries.changelog_functions import is_changelog_function
from planner.binder.queries.process_tables import NUMBER, TIME, BoundTable, common_keys, united
from planner.binder.scope import Context, Place, Query, Scope, did_you_mean, distinct_names
from planner.binder.windows.alert_periods import is_alert_function
from planner.binder.windows.table_functions import is_window_function
from planner.catalog import Catalog, Function
from planner.logical import LogicalPlan, ProcessFunction, ProcessTable, Project
from planner.logical.process_functions import VARYING
from planner.passes.constant_folding import folded
from planner.scalar import ColumnRef, Literal, Scalar
from udf.casts.coercion import can_assign
from udf.user import Kind, Parameter, ProcessTraits, TableParameter, columns_of, type_named

TableArgument = Callable[[exp.Expression, Context], Query]

_ON_TIME, _UID, ROWTIME = "on_time", "uid", "rowtime"
_UID_FORM: Final = re.compile(r"[a-zA-Z_][a-zA-Z-_0-9]*")


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
        assert function.user.process is not None
        self._function, self._node, self._context = function, node, context
        self._traits: ProcessTraits = function.user.process
        self._given = self._by_name(node.expressions)

    def bound(self, table: TableArgument) -> Query:
        tables = self._tables(table)
        timed = tables[0].time is not None
        if self._traits.timers and not timed:
            hint = "add on_time => DESCRIPTOR(the column with a WATERMARK)"
            raise self._error("has timers, and needs to know the time", hint)
        self._check_keys(tables)
        if len(tables) == 1:
            below, shown = self._one(tables[0])
            number: str | None = None
        else:
            below, shown = united(tables)
            number = NUMBER
        return self._call(tables, below, shown, number)

    # ---- arguments -------------------------------------------------------------------------------

    def _error(self, what: str, hint: str | None, node: exp.Expression | None = None) -> PlanError:
        return PlanError(
            f"'{self._function.display}' {what}",
            hint=hint or f"it is {self._signature}",
            position=position_of(node or self._node),
        )

    @property
    def _signature(self) -> str:
        tables = (f"{t.name} => TABLE t PARTITION BY k" for t in self._traits.tables)
        scalars = (f"{p.name} => {p.type}" for p in self._function.user.parameters)
        system = (f"{_ON_TIME} => DESCRIPTOR(ts)", f"{_UID} => 'name'")
        return f"{self._function.display}({', '.join((*tables, *scalars, *system))})"

    def _by_name(self, nodes: Sequence[exp.Expression]) -> Mapping[str, exp.Expression]:
        tables = (t.name for t in self._traits.tables)
        scalars = (p.name for p in self._function.user.parameters)
        names = (*tables, *scalars, _ON_TIME, _UID)
        given: dict[str, exp.Expression] = {}
        for place, node in enumerate(nodes):
            named = isinstance(node, exp.Kwarg)
            if not named and any(isinstance(n, exp.Kwarg) for n in nodes):
                raise self._error("is called with arguments by name and by place", None, node)
            if not named and place >= len(names):
                raise self._error("has too many arguments", None, node)
            name = node.this.name if named else names[place]
            if name not in names:
                hint = did_you_mean(name, names, "argument")
                raise self._error(f"has no argument '{name}'", hint, node)
            if name in given:
                raise self._error(f"has the argument '{name}' twice", None, node)
            value = node.args["expression"] if named else node
            if not _is_default(value):
                given[name] = value
        return given

    def _tables(self, bind: TableArgument) -> list[BoundTable]:
        times = self._times()
        found = [self._table(parameter, times, bind) for parameter in self._traits.tables]
        unused = set(times) - {t.time.name for t in found if t.time is not None}
        lacking = [t.parameter.name for t in found if t.time is None]
        if times and (unused or lacking):
            what = f"column '{min(unused)}'" if unused else f"table '{lacking[0]}'"
            hint = "name one column of each table, which has a WATERMARK"
            raise self._error(f"has an on_time that does not fit {what}", hint)
        return found

    def _times(self) -> tuple[str, ...]:
        node = self._given.get(_ON_TIME)
        if node is None:
            return ()
        named = isinstance(node, exp.Anonymous) and node.name.upper() == "DESCRIPTOR"
        if not named or not all(isinstance(e, exp.Column) for e in node.expressions):
            raise self._error("takes on_time => DESCRIPTOR(column)", None, node)
        return tuple(e.name for e in node.expressions)

    def _table(
        self, parameter: TableParameter, times: tuple[str, ...], bind: TableArgument
    ) -> BoundTable:
        node = self._given.get(parameter.name)
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
        if node.args.get("order"):
            hint = "leave it out: rows come in their order"
            raise UnsupportedError(
                "ORDER BY of a table of a process function is not supported",
                hint=hint,
                position=position_of(node),
            )
        return BoundTable(parameter, query, self._keys(node, query), self._time(query, times), node)

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
            node = self._given[_ON_TIME]
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
            *(below.schema.type(n).plain for n, _ in shown),
            *(kind.plain for _, kind in columns_of(user)),
        )
        at = None if time is None else TIME if number is not None else time.name
        if time is not None:
            names, kinds = (*names, ROWTIME), (*kinds, time.type)
        fresh = distinct_names(names)
        own = (k.name for k in tables[0].keys)
        keys = tuple(own) if number is None else tuple(common_keys(tables[0]))
        plan = ProcessFunction(
            below,
            user.identity,
            self._function.display,
            tuple(self._scalars()),
            made,
            keys,
            at,
            self._uid(),
            tuple(n for n, _ in shown),
            tuple(Column(n, k) for n, k in zip(fresh, kinds, strict=True)),
            self._memory(),
            number,
            self._traits.timers,
            "" if user.deterministic else self._context.salt((VARYING,)),
            position_of(self._node),
            ttl_ms=self._traits.ttl_ms,
        )
        return Query(plan, names)

    def _memory(self) -> str:
        parts = (self._traits.state, "timers" if self._traits.timers else "")
        return " and ".join(p for p in parts if p)

    def _uid(self) -> str:
        node = self._given.get(_UID)
        if node is None:
            return self._function.display.rpartition(".")[2]
        text = node.name if isinstance(node, exp.Literal) and node.is_string else ""
        if not _UID_FORM.fullmatch(text):
            hint = "it has letters, digits, - and _, and begins with no digit"
            raise self._error("has an invalid uid", hint, node)
        return text

    def _scalars(self) -> list[tuple[str, Literal]]:
        values = []
        for parameter in self._function.user.parameters:
            node = self._given.get(parameter.name)
            if node is None and not parameter.optional:
                raise self._error(f"lacks its argument '{parameter.name}'", None)
            if node is not None:
                values.append((parameter.name, self._scalar(parameter, node)))
        return values

    def _scalar(self, parameter: Parameter, node: exp.Expression) -> Literal:
        wanted = type_named(parameter.type)
        place = Place(self._context, Scope(), "an argument of a process function")
        value = bind_scalar(node, place)
        if not can_assign(value.type, wanted) and not _is_null(value):
            raise self._error(
                f"takes {wanted.plain} as '{parameter.name}', but {value.type.plain} is given",
                None,
                node,
            )
        value = folded(implicit_cast(value, wanted, node))
        if not isinstance(value, Literal):
            raise self._error(f"takes a constant as '{parameter.name}'", None, node)
        if value.value is None and not parameter.takes_null:
            hint = f"hint it as {parameter.name}: … | None"
            raise self._error(f"takes no NULL as '{parameter.name}'", hint, node)
        return value

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


def _is_default(node: exp.Expression) -> bool:
    """True for the keyword DEFAULT."""
    return isinstance(node, exp.Column | exp.Var) and node.name.upper() == "DEFAULT"


def _is_null(value: Scalar) -> bool:
    return isinstance(value, Literal) and value.value is None
