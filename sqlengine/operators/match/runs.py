"""The matches of one key: partial ones, complete ones that have to wait, and their rows.

Flink's rules (NFA and AfterMatchSkipStrategy): a row advances each partial match in all ways that
the pattern allows, and begins a new one. A complete match is emitted as soon as no partial match
that began before it is left; it then discards those that began where the skip strategy allows none.
"""

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

# The format of a key's state.
FORMAT = 1

# Emits a match of a run, at a time in ms.
Emit: TypeAlias = Callable[["Run", Part, int], None]
# Rejects a match of a run, for a reason.
Reject: TypeAlias = Callable[["Run", Part, str], None]


@dataclass
class Run:
    """The matches of one key.

    `partial` contains the start, too, which has not begun anywhere. `rows` are the handles of the
    matches' rows, the first of which has the number `base`; `values` are the columns of them that
    conditions read.
    """

    partial: Heap
    complete: Heap = field(default_factory=list)
    base: int = 0
    rows: list[int] = field(default_factory=list)
    values: list[tuple[object, ...]] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        """True if the state is that before the first row."""
        return len(self.partial) == 1 and not self.complete

    @property
    def first_needed(self) -> int:
        """The number of the first row that belongs to a match."""
        first = self.partial[0][0]
        if self.complete and self.complete[0][0] < first:
            first = self.complete[0][0]
        return first if first < NOT_BEGUN else self.base + len(self.rows)

    def drop_unneeded(self) -> list[int]:
        """Drops the rows before the first match; returns their handles."""
        count = self.first_needed - self.base
        dropped = self.rows[:count]
        if count:
            del self.rows[:count]
            del self.values[:count]
            self.base += count
        return dropped

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(
            (FORMAT, self.base, len(self.rows), self.partial, self.complete)
        )


def load(data: bytes) -> tuple[Run, int]:
    """Reverses `Run.dump`; also returns the number of rows. SqlError for another format."""
    version, base, count, partial, complete = msgspec.msgpack.decode(
        data, type=tuple[int, int, int, list[Part], list[Part]]
    )
    hint = "restore it with the version that wrote it, or start the job without its state"
    check_number(version, FORMAT, "state of MATCH_RECOGNIZE", hint=hint)
    return Run(partial, complete, base), count


class Tests(Protocol):
    """The conditions of a batch's rows.

    `truths`: by item, for conditions over the row alone, 0 for rows that do not fulfil it; None for
    other items. `test_of` returns the test of the current row for one match.
    """

    @property
    def truths(self) -> Sequence[list[int] | None]: ...

    def test_of(self, part: Part) -> Test: ...


