"""GROUPING SETS, ROLLUP and CUBE: which expressions each set groups by."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations, product
from math import prod

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError

Set = tuple[exp.Expression, ...]

# CUBE of more is more sets than anybody means.
_MOST = 4096
_SHOWN = 10**12
FUNCTIONS = frozenset({"GROUPING", "GROUPING_ID", "GROUP_ID"})


def sets_of(group: exp.Expression | None) -> list[Set]:
    """The sets that GROUP BY names, in its order, each with its expressions: one for a plain list,
    and the empty one where there is no GROUP BY. Several elements are combined each with each."""
    named = group.expressions if group is not None else []
    count = prod(map(_count, named))
    if count > _MOST:
        shown = f"{count} sets" if count < _SHOWN else "sets without number"
        raise PlanError(
            f"GROUP BY names {shown}, more than {_MOST}",
            position=position_of(group or exp.Tuple()),
        )
    elements = [_element(e) for e in named]
    return [tuple(chain.from_iterable(chosen)) for chosen in product(*elements)]


def _count(node: exp.Expression) -> int:
    """The number of sets of an element, before they are made."""
    match node:
        case exp.GroupingSets():
            return sum(map(_count, node.expressions))
        case exp.Rollup():
            return len(node.expressions) + 1
        case exp.Cube():
            return 1 << len(node.expressions)
    return 1


def _element(node: exp.Expression) -> list[Set]:
    match node:
        case exp.GroupingSets():
            return [s for e in node.expressions for s in _element(e)]
        case exp.Rollup():
            parts = [_parts(e) for e in node.expressions]
            return [tuple(chain.from_iterable(parts[:n])) for n in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [_parts(e) for e in node.expressions]
            chosen = chain.from_iterable(combinations(parts, n) for n in range(len(parts), -1, -1))
            return [tuple(chain.from_iterable(some)) for some in chosen]
    return [_parts(node)]


def _parts(node: exp.Expression) -> Set:
    """(a, b) is a and b."""
    while isinstance(node, exp.Paren):
        node = node.this
    return tuple(node.expressions) if isinstance(node, exp.Tuple) else (node,)


def marks(name: str, arguments: Sequence[str], sets: Sequence[frozenset[str]]) -> list[int]:
    """The value of GROUPING(…), GROUPING_ID(…) or GROUP_ID() for each set of grouped columns: a bit
    per argument, 1 where the set does not group by it; for GROUP_ID how many equal sets came
    before."""
    if name == "GROUP_ID":
        return [list(sets[:i]).count(grouped) for i, grouped in enumerate(sets)]
    return [int("".join("01"[a not in grouped] for a in arguments), 2) for grouped in sets]
