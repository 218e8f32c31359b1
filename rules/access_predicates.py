"""Access predicates: sets of leaves one of which must be TRUE for a rule to match.

An inverted index from such leaves to rules finds the few candidates of a row; what the set does not
decide is left as residual predicates. acc(p) = {p}; acc(AND) = the cheapest operand's; acc(OR) =
the union, none if one operand has none. A negated predicate, IS [NOT] TRUE of something negative
and IS NULL have none. A rule without a set is evaluated for every row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rules.formula import Edge, NodeTable
from rules.logic import FALSE, IDENTITY, TRUE, sources


@dataclass(frozen=True, slots=True)
class AccessPredicates:
    """A set of leaves of which one is TRUE wherever the node has the value in question.

    `exact`: and the converse holds, too. `cost`: the expected share of rows with one of them
    TRUE."""

    cost: float
    leaves: frozenset[int]
    exact: bool


NEVER = AccessPredicates(0.0, frozenset(), True)


class AccessSelector:
    """Derives the access predicates of nodes by number.

    `costs[leaf]` is the share of rows on which a leaf is expected to be TRUE, None for a leaf that
    no index finds."""

    def __init__(self, nodes: Sequence[Sequence[Edge]], costs: Sequence[float | None]) -> None:
        self._nodes = nodes
        self._costs = costs
        self._when_true: list[AccessPredicates | None] = []
        self._when_false: list[AccessPredicates | None] = []

    def extend(self) -> None:
        """Takes in nodes that were added to the table since."""
        # Nodes come behind their operands, whose sets are known by then.
        for edges in self._nodes[len(self._when_true) :]:
            self._when_true.append(self._conjunction(edges))
            self._when_false.append(self._disjunction(edges))

    def edge(self, edge: Edge, value: int) -> AccessPredicates | None:
        """Returns access predicates of an edge that is to have `value`, TRUE or FALSE; None if
        there are none."""
        function, target = edge
        # The operand's values that the function maps to `value`.
        needed = sources(function, value)
        if not needed:  # the edge never has the value
            return NEVER
        if needed == {TRUE}:
            return self._leaf(target) if target >= 0 else self._when_true[~target]
        # A node is an AND: it is FALSE where one operand is, so those operands are a set for it.
        # A leaf that must be FALSE (or UNKNOWN) has none: the index finds what is TRUE.
        if needed == {FALSE} and target < 0:
            return self._when_false[~target]
        return None

    def _leaf(self, leaf: int) -> AccessPredicates | None:
        cost = self._costs[leaf]
        return None if cost is None else AccessPredicates(cost, frozenset((leaf,)), True)

    def _conjunction(self, edges: Iterable[Edge]) -> AccessPredicates | None:
        options = [a for a in (self.edge(e, TRUE) for e in edges) if a is not None]
        if not options:
            return None
        best = min(options, key=_order)
        # With several operands the best one's set is necessary, but not sufficient.
        return best if len(list(edges)) == 1 else AccessPredicates(best.cost, best.leaves, False)

    def _disjunction(self, edges: Iterable[Edge]) -> AccessPredicates | None:
        cost, leaves, exact = 0.0, set[int](), True
        for edge in edges:
            access = self.edge(edge, FALSE)
            if access is None:
                return None
            # Shares add up, as if the leaves excluded one another: an upper bound.
            cost += access.cost
            leaves |= access.leaves
            exact = exact and access.exact
        return AccessPredicates(cost, frozenset(leaves), exact)


def _order(access: AccessPredicates) -> tuple[float, int]:
    return access.cost, len(access.leaves)


@dataclass(frozen=True)
class RulePlan:
    """The plan of one rule: candidates by access predicates, then residual predicates.

    `root`: its node. `access`: None if every row is a candidate. `others`: sets that would do in
    its place, if the whole root is evaluated for a candidate. `residuals`: nodes that must all
    be TRUE of a candidate, the cheapest first (None: nothing is left to evaluate); the last may
    hold opaque leaves."""

    root: int
    access: AccessPredicates | None
    others: tuple[AccessPredicates, ...]
    residuals: tuple[int | None, int | None, int | None, int | None]


def plan_rule(
    root: int, table: NodeTable, selector: AccessSelector | None, sizes: EdgeCosts
) -> RulePlan:
    """Chooses the access predicates (none without a selector) and splits the rest of the root into
    residual predicates."""
    edges = list(table.nodes[root])
    options = [
        (a, e) for e in edges if selector is not None and (a := selector.edge(e, TRUE)) is not None
    ]
    access: AccessPredicates | None = None
    if options:
        # The cheapest set, and of equal ones the shortest.
        access, edge = min(options, key=lambda pair: _order(pair[0]))
        if access.exact:  # a candidate has this edge TRUE: nothing of it is left to verify
            edges.remove(edge)
    edges.sort(key=sizes.order)
    late = [e for e in edges if sizes.opaque(e)]
    early = [e for e in edges if not sizes.opaque(e)]
    # Cheap and selective ones alone and first, so that later ones see few pairs; opaque ones last
    # of all.
    parts = (early[:1], early[1:2], early[2:], late)
    residuals = [table.intern(part) if part else None for part in parts]
    # Opaque leaves must come last, which the root by itself does not see to.
    others = () if late else tuple(a for a, _ in options if a is not access and a.leaves)
    return RulePlan(root, access, others, (residuals[0], residuals[1], residuals[2], residuals[3]))


class EdgeCosts:
    """Evaluation costs of edges, and whether they hold opaque leaves."""

    def __init__(self, nodes: Sequence[Sequence[Edge]], opaque_leaves: frozenset[int]) -> None:
        self._nodes = nodes
        self._opaque_leaves = opaque_leaves
        self._sizes: list[int] = []
        self._opaque: list[bool] = []

    def extend(self) -> None:
        """Takes in nodes that were added to the table since."""
        for edges in self._nodes[len(self._sizes) :]:
            # Capped, for shared nodes make the sums grow exponentially.
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
