"""Splits a filter's predicate: a condition that `rules` evaluates over distinct values, and the
residual that it cannot.

A predicate is split at its top-level AND. A conjunct that consists of comparisons between a column
(or LOWER, UPPER, TRIM of one) and literals becomes part of the rule's condition; the others stay
scalar expressions, evaluated with exact error masks on the rows where the condition holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as LiteralText
from typing import TypeAlias

import pyarrow as pa

from parser.types import DataType, Root
from planner.rewrite import conjuncts
from planner.scalar import COMPARISONS, MIRRORED, Call, ColumnRef, Literal, Scalar, is_deterministic
from rules.condition import And, Condition, Constant, Not, Or, Predicate, Test, Variable

TRANSFORMS = frozenset({"LOWER", "UPPER", "TRIM", "LTRIM", "RTRIM"})
_Truth: TypeAlias = LiteralText["TRUE", "FALSE", "UNKNOWN"]
_TRUTHS: tuple[_Truth, ...] = ("TRUE", "FALSE", "UNKNOWN")
_TESTS = {f"IS {n}{v}": (v, bool(n)) for n in ("", "NOT ") for v in _TRUTHS}
# Columns whose Arrow values compare as SQL does; CHAR pads, DECIMAL and FLOAT have kernels of their
# own.
_INTEGERS = {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT}
_VARIABLES = frozenset({Root.VARCHAR, Root.BOOLEAN, Root.DOUBLE, Root.DATE, *_INTEGERS})


@dataclass(frozen=True)
class Rule:
    """A filter as a rule. `condition`: over columns; `residual`: what else must be TRUE of a row
    that meets it (None: nothing)."""

    condition: Condition
    residual: Scalar | None


def to_rule(predicate: Scalar) -> Rule:
    """Splits a filter's predicate. The rule's condition is the constant TRUE when no conjunct can
    be indexed."""
    conditions: list[Condition] = []
    residual: list[Scalar] = []
    # AND of SQL: a row passes where all conjuncts are TRUE, wherever each is evaluated.
    for conjunct in conjuncts(predicate):
        condition = to_condition(conjunct)
        if condition is None:
            residual.append(conjunct)
        else:
            conditions.append(condition)
    return Rule(_all(conditions), _conjunction(residual, predicate.type))


def _all(conditions: list[Condition]) -> Condition:
    if not conditions:
        return Constant(True)
    return conditions[0] if len(conditions) == 1 else And(tuple(conditions))


def _conjunction(parts: list[Scalar], kind: DataType) -> Scalar | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return Call("AND", tuple(parts), kind, all(map(is_deterministic, parts)))


def to_condition(expression: Scalar) -> Condition | None:
    """The expression as a condition over distinct values; None where a part of it is none."""
    if isinstance(expression, Literal):
        return Constant(bool(expression.value) if expression.value is not None else None)
    if isinstance(expression, ColumnRef):
        return _predicate(expression, "=", True) if expression.type.root is Root.BOOLEAN else None
    name = expression.function
    if name in ("AND", "OR"):
        children = [to_condition(a) for a in expression.args]
        known = tuple(c for c in children if c is not None)
        # Only a top-level AND is split: elsewhere one unknown part makes the whole a residual.
        if len(known) < len(children):
            return None
        return And(known) if name == "AND" else Or(known)
    if name == "NOT" or name in _TESTS:
        child = to_condition(expression.args[0])
        if child is None:
            return None
        if name == "NOT":
            return Not(child)
        truth, negated = _TESTS[name]
        return Test(child, truth, negated)
    return _leaf(name, expression.args)


def _leaf(name: str, args: tuple[Scalar, ...]) -> Condition | None:
    """A test of one column; None for any other call."""
    if not args:
        return None
    if name in ("IS NULL", "IS NOT NULL"):
        test = _predicate(args[0], "IS NULL", None)
        return test if name == "IS NULL" or test is None else Not(test)
    if name in COMPARISONS:
        return _comparison(name, args[0], args[1])
    values = _literals(args[1:], args[0].type)
    if values is None:
        return None
    if name == "IN":
        known = tuple(v for v in values if v is not None)
        # Whether a NULL is in the list is told apart, as it makes a miss UNKNOWN.
        return _predicate(args[0], "IN", (known, len(known) < len(values)))
    # LIKE and the like with a NULL operand stay scalar expressions.
    return None if None in values else _test(name, args[0], values)


def _test(name: str, subject: Scalar, values: list[object]) -> Condition | None:
    match name:
        case "BETWEEN":
            return _predicate(subject, name, (values[0], values[1]))
        case "LIKE":  # the second value is the escape character
            return _predicate(subject, name, (values[0], values[1] if len(values) > 1 else None))
        case "REGEXP" | "CIDR_MATCH":
            return _predicate(subject, name, values[0])
    return None


def _comparison(name: str, left: Scalar, right: Scalar) -> Condition | None:
    if isinstance(left, Literal):
        # The column on the left: 5 < a is a > 5.
        name, left, right = MIRRORED[name], right, left
    values = _literals((right,), left.type)
    if values is None or values[0] is None:
        return None
    return _predicate(left, name, values[0])


def _literals(args: tuple[Scalar, ...], like: DataType) -> list[object] | None:
    """The values of literals that compare with a column of type `like` without a cast; None where
    an argument is no such literal."""
    values: list[object] = []
    for arg in args:
        if not isinstance(arg, Literal) or not _comparable(arg.type.arrow, like.arrow):
            return None
        values.append(arg.value)
    return values


def _comparable(literal: pa.DataType, column: pa.DataType) -> bool:
    # Integers of any width compare exactly; other types must be equal, for a cast could change
    # values.
    both_integers = pa.types.is_integer(literal) and pa.types.is_integer(column)
    return bool(literal.equals(column) or both_integers or pa.types.is_null(literal))


def _predicate(subject: Scalar, operator: str, value: object) -> Condition | None:
    """A test of a column, or of LOWER, UPPER or TRIM of one; None for any other subject."""
    transforms: list[str] = []
    while isinstance(subject, Call) and subject.function in TRANSFORMS and len(subject.args) == 1:
        transforms.append(subject.function)
        subject = subject.args[0]
    if not isinstance(subject, ColumnRef) or subject.type.root not in _VARIABLES:
        return None
    if transforms and subject.type.root is not Root.VARCHAR:
        return None
    # Innermost first: LOWER(TRIM(x)) is ("TRIM", "LOWER").
    return Predicate(Variable(subject.name, tuple(reversed(transforms))), operator, value)
