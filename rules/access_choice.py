"""The choice among the access predicates of rules by what the stream shows.

When rules are compiled nothing is known of the values to come, so that a word that stands in every
fifth of them may be taken for a rare one. So the leaves that are TRUE are counted in some rows, and
each rule gets the set that made it a candidate least often. Which one it is changes no result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rules.access_predicates import AccessPredicates
from rules.cache import Slots, SlotStore
from rules.ragged import Index, Ints, spread

# So many rows are counted, then so many pass uncounted; each time twice as many as before.
_SAMPLE, _GAP, _LONGEST_GAP = 2_048, 50_000, 1_600_000
# A set must be so much better than the one in use, and all of them together so much better.
_BETTER, _WORTH = 0.5, 0.9


@dataclass(frozen=True)
class AccessOptions:
    """The sets of access predicates that rules can do with: set s is one of rule `rules[s]`
    (ascending; the first of a rule is the one chosen without any knowledge), its leaves are
    `leaves[starts[s] : starts[s + 1]]`. `shares[leaf]` is the expected share of rows on which a
    leaf is TRUE."""

    rules: Index
    starts: Index
    leaves: Index
    shares: npt.NDArray[np.float64]

    @property
    def first(self) -> Index:
        """The first set of each rule that has any."""
        new = np.ones(len(self.rules), np.bool_)
        np.not_equal(self.rules[1:], self.rules[:-1], out=new[1:])
        return new.nonzero()[0]

    def rules_of(self, sets: Index) -> tuple[Ints, Ints]:
        """Rules by access leaf for these sets, as offsets and one list."""
        counts = self.starts[sets + 1] - self.starts[sets]
        leaves = self.leaves[spread(self.starts[sets], counts)]
        # An inverted index in compressed sparse row form: rules sorted by leaf, and offsets.
        order = np.argsort(leaves, kind="stable")
        offsets = np.zeros(len(self.shares) + 1, np.int64)
        np.cumsum(np.bincount(leaves, minlength=len(self.shares)), out=offsets[1:])
        return offsets, self.rules[sets].repeat(counts)[order]


def access_options(
    sets: Sequence[Sequence[AccessPredicates]], numbers: Ints, shares: Sequence[float | None]
) -> AccessOptions:
    """`sets[rule]` are those of a rule, none for one that is tried on every row; leaf i of them is
    `numbers[i]`."""
    all_sets = [access for options in sets for access in options]
    old = [leaf for access in all_sets for leaf in sorted(access.leaves)]
    starts = np.zeros(len(all_sets) + 1, np.intp)
    np.cumsum([len(access.leaves) for access in all_sets], out=starts[1:])
    by_number = np.ones(len(numbers))
    by_number[numbers] = [1.0 if share is None else share for share in shares]
    rules = np.arange(len(sets)).repeat([len(options) for options in sets])
    return AccessOptions(rules, starts, numbers[np.array(old, np.intp)].astype(np.intp), by_number)


class LearnedAccess:
    """Counts leaves in samples of the stream and chooses sets by them.

    `sets` are those in use, one of each rule that has any."""

    def __init__(self, options: AccessOptions) -> None:
        self._options = options
        self.sets = options.first
        self._gap = _GAP
        self._begin(0)

    def _begin(self, uncounted: int) -> None:
        self._uncounted, self._rows = uncounted, 0
        self._counts = np.zeros(len(self._options.shares), np.int64)

    def note(self, slots: Slots, store: SlotStore) -> bool:
        """Counts the leaves of `slots[variable, row]`, unless these rows pass uncounted. True if
        other sets are in use from here on."""
        rows = slots.shape[1]
        if self._uncounted > 0:
            self._uncounted -= rows
            return False
        used, times = np.unique(slots, return_counts=True)
        starts, counts = store.leaf_lists(used)
        leaves = store.leaves.array[spread(starts, counts)]
        self._counts += np.bincount(
            leaves, times.repeat(counts), minlength=len(self._counts)
        ).astype(np.int64)
        self._rows += rows
        if self._rows < _SAMPLE:
            return False
        changed = self._choose()
        self._begin(self._gap)
        self._gap = min(2 * self._gap, _LONGEST_GAP)
        return changed

    def _choose(self) -> bool:
        known = self._options
        # What was expected counts as one row: it decides between leaves that never were TRUE.
        shares = (self._counts + np.minimum(known.shares, 1.0)) / (self._rows + 1)
        sums = np.concatenate([[0.0], np.cumsum(shares[known.leaves])])
        costs = sums[known.starts[1:]] - sums[known.starts[:-1]]
        first = known.first
        # The cheapest set of each rule: sorted by rule and cost, it is the first one of its rule.
        best = np.lexsort((costs, known.rules))[first]
        best = np.where(costs[best] < _BETTER * costs[self.sets], best, self.sets)
        if costs[best].sum() > _WORTH * costs[self.sets].sum():
            return False
        self.sets = best
        return True
