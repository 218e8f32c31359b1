"""What values make true, remembered: a store of slots, and per variable a map from value to slot.

A slot holds the leaves that are TRUE (or in error) for a value and the rules that these make candidates. Slots belong
to one compiled set of rules, so that a change of rules invalidates nothing: it makes another set with another store."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rules.counters import Counters
from rules.options import Options
from rules.ragged import Growing, Index, Ints, distinct, spread

# Slot 0 stands for NULL, slot 1 for any value that makes nothing true.
NULL_SLOT, EMPTY_SLOT = 0, 1
Slots: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Hits:
    """(value, leaf) pairs sorted by both: `leaves[k]` is `truths[k]` (TRUE or ERROR) for value `values[k]`."""

    values: Ints
    leaves: Ints
    truths: npt.NDArray[np.int8]


class SlotStore:
    """Leaves and candidate rules by slot, as lists side by side. `rules_of` are the rules by access leaf: those of
    leaf p are `rules_of[1][rules_of[0][p] : rules_of[0][p + 1]]`."""

    def __init__(self, rules_of: tuple[Ints, Ints]) -> None:
        self._rules_of = rules_of
        self.group = Growing(np.int32)
        self.leaf_start = Growing(np.int64)
        self.leaves = Growing(np.int32)
        self.truths = Growing(np.int8)
        self.rule_start = Growing(np.int64)
        self.rules = Growing(np.int32)
        self.errors = False
        self.leaf_start.extend(np.zeros(1, np.int64))
        self.rule_start.extend(np.zeros(1, np.int64))
        self._append(-1, np.zeros(2, np.int64), _NONE, _TRUTHS, np.zeros(2, np.int64), _NONE)

    def __len__(self) -> int:
        return self.group.length

    def add(self, group: int, count: int, hits: Hits) -> int:
        """Slots for `count` values; the number of the first."""
        first = len(self)
        offsets, rules = self._rules_of
        per_hit = offsets[hits.leaves + 1] - offsets[hits.leaves]
        pairs = np.repeat(hits.values.astype(np.int64), per_hit) << 32
        pairs |= rules[spread(offsets[hits.leaves], per_hit)]
        pairs = distinct(pairs)
        rule_counts = np.bincount(pairs >> 32, minlength=count)
        leaf_counts = np.bincount(hits.values, minlength=count)
        self._append(group, leaf_counts, hits.leaves, hits.truths, rule_counts, pairs & 0xFFFFFFFF)
        return first

    def _append(
        self, group: int, leaf_counts: Ints, leaves: Ints, truths: Ints, rule_counts: Ints, rules: Ints
    ) -> None:
        self.group.extend(np.full(len(leaf_counts), group, np.int32))
        self.leaf_start.extend(self.leaves.length + np.cumsum(leaf_counts))
        self.rule_start.extend(self.rules.length + np.cumsum(rule_counts))
        self.leaves.extend(leaves)
        self.truths.extend(truths)
        self.rules.extend(rules)
        self.errors = self.errors or bool((truths == 1).any())

    def cut(self, slots: int) -> None:
        """Forgets the slots from number `slots` on."""
        self.leaves.cut(int(self.leaf_start.array[slots]))
        self.truths.cut(self.leaves.length)
        self.rules.cut(int(self.rule_start.array[slots]))
        self.group.cut(slots)
        self.leaf_start.cut(slots + 1)
        self.rule_start.cut(slots + 1)

    def keep(self, slots: Index) -> None:
        """Only these slots (ascending, the first two among them) remain and are renumbered in this order."""
        leaf_counts, rule_counts = _counts(self.leaf_start, slots), _counts(self.rule_start, slots)
        leaf_places = spread(self.leaf_start.array[slots], leaf_counts)
        rule_places = spread(self.rule_start.array[slots], rule_counts)
        leaves, truths = self.leaves.array[leaf_places], self.truths.array[leaf_places]
        rules, groups = self.rules.array[rule_places], self.group.array[slots]
        self.cut(0)
        self.group.extend(groups)
        self.leaf_start.extend(np.cumsum(leaf_counts))
        self.rule_start.extend(np.cumsum(rule_counts))
        self.leaves.extend(leaves)
        self.truths.extend(truths)
        self.rules.extend(rules)

    def rule_lists(self, slots: Ints) -> tuple[Ints, Ints]:
        """Starts and counts of the slots' rules in `rules`."""
        starts = self.rule_start.array
        return starts[slots], starts[slots + 1] - starts[slots]

    def leaf_lists(self, slots: Ints) -> tuple[Ints, Ints]:
        """Starts and counts of the slots' leaves in `leaves`."""
        starts = self.leaf_start.array
        return starts[slots], starts[slots + 1] - starts[slots]


