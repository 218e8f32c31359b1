"""Access sets: predicates of which one must be TRUE for a rule to match, so that only few rules are
looked at.

acc(p) = {p}; acc(AND) = the cheapest operand's; acc(OR) = the union, none if one operand has none.
A negated predicate, IS [NOT] TRUE of something negative and IS NULL have none. A rule without a set
is evaluated for every row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rules.formula import Edge, NodeTable
from rules.logic import FALSE, IDENTITY, TRUE, sources


@dataclass(frozen=True, slots=True)
class Access:
    """`leaves`: one of them is TRUE where the node has the value in question. `exact`: and
    conversely. `cost`: how many rows are expected to have one TRUE."""

    cost: float
    leaves: frozenset[int]
    exact: bool


NEVER = Access(0.0, frozenset(), True)
Found: TypeAlias = Access | None


class AccessFinder:
    """Access sets of nodes by number. `costs[leaf]` is the share of rows that a leaf is expected to
    be TRUE on, None for a leaf that cannot be looked up."""

    def __init__(self, nodes: Sequence[Sequence[Edge]], costs: Sequence[float | None]) -> None:
        self._nodes = nodes
        self._costs = costs
        self._when_true: list[Found] = []
        self._when_false: list[Found] = []

    def extend(self) -> None:
        """Takes in nodes that were added to the table since."""
        for edges in self._nodes[len(self._when_true) :]:
            self._when_true.append(self._conjunction(edges))
            self._when_false.append(self._disjunction(edges))

    def edge(self, edge: Edge, value: int) -> Found:
        """For an edge that is to have `value`, TRUE or FALSE."""
        function, target = edge
        needed = sources(function, value)
        if not needed:
            return NEVER
        if needed == {TRUE}:
            return self._leaf(target) if target >= 0 else self._when_true[~target]
        if needed == {FALSE} and target < 0:
            return self._when_false[~target]
        return None

    def _leaf(self, leaf: int) -> Found:
        cost = self._costs[leaf]
        return None if cost is None else Access(cost, frozenset((leaf,)), True)

    def _conjunction(self, edges: Iterable[Edge]) -> Found:
        found = [a for a in (self.edge(e, TRUE) for e in edges) if a is not None]
        if not found:
            return None
        best = min(found, key=_order)
        return best if len(list(edges)) == 1 else Access(best.cost, best.leaves, False)

    def _disjunction(self, edges: Iterable[Edge]) -> Found:
        cost, leaves, exact = 0.0, set[int](), True
        for edge in edges:
            access = self.edge(edge, FALSE)
            if access is None:
                return None
            cost += access.cost
            leaves |= access.leaves
            exact = exact and access.exact
        return Access(cost, frozenset(leaves), exact)


def _order(access: Access) -> tuple[float, int]:
    return access.cost, len(access.leaves)


@dataclass(frozen=True)
class RulePlan:
    """How a rule is decided. `root`: its node. `access`: None where every row has to be looked at.
    `stages`: nodes that must all be TRUE of a candidate, the cheapest first; the last may hold
    opaque leaves. None: nothing is left to do."""

    root: int
    access: Access | None
    stages: tuple[int | None, int | None, int | None, int | None]


def plan_rule(root: int, table: NodeTable, finder: AccessFinder | None, sizes: Sizes) -> RulePlan:
    """Chooses the access set (none without a finder) and splits what remains of the root into
    stages."""
    edges = list(table.nodes[root])
    found = [
        (a, e) for e in edges if finder is not None and (a := finder.edge(e, TRUE)) is not None
    ]
    access: Access | None = None
    if found:
        access, edge = min(found, key=lambda pair: _order(pair[0]))
        if access.exact:
            edges.remove(edge)
    edges.sort(key=sizes.order)
    late = [e for e in edges if sizes.opaque(e)]
    early = [e for e in edges if not sizes.opaque(e)]
    parts = (early[:1], early[1:2], early[2:], late)
    stages = [table.intern(part) if part else None for part in parts]
    return RulePlan(root, access, (stages[0], stages[1], stages[2], stages[3]))


class Sizes:
    """What edges cost to evaluate, and whether they hold opaque leaves."""

    def __init__(self, nodes: Sequence[Sequence[Edge]], opaque_leaves: frozenset[int]) -> None:
        self._nodes = nodes
        self._opaque_leaves = opaque_leaves
        self._sizes: list[int] = []
        self._opaque: list[bool] = []

    def extend(self) -> None:
        """Takes in nodes that were added to the table since."""
        for edges in self._nodes[len(self._sizes) :]:
            self._sizes.append(min(sum(1 if t >= 0 else self._sizes[~t] for _, t in edges), 2**40))
            self._opaque.append(any(self.opaque(e) for e in edges))

    def opaque(self, edge: Edge) -> bool:
        target = edge[1]
        return target in self._opaque_leaves if target >= 0 else self._opaque[~target]

    def order(self, edge: Edge) -> tuple[bool, int, Edge]:
        """Positive edges first: what is negated is mostly true and rules out little."""
        function, target = edge
        positive = function == IDENTITY or (target < 0 and sources(function, TRUE) == {FALSE})
        return not positive, 1 if target >= 0 else self._sizes[~target], edge
