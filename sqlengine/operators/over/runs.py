"""Finds the rows of a partition whose OVER values change with a batch.

Values are folded from the first row that was added or removed up to where the fold state is the
same before and after. Fold states are kept at intervals of rows (marks), so that a run begins near
its change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlengine.batch import IntArray
from sqlengine.operators.changelog.row_kinds import differ
from sqlengine.operators.over.comparison import (
    Change,
    ComparedRows,
    Rows,
    by_run,
    concat_rows,
    merge_compared,
    peers_of,
    values,
)
from sqlengine.operators.over.folds import Folds, FoldState, Run
from sqlengine.state.columns import BoolArray
from sqlengine.state.rows import COUNT, RowsTable

# The number of rows of a block, and the distance of marks; blocks grow behind a change.
_BLOCK, _LONGEST = 64, 256

# The number of the run of each row, and its columns.
_Values = tuple[IntArray, list[pa.Array]]


@dataclass(eq=False)
class _Run:
    """Consecutive rows of one key, from the place `start` on; `at` is the next one.

    `order`: the key's number in the batch. `changes`: the places of added and removed rows, of
    which `passed` are before `at`. `first`: the first place that the run must contain. `kept`: the
    number of rows since the last permanent mark. `length`: the size of the next block.
    """

    order: int
    group: int
    changes: list[int]
    first: int
    start: int = 0
    at: int = 0
    passed: int = 0
    kept: int = 0
    length: int = _BLOCK

    @property
    def next_change(self) -> int | None:
        return self.changes[self.passed] if self.passed < len(self.changes) else None


class OverRuns:
    """Compares the OVER values of rows before and after a change.

    `rows` are sorted. Peers have the value of the last of them where the folds say so. Marks are in
    memory only, and are rebuilt from the rows where absent.
    """

    def __init__(self, rows: RowsTable, folds: Folds, check_step: Callable[[], None]) -> None:
        self._rows = rows
        self._check_step = check_step
        self._folds = folds
        self._by_peers = any(folds.shared)
        self._reads = sorted({a for c in folds.calls for a in c.arguments})
        # By slot, the fold state after the row, and the number of rows since the last permanent
        # mark.
        self._marks: dict[int, tuple[FoldState, int]] = {}
        self._generation = rows.table.generation

    def forget(self, slots: IntArray) -> None:
        """Drops the marks of these rows."""
        if self._marks:
            for slot in slots.tolist():
                self._marks.pop(slot, None)

    def compare(self, groups: Sequence[int], change: Change) -> ComparedRows:
        """Returns rows of these keys, one key after the other: all whose values changed, and some
        whose did not."""
        if self._generation != self._rows.table.generation:
            # A restored table has other rows in its slots: marks of the old ones would be wrong.
            self._marks, self._generation = {}, self._rows.table.generation
        places: dict[int, list[int]] = {g: [] for g in groups}
        for group, place in self._rows.places(change.slots):
            places[group].append(place)
        changes = [sorted(places[g]) for g in groups]
        runs = [
            _Run(n, g, places_of_key, places_of_key[0])
            for n, (g, places_of_key) in enumerate(zip(groups, changes, strict=True))
            if places_of_key
        ]
        compared: list[ComparedRows] = []
        # A pass ends a run where values are the same again; the run then starts anew at its next
        # change. One that must begin earlier (`_restarts`) is repeated with a smaller `first`.
        while runs:
            compared.append(self._pass(runs, change))
            runs = [r for r in runs if r.next_change is not None]
            for run in runs:
                run.changes = run.changes[run.passed :]
                # A run that must restart (`passed` is 0) keeps the smaller `first` set by
                # `_restarts`.
                run.first = max(run.first, run.changes[0]) if run.passed else run.first
        return merge_compared(compared)

    def _pass(self, runs: list[_Run], change: Change) -> ComparedRows:
        """Folds all runs once; a run that must begin earlier keeps its changes, and `first` is
        where."""
        new = self._folds.begin(len(runs))
        for n, run in enumerate(runs):
            self._begin(n, run, new)
        every, first = np.arange(len(runs)), self._folds.values_at(new)
        # Both sides begin with one state. The old side is folded over the rows as they were, the
        # new side over them as they are, block by block, until the states are equal.
        old = self._folds.copy(new) if self._folds.lasting or self._had_rows(runs, change) else new
        blocks: list[Rows] = []
        olds, news = [(every, first)], [(every, first)]
        going = list(range(len(runs)))
        while going:
            self._check_step()
            block = self._block(runs, going, change)
            blocks.append(block)
            columns = dict(
                zip(self._reads, self._rows.arrays(self._reads, block.slots), strict=True)
            )
            for at, counts, into in (old, block.was, olds), (new, block.now, news):
                some = self._run(block, counts, columns)
                into.append((some.of, self._folds.after(at, some)))
            is_same = self._folds.same(old, new)
            self._set_marks(runs, block, new)
            going = [n for n in going if not self._ends(n, runs[n], bool(is_same[n]), (old, new))]
        rows = concat_rows(blocks)
        return self._changed_values(
            runs, rows.take(np.argsort(rows.of, kind="stable")), by_run(olds), by_run(news)
        )

    def _begin(self, n: int, run: _Run, standing: FoldState) -> None:
        """Starts the run after the last mark before its first place."""
        run.start, run.passed, run.kept, run.length = 0, 0, 0, _BLOCK
        for back, slot in enumerate(
            self._rows.back_from(run.group, run.first) if self._marks else ()
        ):
            if slot in self._marks:
                run.start = run.first - back
                mark, run.kept = self._marks[slot]
                standing.put(n, mark)
                if run.kept or not self._folds.lasting:
                    del self._marks[slot]
                break
            if not self._folds.lasting:
                break
        run.at = run.start

    def _had_rows(self, runs: list[_Run], change: Change) -> bool:
        """True if there was a row after the beginning of a run."""
        behind = [self._rows.between(r.group, r.start, self._rows.size(r.group)) for r in runs]
        slots = np.array([s for part in behind for s in part], np.int64)
        return bool(change.before(slots, self._counts(slots)).any())

    def _block(self, runs: list[_Run], going: list[int], change: Change) -> Rows:
        """Returns the next rows of the runs, and advances the runs."""
        parts: list[tuple[int, int, list[int]]] = []
        for n in going:
            run = runs[n]
            parts.append((n, run.at, self._rows.between(run.group, run.at, run.at + run.length)))
            run.at += len(parts[-1][2])
            run.kept += len(parts[-1][2])
            while run.next_change is not None and run.next_change < run.at:
                run.passed += 1
            # Before the change a block is short, since it ends near it; behind it, the longer the
            # run lasts the less likely it ends soon.
            run.length = min(2 * run.length, _LONGEST) if run.passed else _BLOCK
        slots = np.array([s for _, _, part in parts for s in part], np.int64)
        of = np.repeat(np.array([n for n, _, _ in parts]), [len(part) for _, _, part in parts])
        place = np.concatenate([np.arange(start, start + len(part)) for _, start, part in parts])
        now = self._counts(slots)
        return Rows(of, place, slots, change.before(slots, now), now)

    def _counts(self, slots: IntArray) -> IntArray:
        return self._rows.table.columns[COUNT][slots].astype(np.int64)

    def _run(self, block: Rows, counts: IntArray, columns: dict[str, pa.Array]) -> Run:
        """Returns the rows of a block, each as often as it is counted."""
        at = np.repeat(np.arange(len(counts)), counts)
        index = pa.array(at)
        peers = self._keys(block.slots[at]) if self._folds.reads_peers else []
        return Run(block.of[at], peers, {n: c.take(index) for n, c in columns.items()})

    def _keys(self, slots: IntArray) -> list[bytes]:
        return [self._rows.sort_key(s) for s in slots.tolist()]

    def _set_marks(self, runs: list[_Run], block: Rows, new: FoldState) -> None:
        """Marks the last existing row of each run's block; older marks in the block are
        outdated."""
        self.forget(block.slots)
        existing = np.flatnonzero(block.now)
        latest = existing[np.flatnonzero(np.diff(block.of[existing], append=-1))]
        for n, slot in zip(block.of[latest].tolist(), block.slots[latest].tolist(), strict=True):
            run = runs[n]
            # A mark is permanent once every _BLOCK rows (`kept` is 0); the last one before the end
            # of a run is replaced by the next run.
            if run.at >= _BLOCK if self._folds.lasting else run.at == self._rows.size(run.group):
                run.kept = run.kept if run.kept < _BLOCK else 0
                self._marks[slot] = new.of(n), run.kept

    def _ends(self, n: int, run: _Run, is_same: bool, sides: tuple[FoldState, FoldState]) -> bool:
        """True if nothing changes after the run, up to the next change.

        Where peers share a value, the last peer of a changed row belongs to the run, which may skip
        to a mark before it.
        """
        following = run.next_change
        if run.at >= self._rows.size(run.group):
            return True
        # With the next change within a block, going on is cheaper than a new run.
        if not is_same or (following is not None and following < run.at + _BLOCK):
            return False
        _, end = (
            self._rows.peers(run.group, run.changes[run.passed - 1]) if self._by_peers else (0, 0)
        )
        if end <= run.at:
            return True
        if following is None or following >= end:
            for back, slot in enumerate(self._rows.back_from(run.group, end - 1)):
                place = end - 2 - back
                if place < run.at:
                    break
                if slot in self._marks:
                    standing, run.kept = self._marks[slot]
                    run.at = place + 1
                    for side in sides:
                        side.put(n, standing)
                    break
        return False

    def _changed_values(
        self, runs: list[_Run], rows: Rows, old: list[pa.Array], new: list[pa.Array]
    ) -> ComparedRows:
        """Returns the rows of the runs from the first change on, or from its first peer on."""
        every = np.arange(len(rows))
        starts = np.searchsorted(rows.of, np.arange(len(runs)))
        begin = starts + np.array([r.changes[0] - r.start for r in runs])
        last = every
        if self._by_peers:
            peers = peers_of(rows, self._keys(rows.slots))
            begin, last = peers.first[begin], peers.last
        emitted: BoolArray = every >= begin[rows.of]
        shared = self._folds.shared
        if self._by_peers:
            restarts = self._restarts(runs, rows, starts, last, (old, new))
            emitted &= ~restarts[rows.of]
        sides = [
            values(c, shared, rows, counts, last, emitted)
            for c, counts in ((old, rows.was), (new, rows.now))
        ]
        chosen = rows.take(np.flatnonzero(emitted))
        order = np.array([r.order for r in runs])
        return ComparedRows(
            Rows(order[chosen.of], chosen.place, chosen.slots, chosen.was, chosen.now), *sides
        )

    def _restarts(
        self,
        runs: list[_Run],
        rows: Rows,
        starts: IntArray,
        last: IntArray,
        sides: tuple[list[pa.Array], list[pa.Array]],
    ) -> BoolArray:
        """Returns True for runs that begin among peers whose value changed: they must begin before
        these."""
        ends = [
            starts_of + np.cumsum(c)[last[starts]]
            for starts_of, c in ((rows.of[starts], rows.was), (rows.of[starts], rows.now))
        ]
        old, new = (
            [c.take(pa.array(end)) for c, s in zip(side, self._folds.shared, strict=True) if s]
            for side, end in zip(sides, ends, strict=True)
        )
        restarts = differ(old, new, len(runs))
        for n, run in enumerate(runs):
            begin, _ = self._rows.peers(run.group, run.start)
            restarts[n] &= begin < run.start
            if restarts[n]:
                run.first, run.passed = begin, 0
        return restarts
