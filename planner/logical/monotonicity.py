"""Monotonicity of columns under updates: the algebra of `LogicalPlan.monotonicity`.

Where values only grow, MAX need not take back what an update replaces, and Top-N keeps no more rows
than it shows. It is Flink's RelModifiedMonotonicity (FlinkRelMdModifiedMonotonicity): the results
in the end are the same with and without it, but the changes on the way there are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum, Flag
from typing import Self

from planner.scalar import COMPARISONS, MIRRORED, Call, ColumnRef, Literal, Scalar, conjuncts_of

_CHOICES = frozenset({"CASE", "IF"})
_TESTS = frozenset({"NOT", "IS NOT TRUE", "IS TRUE", "IS NULL", "IS NOT NULL"})


class Monotonicity(Enum):
    """The way in which updates move the values of a column."""

    CONSTANT = "constant"
    INCREASING = "increasing"
    DECREASING = "decreasing"
    ANY = "any"


class Readers(Flag):
    """The operations above that act on what is known of columns. Flink's planner has no rule for
    some operations: aggregates above these retract as they do there. Top-N in turn does not rely on
    the updates of joins and unions."""

    NONE = 0
    AGGREGATES = 1
    RANKS = 2
    ALL = 3


@dataclass(frozen=True)
class ModifiedMonotonicity:
    """The monotonicity of every column of a node, and which operations above act on it."""

    columns: Mapping[str, Monotonicity]
    readers: Readers = Readers.ALL

    @classmethod
    def of_all(
        cls, names: Iterable[str], monotonicity: Monotonicity, readers: Readers = Readers.ALL
    ) -> Self:
        """Returns the same monotonicity for all columns."""
        return cls(dict.fromkeys(names, monotonicity), readers)

    def __getitem__(self, column: str) -> Monotonicity:
        return self.columns[column]

    def is_constant(self, columns: Iterable[str]) -> bool:
        """True if no update changes these columns."""
        return all(self.columns[c] is Monotonicity.CONSTANT for c in columns)

    @property
    def is_updated(self) -> bool:
        """True if an update may change some column."""
        return not self.is_constant(self.columns)

    def known_to(self, reader: Readers) -> Mapping[str, Monotonicity]:
        """The columns as an operation above may take them; empty where it does not act on them."""
        return self.columns if reader in self.readers else {}

    def unknown(self, names: Iterable[str]) -> Self:
        """The columns `names` of an operation that computes new values: ANY, unless no row of its
        input is updated."""
        known = Monotonicity.ANY if self.is_updated else Monotonicity.CONSTANT
        return replace(self, columns=dict.fromkeys(names, known))

    def projected(self, items: Iterable[tuple[str, Scalar]]) -> Self:
        """The monotonicity above a projection.

        Columns that it forwards or casts keep theirs, computed ones are ANY."""
        pairs = [(name, _without_casts(value)) for name, value in items]
        if not self.is_updated:
            return self.unknown(name for name, _ in pairs)
        moved = {
            name: self.columns[value.name] if isinstance(value, ColumnRef) else Monotonicity.ANY
            for name, value in pairs
        }
        return replace(self, columns=moved)

    def filtered(self, predicate: Scalar) -> Self:
        """The monotonicity above a filter.

        Columns are unknown if an update may drop a row that passed before, else unchanged."""
        moving = {n: m for n, m in self.columns.items() if m is not Monotonicity.CONSTANT}
        return self.unknown(self.columns) if _may_turn_false(predicate, moving) else self

    def joined(self, other: Self, names: Iterable[str], readers: Readers) -> Self:
        """The columns `names` of a join of rows of both sides."""
        both = {**self.columns, **other.columns}
        return replace(
            self,
            columns={n: both[n] for n in names},
            readers=self.readers & other.readers & readers,
        )


def of_union(
    branches: Iterable[ModifiedMonotonicity | None], names: Iterable[str], readers: Readers
) -> ModifiedMonotonicity | None:
    """Known where it is the same in all branches, column by column in order."""
    known: set[tuple[Monotonicity, ...]] = set()
    for branch in branches:
        if branch is None:
            return None
        known.add(tuple(branch.columns.values()))
        readers &= branch.readers
    if len(known) == 1:
        return ModifiedMonotonicity(dict(zip(names, known.pop(), strict=True)), readers)
    return ModifiedMonotonicity.of_all(names, Monotonicity.ANY, readers)


def of_aggregate(
    function: str, argument: str | None, below: ModifiedMonotonicity, nonnegative: frozenset[str]
) -> Monotonicity:
    """The result of an aggregate call as rows come and are updated; `nonnegative`: the columns of
    its input that have no value below zero."""
    name = function.removesuffix(" DISTINCT")
    own = {
        "COUNT": Monotonicity.INCREASING,
        "MAX": Monotonicity.INCREASING,
        "MIN": Monotonicity.DECREASING,
    }.get(name, Monotonicity.ANY)
    if name == "SUM" and argument in nonnegative:
        own = Monotonicity.INCREASING
    if name == "COUNT" or argument is None or not below.is_updated or below[argument] is own:
        return own
    return Monotonicity.ANY


def is_nonnegative(value: Scalar, nonnegative: frozenset[str]) -> bool:
    """True if an expression is known to have no value below zero; `nonnegative`: the columns of
    which that is known. NULL is none."""
    if isinstance(value, Literal):
        number = value.value
        return number is None or (isinstance(number, int | float | Decimal) and number >= 0)
    if isinstance(value, ColumnRef):
        return value.name in nonnegative
    return value.function in _CHOICES and all(
        not isinstance(v, ColumnRef) and is_nonnegative(v, nonnegative) for v in _results(value)
    )


def kept_nonnegative(predicate: Scalar) -> Iterator[str]:
    """The columns that the conditions of a filter keep from zero on: v > 0, 0 <= v, v = 5."""
    for condition in conjuncts_of(predicate):
        if not isinstance(condition, Call) or condition.function not in COMPARISONS:
            continue
        left, right = condition.args
        function = condition.function
        if isinstance(_without_casts(right), ColumnRef):
            left, right, function = right, left, MIRRORED[function]
        value = _without_casts(left)
        if (
            isinstance(value, ColumnRef)
            and function in (">", ">=", "=")
            and is_nonnegative(right, frozenset())
        ):
            yield value.name


def _results(case: Call) -> tuple[Scalar, ...]:
    """The results of CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END."""
    return (*case.args[1:-1:2], case.args[-1])


def _without_casts(value: Scalar) -> Scalar:
    while isinstance(value, Call) and value.function == "CAST":
        (value,) = value.args
    return value


def _may_turn_false(predicate: Scalar, moving: Mapping[str, Monotonicity]) -> bool:
    """True if an update may make a condition FALSE that was TRUE, as far as Flink's planner sees:
    it looks at comparisons of columns alone."""
    if isinstance(predicate, ColumnRef):
        return predicate.name in moving
    if not isinstance(predicate, Call):
        return False
    args = [_without_casts(a) for a in predicate.args]
    moved = [moving[a.name] for a in args if isinstance(a, ColumnRef) and a.name in moving]
    match predicate.function:
        case "AND" | "OR":
            return any(_may_turn_false(a, moving) for a in args)
        case ">" | ">=":
            return bool(moved) and moved[0] is not Monotonicity.INCREASING
        case "<" | "<=":
            return bool(moved) and moved[0] is not Monotonicity.DECREASING
        case "=" | "<>" | "IN" | "NOT IN":
            return bool(moved)
    return predicate.function in _TESTS and _may_turn_false(args[0], moving)
