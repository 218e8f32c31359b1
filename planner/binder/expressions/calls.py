"""Calls of functions: of what `udf` defines, of users' functions, and of what only some clauses
know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import lru_cache

from sqlglot import exp

from parser import nodes
from parser.dialect import position_of
from parser.errors import PlanError, UnknownObject
from parser.grammar.reserved import NILADIC
from parser.types import DataType, TimeAttribute
from planner.binder import pool, refusals
from planner.binder.expressions import literals
from planner.binder.expressions.casts import implicit_cast
from planner.binder.expressions.scalars import BINDERS, Binder, bind_scalar
from planner.binder.scope import Place
from planner.catalog import Catalog, Function
from planner.scalar import Call, Literal, Scalar, is_deterministic
from udf import registry
from udf.aggregates.registry import aggregate_names
from udf.user import Kind, bind_user

# Calls that have more than arguments, such as the clauses of JSON_VALUE.
CALLS: dict[str, Binder] = {}
# What is said of some arguments in another way: asked before a call is made, None where there is
# nothing to say.
REWRITES: dict[str, Callable[[str, tuple[Scalar, ...], exp.Expression], Scalar | None]] = {}


def function_call(name: str, args: tuple[Scalar, ...], node: exp.Expression) -> Scalar:
    """A call of what `udf` defines under `name`, its arguments cast as the signature asks."""
    if name in REWRITES and (rewritten := REWRITES[name](name, args, node)) is not None:
        return rewritten
    pooled = pool.is_pooled(name)
    if pooled and (known := pool.known_call(name, args)) is not None:
        return known
    try:
        bound = _signature(name, args)
    except PlanError as error:
        raise error.at(position_of(node)) from None
    kind = "TRY_CAST" if name in _EQUALITIES else "CAST"
    cast = tuple(
        [implicit_cast(a, t, node, kind) for a, t in zip(args, bound.arg_types, strict=True)]
    )
    deterministic = bound.definition.deterministic and all(map(is_deterministic, cast))
    position = None if pooled else position_of(node)
    result = _time_shown(name, bound.result_type, args)
    call = Call(bound.definition.name, cast, result, deterministic, position)
    return pool.remember(name, args, call) if pooled else call


def _signature(name: str, args: Sequence[Scalar]) -> registry.Bound:
    types = tuple([plain_time(a.type) for a in args])
    if name in _BY_TYPES or (name == "LIKE" and len(args) == 2):
        return _bound_by_types(name, types)
    return registry.bind(name, types, [a.value if isinstance(a, Literal) else None for a in args])


_GIVE_VALUES = frozenset({"MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"})
# What these give of times is shown as the first that they take; the first ones only where all are
# of one precision.
_MERGE_TIMES = frozenset({"GREATEST", "LEAST"})
_GIVE_TIMES = _MERGE_TIMES | {
    "COALESCE",
    "CASE",
    "IF",
    "IFNULL",
    "NULLIF",
    "+",
    "-",
    "FLOOR",
    "CEIL",
    "TIMESTAMPADD",
}


def _time_shown(name: str, result: DataType, args: Sequence[Scalar]) -> DataType:
    if not result.is_timestamp or name not in _GIVE_TIMES:
        return result
    if name == "TIMESTAMPADD" and isinstance(args[0], Literal) and args[0].value in _SHORT_UNITS:
        return result
    times = [a.type for a in args if a.type.is_timestamp]
    kept = times and all(
        t.precision == result.precision for t in (times if name in _MERGE_TIMES else times[:1])
    )
    return result.made_from(times[0]) if kept else result


# Flink makes the type of a time that was moved by these anew.
_SHORT_UNITS = frozenset({"HOUR", "MINUTE", "SECOND", "MILLISECOND"})


def time_kept(aggregate: str, value: Scalar, result: DataType) -> DataType:
    """The type of an aggregate's result as it is shown."""
    return result.made_from(value.type) if aggregate in _GIVE_VALUES else result


# A text that is no date is not equal to one; in an order it is an error, as in Flink.
_EQUALITIES = frozenset({"=", "<>"})
# Signatures in which the value of a literal plays no part: rules ask for the same few of them all
# the time.
_BY_TYPES = frozenset(
    {"=", "<>", "<", "<=", ">", ">=", "IN", "NOT", "LOWER", "UPPER", "IS NULL", "IS NOT NULL"}
)
_bound_by_types = lru_cache(maxsize=4096)(registry.bind)


def plain_time(kind: DataType) -> DataType:
    return kind if kind.time is TimeAttribute.NONE else kind.as_attribute(TimeAttribute.NONE)


def _call(node: exp.Expression, place: Place) -> Scalar:
    name = node.name.upper()
    user = user_function(node, place.context.catalog)
    if user is not None:
        return _user_call(user, node, place)
    if name in refusals.NOT_SCALAR:
        special = place.special(node) if place.special is not None else None
        if special is None:
            raise refusals.of_special(node, place.clause)
        return special
    if name in CALLS:
        return CALLS[name](node, place)
    if registry.lookup(name) is None and name not in NILADIC:
        raise _unknown_function(node, place)
    refusals.check_arguments(node)
    if registry.lookup(name) is None and name in NILADIC and not node.expressions:
        return _column_of_that_name(name, node, place)
    if registry.lookup(name) is None:
        raise _unknown_function(node, place)
    return function_call(name, tuple([_argument(a, place) for a in node.expressions]), node)


