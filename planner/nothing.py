"""Aggregates of no rows at all. Over a stream an aggregate of all rows says nothing until a row comes; where the query
itself says that none ever will (WHERE FALSE, LIMIT 0), Flink's planner answers it: a count is 0, the rest NULL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import TypeAlias, TypeVar

from planner.binder import pool
from planner.logical import (
    BinaryJoin,
    Filter,
    GroupAggregate,
    JoinKind,
    LogicalPlan,
    Over,
    Rank,
    SetOperation,
    Values,
)
from planner.passes.constant_folding import constant_folding, folded
from planner.passes.simplify import simplify
from planner.rewrite import conjuncts, transform
from planner.scalar import Call, ColumnRef, Literal, Scalar

P = TypeVar("P", bound=LogicalPlan)
_Number: TypeAlias = int | Decimal | float
# From the least value to the greatest, and whether each is excluded.
_Range: TypeAlias = tuple[tuple[_Number, bool], tuple[_Number, bool]]

_ANSWERED = {"COUNT": 0, "SUM": None, "AVG": None, "MIN": None, "MAX": None}
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPEN: _Range = ((float("-inf"), False), (float("inf"), False))


def answered(plan: P) -> P:
    """The plan with the answers of aggregates over nothing instead of them."""
    if not _aggregates_all(plan):
        return plan
    known = simplify(constant_folding(plan))
    changed = transform(known, _answer)
    if changed is known:
        return plan
    assert isinstance(changed, type(plan))
    return changed


def _aggregates_all(plan: LogicalPlan) -> bool:
    return (isinstance(plan, GroupAggregate) and not plan.keys) or any(map(_aggregates_all, plan.inputs))


def _answer(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, GroupAggregate) or node.keys or not is_nothing(node.input):
        return node
    functions = [a.function.removesuffix(" DISTINCT") for a in node.aggregates]
    if any(f not in _ANSWERED for f in functions):
        return node
    row = tuple(pool.literal(_ANSWERED[f], a.type) for f, a in zip(functions, node.aggregates, strict=True))
    return Values((row,), node.schema)


def is_nothing(plan: LogicalPlan) -> bool:
    """Whether it is certain from the query alone that no row ever comes."""
    match plan:
        case Values():
            return not plan.rows
        case Filter():
            return _is_never(plan.predicate) or is_nothing(plan.input)
        case Rank():
            return plan.end < plan.start or is_nothing(plan.input)
        case GroupAggregate(keys=()) | Over():  # Flink does not look below OVER
            return False
        case BinaryJoin():
            left, right = map(is_nothing, plan.inputs)
            if plan.kind in (JoinKind.INNER, JoinKind.SEMI) and _is_never(plan.condition):
                return True
            if plan.kind is JoinKind.FULL:
                return left and right
            return (left and not plan.kind.keeps(1)) or (
                right and not plan.kind.keeps(0) and plan.kind is not JoinKind.ANTI
            )
        case SetOperation():
            left, right = map(is_nothing, plan.inputs)
            return left or (right and not plan.is_except)
    return bool(plan.inputs) and all(map(is_nothing, plan.inputs))


def _is_never(predicate: Scalar) -> bool:
    """Whether it is FALSE or NULL for every row."""
    parts = conjuncts(predicate)
    return any(map(_is_false, parts)) or any(map(_is_empty, _ranges(parts)))


def _is_empty(values: _Range) -> bool:
    (low, above), (high, below) = values
    return low > high or (low == high and (above or below))


def _is_false(part: Scalar) -> bool:
    if isinstance(part, Literal):
        return part.value is not True
    if not isinstance(part, Call):
        return False
    branches = _in_branches(part)
    if branches:
        return all(isinstance(b, Literal) and b.value is not True for b in branches)
    return part.function in ("<>", "<", ">") and part.deterministic and part.args[0].digest == part.args[1].digest


def _in_branches(part: Call) -> list[Scalar]:
    """What a condition that asks something of a CASE is in each of its branches; none for another one."""
    cases = [n for n, a in enumerate(part.args) if isinstance(a, Call) and a.function == "CASE"]
    if part.function in ("AND", "OR", "CASE") or not cases:
        return []
    asked = part.args[cases[-1]]
    assert isinstance(asked, Call)
    results = [*asked.args[1::2], asked.args[-1]]
    before, behind = part.args[: cases[-1]], part.args[cases[-1] + 1 :]
    return [folded(replace(part, args=(*before, result, *behind))) for result in results]


def _ranges(parts: Iterable[Scalar]) -> Iterable[_Range]:
    """What comparisons with numbers leave of each column."""
    found: dict[str, _Range] = {}
    for part in parts:
        if not isinstance(part, Call) or part.function not in _MIRRORED:
            continue
        function, (column, number) = part.function, part.args
        if isinstance(column, Literal):
            function, column, number = _MIRRORED[function], number, column
        if isinstance(column, ColumnRef) and isinstance(number, Literal) and _is_number(number):
            found[column.name] = _narrowed(found.get(column.name, _OPEN), function, number.value)  # type: ignore[arg-type]
    return found.values()


def _is_number(literal: Literal) -> bool:
    return literal.type.is_numeric and isinstance(literal.value, int | Decimal | float)


def _narrowed(held: _Range, function: str, number: _Number) -> _Range:
    low, high = held
    strict = function in ("<", ">")
    if function in ("=", ">", ">="):
        low = max(low, (number, strict))
    if function in ("=", "<", "<="):
        high = min(high, (number, strict), key=lambda bound: (bound[0], not bound[1]))
    return low, high
