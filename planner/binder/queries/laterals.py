"""LATERAL TABLE(f(x)) and UNNEST(x): a table function joined to the rows that give its
arguments."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnknownObject, UnsupportedError
from parser.types import INT, Column, Schema
from planner.binder import pool, refusals
from planner.binder.expressions import literals
from planner.binder.expressions.calls import user_arguments, user_function
from planner.binder.expressions.scalars import bind_condition, bind_scalar
from planner.binder.scope import Context, Field, Place, Scope, distinct_names
from planner.catalog import Catalog, Function
from planner.logical import Filter, LogicalPlan, TableFunction, Values
from planner.rewrite import substitute
from planner.scalar import Call, Literal, Scalar, is_deterministic
from udf.arrays.unnest import UNNEST, WITH_ORDINALITY, unnested_columns
from udf.user import Kind, columns_of

# What a table function in FROM is joined to when nothing stands before it: one row, whose column
# has no name.
_ONE_ROW = Values(
    ((Literal(0, INT.with_nullable(False)),),), Schema((Column("#", INT.with_nullable(False)),))
)


def table_function(
    node: exp.Expression, catalog: Catalog
) -> tuple[Function, exp.Expression] | None:
    """The user's table function of a relation, and its call; None for all other relations."""
    if not isinstance(node, exp.Lateral | exp.TableFromRows):
        return None
    function = user_function(node.this, catalog)
    return (
        (function, node.this) if function is not None and function.user.kind is Kind.TABLE else None
    )


def is_lateral_join(join: exp.Expression, catalog: Catalog) -> bool:
    """True if a table function is joined.

    UnknownObject if the text says so and there is none of that name, PlanError for a function of
    another kind."""
    if not isinstance(join, exp.Join):
        return False
    if isinstance(join.this, exp.Unnest):
        return True
    called = join.this.this if isinstance(join.this, exp.Lateral) else None
    function = user_function(called, catalog) if isinstance(called, exp.Anonymous) else None
    if called is not None and function is not None and function.user.kind is Kind.PROCESS:
        raise UnsupportedError(
            f"'{function.display}' is a process function, which joins no rows",
            hint=f"write FROM {function.display}(TABLE t PARTITION BY k, …)",
            position=position_of(called),
        )
    if called is not None and function is not None and function.user.kind is not Kind.TABLE:
        raise PlanError(
            f"'{function.display}' is no table function: it gives no rows",
            hint=f"call it among the columns: SELECT {function.display}(…)",
            position=position_of(called),
        )
    if isinstance(called, exp.Anonymous) and function is None:
        spelled = called.meta.get("name", called.name)
        hint = "create it first: CREATE FUNCTION … LANGUAGE PYTHON"
        raise UnknownObject(
            f"unknown table function '{spelled}'", hint=hint, position=position_of(called)
        )
    return table_function(join.this, catalog) is not None


def alone(node: exp.Expression, context: Context) -> tuple[LogicalPlan, Scope]:
    """A table function as the first relation of FROM: its arguments are constants."""
    return _joined(_ONE_ROW, Scope(), node, context, outer=False)


def join(
    plan: LogicalPlan, scope: Scope, node: exp.Join, context: Context
) -> tuple[LogicalPlan, Scope]:
    """CROSS JOIN LATERAL TABLE(…), a comma, INNER or LEFT JOIN … ON a condition."""
    side = node.args.get("side")
    if side not in (None, "LEFT") or node.args.get("method") or node.args.get("using"):
        words = " ".join(str(w) for w in (node.args.get("method"), side, "JOIN") if w)
        raise UnsupportedError(
            f"{words} of a table function is not supported",
            hint="use CROSS JOIN or LEFT JOIN … ON …",
            position=position_of(node),
        )
    joined, reach = _joined(plan, scope, node.this, context, outer=side == "LEFT")
    on = node.args.get("on")
    condition = (
        literals.boolean(True) if on is None else bind_condition(on, Place(context, reach, "ON"))
    )
    if condition == literals.boolean(True):
        return joined, reach
    if side == "LEFT":
        return _on(joined, condition, context), reach
    return Filter(joined, condition, context.salt((condition,))), reach