class Matcher:
    """Runs the automaton of a node; `emit` gets the matches, `reject` those that cannot skip as
    declared."""

    def __init__(self, node: MatchRecognize, emit: Emit, reject: Reject) -> None:
        self.automaton: Automaton = automaton(node.pattern)
        self.within = node.within_ms
        self._skip = node.skip
        self._target = Spans(node.pattern, node.target)
        self._named = " ".join(node.target)
        self._every = Spans(node.pattern, [i.variable for i in node.pattern])
        self._emit = emit
        self._reject = reject
        self._at_deadline = node.pattern[-1].absent
        self._no_rows = (0,) * len(node.pattern)

    def begin(self) -> Run:
        return Run([(NOT_BEGUN, self.automaton.start, self._no_rows, 0)])

    def starts(self) -> set[int]:
        """Returns the items that may take the first row of a match, whatever their conditions."""
        items: set[int] = set()
        stack = [self.automaton.start]
        while stack:
            for edge in self.automaton.states[stack.pop()].edges:
                if edge.item < 0:
                    stack.append(edge.target)
                else:
                    items.add(edge.item)
        return items

    def feed(self, run: Run, time: int, row: int, tests: Tests) -> None:
        """Feeds one row, the last of `run.rows`; `row` is its place in the batch of the tests."""
        number = run.base + len(run.rows) - 1
        truths = tests.truths
        moved: Heap = []
        completed: Heap = []
        lone, ends = self.automaton.lone, self.automaton.ends
        for part in run.partial:
            start, state, counts, began = part
            lone_move = lone[state]
            # Fast path: most parts have one move with a condition over the row alone, which is
            # FALSE.
            if (
                lone_move is not None
                and (truth := truths[lone_move[0]]) is not None
                and not truth[row]
            ):
                if start == NOT_BEGUN:
                    push(moved, part)
                continue
            test = tests.test_of(part)
            moves: Sequence[Move]
            if lone_move is None:
                moves = self.automaton.step(state, test)
            else:
                moves = (lone_move,) if test(lone_move[0]) else ()
            if moves and start == NOT_BEGUN:
                start, began = number, time
            for item, target in moves:
                taken = (*counts[:item], counts[item] + 1, *counts[item + 1 :])
                if target == DONE:
                    push(completed, (start, DONE, taken, began))
                    continue
                push(moved, (start, target, taken, began))
                if ends[target] and self.automaton.is_complete(target, test):
                    push(completed, (start, DONE, taken, began))
            if part[0] == NOT_BEGUN:
                push(moved, part)
        self._complete(run, moved, completed, time)

    def deadline(self, run: Run) -> int | None:
        """Returns the time (ms) at which WITHIN is over for the first partial match; None if there
        is none."""
        first = run.partial[0]
        return first[3] + self.within if first[0] < NOT_BEGUN else None

    def expire(self, run: Run, time: int, known: int | None) -> None:
        """Drops partial matches whose WITHIN is over at `time`, or completes those that only waited
        for an absent row.

        `known`: the time (ms) at which the completion is reported; None: the deadline.
        """
        remaining: Heap = []
        done: list[Part] = []
        over = 0
        for part in run.partial:
            if part[0] == NOT_BEGUN or part[3] + self.within > time:
                push(remaining, part)
                continue
            over = max(over, part[3] + self.within)
            if self.automaton.pending[part[1]]:
                done.append(part)
        done.sort(key=lambda part: (part[0], self._every.size(part[2])))  # the shortest first
        self._complete(run, remaining, done, over if known is None else known)

    def _complete(self, run: Run, partial: Heap, done: Heap, time: int) -> None:
        """Adds complete matches, and emits those that no earlier partial match can precede."""
        for part in done:
            push(run.complete, part)
        # The first row of a complete match is compared with that of the oldest partial one, which
        # might still become complete and come first.
        while run.complete and run.complete[0][0] <= partial[0][0]:
            part = pop(run.complete)
            is_discarded = self._discarded_by(run, part)
            discard(partial, is_discarded)
            discard(run.complete, is_discarded)

            self._finish(run, part, part[3] + self.within if self._at_deadline else time)
        run.partial = partial

    def _finish(self, run: Run, part: Part, time: int) -> None:
        reason = self._skip_error(part)
        if reason is None:
            self._emit(run, part, time)
        else:
            self._reject(run, part, reason)

    def _discarded_by(self, run: Run, part: Part) -> Callable[[Part], bool]:
        """Returns a predicate of the matches that are discarded by the emission of `part` (AFTER
        MATCH SKIP)."""
        start, _, counts, _ = part
        if self._skip is Skip.PAST:
            last = self._every.last(counts, 0)
            start += 0 if last is None else last
        elif self._skip in (Skip.FIRST, Skip.LAST):
            row = self._row(part)
            start += 0 if row is None else max(row - 1, 0)
        # Matches that begin at or before `start` go: a skip to row n of the match keeps those from
        # n on.
        return lambda other: other[0] <= start

    def _row(self, part: Part) -> int | None:
        """Returns the row of the match to skip to; None if it has none."""
        if self._skip is Skip.FIRST:
            return self._target.first(part[2], 0)
        return self._target.last(part[2], 0)

    def _skip_error(self, part: Part) -> str | None:
        """Returns why the match cannot skip as declared; None if it can."""
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
