"""NOT of a condition in which FLOAT or DOUBLE are compared by order.

    NOT (price > 10 OR qty > 3)        price <= 10 AND NOT (qty > 3)

As in Flink, NOT of such a comparison is the opposite one. That is another value for NaN, which is
neither greater than 10 nor less nor equal: both `price > 10` and NOT of it are FALSE."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from parser.types import Root
from planner.binder.expressions.calls import function_call
from planner.scalar import Call, Scalar, is_deterministic

_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_OTHER_JUNCTION = {"AND": "OR", "OR": "AND"}


def negation(condition: Scalar, node: exp.Expression) -> Scalar:
    """NOT of a BOOLEAN; NULL for NULL. `node` is where errors point at."""
    if not isinstance(condition, Call) or not orders_floats(condition):
        return function_call("NOT", (condition,), node)
    if condition.function in _OPPOSITE:
        return replace(condition, function=_OPPOSITE[condition.function])
    if condition.function == "NOT":
        return condition.args[0]
    if condition.function == "BETWEEN":
        value, low, high = condition.args
        outside = (function_call("<", (value, low), node), function_call(">", (value, high), node))
        return replace(condition, function="OR", args=outside)
    if condition.function == "CASE":
        values = [
            negation(a, node) if _is_value(condition, n) else a
            for n, a in enumerate(condition.args)
        ]
        return replace(condition, args=tuple(values))
    args = tuple([negation(a, node) for a in condition.args])
    return replace(condition, function=_OTHER_JUNCTION[condition.function], args=args)


def orders_floats(condition: Scalar) -> bool:
    """True if a condition compares FLOAT or DOUBLE by order, or is made of such a comparison by
    AND, OR, NOT and CASE."""
    if not isinstance(condition, Call):
        return False
    if condition.function in _OPPOSITE:
        return _has_float(condition)
    if condition.function == "BETWEEN":
        return _has_float(condition) and is_deterministic(condition)
    if condition.function == "CASE":
        return any(
            orders_floats(a) for n, a in enumerate(condition.args) if _is_value(condition, n)
        )
    return condition.function in ("AND", "OR", "NOT") and any(map(orders_floats, condition.args))


def _is_value(case: Call, n: int) -> bool:
    """True if the operand at `n` is a result of CASE.

    Conditions and results alternate, and the last operand is that of ELSE."""
    return n % 2 == 1 or n == len(case.args) - 1


def _has_float(comparison: Call) -> bool:
    return any(a.type.root in (Root.FLOAT, Root.DOUBLE) for a in comparison.args)
