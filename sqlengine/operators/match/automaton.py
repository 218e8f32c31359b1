"""A pattern as an automaton, in the form that decides what Flink's results are: states with edges
in an order.

An edge takes a row, whose item's condition it must fulfil, or leads on without one. What stands
behind a greedy quantifier does so only for rows that do *not* fulfil the condition of that
(`guards`), also where it has taken as many as it may: in Flink `A B+ C` finds nothing where all
rows that are a C are a B, too. A state that waits (`absent`) lets rows pass until the state behind
it takes one; a row of the absent variable ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from planner.logical import PatternItem

# The state of a whole match; the first state of the pattern has the number 1.
DONE: Final = 0

Test: TypeAlias = Callable[[int], bool]
# An item that takes the row, and the state then.
Move: TypeAlias = tuple[int, int]

# The item of an edge that takes no row.
_NOTHING = -1


@dataclass(frozen=True)
class Edge:
    item: int
    target: int
    guards: tuple[int, ...] = ()

    def open(self, test: Test) -> bool:
        """Whether the row may go along it."""
        return (self.item < 0 or test(self.item)) and not any(map(test, self.guards))


@dataclass
class State:
    """`absent`: the item whose rows end the wait."""

    edges: list[Edge] = field(default_factory=list)
    absent: int = _NOTHING


@dataclass(frozen=True)
class Automaton:
    """`states` by number. `ends[s]`: whether a match may be whole in state `s` without another row.
    `pending[s]`: whether it is once the time is over. `lone[s]`: the only move of the state, where
    there is no other way out."""

    states: tuple[State, ...]
    start: int
    ends: tuple[bool, ...]
    pending: tuple[bool, ...]
    lone: tuple[Move | None, ...]

    def moves(self, number: int, test: Test) -> list[Move] | None:
        """What a row does to a match in a state, in Flink's order; none: the match is given up, as
        it is (None) where the row is of an absent variable."""
        found: list[Move] = []
        stack = [number]
        while stack:
            current = stack.pop()
            state = self.states[current]
            if state.absent >= 0:
                waited = self._waited(current, state, test)
                if waited is None:
                    return None
                found += waited
                continue
            for edge in state.edges:
                if not edge.open(test):
                    continue
                if edge.item < 0:
                    stack.append(edge.target)
                else:
                    found.append((edge.item, edge.target))
        return found

    def _waited(self, number: int, state: State, test: Test) -> list[Move] | None:
        """The same for a state that waits: the row passes where nothing behind takes it."""
        if test(state.absent):
            return None
        behind: list[Move] | None = []
        for edge in state.edges:
            behind = self.moves(edge.target, test)
        return None if behind is None else behind or [(state.absent, number)]

    def is_whole(self, number: int, test: Test) -> bool:
        """Whether the pattern may end behind a row that led to the state."""
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
    """Built from the end of the pattern to its beginning."""
    made = [State()]
    sink = DONE
    for number in range(len(items) - 1, -1, -1):
        sink = _Builder(made, number, items[number]).build(sink)
    states = tuple(made)
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
    """Whether a wanted state can be reached without a row."""
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
        """The first state of the item, whose rows lead to `sink` in the end."""
        item = self.item
        if item.absent:
            return self._state([] if sink == DONE else [Edge(_NOTHING, sink)], self.number)
        if item.greedy:
            self._guard(self.made[sink])
        if item.high is None:
            loop = self._state([self._leave(sink)])
            self.made[loop].edges.append(Edge(self.number, loop))
            return self._times(loop, sink, max(item.low, 1), max(item.low, 1))
        return self._times(sink, sink, max(item.low, 1), item.high)

    def _guard(self, sink: State) -> None:
        """What waits stays open: its rows may be such as the item before it takes."""
        if sink.absent < 0:
            sink.edges = [replace(e, guards=(*e.guards, self.number)) for e in sink.edges]

    def _leave(self, sink: int) -> Edge:
        waits = self.item.greedy and self.made[sink].absent >= 0
        return Edge(_NOTHING, sink, (self.number,) if waits else ())

    def _times(self, sink: int, beyond: int, low: int, high: int) -> int:
        """`low` to `high` rows one after the other; `beyond` is where the item is left for."""
        last = sink
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
