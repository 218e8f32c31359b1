"""The value cache: a store of slots, and per variable a map from value to slot.

A slot is a posting list: the leaves that are TRUE (or in error) for a value, and the rules that
these make candidates. Slots belong to one compiled set of rules. A change of rules compiles another
set with another store, so nothing is ever invalidated."""

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
        self.variable_of = Growing(np.int32)
        self.leaf_start = Growing(np.int64)
        self.leaves = Growing(np.int32)
        self.truths = Growing(np.int8)
        self.rule_start = Growing(np.int64)
        self.rules = Growing(np.int32)
        self.errors = False
        self.leaf_start.extend(np.zeros(1, np.int64))
        self.rule_start.extend(np.zeros(1, np.int64))
        # Both fixed slots have empty lists.
        none = np.zeros(2, np.int64)
        self._append(np.full(2, -1, np.int32), none, _NONE, _TRUTHS, none, _NONE)

    def __len__(self) -> int:
        return self.variable_of.length

    def add(self, variables: npt.NDArray[np.int32], hits: Hits) -> None:
        """Appends a slot for each value; `variables[value]` is the number of its variable."""
        count = len(variables)
        leaf_counts = np.bincount(hits.values, minlength=count)
        rule_counts, rules = self._rules_by_value(hits.values, hits.leaves, count)
        self._append(variables, leaf_counts, hits.leaves, hits.truths, rule_counts, rules)

    def _rules_by_value(self, values: Ints, leaves: Ints, count: int) -> tuple[Ints, Ints]:
        """Returns how many rules each of `count` values makes candidates, and these, for (value,
        leaf) pairs that are sorted by value."""
        # Offsets in compressed sparse row form: the rules of leaf p end where those of p + 1 begin.
        offsets, rules = self._rules_of
        # (value, rule) pairs as one integer each, since distinct leaves may have the same rule.
        per_hit = offsets[leaves + 1] - offsets[leaves]
        # The value in the high half, the rule in the low one: sorting sorts by value, which is the
        # order of slots.
        pairs = np.repeat(values.astype(np.int64), per_hit) << 32
        pairs |= rules[spread(offsets[leaves], per_hit)]
        pairs = distinct(pairs)
        return np.bincount(pairs >> 32, minlength=count), pairs & 0xFFFFFFFF

    def choose_rules(self, rules_of: tuple[Ints, Ints]) -> None:
        """Other access leaves from here on: the slots that are there get the rules of these."""
        self._rules_of = rules_of
        counts = np.diff(self.leaf_start.array)
        rule_counts, rules = self._rules_by_value(
            np.arange(len(self)).repeat(counts), self.leaves.array, len(self)
        )
        self.rule_start.truncate(1)
        self.rule_start.extend(np.cumsum(rule_counts))
        self.rules.truncate(0)
        self.rules.extend(rules)

    def _append(
        self,
        variables: npt.NDArray[np.int32],
        leaf_counts: Ints,
        leaves: Ints,
        truths: Ints,
        rule_counts: Ints,
        rules: Ints,
    ) -> None:
        self.variable_of.extend(variables)
        # Cumulative ends; the first start is 0, from the constructor.
        self.leaf_start.extend(self.leaves.length + np.cumsum(leaf_counts))
        self.rule_start.extend(self.rules.length + np.cumsum(rule_counts))
        self.leaves.extend(leaves)
        self.truths.extend(truths)
        self.rules.extend(rules)
        self.errors = self.errors or bool((truths == 1).any())

    def truncate(self, slots: int) -> None:
        """Forgets the slots from number `slots` on."""
        self.leaves.truncate(int(self.leaf_start.array[slots]))
        self.truths.truncate(self.leaves.length)
        self.rules.truncate(int(self.rule_start.array[slots]))
        self.variable_of.truncate(slots)
        self.leaf_start.truncate(slots + 1)
        self.rule_start.truncate(slots + 1)

    def compact(self, slots: Index) -> None:
        """Keeps only these slots (ascending, the first two among them) and renumbers them in this
        order."""
        leaf_counts, rule_counts = _counts(self.leaf_start, slots), _counts(self.rule_start, slots)
        leaf_places = spread(self.leaf_start.array[slots], leaf_counts)
        rule_places = spread(self.rule_start.array[slots], rule_counts)
        # Fancy indexing copies, so that the buffers can be written over below.
        leaves, truths = self.leaves.array[leaf_places], self.truths.array[leaf_places]
        rules, variables = self.rules.array[rule_places], self.variable_of.array[slots]
        self.truncate(0)
        self.variable_of.extend(variables)
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
_WARM_UP, _PROBE, _BYPASS, _LONGEST_BYPASS = 2_000, 2_000, 50_000, 1_600_000
# What is saved must be so many times what is spent, which does not show all: a large store is slow
# to read, too. Without a clock so many must be found.
_MARGIN, _WORTH = 2.0, 0.05
# Fewer values cost so little that the clock is looked at once in so many times only.
_MEASURED, _SAMPLED = 64, 8


