"""OVER, QUALIFY, ORDER BY and LIMIT: what a query computes over its rows in an order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import BIGINT, DOUBLE, INT, DataType, Root, TimeAttribute
from planner.binder import pool
from planner.binder.expressions import literals
from planner.binder.expressions.calls import function_call, time_kept
from planner.binder.expressions.casts import implicit_cast
from planner.binder.expressions.scalars import BINDERS
from planner.binder.queries.aggregate_calls import SEVERAL, as_row
from planner.binder.scope import Place, Scope
from planner.binder.windows.over_frames import Bind, frame_of
from planner.binder.windows.over_moments import MOMENTS
from planner.binder.windows.over_runs import by_frame
from planner.logical import Frame, LogicalPlan, Over, OverCall, Project, SortKey
from planner.passes.constant_folding import folded
from planner.scalar import ColumnRef, Literal, Scalar
from udf.aggregates.registry import bind_aggregate, is_aggregate

NUMBERING = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
_SHARES = frozenset({"PERCENT_RANK", "CUME_DIST"})
_NEIGHBOURS = frozenset({"LAG", "LEAD"})

_NUMBER = BIGINT.with_nullable(False)


@dataclass(frozen=True)
class _Window:
    """The specification behind OVER."""

    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    frame: Frame


class OverCalls:
    """The OVER calls of one query. `column` gives the column that stands for one; `plan` then
    computes them over the query's plan. Calls over one window are one operation. `batch`: windows
    may see what follows."""

    def __init__(self, node: exp.Select, batch: bool = False) -> None:
        self._batch = batch
        self._named = {w.this.name: w for w in node.args.get("windows") or ()}
        self._computed: dict[str, Scalar] = {}  # columns that windows read, by name
        self._calls: dict[_Window, dict[str, OverCall]] = {}
        self._places: dict[_Window, exp.Expression] = {}

    @property
    def names(self) -> set[str]:
        """The columns that the calls give."""
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
            return self._held(window, self._call(node, window, bind))
        suffix, nodes = _arguments(call)
        if len(nodes) != 1:
            raise PlanError(f"{name} takes one argument", position=position_of(call))
        value = bind(nodes[0])

        def total(function: str, of: Scalar) -> Scalar:
            return self._held(window, self._aggregate(call, function + suffix, of, window))

        try:
            return MOMENTS[name](value, total, call)
        except PlanError as error:
            raise error.at(position_of(call)) from None

    def _held(self, window: _Window, call: OverCall) -> ColumnRef:
        held = self._calls.setdefault(window, {})
        found = held.setdefault(str(replace(call, name="")), call)
        return pool.column(found.name, found.type)

    def plan(self, below: LogicalPlan) -> LogicalPlan:
        """The query's plan with the calls' columns behind its own."""
        if not self._calls:
            return below
        own = [(c.name, pool.column(c.name, c.type)) for c in below.schema]
        added = [(n, e) for n, e in self._computed.items() if n not in below.schema.names]
        plan: LogicalPlan = Project(below, (*own, *added)) if added else below
        for window, calls in self._calls.items():
            place = position_of(self._places[window])
            made = list(calls.values())
            for frame, alike in (
                by_frame(made, window.frame) if self._batch else {window.frame: made}
            ).items():
                plan = Over(
                    plan, window.partition, window.order, frame, tuple(alike), place, self._batch
                )
        return plan

    # ---- one call --------------------------------------------------------------------------------

    def _window(self, node: exp.Window, bind: Bind) -> _Window:
        source = self._resolved(node)
        partition = tuple(self._read(bind(e)) for e in source.args.get("partition_by") or ())
        types: list[DataType] = []

        def column(item: exp.Expression) -> str:
            value = bind(item)
            types.append(value.type)
            return self._read(value)

        order = sort_keys(source.args.get("order"), column)
        order_types = types if self._batch else None
        return _Window(partition, order, frame_of(source.args.get("spec"), bind, order_types))

    def _resolved(self, node: exp.Window) -> exp.Window:
        """The window itself, also where it is named; what is said besides the name comes on top."""
        alias = node.args.get("alias")
        if alias is None:
            return node
        found = self._named.get(alias.name)
        if found is None:
            raise PlanError(f"unknown window '{alias.name}'", position=position_of(node))
        plain = self._resolved(found) if found.args.get("alias") is not None else found
        if not isinstance(plain, exp.Window):
            raise PlanError(f"'{alias.name}' is no window", position=position_of(node))
        own = {
            part: node.args.get(part) or plain.args.get(part)
            for part in ("partition_by", "order", "spec")
        }
        return exp.Window(this=plain.this, **own)

    def _read(self, value: Scalar) -> str:
        """The name of a column with the value."""
        if isinstance(value, ColumnRef):
            return value.name
        known = next((n for n, e in self._computed.items() if e.digest == value.digest), None)
        name = known or f"window${len(self._computed)}"
        self._computed[name] = value
        return name

    def _call(self, node: exp.Window, window: _Window, bind: Bind) -> OverCall:
        call = node.this
        name = call.name.upper() if isinstance(call, exp.Anonymous) else ""
        fresh = self._fresh()
        if name in NUMBERING or name in _SHARES:
            _takes(call, name, 0, 0)
            return OverCall(
                fresh, name, (), (_NUMBER if name in NUMBERING else DOUBLE.with_nullable(False))
            )
        if name == "NTILE":
            _takes(call, name, 1, 1)
            tiles = _constant(bind(call.expressions[0]), call)
            if not tiles:
                raise PlanError("NTILE takes a number from 1 on", position=position_of(call))
            return OverCall(fresh, name, (), _NUMBER, constants=(tiles,))
        if name in _NEIGHBOURS:
            return self._neighbour(fresh, name, call, bind)
        if not is_aggregate(name):
            raise UnsupportedError(
                f"{name or 'this call'} cannot stand with OVER", position=position_of(node)
            )
        suffix, nodes = _arguments(call)
        if nodes and isinstance(nodes[0], exp.Star):
            return OverCall(fresh, name, (), bind_aggregate(name, ()).result_type)
        if len(nodes) > 1:
            return self._several(name, call, window, bind)
        return self._aggregate(
            call, name if name in ("MIN", "MAX") else name + suffix, bind(nodes[0]), window
        )

    def _fresh(self) -> str:
        return f"over${sum(map(len, self._calls.values()))}"

    def _several(self, name: str, call: exp.Expression, window: _Window, bind: Bind) -> OverCall:
        """LISTAGG with a separator and the like: the arguments travel as one ROW."""
        suffix, nodes = _arguments(call)
        if len(nodes) > SEVERAL.get(name, 1) or name.startswith("JSON_"):
            raise UnsupportedError(
                f"{name} with several arguments and OVER is not supported",
                position=position_of(call),
            )
        args = tuple(bind(n) for n in nodes)
        return self._aggregate(call, name + suffix, as_row(name, args, call), window)

    def _neighbour(self, fresh: str, name: str, call: exp.Expression, bind: Bind) -> OverCall:
        _takes(call, name, 1, 3)
        value, *more = [bind(e) for e in call.expressions]
        given = folded(more[0]) if more else None
        fixed = given is None or isinstance(given, Literal)
        constants = (_constant(given, call) if given is not None else 1,) if fixed else ()
        kind = value.type.as_attribute(TimeAttribute.NONE)
        shown, arguments = kind.made_from(value.type).with_nullable(True), [self._read(value)]
        if len(more) == 2:
            default = implicit_cast(more[1], kind, call)
            shown = kind.with_nullable(default.type.nullable)
            arguments.append(self._read(default))
        if not fixed:
            arguments.append(self._read(_varying(name, more[0], call)))
        return OverCall(fresh, name, tuple(arguments), shown, kind, constants)

    def _aggregate(
        self, call: exp.Expression, name: str, value: Scalar, window: _Window
    ) -> OverCall:
        kind = value.type.as_attribute(TimeAttribute.NONE)
        # Flink: only a frame that is sure to have the current row in it keeps NOT NULL, and it sees
        # that for these alone.
        filled = window.frame.preceding in (None, 0)
        try:
            result = bind_aggregate(name, (kind,), grouped=filled).result_type
        except PlanError as error:
            raise error.at(position_of(call)) from None
        return OverCall(
            self._fresh(), name, (self._read(value),), time_kept(name, value, result), kind
        )


def _arguments(call: exp.Expression) -> tuple[str, list[exp.Expression]]:
    """' DISTINCT' or nothing, and what the call takes."""
    first = call.expressions[0] if call.expressions else exp.Star()
    if isinstance(first, exp.Distinct):
        return " DISTINCT", first.expressions
    return "", call.expressions or [first]


def sort_keys(
    node: exp.Expression | None, column: Callable[[exp.Expression], str]
) -> tuple[SortKey, ...]:
    """ORDER BY as keys; `column` names the column of an expression."""
    keys: dict[str, SortKey] = {}
    for item in node.expressions if node is not None else ():
        name = column(item.this)
        descending = bool(item.args.get("desc"))
        nulls = item.args.get("nulls_first")
        keys.setdefault(
            name, SortKey(name, descending, (not descending) if nulls is None else bool(nulls))
        )
    return tuple(keys.values())


def _takes(call: exp.Expression, name: str, least: int, most: int) -> None:
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


def _constant(value: Scalar, node: exp.Expression) -> int:
    value = folded(value)
    if not isinstance(value, Literal) or not isinstance(value.value, int) or value.value < 0:
        raise PlanError("a whole number is expected here", position=position_of(node))
    return value.value


def _varying(name: str, offset: Scalar, node: exp.Expression) -> Scalar:
    """An offset that each row gives; one that is NULL or negative is an error."""
    if offset.type.root not in (Root.TINYINT, Root.SMALLINT, Root.INT):
        raise PlanError(
            f"the offset of {name} is an INT, not {offset.type.plain}", position=position_of(node)
        )
    offset, nothing = implicit_cast(offset, INT, node), literals.null(INT)
    counts = function_call(">=", (offset, Literal(0, INT.with_nullable(False))), node)
    held = function_call("CASE", (counts, offset, nothing), node)
    return function_call("CHECK NOT NULL", (held, literals.text(f"the offset of {name}")), node)


def with_aliases(condition: exp.Expression, node: exp.Select, scope: Scope) -> exp.Expression:
    """The condition of QUALIFY with what SELECT calls by a name in the place of that name; columns
    come first."""
    named = {e.alias: e.this for e in node.expressions if isinstance(e, exp.Alias)}
    columns = {f.name for f in scope.fields}

    def find(part: exp.Expression) -> exp.Expression:
        if (
            not isinstance(part, exp.Column)
            or part.table
            or part.name in columns
            or part.name not in named
        ):
            return part
        return exp.Paren(this=named[part.name].copy())

    return condition.copy().transform(find)


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
    """An OVER call where the query lets one stand."""
    found = place.special(node) if place.special is not None else None
    if found is None:
        hint = "select it in a query below, and use its column here"
        raise PlanError(
            f"OVER cannot stand in {place.clause}", hint=hint, position=position_of(node)
        )
    return found
