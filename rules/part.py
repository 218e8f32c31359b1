"""A compiled set of rules: groups, formulas and access sets, with the store of what values make
true.

Rules are numbered from 0 in the order they came. A part never changes; a change of rules makes
another part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rules.block import Leaves, build_block, plan_block
from rules.block_matcher import BlockMatcher, Found, OpaqueOf, RuleTable
from rules.cache import NULL_SLOT, Slots, SlotStore
from rules.columns import Columns, Mask
from rules.counters import Counters
from rules.formula import Formulas
from rules.group import Group
from rules.options import Options
from rules.watch import Watch

_BLOCK_ROWS = 4096
_MOST_CELLS = 1 << 25
_GARBAGE = 20_000


class Part:
    """See the module. One thread at a time may match."""

    def __init__(
        self,
        groups: Sequence[Group],
        formulas: Formulas,
        table: RuleTable,
        leaves: Leaves,
        store: SlotStore,
        options: Options,
        watch: Watch,
        counters: Counters,
    ) -> None:
        self._groups, self._formulas, self._table, self._leaves, self._store = (
            groups,
            formulas,
            table,
            leaves,
            store,
        )
        self._options, self._watch, self._counters = options, watch, counters
        self._garbage = 0

    def __len__(self) -> int:
        return len(self._table)

    def reason(self, leaf: int) -> str:
        """Why there is no answer where one depends on `leaf`, a regular expression."""
        return self._watch.reason(leaf, self._table.regex_texts[leaf])

    def given_up(self, leaf: int) -> bool:
        """Whether there will be none for other values either."""
        return leaf in self._watch.given_up

    def match(
        self, columns: Columns, num_rows: int, alive: Mask | None, opaque: OpaqueOf | None
    ) -> list[Found]:
        """`alive[rule]` is False for rules that were removed (None: all are there). Rows are those
        of the batch."""
        mark = len(self._store)
        slots, unused = self._slots(columns, num_rows, rules_are_gone=alive is not None)
        found: list[Found] = []
        for start in range(0, num_rows, _BLOCK_ROWS):
            self._match_rows(slots[:, start : start + _BLOCK_ROWS], start, alive, opaque, found)
        self._tidy(mark, unused)
        return found

    def _slots(self, columns: Columns, num_rows: int, *, rules_are_gone: bool) -> tuple[Slots, int]:
        """The slots of all groups, and how many new ones are of no use later. Counts old ones that
        are no more. Where rules were removed, nobody may read a column any more that only they have
        read: to them it is NULL."""
        slots = np.empty((len(self._groups), num_rows), np.int32)
        unused = 0
        for number, group in enumerate(self._groups):
            if rules_are_gone and group.variable.field not in columns.arrays:
                slots[number] = NULL_SLOT
                continue
            slots[number], lost = group.slots(columns, self._store)
            unused += lost.new
            self._garbage += lost.old
        return slots, unused

    def _match_rows(
        self,
        slots: Slots,
        first: int,
        alive: Mask | None,
        opaque: OpaqueOf | None,
        found: list[Found],
    ) -> None:
        rows = slots.shape[1]
        layout = plan_block(slots, self._store, self._leaves)
        if layout.cells > _MOST_CELLS and rows > 1:
            half = rows // 2
            self._match_rows(slots[:, :half], first, alive, opaque, found)
            self._match_rows(slots[:, half:], first + half, alive, opaque, found)
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
        found.append(Found(result.rows + first, result.rules, errors))

    def _tidy(self, mark: int, unused: int) -> None:
        """Drops slots that nobody will find again: at once where these are all the new ones, else
        when they are many."""
        if unused == len(self._store) - mark:
            self._store.cut(mark)
        else:
            self._garbage += unused
        if self._garbage > max(_GARBAGE, len(self._store) // 2):
            kept = np.unique(np.concatenate([[0, 1], *(g.kept() for g in self._groups)])).astype(
                np.intp
            )
            new_number = np.zeros(len(self._store), np.int64)
            new_number[kept] = np.arange(len(kept))
            self._store.keep(kept)
            for group in self._groups:
                group.renumber(new_number)
            self._garbage = 0


def _shifted(opaque: OpaqueOf, first: int) -> OpaqueOf:
    return lambda key, rows: opaque(key, rows + first)
