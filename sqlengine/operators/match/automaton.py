"""The NFA of a row pattern, in the form that decides Flink's results: states with ordered edges.

An edge takes a row that fulfils its item's condition, or leads on without a row. What follows a
greedy quantifier takes only rows that do *not* fulfil the condition of the quantified item
(`guards`), even if that item has taken as many rows as it may: in Flink `A B+ C` finds nothing if
all rows that are a C are also a B. A state that waits (`absent`, Flink CEP's notFollowedBy) lets
rows pass until the next state takes one; a row of the absent variable ends the match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from planner.logical import PatternItem

# The state of a complete match; state numbers from 1 on are those of the pattern.
DONE: Final = 0

Test: TypeAlias = Callable[[int], bool]
# The item that takes the row, and the state after it.
Move: TypeAlias = tuple[int, int]

# The item of an edge that takes no row.
_NOTHING = -1


@dataclass(frozen=True)
class Edge:
    """A transition to `target` by a row of `item`, or without a row, unless a condition in `guards`
    is TRUE."""

    item: int
    target: int
    guards: tuple[int, ...] = ()

    def open(self, test: Test) -> bool:
        """True if the row may take this edge."""
        return (self.item < 0 or test(self.item)) and not any(map(test, self.guards))


@dataclass
class State:
    """A state with its edges in the order in which Flink tries them.

    `absent`: the item whose rows end the wait, for a state that waits.
    """

    edges: list[Edge] = field(default_factory=list)
    absent: int = _NOTHING


@dataclass(frozen=True)
class Automaton:
    """The states by number.

    `ends[s]`: a match may be complete in state `s` without another row. `pending[s]`: it is
    complete once WITHIN is over. `lone[s]`: the only move of the state, if there is no other way
    out.
    """

    states: tuple[State, ...]
    start: int
    ends: tuple[bool, ...]
    pending: tuple[bool, ...]
    lone: tuple[Move | None, ...]

    def moves(self, number: int, test: Test) -> list[Move] | None:
        """Returns the moves of a match in this state for a row, in Flink's order.

        Without moves the match is dropped; so it is (None) for a row of an absent variable.
        """
        moves: list[Move] = []
        # Depth first, the last edge first: a stack reproduces the order in which Flink computes
        # states.
        stack = [number]
        while stack:
            current = stack.pop()
            state = self.states[current]
            if state.absent >= 0:
                waited = self._wait(current, state, test)
                if waited is None:
                    return None
                moves += waited
                continue
            for edge in state.edges:
                if not edge.open(test):
                    continue
                if edge.item < 0:
                    stack.append(edge.target)
                else:
                    moves.append((edge.item, edge.target))
        return moves

    def step(self, number: int, test: Test) -> Sequence[Move]:
        """Returns the moves of a match in this state for a row; none if the match is dropped."""
        return self.moves(number, test) or ()

    def _wait(self, number: int, state: State, test: Test) -> list[Move] | None:
        """Returns the moves of a state that waits: the row passes unless a following state takes
        it."""
        if test(state.absent):
            return None
        following: list[Move] | None = []
        for edge in state.edges:
            following = self.moves(edge.target, test)
        return None if following is None else following or [(state.absent, number)]

    def is_complete(self, number: int, test: Test) -> bool:
        """True if the pattern may end with the row that led to this state."""
        # Precomputed without conditions; the guards still have to be asked for this row.
        if not self.ends[number]:
            return False
        stack = [number]
        while stack:
            for edge in self.states[stack.pop()].edges:
                if edge.item < 0 and edge.open(test):
                    if edge.target == DONE:
                        return True
                    stack.append(edge.target)
        return False


def automaton(items: Sequence[PatternItem]) -> Automaton:
    """Builds the automaton from the last item to the first."""
    built = [State()]
    sink = DONE
    for number in range(len(items) - 1, -1, -1):
        sink = _Builder(built, number, items[number]).build(sink)
    states = tuple(built)
    return Automaton(
        states,
        sink,
        tuple(_reaches(states, s, lambda n: n == DONE) for s in range(len(states))),
        tuple(
            _reaches(states, s, lambda n: states[n].absent >= 0 and not states[n].edges)
            for s in range(len(states))
        ),
        tuple(_lone(s) for s in states),
    )


def _lone(state: State) -> Move | None:
    if len(state.edges) != 1 or state.absent >= 0:
        return None
    (edge,) = state.edges
    return None if edge.item < 0 or edge.guards else (edge.item, edge.target)


def _reaches(states: Sequence[State], number: int, wanted: Callable[[int], bool]) -> bool:
    """True if a wanted state is reachable without a row."""
    seen, stack = {number}, [number]
    while stack:
        current = stack.pop()
        if wanted(current):
            return True
        for edge in states[current].edges:
            if edge.item < 0 and edge.target not in seen:
                seen.add(edge.target)
                stack.append(edge.target)
    return False


@dataclass
class _Builder:
    made: list[State]
    number: int
    item: PatternItem

    def build(self, sink: int) -> int:
        """Returns the first state of the item; its rows lead to `sink` in the end."""
        item = self.item
        if item.absent:
            return self._state([] if sink == DONE else [Edge(_NOTHING, sink)], self.number)
        # The following item is built already, as items are built from the last one on.
        if item.greedy:
            self._guard(self.made[sink])
        if item.high is None:
            # The edge that leaves comes before the one that repeats: Flink's order of edges, which
            # decides the order of matches.
            loop = self._state([self._leave(sink)])
            self.made[loop].edges.append(Edge(self.number, loop))
            return self._times(loop, sink, max(item.low, 1), max(item.low, 1))
        return self._times(sink, sink, max(item.low, 1), item.high)

    def _guard(self, sink: State) -> None:
        """Guards the edges of the following state with the item's condition, unless it waits: then
        rows of the item may pass."""
        if sink.absent < 0:
            sink.edges = [replace(e, guards=(*e.guards, self.number)) for e in sink.edges]

    def _leave(self, sink: int) -> Edge:
        waits = self.item.greedy and self.made[sink].absent >= 0
        return Edge(_NOTHING, sink, (self.number,) if waits else ())

    def _times(self, sink: int, beyond: int, low: int, high: int) -> int:
        """Builds a chain of `low` to `high` rows; `beyond` is the state after the item, for
        optional rows."""
        last = sink
        # From the end of the chain: optional rows are its last ones, and each may leave to
        # `beyond`.
        for _ in range(low, high):
            last = self._once(last, beyond)
        for _ in range(low - 1):
            last = self._once(last, None)
        return self._once(last, beyond if self.item.low == 0 else None)

    def _once(self, sink: int, beyond: int | None) -> int:
        leave = [] if beyond is None else [self._leave(beyond)]
        return self._state([Edge(self.number, sink), *leave])

    def _state(self, edges: list[Edge], absent: int = _NOTHING) -> int:
        self.made.append(State(edges, absent))
        return len(self.made) - 1
