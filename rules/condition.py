"""Conditions of rules: three-valued expressions over columns, as frozen values.

A condition is a tree. AND and OR take any number of operands, and a tree may be a thousand levels
deep: code that walks one needs a stack of its own. A rule matches the rows on which its condition
is TRUE."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal, TypeAlias

TRANSFORMS = ("LOWER", "UPPER", "TRIM", "LTRIM", "RTRIM")
OPERATORS = (
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "BETWEEN",
    "IN",
    "LIKE",
    "REGEXP",
    "IS NULL",
    "CIDR_MATCH",
)


@dataclass(frozen=True, slots=True)
class Variable:
    """A column's value after `transforms` (names of TRANSFORMS, the innermost first). NULL where
    the column is NULL."""

    field: str
    transforms: tuple[str, ...] = ()

    def __hash__(self) -> int:
        # A key of every batch's memo: few variables differ by their transforms alone.
        return hash(self.field)

    def __str__(self) -> str:
        text = self.field
        for name in self.transforms:
            text = f"{name}({text})"
        return text


@dataclass(frozen=True, slots=True)
class Predicate:
    """A comparison of `variable` with constants. NULL where the variable is NULL, but for IS NULL.

    `value` by operator: `=` to `>=`: a str, int, float, Decimal or bool that fits the column's type
    (an int in the column's unit for dates and times; None makes the predicate NULL). BETWEEN:
    `(low, high)`. IN: `(values, has_null)`, the list's values without NULL and whether it has a
    NULL. LIKE: `(pattern, escape or None)`; without an escape there is none. REGEXP: a pattern of
    Java's dialect, TRUE where it is found anywhere. CIDR_MATCH: a network such as `10.0.0.0/8`;
    FALSE for a text that is no address. IS NULL: None."""

    variable: Variable
    operator: str
    value: Hashable = None


@dataclass(frozen=True, slots=True)
class And:
    """TRUE where all are (so also without any), FALSE where one is FALSE, else NULL."""

    children: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """FALSE where all are (so also without any), TRUE where one is TRUE, else NULL."""

    children: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """NULL stays NULL."""

    child: Condition


@dataclass(frozen=True, slots=True)
class Test:
    """`child IS [NOT] TRUE | FALSE | UNKNOWN`: never NULL."""

    __test__ = False  # not a class of tests

    child: Condition
    value: Literal["TRUE", "FALSE", "UNKNOWN"]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL for every row."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Opaque:
    """Another boolean expression, which the caller of `match` evaluates: `key` is the caller's name
    for it."""

    key: str


Condition: TypeAlias = Predicate | And | Or | Not | Test | Constant | Opaque
