"""Conditions that are TRUE for no row, as far as Flink's planner sees it in their text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from math import prod
from typing import TypeAlias

from parser.types import Root
from planner.passes.constant_folding import folded
from planner.passes.simplify import NEGATED
from planner.rewrite import conjuncts
from planner.scalar import COMPARISONS, MIRRORED, Call, Literal, Scalar
from udf.registry import traits_of

_Value: TypeAlias = int | Decimal | float | str
# A bound, and whether it is excluded itself; None where there is none.
_Bound: TypeAlias = tuple[_Value, bool] | None

# The most combinations of alternatives of ORs that are looked at beside the other conditions.
_FEW = 64


def is_unsatisfiable(predicates: Iterable[Scalar]) -> bool:
    """Returns True if the predicates are never TRUE together.

    One of them never is, or two of them contradict each other about an expression's values."""
    parts = [p for predicate in predicates for part in conjuncts(predicate) for p in _bounds(part)]
    if any(map(_is_false, parts)) or _exclude(parts) or any(v.is_empty for v in _values(parts)):
        return True
    return _no_alternative_fits(parts)


def _no_alternative_fits(parts: Sequence[Scalar]) -> bool:
    """Returns True if the first OR among the conditions has no operand that fits the others.

    False without an OR, and where there are too many combinations to look at."""
    choices = [p for p in parts if isinstance(p, Call) and p.function == "OR"]
    if not choices or prod(len(c.args) for c in choices) > _FEW:
        return False
    others = [p for p in parts if p is not choices[0]]
    return all(is_unsatisfiable((*others, way)) for way in choices[0].args)


def _bounds(part: Scalar) -> Iterator[Scalar]:
    """Yields [NOT] BETWEEN as its two comparisons, and NOT of AND and OR as conditions on their
    operands."""
    match part:
        case Call("NOT", (Call("NOT", (inner,)),)):
            yield from (p for each in conjuncts(inner) for p in _bounds(each))
        case Call("NOT", (Call("OR", ways),)):
            yield from (p for way in ways for p in _bounds(replace(part, args=(way,))))
        case Call("NOT", (Call("AND", all_of),)):
            yield replace(part, function="OR", args=tuple(replace(part, args=(p,)) for p in all_of))
        case Call("NOT", (Call(function) as call,)) if function in NEGATED:
            yield replace(call, function=NEGATED[function])
        case Call("BETWEEN", (value, low, high)):
            yield replace(part, function=">=", args=(value, low))
            yield replace(part, function="<=", args=(value, high))
        case Call("NOT", (Call("BETWEEN", (value, low, high)),)):
            sides = (
                replace(part, function="<", args=(value, low)),
                replace(part, function=">", args=(value, high)),
            )
            yield replace(part, function="OR", args=sides)
        case _:
            yield part


def _is_false(part: Scalar) -> bool:
    """Returns True if the condition is FALSE or NULL for every row."""
    if isinstance(part, Literal):
        return part.value is not True
    if not isinstance(part, Call):
        return False
    match part.function:
        case "AND":
            return is_unsatisfiable(part.args)
        case "OR":
            return all(map(_is_false, part.args))
        case "CASE":
            return all(map(_is_false, (*part.args[1::2], part.args[-1])))
        case "COALESCE" if not part.args[0].type.nullable:
            return _is_false(part.args[0])
    if part.function in COMPARISONS and any(
        isinstance(a, Literal) and a.value is None for a in part.args
    ):
        return True
    branches = _in_branches(part)
    if branches:
        return all(map(_is_false, branches))
    return (
        part.function in ("<>", "<", ">")
        and part.deterministic
        and part.args[0].digest == part.args[1].digest
    )


def _in_branches(part: Call) -> list[Scalar]:
    """Returns the condition on each result of the CASE that it reads.

    Empty where it reads none, and where texts of several lengths are compared, between which Flink
    has a cast."""
    cases = [n for n, a in enumerate(part.args) if isinstance(a, Call) and a.function == "CASE"]
    if not cases:
        return []
    asked = part.args[cases[-1]]
    assert isinstance(asked, Call)
    results = [*asked.args[1::2], asked.args[-1]]
    lengths = {
        a.type.length
        for a in (*part.args, *results)
        if isinstance(a, Literal) and a.type.is_string and a.value
    }
    if part.function in COMPARISONS and len(lengths) > 1:
        return []
    before, behind = part.args[: cases[-1]], part.args[cases[-1] + 1 :]
    return [folded(replace(part, args=(*before, result, *behind))) for result in results]


