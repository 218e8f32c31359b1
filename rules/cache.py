"""What values make true, remembered: a store of slots, and per variable a map from value to slot.

A slot holds the leaves that are TRUE (or in error) for a value and the rules that these make
candidates. Slots belong to one compiled set of rules, so that a change of rules invalidates
nothing: it makes another set with another store."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
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
    """(value, leaf) pairs sorted by both: `leaves[k]` is `truths[k]` (TRUE or ERROR) for value
    `values[k]`."""

    values: Ints
    leaves: Ints
    truths: npt.NDArray[np.int8]


class SlotStore:
    """Leaves and candidate rules by slot, as lists side by side. `rules_of` are the rules by access
    leaf: those of leaf p are `rules_of[1][rules_of[0][p] : rules_of[0][p + 1]]`."""

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
        self,
        group: int,
        leaf_counts: Ints,
        leaves: Ints,
        truths: Ints,
        rule_counts: Ints,
        rules: Ints,
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
        """Only these slots (ascending, the first two among them) remain and are renumbered in this
        order."""
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
# The first values fill the cache, the next tell whether it pays; if not, it rests for so many. All
# three double each time.
_WARM_UP, _PROBE, _REST, _LONGEST_REST = 2_000, 2_000, 50_000, 1_600_000
# What is saved must be so many times what is spent, which does not show all: a large store is slow
# to read, too. Without a clock so many must be found.
_MARGIN, _WORTH = 1.5, 0.05
# Fewer values cost so little that they are not worth a look at the clock.
_MEASURED = 64


@dataclass(frozen=True, slots=True)
class Lost:
    """Slots that nobody will find again: `new` ones that were not kept, `old` ones that were
    dropped."""

    new: int
    old: int


@dataclass
class Account:
    """What a cache costs and saves, in seconds of the clock: that decides whether it is on, and
    nothing else."""

    warm_up: int
    probe: int
    looked_up: int = 0
    found: int = 0
    spent: float = 0.0
    matched: int = 0
    matching: float = 0.0

    @property
    def saved(self) -> float:
        """What the values that were found would have cost, had they cost what the others did."""
        return self.found * self.matching / self.matched if self.matched else 0.0

    @property
    def is_due(self) -> bool:
        return self.looked_up >= self.probe and self.matched > 0

    @property
    def pays(self) -> bool:
        if not self.matching:
            return self.found > _WORTH * self.looked_up
        return self.saved > _MARGIN * self.spent


@dataclass
class ValueCache:
    """Slots by value for one variable, the oldest half dropped when full. It rests for a while
    where it costs more than it saves, and never holds long values."""

    options: Options
    counters: Counters
    slots: dict[Hashable, int] = field(default_factory=dict)
    pairs: int = 0
    _rest: int = 0
    _counts: bool = False
    _next_rest: int = field(default_factory=lambda: _REST)
    _account: Account = field(default_factory=lambda: Account(_WARM_UP, _PROBE))

    @property
    def is_on(self) -> bool:
        return self.options.cache and self._rest <= 0

    def look_up(self, values: Sequence[Hashable]) -> Slots:
        """The slot of each value, -1 where it is not known."""
        if not self.is_on:
            self._rest -= len(values)
            self.counters.cache_skipped += len(values)
            return np.full(len(values), -1, np.int32)
        begin = self._time(values)
        slots = np.array(list(map(self.slots.get, values, repeat(-1))), np.int32)
        found = int(np.count_nonzero(slots >= 0))
        self.counters.cache_hits += found
        self.counters.cache_misses += len(values) - found
        self._note(len(values), found, self._time(values) - begin)
        return slots

    def _time(self, values: Sequence[Hashable]) -> float:
        clock = self.options.clock
        return clock() if clock is not None and len(values) >= _MEASURED else 0.0

    def _note(self, looked_up: int, found: int, spent: float) -> None:
        account = self._account
        self._counts = looked_up >= _MEASURED and account.warm_up <= 0
        account.warm_up -= looked_up
        if self._counts:
            account.looked_up += looked_up
            account.found += found
            account.spent += spent

    def matched(self, values: Sequence[Hashable], begin: float, first: int, pairs: int) -> Lost:
        """Remembers values whose slots begin at `first` and hold `pairs` leaves in all. They were
        matched since `begin`, a time of `start`."""
        if not self.is_on:
            return Lost(len(values), 0)
        middle = self._time(values)
        lost = self._remember(values, first, pairs)
        if self._counts and len(values) >= _MEASURED:
            self._account.matched += len(values)
            self._account.matching += middle - begin
            self._account.spent += self._time(values) - middle
            if self._account.is_due:
                lost = Lost(lost.new, lost.old + self._judge())
        return lost

    def start(self, values: Sequence[Hashable]) -> float:
        """The time for `matched`, 0 where it does not matter."""
        return self._time(values) if self.is_on else 0.0

    def _judge(self) -> int:
        """Decides whether to go on; how many slots are dropped."""
        account = self._account
        self.counters.cache_saved_us += int(1e6 * account.saved)
        self.counters.cache_spent_us += int(1e6 * account.spent)
        if account.pays:
            self._next_rest, self._account = _REST, Account(0, _PROBE)
            return 0
        self.counters.cache_rests += 1
        dropped = len(self.slots)
        self.slots, self.pairs = {}, 0
        self._rest, self._next_rest = self._next_rest, min(2 * self._next_rest, _LONGEST_REST)
        larger = self._rest // _REST
        fill = min(2 * larger * _WARM_UP, self.options.cache_entries)
        self._account = Account(fill, fill)
        return dropped

    def _remember(self, values: Sequence[Hashable], first: int, pairs: int) -> Lost:
        longest = self.options.max_cached_value_bytes
        refused = 0
        # A character takes four bytes at most: only texts between a quarter and the whole need to
        # be measured.
        if isinstance(values[0], str) and 4 * max(map(_length, values)) > longest:
            kept = [
                (v, s)
                for s, v in enumerate(values, first)
                if 4 * _length(v) <= longest or _bytes(v) <= longest
            ]
            refused = len(values) - len(kept)
            self.slots.update(kept)
        else:
            self.slots.update(zip(values, range(first, first + len(values)), strict=True))
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
        self.slots = dict(
            zip(self.slots, new_number[list(self.slots.values())].tolist(), strict=True)
        )


def _length(value: Hashable) -> int:
    return len(value) if isinstance(value, str) else 0


def _bytes(value: Hashable) -> int:
    return len(str(value).encode("utf-8", "surrogatepass"))
