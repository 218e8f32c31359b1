"""Binds OVER calls, the aliases in QUALIFY, and the keys of ORDER BY."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import BIGINT, DOUBLE, INT, DataType, Root, TimeAttribute
from planner.binder import pool
from planner.binder.computed import name_in
from planner.binder.expressions import literals
from planner.binder.expressions.calls import function_call, time_kept
from planner.binder.expressions.casts import implicit_cast
from planner.binder.expressions.scalars import BINDERS
from planner.binder.queries.aggregate_calls import SEVERAL, as_row
from planner.binder.scope import Place, Scope
from planner.binder.windows.over_alerts import alert_call
from planner.binder.windows.over_frames import Bind, frame_of
from planner.binder.windows.over_moments import MOMENTS
from planner.binder.windows.over_runs import by_frame
from planner.logical import ALERT_FUNCTIONS, Frame, LogicalPlan, Over, OverCall, Project, SortKey
from planner.passes.constant_folding import folded
from planner.scalar import ColumnRef, Literal, Scalar
from udf.aggregates.registry import bind_aggregate, is_aggregate

NUMBERING = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
_DISTRIBUTIONS = frozenset({"PERCENT_RANK", "CUME_DIST"})
_LAG_LEAD = frozenset({"LAG", "LEAD"})

_NUMBER = BIGINT.with_nullable(False)


@dataclass(frozen=True)
class _Window:
    """The specification behind OVER."""

    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    frame: Frame


class OverCalls:
    """Collects the OVER calls of one query.

    `column` binds a call and returns its column; `plan` then adds the operations that compute the
    columns. Calls over one window are one operation. `batch`: frames may reach rows that follow
    the current one."""

    def __init__(self, node: exp.Select, batch: bool = False) -> None:
        self._batch = batch
        self._named = {w.this.name: w for w in node.args.get("windows") or ()}
        # Columns that windows read and the input does not have, by name.
        self._computed: dict[str, Scalar] = {}
        self._calls: dict[_Window, dict[str, OverCall]] = {}
        self._places: dict[_Window, exp.Expression] = {}

    @property
    def names(self) -> set[str]:
        """The names of the result columns of all calls."""
        return {c.name for calls in self._calls.values() for c in calls.values()}

    def column(self, node: exp.Window, bind: Bind) -> Scalar:
        """Returns the expression that replaces a call: its column, or one computed from several.

        `bind` binds its arguments and keys. PlanError for arguments that the function does not
        take."""
        window = self._window(node, bind)
        self._places.setdefault(window, node)
        call = node.this
        name = call.name.upper() if isinstance(call, exp.Anonymous) else ""
        if name not in MOMENTS:
            return self._add(window, self._call(node, window, bind))
        suffix, nodes = _arguments(call)
        if len(nodes) != 1:
            raise PlanError(f"{name} takes one argument", position=position_of(call))
        value = bind(nodes[0])

        def total(function: str, of: Scalar) -> Scalar:
            return self._add(window, self._aggregate(call, function + suffix, of, window))

        try:
            return MOMENTS[name](value, total, call)
        except PlanError as error:
            raise error.at(position_of(call)) from None

    def _add(self, window: _Window, call: OverCall) -> ColumnRef:
        """Returns the column of a call, and adds the call if the window has no equal one."""
        calls = self._calls.setdefault(window, {})
        known = calls.setdefault(str(replace(call, name="")), call)
        return pool.column(known.name, known.type)

    def plan(self, below: LogicalPlan) -> LogicalPlan:
        """Returns the query's plan with the columns of the calls after its own."""
        if not self._calls:
            return below
        own = [(c.name, pool.column(c.name, c.type)) for c in below.schema]
        added = [(n, e) for n, e in self._computed.items() if n not in below.schema.names]
        plan: LogicalPlan = Project(below, (*own, *added)) if added else below
        for window, calls in self._calls.items():
            place = position_of(self._places[window])
            frames = {window.frame: list(calls.values())}
            if self._batch:
                frames = by_frame(frames[window.frame], window.frame)
            for frame, same_frame in frames.items():
                plan = Over(
                    plan,
                    window.partition,
                    window.order,
                    frame,
                    tuple(same_frame),
                    place,
                    self._batch,
                )
        return plan

    # ---- one call --------------------------------------------------------------------------------

    def _window(self, node: exp.Window, bind: Bind) -> _Window:
        source = self._resolved(node)
        partition = tuple(self._column_name(bind(e)) for e in source.args.get("partition_by") or ())
        types: list[DataType] = []

        def column(item: exp.Expression) -> str:
            value = bind(item)
            types.append(value.type)
            return self._column_name(value)

        order = sort_keys(source.args.get("order"), column)
        order_types = types if self._batch else None
        return _Window(partition, order, frame_of(source.args.get("spec"), bind, order_types))

    def _resolved(self, node: exp.Window) -> exp.Window:
        """Returns the specification of a window, with that of the named window it refers to.

        Its own clauses take precedence over those of the named window."""
        alias = node.args.get("alias")
        if alias is None:
            return node
        named = self._named.get(alias.name)
        if named is None:
            raise PlanError(f"unknown window '{alias.name}'", position=position_of(node))
        plain = self._resolved(named) if named.args.get("alias") is not None else named
        if not isinstance(plain, exp.Window):
            raise PlanError(f"'{alias.name}' is no window", position=position_of(node))
        own = {
            part: node.args.get(part) or plain.args.get(part)
            for part in ("partition_by", "order", "spec")
        }
        return exp.Window(this=plain.this, **own)

    def _column_name(self, value: Scalar) -> str:
        """Returns the name of a column with this value, which is computed below if need be."""
        return name_in(self._computed, value, "window$")

    def _call(self, node: exp.Window, window: _Window, bind: Bind) -> OverCall:
        call = node.this
        name = call.name.upper() if isinstance(call, exp.Anonymous) else ""
        fresh = self._fresh()
        if name in NUMBERING or name in _DISTRIBUTIONS:
            _check_count(call, name, 0, 0)
            if not self._batch and window.frame.preceding is not None:
                raise PlanError(
                    f"{name} numbers all rows before it, and takes neither ROWS nor RANGE",
                    position=position_of(node),
                    hint="leave them out, or call COUNT(*) over them",
                )
            return OverCall(
                fresh, name, (), (_NUMBER if name in NUMBERING else DOUBLE.with_nullable(False))
            )
        if name == "NTILE":
            _check_count(call, name, 1, 1)
            tiles = _whole_number(bind(call.expressions[0]), call)
            if not tiles:
                raise PlanError("NTILE takes a number from 1 on", position=position_of(call))
            return OverCall(fresh, name, (), _NUMBER, constants=(tiles,))
        if name in _LAG_LEAD:
            return self._lag_or_lead(fresh, name, call, bind)
        if name in ALERT_FUNCTIONS and not self._batch:
            args = tuple(bind(e) for e in call.expressions)
            return alert_call(fresh, call, args, window.frame, self._column_name)
        if not is_aggregate(name):
            raise UnsupportedError(
                f"{name or 'this call'} cannot stand with OVER", position=position_of(node)
            )
        suffix, nodes = _arguments(call)
        if nodes and isinstance(nodes[0], exp.Star):
            return OverCall(fresh, name, (), bind_aggregate(name, ()).result_type)
        if len(nodes) > 1:
            return self._packed(name, call, window, bind)
        return self._aggregate(
            call, name if name in ("MIN", "MAX") else name + suffix, bind(nodes[0]), window
        )

    def _fresh(self) -> str:
        return f"over${sum(map(len, self._calls.values()))}"

    def _packed(self, name: str, call: exp.Expression, window: _Window, bind: Bind) -> OverCall:
        """Binds an aggregate of several arguments, such as LISTAGG: it gets them as one ROW."""
        suffix, nodes = _arguments(call)
        if len(nodes) > SEVERAL.get(name, 1) or name.startswith("JSON_"):
            raise UnsupportedError(
                f"{name} with several arguments and OVER is not supported",
                position=position_of(call),
            )
        args = tuple(bind(n) for n in nodes)
        return self._aggregate(call, name + suffix, as_row(name, args, call), window)

    def _lag_or_lead(self, fresh: str, name: str, call: exp.Expression, bind: Bind) -> OverCall:
        """Binds LAG or LEAD(value, offset, default); the offset is 1 if none is given."""
        _check_count(call, name, 1, 3)
        value, *more = [bind(e) for e in call.expressions]
        given = folded(more[0]) if more else None
        # An offset that is no literal is read from each row, as the last argument.
        fixed = given is None or isinstance(given, Literal)
        constants = (_whole_number(given, call) if given is not None else 1,) if fixed else ()
        kind = value.type.as_attribute(TimeAttribute.NONE)
        result = kind.made_from(value.type).with_nullable(True)
        arguments = [self._column_name(value)]
        if len(more) == 2:
            default = implicit_cast(more[1], kind, call)
            result = kind.with_nullable(default.type.nullable)
            arguments.append(self._column_name(default))
        if not fixed:
            arguments.append(self._column_name(_row_offset(name, more[0], call)))
        return OverCall(fresh, name, tuple(arguments), result, kind, constants)

    def _aggregate(
        self, call: exp.Expression, name: str, value: Scalar, window: _Window
    ) -> OverCall:
        kind = value.type.as_attribute(TimeAttribute.NONE)
        # The result keeps NOT NULL if the frame is never empty. As in Flink, that is only known of
        # frames that begin at the partition's first row or at the current one.
        never_empty = window.frame.preceding in (None, 0)
        try:
            result = bind_aggregate(name, (kind,), grouped=never_empty).result_type
        except PlanError as error:
            raise error.at(position_of(call)) from None
        return OverCall(
            self._fresh(), name, (self._column_name(value),), time_kept(name, value, result), kind
        )


