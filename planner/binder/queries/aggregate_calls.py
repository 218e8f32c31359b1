"""Calls of aggregates in the text of a query: whether there are some, and what they mean."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import Root
from planner.binder import refusals
from planner.binder.expressions.calls import function_call, user_function
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Place
from planner.catalog import Catalog, Function
from planner.passes.constant_folding import folded
from planner.scalar import Call, Literal, Scalar
from udf.user import Kind


def is_aggregated(node: exp.Select, catalog: Catalog) -> bool:
    """True if the query aggregates: by GROUP BY, by HAVING, or by an aggregate in its select
    list."""
    if node.args.get("group") is not None or node.args.get("having") is not None:
        return True
    return any(_has_aggregate(e, catalog) for e in node.expressions)


def _has_aggregate(node: exp.Expression, catalog: Catalog) -> bool:
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, exp.Anonymous) and current.name.upper() in refusals.AGGREGATES:
            return True
        if user_aggregate(current, catalog) is not None:
            return True
        if not isinstance(current, exp.Window | exp.Subquery):
            stack += current.iter_expressions()
    return False


def user_aggregate(node: exp.Expression, catalog: Catalog) -> Function | None:
    """The aggregate of a user that a call means; None where it means anything else."""
    function = user_function(node, catalog)
    return function if function is not None and function.user.kind is Kind.AGGREGATE else None


def _check_batch(node: exp.Expression, place: Place) -> None:
    if not place.context.batch:
        raise UnsupportedError(
            f"{node.name.upper()} is not supported over a stream",
            hint="COUNT(DISTINCT x) counts exactly; or SET 'execution.runtime-mode' = 'batch'",
            position=position_of(node),
        )


# Aggregates of several arguments, which travel as one ROW, with the most that they take.
SEVERAL = {"LISTAGG": 2, "PERCENTILE": 3, "JSON_OBJECTAGG": 2}


def aggregate_argument(node: exp.Expression, place: Place) -> tuple[str, Scalar | None]:
    """Returns the aggregate that a call means and its argument, which is None for COUNT(*).

    DISTINCT and clauses are part of the name: 'SUM DISTINCT', 'JSON_ARRAYAGG NULL'. PlanError for
    arguments that the aggregate does not take."""
    name = node.name.upper()
    first = node.expressions[0] if node.expressions else None
    if isinstance(first, exp.Star) and name == "COUNT":
        return name, None
    distinct = isinstance(first, exp.Distinct)
    nodes = first.expressions if isinstance(first, exp.Distinct) else node.expressions
    suffix = _clauses(name, nodes)
    args = _arguments(name, [n for n in nodes if not isinstance(n, exp.Kwarg)], node, place)
    if distinct and name not in ("MIN", "MAX"):
        suffix += " DISTINCT"
        refusals.check_distinct(args[0].type, node, batch=place.context.batch)
    if name == "LISTAGG" and not all(isinstance(a, Literal) for a in args[1:]):
        raise PlanError("the separator of LISTAGG is a literal", position=position_of(node))
    if name == refusals.APPROXIMATE:
        _check_batch(node, place)
        name, suffix = "COUNT", " DISTINCT"
    return name + suffix, args[0] if len(args) == 1 else as_row(name, args, node)


def _clauses(name: str, nodes: list[exp.Expression]) -> str:
    """The clauses of a JSON aggregate, such as NULL ON NULL, as they stand in its name."""
    suffix = ""
    for clause in nodes:
        if isinstance(clause, exp.Kwarg):
            if not name.startswith("JSON_"):
                raise refusals.of_expression(clause)
            suffix = f" {clause.args['expression'].name}{suffix}"
    return suffix


def _arguments(
    name: str, nodes: list[exp.Expression], call: exp.Expression, place: Place
) -> tuple[Scalar, ...]:
    """Binds the arguments of an aggregate. PlanError for too many, `*`, and an untyped NULL."""
    most = SEVERAL.get(name, 1)
    if not 1 <= len(nodes) <= most or isinstance(nodes[0], exp.Star):
        takes = "one argument" if most == 1 else f"up to {most} arguments"
        raise PlanError(f"{name} takes {takes}", position=position_of(call))
    args = tuple(bind_scalar(n, place) for n in nodes)
    if any(a.type.root is Root.NULL for a in args):
        hint = "give NULL a type: CAST(NULL AS ...)"
        raise PlanError(
            f"{name} takes no NULL without a type", hint=hint, position=position_of(call)
        )
    return args


def as_row(name: str, args: tuple[Scalar, ...], node: exp.Expression) -> Scalar:
    """Several arguments of an aggregate as one. PlanError for a share of PERCENTILE that is known
    to be none."""
    shares = [folded(a) for a in args[1:2] if name == "PERCENTILE"]
    for share in [
        part
        for s in shares
        for part in (s.args if isinstance(s, Call) and s.function == "ARRAY" else (s,))
    ]:
        given = share.value if isinstance(share, Literal) else None
        if isinstance(given, int | float | Decimal) and not 0 <= given <= 1:
            hint = "write 0.5 for half of the values"
            raise PlanError(
                f"the share {given} of PERCENTILE is not from 0 to 1",
                hint=hint,
                position=position_of(node),
            )
    return function_call("ROW", args, node)


def of_all_rows(name: str, argument: Scalar | None) -> tuple[str, Scalar | None]:
    """COUNT of what is never NULL is COUNT(*), where one group has all rows: of MATCH_RECOGNIZE,
    COUNT(A.x) is of A's alone."""
    args = (
        argument.args if isinstance(argument, Call) and argument.function == "ROW" else (argument,)
    )
    return (
        (name, None)
        if name == "COUNT" and not any(a is not None and a.type.nullable for a in args)
        else (name, argument)
    )
