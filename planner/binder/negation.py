"""NOT of a condition in which FLOAT or DOUBLE are compared by order.

    NOT (price > 10 OR qty > 3)        price <= 10 AND NOT (qty > 3)

As in Flink, NOT of such a comparison is the opposite one. That is another value for NaN, which is neither greater than
10 nor less nor equal: both `price > 10` and NOT of it are FALSE."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from parser.types import Root
from planner.binder.calls import function_call
from planner.scalar import Call, Scalar, is_deterministic

_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_OTHER_JUNCTION = {"AND": "OR", "OR": "AND"}


def negation(condition: Scalar, node: exp.Expression) -> Scalar:
    """NOT of a BOOLEAN; NULL for NULL. `node` is where errors point at."""
    if not isinstance(condition, Call) or not _orders_floats(condition):
        return function_call("NOT", (condition,), node)
    if condition.function in _OPPOSITE:
        return replace(condition, function=_OPPOSITE[condition.function])
    if condition.function == "NOT":
        return condition.args[0]
    if condition.function == "BETWEEN":
        value, low, high = condition.args
        outside = (function_call("<", (value, low), node), function_call(">", (value, high), node))
        return replace(condition, function="OR", args=outside)
    args = tuple([negation(a, node) for a in condition.args])
    return replace(condition, function=_OTHER_JUNCTION[condition.function], args=args)


def _orders_floats(condition: Scalar) -> bool:
    """Whether it is a comparison of FLOAT or DOUBLE by order, or made of such a one by AND, OR and NOT."""
    if not isinstance(condition, Call):
        return False
    if condition.function in _OPPOSITE:
        return _has_float(condition)
    if condition.function == "BETWEEN":
        return _has_float(condition) and is_deterministic(condition)
    return condition.function in ("AND", "OR", "NOT") and any(map(_orders_floats, condition.args))


def _has_float(comparison: Call) -> bool:
    return any(a.type.root in (Root.FLOAT, Root.DOUBLE) for a in comparison.args)
