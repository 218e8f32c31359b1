"""Expressions in their simplest form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from parser.types import Root
from planner.analysis.totality import can_fail
from planner.logical import Filter, LogicalPlan
from planner.rewrite import conjunction, conjuncts, map_expressions, rewrite, transform
from planner.scalar import MIRRORED, Call, Literal, Scalar, is_deterministic

NEGATED = {
    "=": "<>",
    "<>": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
    "IS NULL": "IS NOT NULL",
}
NEGATED |= {"IS NOT NULL": "IS NULL", "IS TRUE": "IS NOT TRUE", "IS NOT TRUE": "IS TRUE"}
NEGATED |= {"IS FALSE": "IS NOT FALSE", "IS NOT FALSE": "IS FALSE"}
NEGATED |= {"IS DISTINCT FROM": "IS NOT DISTINCT FROM", "IS NOT DISTINCT FROM": "IS DISTINCT FROM"}
_ORDERS = frozenset({"<", "<=", ">", ">="})


def simplify(plan: LogicalPlan) -> LogicalPlan:
    """Simplifies expressions, so that equal conditions of different texts become one (Flink:
    SimplifyFilterConditionRule).

    >>> from planner.examples import show
    >>> show("simplify", "SELECT a FROM t WHERE NOT (5 < b) AND s IN ('x') AND TRUE")
    Filter (NOT (5 < b) AND (s = 'x') AND TRUE)
      Scan t (topic)
    -->
    Filter ((b <= 5) AND (s = 'x'))
      Scan t (topic)

    Every rule holds for NULL and for errors: x = x is not TRUE, but x AND FALSE is FALSE even where
    x has an error.
    """
    return transform(plan, _simplify)


def _simplify(node: LogicalPlan) -> LogicalPlan:
    node = map_expressions(node, lambda e: rewrite(e, _rule))
    if not isinstance(node, Filter):
        return node
    predicate = _as_condition(node.predicate)
    if isinstance(predicate, Literal) and predicate.value is True:
        return node.input
    return node if predicate is node.predicate else replace(node, predicate=predicate)


def _as_condition(predicate: Scalar) -> Scalar:
    """The predicate of a filter, which passes rows where it is TRUE: a conjunct `x IS TRUE` is
    x."""
    parts = conjuncts(predicate)
    plain = tuple(_without_test(p) for p in parts)
    same = all(a is b for a, b in zip(parts, plain, strict=True))
    return predicate if same else conjunction(plain)


def _without_test(expression: Scalar) -> Scalar:
    while isinstance(expression, Call) and expression.function == "IS TRUE":
        expression = expression.args[0]
    return expression


def _rule(call: Call) -> Scalar:
    rule = _RULES.get(call.function)
    return call if rule is None else rule(call)


def _junction(call: Call) -> Scalar:
    """AND and OR made flat, without TRUE in AND and FALSE in OR, without repetition; FALSE makes an
    AND FALSE, TRUE an OR TRUE."""
    # TRUE decides an OR, FALSE an AND; the other literal changes nothing.
    decisive = call.function == "OR"
    operands: dict[str, Scalar] = {}
    changed = False
    for operand in _flat(call):
        # NULL is no such literal: NULL AND x is not x.
        if isinstance(operand, Literal) and operand.value is not None:
            if operand.value is decisive:
                return Literal(decisive, call.type)
            changed = True
        elif operand.digest in operands and is_deterministic(operand):
            changed = True
        else:
            # What is not deterministic is never the same twice, and gets a key of its own.
            operands[operand.digest if is_deterministic(operand) else str(len(operands))] = operand
    if not operands:
        return Literal(not decisive, call.type)
    if len(operands) == 1:
        return _typed(next(iter(operands.values())), call)
    # Unchanged calls stay the same objects, which tells the caller that nothing was done.
    return (
        call
        if not changed and len(operands) == len(call.args)
        else replace(call, args=tuple(operands.values()))
    )


def _flat(call: Call) -> list[Scalar]:
    operands: list[Scalar] = []
    for arg in call.args:
        operands += arg.args if isinstance(arg, Call) and arg.function == call.function else (arg,)
    return operands


def _typed(operand: Scalar, call: Call) -> Scalar:
    """The operand in place of the call if their types are equal: schemas must not change."""
    return operand if operand.type == call.type else call


def _not(call: Call) -> Scalar:
    operand = call.args[0]
    if isinstance(operand, Literal) and isinstance(operand.value, bool):
        return Literal(not operand.value, call.type)
    if not isinstance(operand, Call):
        return call
    if operand.function == "NOT":
        return operand.args[0]
    negated = NEGATED.get(operand.function)
    # NOT (NaN < 1) is TRUE, but NaN >= 1 is not.
    if negated is None or (operand.function in _ORDERS and _may_be_nan(operand)):
        return call
    return replace(operand, function=negated)


def _may_be_nan(call: Call) -> bool:
    return any(a.type.root in (Root.FLOAT, Root.DOUBLE) for a in call.args)


def _comparison(call: Call) -> Scalar:
    """The comparison with the literal on the right."""
    left, right = call.args
    if isinstance(left, Literal) and not isinstance(right, Literal):
        return replace(call, function=MIRRORED[call.function], args=(right, left))
    return call


def _in(call: Call) -> Scalar:
    """IN without repeated values; with a single value an equality."""
    value, *items = call.args
    # Non-deterministic items get a key of their own.
    distinct = {i.digest if is_deterministic(i) else str(n): i for n, i in enumerate(items)}
    if len(distinct) == 1:
        return replace(call, function="=", args=(value, *distinct.values()))
    return call if len(distinct) == len(items) else replace(call, args=(value, *distinct.values()))


def _test(call: Call) -> Scalar:
    """The value of a truth test of a literal; x for x IS TRUE and x IS NOT FALSE of an x that is
    never NULL."""
    operand = call.args[0]
    if isinstance(operand, Literal):
        return Literal(operand.value in _PASSING[call.function], call.type)
    same = (
        call.function in ("IS TRUE", "IS NOT FALSE")
        and not operand.type.nullable
        and operand.type == call.type
    )
    return operand if same else call


_PASSING = {
    "IS TRUE": (True,),
    "IS NOT TRUE": (False, None),
    "IS FALSE": (False,),
    "IS NOT FALSE": (True, None),
}


def _null_test(call: Call) -> Scalar:
    """The value of a NULL test of an x that is never NULL and never fails."""
    operand = call.args[0]
    # An x that fails must go on failing.
    if operand.type.nullable or can_fail(operand):
        return call
    return Literal(_NULL_TESTS[call.function], call.type)


_NULL_TESTS = {"IS NULL": False, "IS UNKNOWN": False, "IS NOT NULL": True, "IS NOT UNKNOWN": True}


def _distinct(call: Call) -> Scalar:
    """The value of x IS [NOT] DISTINCT FROM x for an x that never fails: NULL is not distinct from
    NULL."""
    left, right = call.args
    if left.digest != right.digest or not is_deterministic(left) or can_fail(left):
        return call
    return Literal(call.function == "IS NOT DISTINCT FROM", call.type)


def _cast(call: Call) -> Scalar:
    """The operand of a cast to its own type."""
    operand = call.args[0]
    return operand if operand.type == call.type else call


_RULES: dict[str, Callable[[Call], Scalar]] = {
    "AND": _junction,
    "OR": _junction,
    "NOT": _not,
    "IN": _in,
    **dict.fromkeys(_PASSING, _test),
    "CAST": _cast,
    "IS DISTINCT FROM": _distinct,
    "IS NOT DISTINCT FROM": _distinct,
    **dict.fromkeys(_NULL_TESTS, _null_test),
    **dict.fromkeys(MIRRORED, _comparison),
}
