"""Which rows of a partition have other values after a change: from the first row that came or went
up to where all is again as it was. What the calls have come to is kept every so many rows, so that
no run of rows begins far before its change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlengine.batch import IntArray
from sqlengine.operators.changelog.row_kinds import differ
from sqlengine.operators.over.compared import (
    Change,
    Compared,
    Rows,
    in_runs,
    joined,
    peers_of,
    stacked,
    values,
)
from sqlengine.operators.over.folds import Folds, Run, Standing
from sqlengine.state.columns import BoolArray
from sqlengine.state.rows import COUNT, RowsTable

# So many rows are looked at together, and so far from each other is what is kept; behind a change
# more and more.
_BLOCK, _LONGEST = 64, 256

# The number of the run of each row, and its columns.
_Values = tuple[IntArray, list[pa.Array]]


@dataclass(eq=False)
class _Run:
    """Rows of one key from the place `start` on, `at` is the next one. `order`: the key's number in
    the batch; `changes`: the places of what came or went, of which `passed` are behind it; `first`:
    the first place that must be in it; `kept`: rows since what is kept for good; `length`: how many
    are looked at next."""

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
    """Compares rows before and after changes. `rows` are sorted; those that are equal in the order
    have the value of the last of them where the folds say so. What is kept is found again from the
    rows where it is not there."""

    def __init__(self, rows: RowsTable, folds: Folds) -> None:
        self._rows = rows
        self._folds = folds
        self._by_peers = any(folds.shared)
        self._reads = sorted({a for c in folds.calls for a in c.arguments})
        self._marks: dict[
            int, tuple[Standing, int]
        ] = {}  # by slot, with the rows since the last one that stays
        self._generation = rows.table.generation

    def forget(self, slots: IntArray) -> None:
        """Nothing is known behind these rows any more."""
        if self._marks:
            for slot in slots.tolist():
                self._marks.pop(slot, None)

    def compared(self, groups: Sequence[int], change: Change) -> Compared:
        """Rows of these keys of the table, one key after the other: all that have other values, and
        some that have not."""
        if self._generation != self._rows.table.generation:
            self._marks, self._generation = {}, self._rows.table.generation
        places: dict[int, list[int]] = {g: [] for g in groups}
        for group, place in self._rows.places(change.slots):
            places[group].append(place)
        changes = [sorted(places[g]) for g in groups]
        runs = [
            _Run(n, g, held, held[0])
            for n, (g, held) in enumerate(zip(groups, changes, strict=True))
            if held
        ]
        told: list[Compared] = []
        while runs:
            told.append(self._pass(runs, change))
            runs = [r for r in runs if r.next_change is not None]
            for run in runs:
                run.changes = run.changes[run.passed :]
                run.first = max(run.first, run.changes[0]) if run.passed else run.first
        return joined(told)

    def _pass(self, runs: list[_Run], change: Change) -> Compared:
        """What comes of the runs; those that must begin earlier are as they were, and `first` says
        where."""
        new = self._folds.begin(len(runs))
        for n, run in enumerate(runs):
            self._begin(n, run, new)
        every, first = np.arange(len(runs)), self._folds.standing(new)
        old = (
            self._folds.copied(new) if self._folds.lasting or self._had_rows(runs, change) else new
        )
        blocks: list[Rows] = []
        olds, news = [(every, first)], [(every, first)]
        going = list(range(len(runs)))
        while going:
            block = self._block(runs, going, change)
            blocks.append(block)
            columns = dict(
                zip(self._reads, self._rows.arrays(self._reads, block.slots), strict=True)
            )
            for at, counts, into in (old, block.was, olds), (new, block.now, news):
                some = self._run(block, counts, columns)
                into.append((some.of, self._folds.after(at, some)))
            same = self._folds.same(old, new)
            self._keep(runs, block, new)
            going = [n for n in going if not self._ends(n, runs[n], bool(same[n]), (old, new))]
        rows = stacked(blocks)
        return self._told(
            runs, rows.take(np.argsort(rows.of, kind="stable")), in_runs(olds), in_runs(news)
        )

    def _begin(self, n: int, run: _Run, standing: Standing) -> None:
        """The run begins behind what is kept last before its first place."""
        run.start, run.passed, run.kept, run.length = 0, 0, 0, _BLOCK
        for back, slot in enumerate(
            self._rows.back_from(run.group, run.first) if self._marks else ()
        ):
            if slot in self._marks:
                run.start = run.first - back
                held, run.kept = self._marks[slot]
                standing.put(n, held)
                if run.kept or not self._folds.lasting:
                    del self._marks[slot]
                break
            if not self._folds.lasting:
                break
        run.at = run.start

    def _had_rows(self, runs: list[_Run], change: Change) -> bool:
        """Whether there was a row behind the beginning of a run."""
        behind = [self._rows.between(r.group, r.start, self._rows.size(r.group)) for r in runs]
        slots = np.array([s for part in behind for s in part], np.int64)
        return bool(change.before(slots, self._counts(slots)).any())

    def _block(self, runs: list[_Run], going: list[int], change: Change) -> Rows:
        """The next rows of the runs, which move behind them."""
        parts: list[tuple[int, int, list[int]]] = []
        for n in going:
            run = runs[n]
            parts.append((n, run.at, self._rows.between(run.group, run.at, run.at + run.length)))
            run.at += len(parts[-1][2])
            run.kept += len(parts[-1][2])
            while run.next_change is not None and run.next_change < run.at:
                run.passed += 1
            run.length = min(2 * run.length, _LONGEST) if run.passed else _BLOCK
        slots = np.array([s for _, _, part in parts for s in part], np.int64)
        of = np.repeat(np.array([n for n, _, _ in parts]), [len(part) for _, _, part in parts])
        place = np.concatenate([np.arange(start, start + len(part)) for _, start, part in parts])
        now = self._counts(slots)
        return Rows(of, place, slots, change.before(slots, now), now)

    def _counts(self, slots: IntArray) -> IntArray:
        return self._rows.table.columns[COUNT][slots].astype(np.int64)

    def _run(self, block: Rows, counts: IntArray, columns: dict[str, pa.Array]) -> Run:
        """The rows of a block, each as often as it is counted."""
        at = np.repeat(np.arange(len(counts)), counts)
        index = pa.array(at)
        peers = self._keys(block.slots[at]) if self._folds.reads_peers else []
        return Run(block.of[at], peers, {n: c.take(index) for n, c in columns.items()})

    def _keys(self, slots: IntArray) -> list[bytes]:
        return [self._rows.sort_key(s) for s in slots.tolist()]

    def _keep(self, runs: list[_Run], block: Rows, new: Standing) -> None:
        """What the runs have come to is kept with the last row that is there; what was kept within
        them is outdated."""
        self.forget(block.slots)
        there = np.flatnonzero(block.now)
        latest = there[np.flatnonzero(np.diff(block.of[there], append=-1))]
        for n, slot in zip(block.of[latest].tolist(), block.slots[latest].tolist(), strict=True):
            run = runs[n]
            if run.at >= _BLOCK if self._folds.lasting else run.at == self._rows.size(run.group):
                run.kept = run.kept if run.kept < _BLOCK else 0
                self._marks[slot] = new.of(n), run.kept

    def _ends(self, n: int, run: _Run, same: bool, sides: tuple[Standing, Standing]) -> bool:
        """Whether all behind the run is as it was, up to the next change. Where peers share a
        value, the last peer of what has changed is in the run: it may go on there from what is
        kept."""
        following = run.next_change
        if run.at >= self._rows.size(run.group):
            return True
        if not same or (following is not None and following < run.at + _BLOCK):
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

    def _told(
        self, runs: list[_Run], rows: Rows, old: list[pa.Array], new: list[pa.Array]
    ) -> Compared:
        """What the runs tell: their rows from the first that has changed on, or from its first peer
        on."""
        every = np.arange(len(rows))
        starts = np.searchsorted(rows.of, np.arange(len(runs)))
        begin = starts + np.array([r.changes[0] - r.start for r in runs])
        last = every
        if self._by_peers:
            peers = peers_of(rows, self._keys(rows.slots))
            begin, last = peers.first[begin], peers.last
        told: BoolArray = every >= begin[rows.of]
        shared = self._folds.shared
        if self._by_peers:
            again = self._again(runs, rows, starts, last, (old, new))
            told &= ~again[rows.of]
        sides = [
            values(c, shared, rows, counts, last, told)
            for c, counts in ((old, rows.was), (new, rows.now))
        ]
        chosen = rows.take(np.flatnonzero(told))
        order = np.array([r.order for r in runs])
        return Compared(
            Rows(order[chosen.of], chosen.place, chosen.slots, chosen.was, chosen.now), *sides
        )

    def _again(
        self,
        runs: list[_Run],
        rows: Rows,
        starts: IntArray,
        last: IntArray,
        sides: tuple[list[pa.Array], list[pa.Array]],
    ) -> BoolArray:
        """The runs that begin among peers whose value has changed: they must begin before these."""
        ends = [
            starts_of + np.cumsum(c)[last[starts]]
            for starts_of, c in ((rows.of[starts], rows.was), (rows.of[starts], rows.now))
        ]
        old, new = (
            [c.take(pa.array(end)) for c, s in zip(side, self._folds.shared, strict=True) if s]
            for side, end in zip(sides, ends, strict=True)
        )
        found = differ(old, new, len(runs))
        for n, run in enumerate(runs):
            begin, _ = self._rows.peers(run.group, run.start)
            found[n] &= begin < run.start
            if found[n]:
                run.first, run.passed = begin, 0
        return found