@dataclass(frozen=True, slots=True)
class DeadSlots:
    """Numbers of slots that no value refers to any more: `new` ones that were never cached, `old`
    ones that were evicted."""

    new: int
    old: int


@dataclass
class CacheCost:
    """Costs and savings of a cache in seconds of the clock.

    They decide whether the cache is on, and nothing else."""

    warm_up: int
    probe: int
    looked_up: int = 0
    found: int = 0
    spent: float = 0.0
    matched: int = 0
    matching: float = 0.0

    @property
    def saved(self) -> float:
        """The time that the cache hits would have cost at the average cost of a miss."""
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
    where it costs more than it saves, and never holds long values. Of distinct values that were
    `asked` for so many were `found`."""

    options: Options
    counters: Counters
    slots: dict[Hashable, int] = field(default_factory=dict)
    pairs: int = 0
    asked: int = 0
    found: int = 0
    _bypass: int = 0
    _calls: int = 0
    _measured: bool = False
    _counts: bool = False
    _next_bypass: int = field(default_factory=lambda: _BYPASS)
    _cost: CacheCost = field(default_factory=lambda: CacheCost(_WARM_UP, _PROBE))

    @property
    def is_on(self) -> bool:
        return self.options.cache and self._bypass <= 0

    def look_up(self, values: Sequence[Hashable]) -> Slots:
        """The slot of each value, -1 where it is not known."""
        self.asked += len(values)
        if not self.is_on:
            # Values that rest count down the bypass.
            self._bypass -= len(values)
            self.counters.cache_skipped += len(values)
            return np.full(len(values), -1, np.int32)
        self._calls += 1
        self._measured = len(values) >= _MEASURED or self._calls % _SAMPLED == 0
        begin = self._time()
        # map() with a bound method keeps the loop in C.
        slots = np.array(list(map(self.slots.get, values, repeat(-1))), np.int32)
        hits = int(np.count_nonzero(slots >= 0))
        self.counters.cache_hits += hits
        self.found += hits
        self.counters.cache_misses += len(values) - hits
        self._note(len(values), hits, self._time() - begin)
        return slots

    def _time(self) -> float:
        clock = self.options.clock
        return clock() if clock is not None and self._measured else 0.0

    def _note(self, looked_up: int, hits: int, spent: float) -> None:
        cost = self._cost
        # Whether this call counts is noted for `matched`, which belongs to the same values.
        self._counts = self._measured and cost.warm_up <= 0
        cost.warm_up -= looked_up
        if self._counts:
            cost.looked_up += looked_up
            cost.found += hits
            cost.spent += spent

    def matched(
        self, values: Sequence[Hashable], begin: float, first: int, pairs: int
    ) -> DeadSlots:
        """Remembers values whose slots begin at `first` and hold `pairs` leaves in all. They were
        matched since `begin`, a time of `start`."""
        if not self.is_on:
            return DeadSlots(len(values), 0)
        middle = self._time()
        dead = self._remember(values, first, pairs)
        if self._counts:
            self._cost.matched += len(values)
            self._cost.matching += middle - begin
            self._cost.spent += self._time() - middle
            if self._cost.is_due:
                dead = DeadSlots(dead.new, dead.old + self._judge())
        return dead

    def start(self) -> float:
        """The time for `matched`, 0 where it does not matter."""
        return self._time() if self.is_on else 0.0

    def _judge(self) -> int:
        """Decides whether to go on; how many slots are dropped."""
        cost = self._cost
        self.counters.cache_saved_us += int(1e6 * cost.saved)
        self.counters.cache_spent_us += int(1e6 * cost.spent)
        if cost.pays:
            # It pays: judged anew from the next values on, and the bypass is short again.
            self._next_bypass, self._cost = _BYPASS, CacheCost(0, _PROBE)
            return 0
        # It costs more than it saves: drop it, bypass it for so many values (twice as many each
        # time), then fill it anew before it is judged again.
        self.counters.cache_rests += 1
        dropped = len(self.slots)
        self.slots, self.pairs = {}, 0
        self._bypass, self._next_bypass = (
            self._next_bypass,
            min(2 * self._next_bypass, _LONGEST_BYPASS),
        )
        # 1, 2, 4, … : how often the bypass has doubled.
        larger = self._bypass // _BYPASS
        # A longer bypass is followed by a longer filling, up to what the cache holds.
        fill = min(2 * larger * _WARM_UP, self.options.cache_entries)
        self._cost = CacheCost(fill, fill)
        return dropped

    def _remember(self, values: Sequence[Hashable], first: int, pairs: int) -> DeadSlots:
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
        return DeadSlots(refused, self._shrink())

    def _shrink(self) -> int:
        """Drops the older half when the bounds are exceeded; how many were dropped."""
        if len(self.slots) <= self.options.cache_entries and self.pairs <= self.options.cache_pairs:
            return 0
        # Dictionaries keep the order of insertion: the first half is the older one.
        dropped = list(islice(self.slots, (len(self.slots) + 1) // 2))
        for value in dropped:
            del self.slots[value]
        # An estimate: the pairs of each value are not kept.
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
