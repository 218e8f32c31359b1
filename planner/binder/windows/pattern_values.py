"""Binds the expressions of MEASURES and DEFINE over the rows of a match.

A column in them is a value of a row of some variable: A.price is that of the last row of A, price
alone that of the last row of all. FIRST, LAST and aggregates read other rows. Each of these values
becomes a `PatternValue`, a column of its own, and the expression is computed from these columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from parser import nodes
from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import Schema, TimeAttribute, timestamp
from planner.binder import pool, refusals
from planner.binder.computed import name_in
from planner.binder.expressions.calls import function_call, time_kept, user_arguments
from planner.binder.expressions.scalars import BINDERS, bind_condition, bind_scalar
from planner.binder.queries.aggregate_calls import aggregate_argument, user_aggregate
from planner.binder.scope import Context, Field, Place, Scope
from planner.binder.windows.over_moments import MOMENTS
from planner.logical import PatternItem, PatternValue
from planner.rewrite import replace_where
from planner.scalar import Call, ColumnRef, Literal, Scalar, walk
from udf.aggregates.registry import bind_aggregate

# The variable of a column without qualifier: the rows of all. No variable has this name.
_ALL = "*"


@dataclass(frozen=True)
class MatchContext:
    """The input, variables and order of one MATCH_RECOGNIZE, which all its clauses share.

    `columns` are those of its input by their names in the text; `subsets` are the variables of each
    SUBSET; `time` is the column that orders the rows; `defined` are the variables of DEFINE, of
    which those that are not in the pattern have no rows."""

    context: Context
    columns: Mapping[str, ColumnRef]
    items: tuple[PatternItem, ...]
    subsets: Mapping[str, tuple[str, ...]]
    time: ColumnRef
    defined: tuple[str, ...] = ()

    def variables(self, name: str) -> tuple[str, ...]:
        """Returns the variables of a qualifier: one, those of a SUBSET, or all of the pattern."""
        present = tuple(i.variable for i in self.items if not i.absent)
        return present if name == _ALL else self.subsets.get(name, (name,))


class PatternValues:
    """Binds the expressions of one clause.

    `values` are the values that they read. `computed` collects the arguments of aggregates that are
    no columns of the input, by the names that they get there. `defined` is the variable whose
    condition in DEFINE is bound; the current row then is the last of its rows. `varying` are calls
    of non-deterministic aggregates."""

    def __init__(
        self, match: MatchContext, computed: dict[str, Scalar], defined: str | None = None
    ) -> None:
        self.match = match
        self.values: dict[str, PatternValue] = {}
        self.varying: list[Scalar] = []
        self._computed = computed
        self._defined = defined
        # Values of single rows by name, each with the variable that the text names.
        self._rows: dict[str, tuple[str, PatternValue]] = {}
        self._scope = Scope(tuple(self._fields()))
        self._clause = "MEASURES" if defined is None else "DEFINE"

    def bind(self, node: exp.Expression) -> Scalar:
        return self._resolved(bind_scalar(node, self._place()))

    def condition(self, node: exp.Expression) -> Scalar:
        return self._resolved(bind_condition(node, self._place()))

    # ---- columns ---------------------------------------------------------------------------------

    def _place(self) -> Place:
        return Place(self.match.context, self._scope, self._clause, self._special)

    def _fields(self) -> list[Field]:
        own = () if self._defined is None else (self._defined,)
        variables = dict.fromkeys(
            (*self.match.variables(_ALL), *self.match.subsets, *self._defined_names(), *own)
        )
        named = [Field((), n, self._row("LAST", _ALL, c, 0)) for n, c in self.match.columns.items()]
        return named + [
            Field((v,), n, self._row("LAST", v, c, 0), merged=True)
            for v in variables
            for n, c in self.match.columns.items()
        ]

    def _defined_names(self) -> tuple[str, ...]:
        absent = {i.variable for i in self.match.items if i.absent}
        return tuple(n for n in self.match.defined if n not in absent)

    def _row(self, function: str, variable: str, column: ColumnRef, offset: int) -> ColumnRef:
        """Returns the column with the value of one row of a variable.

        `offset` counts rows from the first or last one. In MEASURES the value keeps NOT NULL if
        every match has so many rows of the variable."""
        name = f"{function}({variable}.{column.name}, {offset})"
        if name not in self._rows:
            variables = self.match.variables(variable)
            always_there = self._defined is None and sum(map(self._least, variables)) > offset
            kind = column.type if always_there else column.type.with_nullable(True)
            value = PatternValue(name, function, variables, column.name, kind, offset)
            self._rows[name] = (variable, value)
        return pool.column(name, self._rows[name][1].type)

    def _least(self, variable: str) -> int:
        """Returns the least number of rows of the variable that a match has."""
        return next((i.low for i in self.match.items if i.variable == variable and not i.absent), 0)

    def _resolved(self, value: Scalar) -> Scalar:
        """Registers the values that an expression reads, and returns it over their columns.

        In DEFINE, values of the current row become columns of the input."""

        def resolve(node: Scalar) -> Scalar | None:
            if not isinstance(node, ColumnRef) or node.name not in self._rows:
                return None
            variable, row_value = self._rows[node.name]
            own = self._defined is not None and variable in (_ALL, self._defined)
            if own and row_value.function == "LAST" and row_value.offset == 0:
                assert row_value.column is not None
                return self._input(row_value.column)
            self.values[node.name] = row_value
            return None

        return replace_where(value, resolve)

    def _input(self, name: str) -> ColumnRef:
        return next(c for c in self.match.columns.values() if c.name == name)

    # ---- calls -----------------------------------------------------------------------------------

    def _special(self, node: exp.Expression) -> Scalar | None:
        if isinstance(node, nodes.Modified):
            return self._modified(node)
        if isinstance(node, exp.Window | exp.Filter):
            return None
        name = node.name.upper()
        if name in ("FIRST", "LAST"):
            return self._navigation(name, node)
        if name in ("PREV", "NEXT"):
            return self._neighbour(name, node)
        if name in ("MATCH_ROWTIME", "MATCH_PROCTIME"):
            return self._time(name, node)
        if name in refusals.PATTERN_FUNCTIONS:
            raise UnsupportedError(f"{name} is not supported", position=position_of(node))
        return self._aggregate(node)

    def _modified(self, node: nodes.Modified) -> Scalar:
        """Binds FINAL x as x: measures see the final rows of a match anyway.

        UnsupportedError for RUNNING, and in DEFINE."""
        if node.args["kind"] != "FINAL" or self._defined is not None:
            hint = "leave it out"
            raise UnsupportedError(
                f"{node.args['kind']} is not supported", hint=hint, position=position_of(node)
            )
        return bind_scalar(node.this, self._place())

    def _navigation(self, name: str, node: exp.Expression) -> Scalar:
        value, offset = self._navigated(name, node)
        variables = {self._rows[c.name][0] for c in walk(value) if isinstance(c, ColumnRef)}
        if not variables:
            raise PlanError(f"{name} names no column", position=position_of(node))
        self._check_one(variables, name, node)

        def moved(part: Scalar) -> Scalar | None:
            if not isinstance(part, ColumnRef):
                return None
            variable, last = self._rows[part.name]
            assert last.column is not None
            return self._row(name, variable, self._input(last.column), offset)

        return replace_where(value, moved)

    def _navigated(self, name: str, node: exp.Expression) -> tuple[Scalar, int]:
        """Returns the expression x and the number of rows n of FIRST(x, n), LAST, PREV or NEXT."""
        arguments = node.expressions
        if not 1 <= len(arguments) <= 2:
            raise PlanError(
                f"{name} takes an expression and a number of rows", position=position_of(node)
            )
        inner = Place(self.match.context, self._scope, name)
        offset = 1 if name in ("PREV", "NEXT") else 0
        if len(arguments) == 2:
            given = bind_scalar(arguments[1], inner)
            if (
                not isinstance(given, Literal)
                or not isinstance(given.value, int)
                or given.value < 0
            ):
                position = position_of(arguments[1])
                raise PlanError(
                    f"the number of rows of {name} is a whole number", position=position
                )
            offset = given.value
        return bind_scalar(arguments[0], inner), offset

    def _neighbour(self, name: str, node: exp.Expression) -> Scalar:
        """Binds PREV(x, 0) and NEXT(x, 0) as x of the current row.

        UnsupportedError for other offsets, PlanError in MEASURES."""
        if self._defined is None:
            raise PlanError(
                f"{name} cannot stand in MEASURES",
                hint="use FIRST or LAST",
                position=position_of(node),
            )
        value, offset = self._navigated(name, node)
        if offset:
            hint = "count rows of a variable: LAST(A.x, 1) is the row before the last of A"
            raise UnsupportedError(
                f"{name} over rows of any variable is not supported",
                hint=hint,
                position=position_of(node),
            )
        return value

    def _check_one(self, variables: set[str], name: str, node: exp.Expression) -> None:
        if len(variables) > 1:
            hint = f"write one {name} for each"
            raise PlanError(
                f"{name} takes columns of one variable", hint=hint, position=position_of(node)
            )

    def _time(self, name: str, node: exp.Expression) -> Scalar:
        if name == "MATCH_PROCTIME":
            return function_call("PROCTIME", (), node)
        if len(node.expressions) > 1:
            raise PlanError(
                f"{name} takes no more than the time attribute", position=position_of(node)
            )
        kind = timestamp(3).with_nullable(False).as_attribute(TimeAttribute.ROWTIME)
        if node.expressions:
            given = bind_scalar(node.expressions[0], Place(self.match.context, self._scope, name))
            if not (
                given.type.is_rowtime or (self.match.context.batch and given.type.is_timestamp)
            ):
                raise PlanError(
                    f"{name} takes the time attribute of events", position=position_of(node)
                )
            kind = given.type.as_attribute(TimeAttribute.ROWTIME)
        if self._defined is not None:
            return pool.column(self.match.time.name, self.match.time.type)
        return self._value(PatternValue(f"{name}({kind})", "ROWTIME", (), None, kind))

    def _value(self, value: PatternValue) -> ColumnRef:
        self.values[value.name] = value
        return pool.column(value.name, value.type)

    # ---- aggregates ------------------------------------------------------------------------------

    def _aggregate(self, node: exp.Expression) -> Scalar | None:
        place = Place(self.match.context, self._scope, "an aggregate")
        user = user_aggregate(node, self.match.context.catalog)
        if user is not None:
            refusals.check_arguments(node)
            args, _, result = user_arguments(user, node, place)
            if not user.user.deterministic:
                self.varying.append(Call(user.user.identity, args, result, False))
            packed = len(user.user.parameters) > 1 or user.user.variadic
            argument = function_call("ROW", args, node) if packed else args[0] if args else None
            name = user.user.identity
        elif node.name.upper() in refusals.AGGREGATES:
            name, argument = aggregate_argument(node, place)
            if name in MOMENTS and argument is not None:
                return MOMENTS[name](argument, lambda of, value: self._total(of, value, node), node)
            result = None
        else:
            return None
        if "DISTINCT" in name.split():
            hint = "aggregate the rows as they are"
            raise UnsupportedError(
                "DISTINCT in MATCH_RECOGNIZE is not supported",
                hint=hint,
                position=position_of(node),
            )
        kinds = [] if argument is None else [argument.type.as_attribute(TimeAttribute.NONE)]
        if result is None:
            try:
                result = bind_aggregate(name, kinds).result_type
                result = result if argument is None else time_kept(name, argument, result)
            except PlanError as error:
                raise error.at(position_of(node)) from None
        return self._aggregated(name, argument, node, PatternValue("", name, (), None, result))

    def _total(self, name: str, value: Scalar, node: exp.Expression) -> Scalar:
        """Returns SUM or COUNT of a value: Flink computes AVG and variances from these."""
        result = bind_aggregate(name, [value.type.as_attribute(TimeAttribute.NONE)]).result_type
        return self._aggregated(name, value, node, PatternValue("", name, (), None, result))

    def _aggregated(
        self, name: str, argument: Scalar | None, node: exp.Expression, value: PatternValue
    ) -> Scalar:
        columns = (
            [] if argument is None else [c.name for c in walk(argument) if isinstance(c, ColumnRef)]
        )
        variables = {self._rows[c][0] for c in columns} or {_ALL}
        self._check_one(variables, name, node)
        variable = variables.pop()
        value = replace(value, variables=self.match.variables(variable))
        if argument is None:
            return self._value(replace(value, name=f"{name}({variable})"))
        column = self._argument(argument)
        kind = argument.type.as_attribute(TimeAttribute.NONE)
        return self._value(
            replace(value, name=f"{name}({variable}.{column})", column=column, argument_type=kind)
        )

    def _argument(self, argument: Scalar) -> str:
        """Returns the name of the input's column with the argument's value for a row.

        An argument that is no column is added to `computed`."""

        def of_row(part: Scalar) -> Scalar | None:
            if not isinstance(part, ColumnRef):
                return None
            column = self._rows[part.name][1].column
            assert column is not None
            return self._input(column)

        return name_in(self._computed, replace_where(argument, of_row), "argument$")


def input_columns(names: Sequence[str], schema: Schema) -> dict[str, ColumnRef]:
    """Returns the input's columns by their names in the text; of two with one name, the first."""
    columns: dict[str, ColumnRef] = {}
    for name, column in zip(names, schema, strict=True):
        columns.setdefault(name, pool.column(column.name, column.type))
    return columns


def _modified(node: exp.Expression, place: Place) -> Scalar:
    value = place.special(node) if place.special is not None else None
    if value is None:
        raise refusals.of_expression(node)
    return value


def register_binders() -> None:
    """Makes `bind_scalar` know RUNNING and FINAL."""
    BINDERS[nodes.Modified] = _modified
