"""Rows of rules for the members of families: each with the number of its member."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.graph.rule_sets import RulesPlan
from rules.ruleset import RuleSet
from sqlengine.batch import Batch, IntArray, replaced

# By port: rows, ascending, and the number of the member that each belongs to.
PortRows: TypeAlias = Mapping[int, tuple[IntArray, IntArray]]

# What is known of a rule: nothing yet, that it has no members, or members and something else.
_UNKNOWN, _NONE, _BOTH = -3, -2, -1
NO_MEMBERS: Final[tuple[IntArray, IntArray]] = (np.empty(0, np.int64), np.empty(0, np.int64))
# So few rows are put in order of their rules one by one.
_FEW = 64


class Compiled(Protocol):
    """A compiled set of rules."""

    @property
    def plan(self) -> RulesPlan: ...
    @property
    def ruleset(self) -> RuleSet: ...
    def is_plain(self, name: str) -> bool:
        """True if a rule has no condition that the set does not index, and no routes."""


class MemberRows:
    """The rows of a set of rules for members. `passed`: how many each rule had for its families.

    Most rules of members are nothing else: one port, and one number there. Those are looked at
    together, whatever their number; what is known of each is kept by its place in the set."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._of = compiled.plan.members
        self.passed: Counter[str] = Counter()
        count = len(compiled.ruleset.ids) if self._of else 0
        self._ports = np.full(count, _UNKNOWN, np.int64)
        self._numbers = np.zeros(count, np.int64)

    def take(
        self, rows: IntArray, rules: npt.NDArray[np.int32]
    ) -> tuple[IntArray, npt.NDArray[np.int32], PortRows]:
        """Takes the rows of rules that have members and nothing else, from pairs ordered by row,
        then by rule; returns the others first."""
        if not self._of or not len(rules):
            return rows, rules, {}
        ports = self._ports[rules]
        if (ports == _UNKNOWN).any():
            self._learn(set(rules[ports == _UNKNOWN].tolist()))
            ports = self._ports[rules]
        if (ports == _BOTH).any():  # their order among each other is kept where all go one way
            return rows, rules, {}
        self._count(rules[ports >= 0])
        numbers = self._numbers[rules]
        present = np.flatnonzero(np.bincount(ports - _NONE)) + _NONE
        if len(present) == 1 and present[0] >= 0:
            return rows[:0], rules[:0], {int(present[0]): (rows, numbers)}
        found = {p: (rows[ports == p], numbers[ports == p]) for p in present.tolist() if p >= 0}
        return rows[ports < 0], rules[ports < 0], found

    def with_others(self, found: PortRows, rows_of: Mapping[str, IntArray]) -> PortRows:
        """Returns the rows of members by port, with those of rules that have something else,
        too."""
        if not self._of:
            return found
        parts: dict[int, list[tuple[IntArray, IntArray]]] = {}
        for name, rows in rows_of.items():
            if name in self._of:
                self.passed[name] += len(rows)
            for port, number in self._of.get(name, ()):
                parts.setdefault(port, []).append((rows, np.full(len(rows), number)))
        return {**found, **{port: _by_row(of_port) for port, of_port in parts.items()}}

    def _learn(self, rules: set[int]) -> None:
        for rule in rules:
            name = str(self._compiled.ruleset.ids[rule])
            places = self._of.get(name, ())
            if not places:
                self._ports[rule] = _NONE
            elif len(places) > 1 or not self._compiled.is_plain(name):
                self._ports[rule] = _BOTH
            else:
                ((self._ports[rule], self._numbers[rule]),) = places

    def _count(self, rules: npt.NDArray[np.int32]) -> None:
        counts, ids = np.bincount(rules), self._compiled.ruleset.ids
        for rule in np.flatnonzero(counts).tolist():
            self.passed[str(ids[rule])] += int(counts[rule])


def rows_by_number(
    rows: IntArray, numbers: npt.NDArray[np.integer]
) -> Iterator[tuple[int, IntArray]]:
    """Yields each number with its rows in their order, the least number first."""
    if len(rows) <= _FEW:
        found: dict[int, list[int]] = {}
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            found.setdefault(number, []).append(row)
        yield from ((n, np.array(found[n], np.int64)) for n in sorted(found))
        return
    order = np.argsort(numbers, kind="stable")
    rows, numbers = rows[order], numbers[order]
    starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])).tolist()
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        yield int(numbers[start]), rows[start:end]


def with_numbers(batch: Batch, rows: IntArray, numbers: IntArray, name: str) -> Batch:
    """Returns rows of a batch, with a number for each in the column `name`; the watermark after the
    batch stays."""
    taken = batch.take(rows)
    columns = (pa.array(numbers), *taken.columns)
    schema = _with_number(name, batch.schema)
    return replaced(taken.with_columns(schema, columns), watermark=batch.watermark)


@lru_cache(maxsize=1024)
def _with_number(name: str, schema: Schema) -> Schema:
    return Schema((Column(name, BIGINT.with_nullable(False)), *schema))


def _by_row(parts: list[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    rows, numbers = (np.concatenate(side) for side in zip(*parts, strict=True))
    order = np.argsort(rows, kind="stable")
    return rows[order], numbers[order]
