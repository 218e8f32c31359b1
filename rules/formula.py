"""Conditions as formulas: nodes that are the minimum of their operands, each passed through a
function of `logic`.

An edge is (function, leaf or node). AND and OR are flattened, NOT moves into the edges (De Morgan),
equal nodes are one node whichever rules they come from. No recursion: conditions may be a thousand
levels deep."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from parser.errors import SqlError
from rules.condition import And, Condition, Constant, Not, Opaque, Or, Predicate, Test
from rules.logic import ALWAYS, COMPOSE, FALSE, IDENTITY, NEGATION, TABLE, TESTS, TRUE, UNKNOWN

Index: TypeAlias = npt.NDArray[np.int32]
# In a finished edge a target from 0 on is a leaf, and ~n is node n. Leaf 0 is FALSE in every row.
Edge: TypeAlias = tuple[int, int]
FALSE_LEAF = 0
_HUGE = 2**40  # shared nodes may stand for more leaves than a number holds


class Branch:
    """A node on its way: the minimum of `edges`."""

    __slots__ = ("edges",)

    def __init__(self, edges: list[RawEdge]) -> None:
        self.edges = edges


RawEdge: TypeAlias = tuple[int, "int | Branch"]
LeafOf: TypeAlias = Callable[[Predicate | Opaque], RawEdge]


def constant(value: bool | None) -> RawEdge:
    return ALWAYS[UNKNOWN if value is None else TRUE if value else FALSE], FALSE_LEAF


def constant_of(edge: RawEdge) -> int | None:
    """The value of an edge that has the same one in every row, else None."""
    return TABLE[edge[0]][FALSE] if edge[1] == FALSE_LEAF else None


def conjunction(edges: Iterable[RawEdge]) -> RawEdge:
    """AND of edges."""
    kept: dict[RawEdge, None] = {}
    for edge in edges:
        value = constant_of(edge)
        if value == FALSE:
            return constant(False)
        if value == TRUE:
            continue
        function, target = edge
        # A nested AND without a function in between is made flat; the dict keeps the order and
        # drops repetitions.
        if function == IDENTITY and isinstance(target, Branch):
            kept.update(dict.fromkeys(target.edges))
        else:
            kept[edge] = None
    if len(kept) < 2:
        return next(iter(kept), constant(True))
    return IDENTITY, Branch(list(kept))


def apply(function: int, edge: RawEdge) -> RawEdge:
    """The edge, then `function`."""
    return COMPOSE[function][edge[0]], edge[1]


def disjunction(edges: Iterable[RawEdge]) -> RawEdge:
    """OR of edges."""
    # De Morgan: nodes are ANDs only, which hold in three-valued logic, too.
    return apply(NEGATION, conjunction([apply(NEGATION, e) for e in edges]))


def lower(condition: Condition, leaf_of: LeafOf) -> RawEdge:
    """The condition as an edge; `leaf_of` gives the edge of a predicate."""
    done: list[RawEdge] = []
    # Conditions to lower, and (how to join, count) for results that are there by then.
    work: list[Condition | tuple[Callable[[list[RawEdge]], RawEdge], int]] = [condition]
    # An explicit stack: generated conditions may nest deeper than Python recurses.
    while work:
        item = work.pop()
        if isinstance(item, tuple):
            join, count = item
            operands = done[len(done) - count :]
            del done[len(done) - count :]
            done.append(join(operands))
            continue
        match item:
            case And() | Or():
                operands_of = _operands(item)
                # The join lies below its operands on the stack, and is popped when they are done.
                work.append(
                    (conjunction if isinstance(item, And) else disjunction, len(operands_of))
                )
                work.extend(reversed(operands_of))
            case Not():
                work += [(_through(NEGATION), 1), item.child]
            case Test():
                work += [(_through(TESTS[item.value, item.negated]), 1), item.child]
            case Constant():
                done.append(constant(item.value))
            case Predicate() | Opaque():
                done.append(leaf_of(item))
            case _:
                raise SqlError(f"a condition cannot hold a {type(item).__name__}")
    return done[0]


def _through(function: int) -> Callable[[list[RawEdge]], RawEdge]:
    return lambda edges: apply(function, edges[0])


def _operands(node: And | Or) -> list[Condition]:
    """Operands in order, those of nested nodes of the same kind in their place."""
    operands: list[Condition] = []
    waiting = list(reversed(node.children))
    while waiting:
        child = waiting.pop()
        if isinstance(child, And | Or) and type(child) is type(node):
            waiting.extend(reversed(child.children))
        else:
            operands.append(child)
    return operands


class NodeTable:
    """Finished nodes by number; operands come before the nodes that use them."""

    def __init__(self) -> None:
        self.nodes: list[tuple[Edge, ...]] = []
        self._known: dict[tuple[Edge, ...], int] = {}

    def add(self, edge: RawEdge) -> int:
        """The number of the node whose value is the edge's."""
        function, target = edge
        branch = target if function == IDENTITY and isinstance(target, Branch) else Branch([edge])
        numbers: dict[Branch, int] = {}
        work = [(branch, False)]
        while work:
            current, ready = work.pop()
            if ready:
                # Targets that are nodes are written as ~number, and so are negative; leaves are
                # not.
                numbers[current] = self.intern(
                    [(f, t if isinstance(t, int) else ~numbers[t]) for f, t in current.edges]
                )
            elif current not in numbers:
                work.append((current, True))
                work.extend((t, False) for _, t in current.edges if isinstance(t, Branch))
        return numbers[branch]

    def intern(self, edges: Iterable[Edge]) -> int:
        # Sorted, so that the order of operands in the text makes no difference.
        key = tuple(sorted(edges))
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.nodes)
            self.nodes.append(key)
        return number


@dataclass(frozen=True)
class Formulas:
    """All nodes of a rule set as arrays.

    The edges of node n are `start[n]` to `start[n + 1]`: `function` (times 4) and `target`.
    `size[n]` is the number of leaves under it: the cost of evaluating it for one row."""

    start: Index
    function: Index
    target: Index
    size: npt.NDArray[np.int64]

    def edges(self, node: int) -> list[Edge]:
        span = slice(int(self.start[node]), int(self.start[node + 1]))
        return list(
            zip((self.function[span] // 4).tolist(), self.target[span].tolist(), strict=True)
        )


def finish(table: NodeTable, leaf_numbers: Index) -> Formulas:
    """Packs the nodes; leaf i of the table becomes `leaf_numbers[i]`."""
    counts = [len(edges) for edges in table.nodes]
    # Compressed sparse rows, as everywhere in this package.
    start = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=start[1:])
    # Functions come times four: the truth value is added to index the flat table.
    function = np.array([4 * f for edges in table.nodes for f, _ in edges], np.int32)
    target = np.array([t for edges in table.nodes for _, t in edges], np.int32)
    leaves = target >= 0
    target[leaves] = leaf_numbers[target[leaves]]
    size: list[int] = []
    for edges in table.nodes:
        # Shared nodes make sizes grow exponentially: the sum is capped.
        size.append(min(sum(1 if t >= 0 else size[~t] for _, t in edges), _HUGE))
    return Formulas(start, function, target, np.array(size, np.int64))