def _arguments(call: exp.Expression) -> tuple[str, list[exp.Expression]]:
    """Returns ' DISTINCT' or '', and the arguments of the call."""
    first = call.expressions[0] if call.expressions else exp.Star()
    if isinstance(first, exp.Distinct):
        return " DISTINCT", first.expressions
    return "", call.expressions or [first]


def sort_keys(
    node: exp.Expression | None, column: Callable[[exp.Expression], str]
) -> tuple[SortKey, ...]:
    """Returns the keys of ORDER BY; `column` returns the column's name of an expression."""
    keys: dict[str, SortKey] = {}
    for item in node.expressions if node is not None else ():
        name = column(item.this)
        descending = bool(item.args.get("desc"))
        nulls = item.args.get("nulls_first")
        keys.setdefault(
            name, SortKey(name, descending, (not descending) if nulls is None else bool(nulls))
        )
    return tuple(keys.values())


def _check_count(call: exp.Expression, name: str, least: int, most: int) -> None:
    count = len(call.expressions)
    if not least <= count <= most:
        takes = (
            "no argument"
            if not most
            else f"{least} argument"
            if most == 1
            else f"{least} to {most} arguments"
        )
        raise PlanError(f"{name} takes {takes}", position=position_of(call))


def _whole_number(value: Scalar, node: exp.Expression) -> int:
    value = folded(value)
    if not isinstance(value, Literal) or not isinstance(value.value, int) or value.value < 0:
        raise PlanError("a whole number is expected here", position=position_of(node))
    return value.value