def _on(joined: LogicalPlan, condition: Scalar, context: Context) -> LogicalPlan:
    """Binds the condition, which sees rows of the function as declared, not the padding of rows
    without any."""
    assert isinstance(joined, TableFunction)
    own = {c.name: c for c in joined.columns}
    condition = substitute(condition, {n: pool.column(n, c.type) for n, c in own.items()})
    return replace(joined, condition=condition, salt=joined.salt or context.salt((condition,)))


def _unnested(
    plan: LogicalPlan, scope: Scope, node: exp.Unnest, context: Context, *, outer: bool
) -> tuple[LogicalPlan, Scope]:
    """UNNEST(array, multiset or map) [WITH ORDINALITY]."""
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Subquery):
        hint = "join the results of several: UNNEST(a) AS x CROSS JOIN UNNEST(b) AS y"
        raise UnsupportedError("UNNEST takes one value", hint=hint, position=position_of(node))
    value = bind_scalar(node.expressions[0], Place(context, scope, "UNNEST"))
    ordinality = bool(node.args.get("offset"))
    given = unnested_columns(value.type, ordinality=ordinality)
    if given is None:
        message = f"UNNEST takes an array, a multiset or a map, but '{value}' is {value.type}"
        raise PlanError(message, position=position_of(node.expressions[0]))
    name = WITH_ORDINALITY if ordinality else UNNEST
    call = Call(name, (value,), value.type, is_deterministic(value), position_of(node))
    fresh = distinct_names((c.name for c in given), plan.schema.names)
    columns = tuple(Column(n, c.type) for n, c in zip(fresh, given, strict=True))
    made = TableFunction(plan, call, columns, outer, context.salt((call,)))
    return made, Scope(
        scope.fields + _fields(node, "UNNEST", [c.name for c in given], _padded(columns, outer))
    )


def _padded(columns: tuple[Column, ...], outer: bool) -> tuple[Column, ...]:
    """The function's columns as they are behind it: NULL at times where rows without any come,
    too."""
    return tuple(Column(c.name, c.type.with_nullable(True)) for c in columns) if outer else columns


def _joined(
    plan: LogicalPlan, scope: Scope, node: exp.Expression, context: Context, *, outer: bool
) -> tuple[LogicalPlan, Scope]:
    if isinstance(node, exp.Unnest):
        return _unnested(plan, scope, node, context, outer=outer)
    user = table_function(node, context.catalog)
    assert user is not None
    function, called = user
    refusals.check_arguments(called)
    args, _, result = user_arguments(function, called, Place(context, scope, "a table function"))
    deterministic = function.user.deterministic and all(map(is_deterministic, args))
    call = Call(function.user.identity, args, result, deterministic, position_of(called))
    given = columns_of(function.user)
    fresh = distinct_names((name for name, _ in given), plan.schema.names)
    columns = tuple(Column(n, kind) for n, (_, kind) in zip(fresh, given, strict=True))
    salt = context.salt((call,))
    made = TableFunction(plan, call, columns, outer, salt)
    return made, Scope(
        scope.fields + _fields(node, function.display, [n for n, _ in given], columns)
    )


def _fields(
    node: exp.Expression, name: str, own: list[str], columns: tuple[Column, ...]
) -> tuple[Field, ...]:
    """The function's columns as the query names them: AS t(a, b), else as the function does."""
    alias = node.args.get("alias")
    given = (
        [c.name for c in alias.args.get("columns") or ()]
        if isinstance(alias, exp.TableAlias)
        else []
    )
    if given and len(given) != len(columns):
        raise PlanError(
            f"{len(given)} column names are given for {len(columns)} columns",
            detail=f"the columns are {', '.join(own)}",
            position=position_of(node),
        )
    relation = (node.alias,) if node.alias else (name,)
    pairs = zip(given or own, columns, strict=True)
    return tuple(Field(relation, name, pool.column(c.name, c.type)) for name, c in pairs)
