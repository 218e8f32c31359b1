"""Leaves: the distinct atomic predicates of all rules, numbered.

Equal predicates of different rules are one leaf."""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from parser.errors import SqlError
from rules.condition import OPERATORS, TRANSFORMS, Opaque, Predicate, Variable
from rules.formula import RawEdge, apply, conjunction, constant
from rules.like import LikePattern, parse_like
from rules.logic import FALSE_TO_UNKNOWN, IDENTITY, NEGATION, TESTS
from udf.java.regex import JavaRegex, translate

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Comparable: TypeAlias = str | bool | int | float | Decimal


@dataclass(frozen=True, slots=True)
class Equal:
    """Equality with one of the values, which are not NULL."""

    values: frozenset[Comparable]


@dataclass(frozen=True, slots=True)
class Between:
    """A range from `low` to `high`; None means unbounded."""

    low: Comparable | None
    low_included: bool
    high: Comparable | None
    high_included: bool


@dataclass(frozen=True, slots=True)
class Nothing:
    """FALSE for every value: of interest where the variable is NULL."""


Matching: TypeAlias = Equal | Between | Nothing | LikePattern | JavaRegex | Network | Opaque


@dataclass(frozen=True, slots=True)
class Leaf:
    """A predicate on `variable` (None for opaque ones), TRUE for some values and FALSE for all
    others."""

    variable: Variable | None
    matching: Matching


class LeafTable:
    """Leaves by number, in order of appearance; leaf 0 is FALSE everywhere. `uses` counts the
    predicates that became the leaf."""

    def __init__(self) -> None:
        self.leaves: list[Leaf] = [Leaf(None, Nothing())]
        self.uses: list[int] = [0]
        self._numbers: dict[Leaf, int] = {}
        self._edges: dict[Hashable, RawEdge] = {}

    def edge(self, predicate: Predicate | Opaque) -> RawEdge:
        """The predicate as a function of a leaf. SqlError for a bad pattern, network or value."""
        known = self._edges.get(predicate)
        if known is None:
            known = self._edges[predicate] = self._make(predicate)
        # Leaf predicates only count: constants and conjunctions are no single leaf.
        if isinstance(known[1], int):
            self.uses[known[1]] += 1
        return known

    def _make(self, predicate: Predicate | Opaque) -> RawEdge:
        if isinstance(predicate, Opaque):
            return self._leaf(None, predicate)
        variable, operator, value = predicate.variable, predicate.operator, predicate.value
        if operator not in OPERATORS or not set(variable.transforms) <= set(TRANSFORMS):
            raise SqlError(f"the rule engine knows no predicate '{operator}' on '{variable}'")
        if operator == "IS NULL":
            # A leaf that is FALSE for every value is UNKNOWN exactly where the variable is NULL.
            return apply(TESTS["UNKNOWN", False], self._leaf(variable, Nothing()))
        if operator == "IN":
            return self._membership(variable, value)
        if operator == "BETWEEN":
            return self._between(variable, value)
        if operator == "LIKE":
            return self._like(variable, value)
        return (
            constant(None) if value is None else self._constant_operand(variable, operator, value)
        )

    def _leaf(self, variable: Variable | None, matching: Matching) -> RawEdge:
        leaf = Leaf(variable, matching)
        number = self._numbers.get(leaf)
        if number is None:
            number = self._numbers[leaf] = len(self.leaves)
            self.leaves.append(leaf)
            self.uses.append(0)
        return IDENTITY, number

    def _constant_operand(self, variable: Variable, operator: str, value: Hashable) -> RawEdge:
        if operator == "REGEXP":
            text = _text(value, operator)
            # The empty pattern is never TRUE, but UNKNOWN for NULL.
            return self._leaf(variable, translate(text) if text else Nothing())
        if operator == "CIDR_MATCH":
            return self._leaf(variable, _network(_text(value, operator)))
        comparable = _comparable(value)
        if comparable != comparable:  # nothing is equal to NaN, less or greater
            nothing = self._leaf(variable, Nothing())
            return apply(NEGATION, nothing) if operator == "<>" else nothing
        match operator:
            case "=":
                return self._leaf(variable, Equal(frozenset((comparable,))))
            case "<>":
                # Negation of a leaf, so that `=` and `<>` share it.
                return apply(NEGATION, self._leaf(variable, Equal(frozenset((comparable,)))))
            case "<" | "<=":
                return self._leaf(variable, Between(None, False, comparable, operator == "<="))
        return self._leaf(variable, Between(comparable, operator == ">=", None, False))

    def _membership(self, variable: Variable, value: Hashable) -> RawEdge:
        match value:
            case (tuple(values), bool(has_null)):
                # NaN equals nothing.
                known = frozenset(c for c in map(_comparable, values) if c == c)
            case _:
                raise SqlError("the value of IN must be (values, whether there is a NULL)")
        edge = self._leaf(variable, Equal(known) if known else Nothing())
        # With a NULL in the list a value that is not found is UNKNOWN, not FALSE.
        return apply(FALSE_TO_UNKNOWN, edge) if has_null else edge

    def _between(self, variable: Variable, value: Hashable) -> RawEdge:
        match value:
            case (low, high):
                pass
            case _:
                raise SqlError("the value of BETWEEN must be (low, high)")
        # A NULL bound makes one comparison UNKNOWN, but the other may still be FALSE.
        if low is None or high is None:
            bounds = ((">=", low), ("<=", high))
            return conjunction([self._make(Predicate(variable, op, bound)) for op, bound in bounds])
        low, high = _comparable(low), _comparable(high)
        if low != low or high != high:
            return self._leaf(variable, Nothing())
        return self._leaf(variable, Between(low, True, high, True))

    def _like(self, variable: Variable, value: Hashable) -> RawEdge:
        match value:
            case (str(pattern), None | str() as escape):
                like = parse_like(_valid(pattern), escape)
            case (None, _) | None:
                return constant(None)
            case _:
                raise SqlError("the value of LIKE must be (pattern, escape or None)")
        if like.anything:
            # `%` is TRUE of every value, but UNKNOWN for NULL: the negation of what is never TRUE.
            return apply(NEGATION, self._leaf(variable, Nothing()))
        if like.equality is not None:
            return self._leaf(variable, Equal(frozenset((like.equality,))))
        return self._leaf(variable, like)