def _row_offset(name: str, offset: Scalar, node: exp.Expression) -> Scalar:
    """Binds an offset that is no literal; at run time, one that is NULL or negative is an error."""
    if offset.type.root not in (Root.TINYINT, Root.SMALLINT, Root.INT):
        raise PlanError(
            f"the offset of {name} is an INT, not {offset.type.plain}", position=position_of(node)
        )
    offset = implicit_cast(offset, INT, node)
    is_valid = function_call(">=", (offset, Literal(0, INT.with_nullable(False))), node)
    valid = function_call("CASE", (is_valid, offset, literals.null(INT)), node)
    return function_call("CHECK NOT NULL", (valid, literals.text(f"the offset of {name}")), node)


def with_aliases(condition: exp.Expression, node: exp.Select, scope: Scope) -> exp.Expression:
    """Replaces aliases of SELECT in the condition of QUALIFY by their expressions.

    A column of the input takes precedence over an alias."""
    named = {e.alias: e.this for e in node.expressions if isinstance(e, exp.Alias)}
    columns = {f.name for f in scope.fields}

    def resolve(part: exp.Expression) -> exp.Expression:
        if (
            not isinstance(part, exp.Column)
            or part.table
            or part.name in columns
            or part.name not in named
        ):
            return part
        return exp.Paren(this=named[part.name].copy())

    return condition.copy().transform(resolve)


def has_over(nodes: Iterable[exp.Expression]) -> bool:
    """Returns True if an OVER call is in one of the expressions, subqueries left out."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Window):
            return True
        if not isinstance(node, exp.Subquery | exp.Query):
            stack += node.iter_expressions()
    return False


def register_binders() -> None:
    """Makes `bind_scalar` know OVER."""
    BINDERS[exp.Window] = in_window


def in_window(node: exp.Expression, place: Place) -> Scalar:
    """Binds an OVER call; PlanError in a clause that does not allow one."""
    column = place.special(node) if place.special is not None else None
    if column is None:
        hint = "select it in a query below, and use its column here"
        raise PlanError(
            f"OVER cannot stand in {place.clause}", hint=hint, position=position_of(node)
        )
    return column
