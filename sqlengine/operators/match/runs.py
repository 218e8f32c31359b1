"""The matches of one key: what has begun, what is whole but has to wait, and the rows of both.

Flink's rules: a row leads each match that has begun on, in all ways that the pattern allows, and
begins another. A match that is whole comes out as soon as none that began before it can still
become whole; it then takes those with it that began where the skip strategy says that none may."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import msgspec

from planner.logical import MatchRecognize, Skip
from sqlengine.operators.match.automaton import DONE, Automaton, Move, Test, automaton
from sqlengine.operators.match.heap import NOT_BEGUN, Heap, Part, discard, pop, push
from sqlengine.operators.match.values import Spans
from sqlengine.system.format_numbers import check_number

# The form of what state holds of a key.
FORMAT = 1

# A match that comes out, the run it is of, and the time at which it does, in ms.
Emit: TypeAlias = Callable[["Run", Part, int], None]
# A match that cannot come out, and why.
Refuse: TypeAlias = Callable[["Run", Part, str], None]


@dataclass
class Run:
    """One key. `begun` holds the start, too, which has begun nowhere. `rows` are the handles of the
    rows that matches have, the first of which has the number `base`; `values` are what conditions
    read of them."""

    begun: Heap
    whole: Heap = field(default_factory=list)
    base: int = 0
    rows: list[int] = field(default_factory=list)
    values: list[tuple[object, ...]] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        """Whether it is as if no row had come."""
        return len(self.begun) == 1 and not self.whole

    @property
    def needed(self) -> int:
        """The number of the first row that a match has."""
        first = self.begun[0][0]
        if self.whole and self.whole[0][0] < first:
            first = self.whole[0][0]
        return first if first < NOT_BEGUN else self.base + len(self.rows)

    def forget(self) -> list[int]:
        """Drops the rows that no match has; their handles."""
        count = self.needed - self.base
        gone = self.rows[:count]
        if count:
            del self.rows[:count]
            del self.values[:count]
            self.base += count
        return gone

    def dump(self) -> bytes:
        return msgspec.msgpack.encode((FORMAT, self.base, len(self.rows), self.begun, self.whole))


def load(data: bytes) -> tuple[Run, int]:
    """What `dump` gave, and how many rows it had."""
    version, base, count, begun, whole = msgspec.msgpack.decode(
        data, type=tuple[int, int, int, list[Part], list[Part]]
    )
    hint = "restore it with the version that wrote it, or start the job without its state"
    check_number(version, FORMAT, "state of MATCH_RECOGNIZE", hint=hint)
    return Run(begun, whole, base), count


class Tests(Protocol):
    """`truths`: by item whose condition reads the row alone, 0 for the rows that do not fulfil it;
    None for other items. `test_of` gives the tests of the row in question for one match."""

    @property
    def truths(self) -> Sequence[list[int] | None]: ...

    def test_of(self, part: Part) -> Test: ...


class Matcher:
    """The pattern of a node, ready to be fed. `emit` gets what matches, `refuse` what cannot skip
    as it is told to."""

    def __init__(self, node: MatchRecognize, emit: Emit, refuse: Refuse) -> None:
        self.automaton: Automaton = automaton(node.pattern)
        self.within = node.within_ms
        self._skip = node.skip
        self._target = Spans(node.pattern, node.target)
        self._named = " ".join(node.target)
        self._every = Spans(node.pattern, [i.variable for i in node.pattern])
        self._emit = emit
        self._refuse = refuse
        self._at_deadline = node.pattern[-1].absent
        self._none = (0,) * len(node.pattern)

    def begin(self) -> Run:
        return Run([(NOT_BEGUN, self.automaton.start, self._none, 0)])

    def starts(self) -> set[int]:
        """Items that may take the first row of a match, whatever their conditions are."""
        found: set[int] = set()
        stack = [self.automaton.start]
        while stack:
            for edge in self.automaton.states[stack.pop()].edges:
                if edge.item < 0:
                    stack.append(edge.target)
                else:
                    found.add(edge.item)
        return found

    def feed(self, run: Run, time: int, row: int, tests: Tests) -> None:
        """One row, the next of the run, which is in `rows` already; `row` is its place in the
        tests' batch."""
        number = run.base + len(run.rows) - 1
        truths = tests.truths
        moved: Heap = []
        done: Heap = []
        lone, ends = self.automaton.lone, self.automaton.ends
        for part in run.begun:
            start, state, counts, began = part
            only = lone[state]
            if only is not None and (truth := truths[only[0]]) is not None and not truth[row]:
                if start == NOT_BEGUN:
                    push(moved, part)
                continue
            test = tests.test_of(part)
            moves: Sequence[Move]
            if only is None:
                moves = self.automaton.moves(state, test) or ()
            else:
                moves = (only,) if test(only[0]) else ()
            if moves and start == NOT_BEGUN:
                start, began = number, time
            for item, target in moves:
                taken = (*counts[:item], counts[item] + 1, *counts[item + 1 :])
                if target == DONE:
                    push(done, (start, DONE, taken, began))
                    continue
                push(moved, (start, target, taken, began))
                if ends[target] and self.automaton.is_whole(target, test):
                    push(done, (start, DONE, taken, began))
            if part[0] == NOT_BEGUN:
                push(moved, part)
        self._settle(run, moved, done, time)

    def deadline(self, run: Run) -> int | None:
        """When the first match that has begun is over, in ms; None where there is none."""
        first = run.begun[0]
        return first[3] + self.within if first[0] < NOT_BEGUN else None

    def expire(self, run: Run, time: int, known: int | None) -> None:
        """Time has come to `time`: what is over goes, or is whole, where only an absent row was
        waited for. `known`: when it is said to have happened; None: at the deadline."""
        left: Heap = []
        done: list[Part] = []
        over = 0
        for part in run.begun:
            if part[0] == NOT_BEGUN or part[3] + self.within > time:
                push(left, part)
                continue
            over = max(over, part[3] + self.within)
            if self.automaton.pending[part[1]]:
                done.append(part)
        done.sort(
            key=lambda part: (part[0], self._every.size(part[2]))
        )  # of one start the shortest first
        self._settle(run, left, done, over if known is None else known)

    def _settle(self, run: Run, begun: Heap, done: Heap, time: int) -> None:
        for part in done:
            push(run.whole, part)
        while run.whole and run.whole[0][0] <= begun[0][0]:
            part = pop(run.whole)
            gone = self._gone(run, part)
            discard(begun, gone)
            discard(run.whole, gone)

            self._out(run, part, part[3] + self.within if self._at_deadline else time)
        run.begun = begun

    def _out(self, run: Run, part: Part, time: int) -> None:
        reason = self._wrong(part)
        if reason is None:
            self._emit(run, part, time)
        else:
            self._refuse(run, part, reason)

    def _gone(self, run: Run, part: Part) -> Callable[[Part], bool]:
        """Which others cannot come out beside a match."""
        start, _, counts, _ = part
        if self._skip is Skip.PAST:
            last = self._every.last(counts, 0)
            start += 0 if last is None else last
        elif self._skip in (Skip.FIRST, Skip.LAST):
            row = self._row(part)
            start += 0 if row is None else max(row - 1, 0)
        return lambda other: other[0] <= start

    def _row(self, part: Part) -> int | None:
        """The row of the match to skip to."""
        if self._skip is Skip.FIRST:
            return self._target.first(part[2], 0)
        return self._target.last(part[2], 0)

    def _wrong(self, part: Part) -> str | None:
        if self._skip not in (Skip.FIRST, Skip.LAST):
            return None
        row = self._row(part)
        if row is None:
            return f"could not skip to {self._named}: the match has no such row"
        return (
            "could not skip to the first row of a match: it would be found for ever"
            if row == 0
            else None
        )