def _text(value: Hashable, operator: str) -> str:
    if not isinstance(value, str):
        raise SqlError(f"{operator} needs a text, not {value!r}")
    return _valid(value)


def _comparable(value: object) -> Comparable:
    if not isinstance(value, str | bool | int | float | Decimal):
        raise SqlError(f"the rule engine cannot compare with {value!r}")
    return _valid(value) if isinstance(value, str) else value


def _valid(text: str) -> str:
    """Lone surrogates stand for broken bytes in values: no literal may have them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SqlError(f"the text {text!r} is not valid Unicode") from None
    return text


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError as error:
        raise SqlError(
            f"invalid network '{text}'", detail=str(error), hint="write for example '10.0.0.0/8'"
        ) from None


def expected_share(leaf: Leaf, uses: int) -> float | None:
    """Estimates the share of rows on which the leaf is TRUE, to choose access predicates: a long
    text is rare, a short one and what many rules ask for is common. None for leaves that no index
    finds."""
    match leaf.matching:
        case Opaque():
            return None
        case Nothing():
            return 0.0
        case Equal(values):
            # Long texts are rare: 0.7 ** 10 is under three per cent.
            share = sum(0.01 + 0.7 ** len(v) if isinstance(v, str) else 0.05 for v in values)
        case LikePattern():
            share = 0.005 + 0.6 ** max(1, len(leaf.matching.longest))
            if leaf.matching.literals[0] or leaf.matching.literals[-1]:
                share /= 2
        case Between():
            share = 0.5
        case JavaRegex():
            share = 0.3
        case _:
            share = 0.2
    # Used by many rules, a leaf makes many candidates each time it is TRUE.
    return min(share, 1.0) * (1 + uses)