# Functions that {fn …} knows, by their names here.
_JDBC = {
    n: n
    for n in (
        "ABS",
        "ACOS",
        "ASIN",
        "ATAN",
        "ATAN2",
        "CONCAT",
        "COS",
        "COT",
        "DAYOFMONTH",
        "DAYOFWEEK",
        "DAYOFYEAR",
        "DEGREES",
        "EXP",
        "HOUR",
        "IFNULL",
        "LOCATE",
        "LOG10",
        "LTRIM",
        "MINUTE",
        "MOD",
        "MONTH",
        "PI",
        "POWER",
        "QUARTER",
        "RADIANS",
        "RTRIM",
        "SECOND",
        "SIGN",
        "SIN",
        "SQRT",
        "TAN",
        "TIMESTAMPADD",
        "TIMESTAMPDIFF",
        "WEEK",
        "YEAR",
    )
} | {"LCASE": "LOWER", "LENGTH": "CHAR_LENGTH", "LOG": "LN", "UCASE": "UPPER"}


def _jdbc(node: exp.Expression, place: Place) -> Scalar:
    """{fn f(…)}: the function as JDBC calls it."""
    call = node.this
    name = call.name.upper() if isinstance(call, exp.Anonymous) else ""
    if name not in _JDBC:
        hint = "call the function itself, without braces"
        raise PlanError(
            f"{{fn …}} knows no function '{name or call.sql()}'",
            hint=hint,
            position=position_of(node),
        )
    args = tuple([_argument(a, place) for a in call.expressions])
    return function_call("||" if name == "CONCAT" and len(args) == 2 else _JDBC[name], args, node)


def user_function(node: exp.Expression, catalog: Catalog) -> Function | None:
    """The user's function that a call means; None where it means one that is built in, or none at
    all."""
    if not isinstance(node, exp.Anonymous):
        return None
    qualifiers = tuple(q.name for q in node.args.get("qualifiers") or ())
    built_in = registry.lookup(node.name) is not None or node.name in refusals.NOT_SCALAR
    return catalog.function((*qualifiers, node.name), built_in=built_in)


def _user_call(function: Function, node: exp.Expression, place: Place) -> Scalar:
    """A call of a user's function: by its content, so that the same under another name is the
    same."""
    user = function.user
    if user.kind is Kind.TABLE:
        hint = f"write FROM …, LATERAL TABLE({function.display}(…))"
        raise PlanError(
            f"'{function.display}' is a table function", hint=hint, position=position_of(node)
        )
    if user.kind is Kind.PROCESS:
        raise PlanError(
            f"'{function.display}' is a process function",
            hint=f"write FROM {function.display}(TABLE t PARTITION BY k, …)",
            position=position_of(node),
        )
    if user.kind is Kind.SINK:
        hint = (
            f"write CREATE TABLE … WITH ('connector' = 'python', 'function' = '{function.display}')"
        )
        raise PlanError(
            f"'{function.display}' is a sink, and has no value",
            hint=hint,
            position=position_of(node),
        )
    if user.kind is Kind.AGGREGATE:
        special = place.special(node) if place.special is not None else None
        if special is None:
            hint = (
                "filter aggregates with HAVING"
                if place.clause == "WHERE"
                else "aggregate in a query below"
            )
            message = f"the aggregate '{function.display}' cannot stand in {place.clause}"
            raise PlanError(message, hint=hint, position=position_of(node))
        return special
    refusals.check_arguments(node)
    args, _, result = user_arguments(function, node, place)
    deterministic = user.deterministic and all(map(is_deterministic, args))
    return Call(user.identity, args, result, deterministic, position_of(node))


def user_arguments(
    function: Function, node: exp.Expression, place: Place
) -> tuple[tuple[Scalar, ...], tuple[DataType, ...], DataType]:
    """The arguments of a call with the casts that the parameters ask for, their types, and the type
    of the result."""
    args = [_argument(a, place) for a in node.expressions]
    try:
        types, result = bind_user(
            function.user, function.display, [plain_time(a.type) for a in args]
        )
    except PlanError as error:
        raise error.at(position_of(node)) from None
    return tuple(implicit_cast(a, t, node) for a, t in zip(args, types, strict=True)), types, result


def _column_of_that_name(name: str, node: exp.Expression, place: Place) -> Scalar:
    """USER and the like, which are functions elsewhere: the column that is called so, in whatever
    case."""
    fields = [f for f in place.scope.fields if f.name.upper() == name]
    if len(fields) != 1:
        spelled = node.meta.get("name", name.lower())
        raise UnknownObject(
            f"unknown column '{spelled}'",
            detail=f"{name} is a reserved word, and a function that this version has not",
            hint=f"a column of that name is written as `{spelled}`",
            position=position_of(node),
        )
    return fields[0].column


def _unknown_function(node: exp.Expression, place: Place) -> UnknownObject:
    """Returns the error for an unknown function.

    The function may be created later: a job of the folder that names it waits."""
    spelled = node.meta.get("name", node.name)
    near = registry.suggest(node.name, aggregate_names()) or next(
        iter(get_close_matches(node.name.lower(), place.context.catalog.names(Function), 1)), None
    )
    hint = f"did you mean {near}?" if near else None
    return UnknownObject(f"unknown function '{spelled}'", hint=hint, position=position_of(node))


def _argument(node: exp.Expression, place: Place) -> Scalar:
    """An argument; the keyword of EXTRACT(DAY FROM …) and the like is a string."""
    return literals.text(node.name) if isinstance(node, exp.Var) else bind_scalar(node, place)


def _filtered(node: exp.Expression, place: Place) -> Scalar:
    special = place.special(node) if place.special is not None else None
    if special is None:
        raise refusals.of_special(node.this, place.clause)
    return special


def register_binders() -> None:
    """Registers the binders of calls."""
    BINDERS.update({exp.Anonymous: _call, exp.Filter: _filtered, nodes.Jdbc: _jdbc})