def _counts(starts: Growing, slots: Index) -> Ints:
    return starts.array[slots + 1] - starts.array[slots]


_NONE = np.empty(0, np.int64)
_TRUTHS = np.empty(0, np.int8)
# After _WARM_UP values, in which little can be found yet, a probe of _PROBE decides whether looking them up pays; if
# not, the next _PERIOD are not looked up.
_WARM_UP, _PROBE, _PERIOD, _WORTH = 5_000, 5_000, 50_000, 0.05


@dataclass(frozen=True, slots=True)
class Lost:
    """Slots that nobody will find again: `new` ones that were not kept, `old` ones that were dropped."""

    new: int
    old: int


@dataclass
class ValueCache:
    """Slots by value for one variable, the oldest half dropped when full. It is off for a while where hardly any value
    of the last thousands was found, and never holds long values."""

    options: Options
    counters: Counters
    slots: dict[Hashable, int] = field(default_factory=dict)
    pairs: int = 0
    _looked_up: int = 0
    _found: int = 0
    _off: int = 0
    _warm_up: int = _WARM_UP

    @property
    def is_on(self) -> bool:
        return self.options.cache and self._off <= 0

    def look_up(self, values: Sequence[Hashable]) -> list[int | None]:
        """The slot of each value, None where it is not known."""
        if not self.is_on:
            self._off -= len(values)
            self.counters.cache_skipped += len(values)
            return [None] * len(values)
        found = list(map(self.slots.get, values))
        missed = found.count(None)
        self.counters.cache_hits += len(found) - missed
        self.counters.cache_misses += missed
        self._judge(len(found), len(found) - missed)
        return found

    def _judge(self, looked_up: int, found: int) -> None:
        if self._warm_up > 0:
            self._warm_up -= looked_up
            return
        self._looked_up += looked_up
        self._found += found
        if self._looked_up >= _PROBE:
            if self._found < _WORTH * self._looked_up:
                self._off, self._warm_up = _PERIOD, _WARM_UP
            self._looked_up = self._found = 0

    def remember(self, values: Sequence[Hashable], first: int, pairs: int) -> Lost:
        """Values whose slots begin at `first` and hold `pairs` leaves in all."""
        longest = self.options.max_cached_value_bytes
        refused = 0
        if not self.is_on:
            return Lost(len(values), 0)
        for slot, value in enumerate(values, first):
            # A character takes four bytes at most: only texts between a quarter and the whole need to be measured.
            if isinstance(value, str) and 4 * len(value) > longest and _bytes(value) > longest:
                refused += 1
            else:
                self.slots[value] = slot
        self.counters.cache_skipped += refused
        self.pairs += pairs
        return Lost(refused, self._shrink())

    def _shrink(self) -> int:
        """Drops the older half when the bounds are exceeded; how many were dropped."""
        if len(self.slots) <= self.options.cache_entries and self.pairs <= self.options.cache_pairs:
            return 0
        dropped = list(islice(self.slots, (len(self.slots) + 1) // 2))
        for value in dropped:
            del self.slots[value]
        self.pairs //= 2
        self.counters.cache_evictions += len(dropped)
        return len(dropped)

    def renumber(self, new_number: Ints) -> None:
        self.slots = dict(zip(self.slots, new_number[list(self.slots.values())].tolist(), strict=True))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