def _exclude(parts: Sequence[Scalar]) -> bool:
    """Returns True if one condition is the opposite of another."""
    known = {p.digest for p in parts}
    calls = [p for p in parts if isinstance(p, Call) and p.deterministic]
    opposite = (
        replace(c, function=NEGATED[c.function]).digest for c in calls if c.function in NEGATED
    )
    return any(d in known for d in opposite) or any(
        c.function == "NOT" and c.args[0].digest in known for c in calls
    )


@dataclass
class _Values:
    """The values of an expression that conditions leave."""

    low: _Bound = None
    high: _Bound = None
    one_of: set[_Value] | None = None
    none_of: set[_Value] = field(default_factory=set)
    null: bool = False
    present: bool = False

    @property
    def is_empty(self) -> bool:
        if self.null:
            return self.present
        if self.one_of is not None:
            return not any(self._holds(v) for v in self.one_of)
        if self.low is None or self.high is None:
            return False
        if self.low[0] == self.high[0] and self.low[0] in self.none_of:
            return True
        return not _between(
            self.low[0], (self.low[0], False), (self.high[0], self.low[1] or self.high[1])
        )

    def _holds(self, value: _Value) -> bool:
        return value not in self.none_of and _between(value, self.low, self.high)


def _between(value: _Value, low: _Bound, high: _Bound) -> bool:
    above = low is None or (value > low[0] if low[1] else value >= low[0])  # type: ignore[operator]
    below = high is None or (value < high[0] if high[1] else value <= high[0])  # type: ignore[operator]
    return above and below


def _values(parts: Iterable[Scalar]) -> Iterable[_Values]:
    """Returns, for each expression, the values that comparisons with literals leave."""
    found: dict[str, _Values] = defaultdict(_Values)
    for part in parts:
        if isinstance(part, Call) and part.deterministic:
            _narrow(found, part)
    return found.values()


def _narrow(found: dict[str, _Values], part: Call) -> None:
    function, (value, *others) = part.function, part.args
    if function in MIRRORED and isinstance(value, Literal):
        function, value, others = MIRRORED[function], others[0], [value]
    held = found[value.digest]
    if function in ("IS NULL", "IS NOT NULL"):
        held.null |= function == "IS NULL"
        held.present |= function == "IS NOT NULL"
    for there in _present(part):
        found[there.digest].present = True
    if function not in MIRRORED and function != "IN":
        return
    literals = [o.value for o in others if isinstance(o, Literal) and _is_comparable(o)]
    if len(literals) == len(others):
        _keep(held, function, literals)  # type: ignore[arg-type]


def _present(part: Scalar) -> Iterator[Scalar]:
    """The expressions that are not NULL where the condition is TRUE; of IN, the value alone."""
    if not isinstance(part, Call):
        return
    strict = part.args if traits_of(part.function).strict else ()
    for arg in part.args[:1] if part.function == "IN" else strict:
        yield arg
        yield from _present(arg)


def _keep(held: _Values, function: str, literals: Sequence[_Value]) -> None:
    if function in ("=", "IN"):
        held.one_of = set(literals) if held.one_of is None else held.one_of & set(literals)
    elif function == "<>":
        held.none_of.add(literals[0])
    elif function in (">", ">="):
        bound = (literals[0], function == ">")
        held.low = bound if held.low is None else max(held.low, bound)
    else:
        bound = (literals[0], function == "<")
        held.high = (
            bound if held.high is None else min(held.high, bound, key=lambda b: (b[0], not b[1]))
        )


def _is_comparable(literal: Literal) -> bool:
    kind = literal.type
    known = (
        kind.is_numeric
        or kind.is_string
        or kind.is_timestamp
        or kind.root in (Root.DATE, Root.TIME)
    )
    return known and isinstance(literal.value, int | Decimal | float | str)
