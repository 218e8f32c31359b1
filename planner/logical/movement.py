"""How the values of a row move as it is updated: what lets Top-N keep no more than the rows that it
shows.

A movement tells of a column 1 where its value never falls, -1 where it never rises, 0 where it
stays; columns that do as they like are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from planner.scalar import Call, ColumnRef, Literal, Scalar, walk

Movement: TypeAlias = Mapping[str, int]

_RISING = ("COUNT", "COUNT DISTINCT", "MAX")


def of_items(items: Iterable[tuple[str, Scalar]], movement: Movement) -> Movement:
    """The movement of projected columns: of a column that is handed on, perhaps in another type."""
    found = {}
    for name, value in items:
        while isinstance(value, Call) and value.function == "CAST":
            (value,) = value.args
        if isinstance(value, ColumnRef) and value.name in movement:
            found[name] = movement[value.name]
    return found


def stays_true(predicate: Scalar, columns: Iterable[str], movement: Movement) -> bool:
    """Whether no update makes a predicate false that was true; it may be known though it is not
    seen here."""
    moving = {c for c in columns if movement.get(c) != 0}
    if not moving & {n.name for n in walk(predicate) if isinstance(n, ColumnRef)}:
        return True
    if not isinstance(predicate, Call):
        return False
    if predicate.function in ("AND", "OR"):
        return all(stays_true(a, columns, movement) for a in predicate.args)
    wanted = {">": 1, ">=": 1, "<": -1, "<=": -1}.get(predicate.function)
    value = predicate.args[0]
    return (
        wanted is not None and isinstance(value, ColumnRef) and movement.get(value.name) == wanted
    )


def of_aggregate(function: str, never_negative: bool, argument: int | None) -> int | None:
    """The movement of an aggregate; `argument`: that of its argument, 0 where rows only come. None:
    it has none."""
    own = (
        1
        if function in _RISING or (function == "SUM" and never_negative)
        else -1
        if function == "MIN"
        else None
    )
    if own is None or function.startswith("COUNT"):
        return own
    return own if argument in (0, own) else None


def is_never_negative(value: Scalar) -> bool | None:
    """Whether an expression is never below zero; None where that is as its column is."""
    if isinstance(value, Literal):
        held = value.value
        return held is None or (value.type.is_numeric and not str(held).startswith("-"))
    if isinstance(value, ColumnRef):
        return None
    if value.function == "CASE":
        results = [*value.args[1::2], *value.args[-1:]]
        return all(is_never_negative(r) is True for r in results)
    return False


def keeps_positive(predicate: Scalar, column: str) -> bool:
    """Whether a row that the predicate lets through has no negative value in the column."""
    if not isinstance(predicate, Call):
        return False
    if predicate.function == "AND":
        return any(keeps_positive(a, column) for a in predicate.args)
    if predicate.function not in (">", ">=", "=") or len(predicate.args) != 2:
        return False
    left, right = predicate.args
    return isinstance(left, ColumnRef) and left.name == column and is_never_negative(right) is True
