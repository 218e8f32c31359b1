"""Compiled rules: predicate indexes, formulas and access predicates, with the store of their slots.

Rules are numbered from 0 in the order they came. Compiled rules are immutable but for the store; a
change of rules compiles others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from rules.access_choice import AccessOptions, LearnedAccess
from rules.block import Leaves, build_block, plan_block
from rules.block_matcher import BlockMatcher, BlockMatches, OpaqueOf, RuleTable
from rules.cache import NULL_SLOT, Slots, SlotStore, ValueCache
from rules.columns import Columns, Mask
from rules.counters import Counters
from rules.formula import Formulas
from rules.new_slots import NewSlots
from rules.options import Options
from rules.predicate_index import PredicateIndex
from rules.ragged import Index
from rules.slow_patterns import SlowPatterns

_BLOCK_ROWS = 4096
_MOST_CELLS = 1 << 25
_MOST_DEAD = 20_000
# Leaves of a rule from which on it is worth a step of its own to look at one of them first.
_LARGE = 8


class CompiledRules:
    """See the module. One thread at a time may match."""

    def __init__(
        self,
        indexes: Sequence[PredicateIndex],
        formulas: Formulas,
        table: RuleTable,
        leaves: Leaves,
        access: AccessOptions,
        options: Options,
        slow_patterns: SlowPatterns,
        counters: Counters,
    ) -> None:
        self._indexes, self._formulas, self._table, self._leaves, self._store = (
            indexes,
            formulas,
            table,
            leaves,
            SlotStore(access.rules_of(access.first)),
        )
        self._access = access
        self._learned = LearnedAccess(access) if options.learned_access else None
        self._first_residuals = table.residuals
        self._options, self._slow_patterns, self._counters = options, slow_patterns, counters
        self._dead = 0

    def __len__(self) -> int:
        return len(self._table)

    def caches(self, fields: Collection[str]) -> Iterator[ValueCache]:
        """Yields the caches of the values of some columns."""
        for index in self._indexes:
            if index.cache is not None and index.variable.field in fields:
                yield index.cache

    def reason(self, leaf: int) -> str:
        """Returns why there is no answer where it depends on `leaf`, a regular expression."""
        return self._slow_patterns.reason(leaf, self._table.regex_texts[leaf])

    def given_up(self, leaf: int) -> bool:
        """True if the leaf will have no answer for other values either."""
        return leaf in self._slow_patterns.given_up

    def match(
        self, columns: Columns, num_rows: int, alive: Mask | None, opaque: OpaqueOf | None
    ) -> list[BlockMatches]:
        """Returns the matches of a batch, block by block.

        `alive[rule]` is False for removed rules (None: all are alive)."""
        mark = len(self._store)
        slots, unused = self._slots(columns, num_rows, rules_are_gone=alive is not None)
        if self._learned is not None and self._learned.note(slots, self._store):
            self._choose(self._learned.sets)
        matches: list[BlockMatches] = []
        for start in range(0, num_rows, _BLOCK_ROWS):
            self._match_rows(slots[:, start : start + _BLOCK_ROWS], start, alive, opaque, matches)
        self._tidy(mark, unused)
        return matches

    def _choose(self, sets: Index) -> None:
        """Uses these sets of access predicates, which change what is left to verify."""
        self._store.choose_rules(self._access.rules_of(sets))
        changed = self._access.rules[sets[sets != self._access.first]]
        roots = self._table.roots[changed]
        residuals = self._first_residuals.copy()
        # The whole root, after what is cheap and selective where the root is not.
        large = self._formulas.size[roots] > _LARGE
        residuals[0, changed] = np.where(large, residuals[0, changed], -1)
        residuals[1:, changed] = -1
        residuals[2, changed] = roots
        self._table = replace(self._table, residuals=residuals)
        self._counters.access_choices += 1

    def _slots(self, columns: Columns, num_rows: int, *, rules_are_gone: bool) -> tuple[Slots, int]:
        """Returns the slots of all variables, and how many new ones are of no use later; counts
        evicted ones.

        Where rules were removed, the batch may lack a column that only they have read: to them it
        is NULL."""
        slots = np.empty((len(self._indexes), num_rows), np.int32)
        unused, new = 0, NewSlots(self._store)
        for number, index in enumerate(self._indexes):
            if rules_are_gone and index.variable.field not in columns.arrays:
                slots[number] = NULL_SLOT
                continue
            slots[number], dead = index.slots(columns, new)
            unused += dead.new
            self._dead += dead.old
        new.finish()
        return slots, unused

    def _match_rows(
        self,
        slots: Slots,
        first: int,
        alive: Mask | None,
        opaque: OpaqueOf | None,
        matches: list[BlockMatches],
    ) -> None:
        rows = slots.shape[1]
        layout = plan_block(slots, self._store, self._leaves)
        # Many distinct values times many touched leaves may not fit the memory: halve the block.
        if layout.cells > _MOST_CELLS and rows > 1:
            half = rows // 2
            self._match_rows(slots[:, :half], first, alive, opaque, matches)
            self._match_rows(slots[:, half:], first + half, alive, opaque, matches)
            return
        block = build_block(layout, self._leaves, may_have_errors=self._store.errors)
        try:
            shifted = None if opaque is None else _shifted(opaque, first)
            matcher = BlockMatcher(
                self._table, self._formulas, block, slots, self._store, alive, shifted
            )
            result = matcher.run(self._options, self._counters)
        finally:
            block.close()
        errors = [(row + first, rule, leaf) for row, rule, leaf in result.errors]
        matches.append(BlockMatches(result.rows + first, result.rules, errors))

    def _tidy(self, mark: int, unused: int) -> None:
        """Drops dead slots: at once if all new ones are dead, else when there are many."""
        if unused == len(self._store) - mark:
            self._store.truncate(mark)
        else:
            self._dead += unused
        if self._dead > max(_MOST_DEAD, len(self._store) // 2):
            kept = np.unique(
                np.concatenate([[0, 1], *(i.live_slots() for i in self._indexes)])
            ).astype(np.intp)
            new_number = np.zeros(len(self._store), np.int64)
            new_number[kept] = np.arange(len(kept))
            self._store.compact(kept)
            for index in self._indexes:
                index.renumber(new_number)
            self._dead = 0


def _shifted(opaque: OpaqueOf, first: int) -> OpaqueOf:
    return lambda key, rows: opaque(key, rows + first)
