"""Evaluation of one block: from slots to the (row, rule) pairs that match.

The slots of a row give its candidates (inverted index of access predicates); candidates are
verified by their residual predicates, rules with many candidates column by column, and rules
without access predicates on every row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from parser.errors import ExecutionError
from rules.block import Block
from rules.cache import Slots, SlotStore
from rules.columns import Mask
from rules.counters import Counters
from rules.evaluate import ColumnEvaluator, evaluate_pairs
from rules.formula import Formulas
from rules.logic import ERROR, FALSE, TRUE, UNKNOWN
from rules.options import Options
from rules.ragged import Index, Ints, distinct, spread

# What the caller computes for (key, rows): where the expression is TRUE and where it is NULL.
OpaqueOf: TypeAlias = Callable[[str, npt.NDArray[np.int64]], tuple[Mask, Mask]]
Pairs: TypeAlias = tuple[Ints, Ints]

# A rule is evaluated column by column when so many rows are candidates, and so much is to be looked
# at for each.
_DENSE_CANDIDATES, _DENSE_SHARE, _DENSE_SIZE = 4096, 0.25, 8
# So many pairs of rules without access predicates are verified at a time.
_CHUNK = 1 << 20
# So few pairs are not worth several steps.
_FEW = 512
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class RuleTable:
    """Rules by number.

    `roots` are their nodes, `residuals[s]` the nodes left to evaluate for a candidate (-1: none).
    `always` match every row, `unindexed` have no access predicates, `opaque` holds the opaque
    leaves (and their keys) of rules that have any, `is_opaque` marks those, `regexes` the rules
    that use a regular expression, by its leaf, `regex_texts` the patterns."""

    roots: npt.NDArray[np.int32]
    residuals: npt.NDArray[np.int32]
    always: Index
    unindexed: Index
    opaque: Mapping[int, Mapping[int, str]]
    is_opaque: Mask
    regexes: Mapping[int, tuple[int, ...]]
    regex_texts: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.roots)


@dataclass(frozen=True)
class BlockMatches:
    """(row, rule) pairs, in no order, and (row, rule, leaf) for rules in error, with the leaf at
    fault."""

    rows: Ints
    rules: Ints
    errors: Sequence[tuple[int, int, int]] = ()


@dataclass
class BlockMatcher:
    """Matches one block. `alive[rule]` is False for removed rules (None: all are alive)."""

    table: RuleTable
    formulas: Formulas
    block: Block
    slots: Slots
    store: SlotStore
    alive: Mask | None
    opaque: OpaqueOf | None

    def run(self, options: Options, counters: Counters) -> BlockMatches:
        self._options, self._counters = options, counters
        pairs = self._candidates()
        if self.block.has_errors:
            return self._run_with_errors(pairs)
        return self._run(pairs)

    def _run(self, candidates: Pairs) -> BlockMatches:
        # Pairs, and rules to be tried on every row, count alike here.
        if len(candidates[0]) + self._rows * len(self.table.unindexed) <= _FEW:
            return self._run_few(candidates)
        columnwise, pairwise = self._split_dense(self._living(self.table.unindexed))
        rows, rules, heavy = self._without_heavy(*candidates)
        parts = [self._verify(rows, rules), self._by_column(np.concatenate([columnwise, heavy]))]
        # So many rules at a time that rules times rows stay below the chunk.
        step = max(1, _CHUNK // max(1, self._rows))
        chunks = (pairwise[start : start + step] for start in range(0, len(pairwise), step))
        parts += [self._verify(*self._every_row(chunk)) for chunk in chunks]
        if len(self.table.always):
            parts.append(self._every_row(self._living(self.table.always)))
        return BlockMatches(
            np.concatenate([r for r, _ in parts]), np.concatenate([r for _, r in parts])
        )

    def _run_few(self, candidates: Pairs) -> BlockMatches:
        """A small block: what counts is the number of NumPy calls, so all is evaluated in one go
        where possible."""
        more_rows, more_rules = self._every_row(self._living(self.table.unindexed))
        rows, rules = (
            np.concatenate([candidates[0], more_rows]),
            np.concatenate([candidates[1], more_rules]),
        )
        parts = []
        # Opaque leaves are asked for late and of survivors only, so their rules go the staged way.
        staged = self.table.is_opaque[rules]
        if staged.any():
            parts.append(self._verify(rows[staged], rules[staged]))
            rows, rules = rows[~staged], rules[~staged]
        if len(rules):
            kept = self._evaluate(rows, self.table.roots[rules]) == TRUE
            parts.append((rows[kept], rules[kept]))
        if len(self.table.always):
            parts.append(self._every_row(self._living(self.table.always)))
        if not parts:
            return BlockMatches(_NONE, _NONE)
        return BlockMatches(
            np.concatenate([r for r, _ in parts]), np.concatenate([r for _, r in parts])
        )

    @property
    def _rows(self) -> int:
        return self.block.rows

    def _living(self, rules: Index) -> Index:
        return rules if self.alive is None else rules[self.alive[rules]]

    def _every_row(self, rules: Ints) -> Pairs:
        return np.tile(np.arange(self._rows), len(rules)), np.repeat(rules, self._rows)

    def _candidates(self) -> Pairs:
        """Returns the pairs with a TRUE access leaf, each once."""
        # Posting lists of all (variable, row) cells, laid side by side; empty ones are the rule.
        starts, counts = self.store.rule_lists(self.slots.ravel())
        filled = counts.nonzero()[0]
        counts = counts[filled]
        rules = self.store.rules.array[spread(starts[filled], counts)].astype(np.int64)
        # Cells are laid out variable by variable, so the remainder is the row.
        rows = np.repeat(filled % max(1, self._rows), counts)
        if self.alive is not None:
            living = self.alive[rules]
            rows, rules = rows[living], rules[living]
        # Several access leaves of a rule may be TRUE in one row: one integer key per pair makes
        # the duplicates cheap to drop.
        keys = distinct(rows * len(self.table) + rules)
        self._counters.candidates += len(keys)
        # The key splits again into row and rule.
        return np.divmod(keys, max(1, len(self.table)))

    def _split_dense(self, dense: Index) -> tuple[Index, Index]:
        """Splits rules without access predicates into those by column and those by pair."""
        if not self._options.dense_fallback:
            return _NONE, dense
        # A rule with opaque leaves stays by pair: a column would ask for all rows.
        by_pair = self.table.is_opaque[dense]
        return dense[~by_pair], dense[by_pair]

    def _without_heavy(self, rows: Ints, rules: Ints) -> tuple[Ints, Ints, Index]:
        """Takes out the rules that have most rows for candidates."""
        if not self._options.dense_fallback or len(rows) < _DENSE_CANDIDATES:
            return rows, rules, _NONE
        # Formulas of few leaves are cheaper by pair even with many candidates.
        heavy = np.bincount(rules, minlength=len(self.table)) > _DENSE_SHARE * self._rows
        heavy &= self.formulas.size[self.table.roots] >= _DENSE_SIZE
        heavy &= ~self.table.is_opaque
        if not heavy.any():
            return rows, rules, _NONE
        light = ~heavy[rules]
        return rows[light], rules[light], np.flatnonzero(heavy)

    def _by_column(self, rules: Index) -> Pairs:
        if not len(rules):
            return _NONE, _NONE
        evaluator = ColumnEvaluator(self.formulas, self.block)
        self._counters.dense_evaluations += len(rules)
        hits = [np.flatnonzero(evaluator.node(int(self.table.roots[r])) == TRUE) for r in rules]
        return np.concatenate(hits), np.repeat(rules, [len(h) for h in hits])

    def _verify(self, rows: Ints, rules: Ints) -> Pairs:
        """The pairs whose rule is TRUE: residual after residual, since the first rule out most."""
        last = len(self.table.residuals) - 1
        for number, residual in enumerate(self.table.residuals):
            nodes = residual[rules]
            asked = (nodes >= 0).nonzero()[0]
            if not len(asked):
                continue
            if number == last:  # opaque leaves are costly: only what passed all others is asked for
                self._ask_opaque(rows[asked], rules[asked])
            kept = np.ones(len(rules), np.bool_)
            kept[asked] = self._evaluate(rows[asked], nodes[asked]) == TRUE
            rows, rules = rows[kept], rules[kept]
        return rows, rules

    def _evaluate(self, rows: Ints, nodes: Ints) -> npt.NDArray[np.int8]:
        self._counters.verifications += len(nodes)
        return evaluate_pairs(self.formulas, self.block, rows, nodes)

    def _ask_opaque(self, rows: Ints, rules: Ints) -> None:
        """Has the caller evaluate the opaque leaves of these pairs, each on the rows that need it.

        ExecutionError if nobody does."""
        wanted: dict[int, list[Ints]] = {}
        keys: dict[int, str] = {}
        for rule in np.unique(rules).tolist():
            leaves = self.table.opaque.get(rule, {})
            keys.update(leaves)
            for leaf in leaves:
                wanted.setdefault(leaf, []).append(rows[rules == rule])
        if not wanted:
            return
        if self.opaque is None:
            raise ExecutionError(f"nobody evaluates the expression '{next(iter(keys.values()))}'")
        self.block.add_opaque(np.array(sorted(wanted), np.intp))
        for leaf in sorted(wanted):
            asked = np.unique(np.concatenate(wanted[leaf])).astype(np.int64)
            true, null = self.opaque(keys[leaf], asked)
            self._counters.opaque_rows += len(asked)
            self.block.set_opaque(
                leaf, asked, np.where(null, UNKNOWN, np.where(true, TRUE, FALSE)).astype(np.int8)
            )

    def _run_with_errors(self, candidates: Pairs) -> BlockMatches:
        """Rows of which a value made a regular expression give up are evaluated for all rules that
        could match or fail, by their whole formula; the other rows as always."""
        # Access predicates prune by what is TRUE, and an error is not: in such rows each user of a
        # failed leaf is a candidate, too, and residual predicates do not suffice.
        failed_leaves = self._failed_leaves()
        bad = np.zeros(self._rows, np.bool_)
        for rows, _ in failed_leaves:
            bad[rows] = True
        rows, rules = candidates
        good = self._run((rows[~bad[rows]], rules[~bad[rows]]))
        kept = ~bad[good.rows]
        pairs = [(rows[bad[rows]], rules[bad[rows]])]
        bad_rows = np.flatnonzero(bad)
        others = np.concatenate(
            [self._living(self.table.unindexed), self._living(self.table.always)]
        )
        pairs.append((np.repeat(bad_rows, len(others)), np.tile(others, len(bad_rows))))
        for error_rows, leaf in failed_leaves:
            users = self._living(np.array(self.table.regexes[leaf], np.intp))
            pairs.append((np.repeat(error_rows, len(users)), np.tile(users, len(error_rows))))
        rows, rules, errors = self._decide(pairs, failed_leaves)
        return BlockMatches(
            np.concatenate([good.rows[kept], rows]),
            np.concatenate([good.rules[kept], rules]),
            errors,
        )

    def _decide(
        self, pairs: list[Pairs], failed_leaves: list[tuple[Ints, int]]
    ) -> tuple[Ints, Ints, list[tuple[int, int, int]]]:
        size = max(1, len(self.table))
        keys = np.unique(np.concatenate([rows * size + rules for rows, rules in pairs]))
        rows, rules = np.divmod(keys, size)
        self._ask_opaque(rows, rules)
        values = self._evaluate(rows, self.table.roots[rules])
        failed = np.flatnonzero(values == ERROR)
        errors = []
        for row, rule in zip(rows[failed].tolist(), rules[failed].tolist(), strict=True):
            leaf = next(
                leaf for at, leaf in failed_leaves if row in at and rule in self.table.regexes[leaf]
            )
            errors.append((row, rule, leaf))
        return rows[values == TRUE], rules[values == TRUE], errors

    def _failed_leaves(self) -> list[tuple[Ints, int]]:
        """The leaves in error, each with its rows, by leaf."""
        store = self.store
        places = np.flatnonzero(store.truths.array == ERROR)
        owners = np.searchsorted(store.leaf_start.array, places, "right") - 1
        failed_leaves: list[tuple[Ints, int]] = []
        for leaf in np.unique(store.leaves.array[places]).tolist():
            slots = owners[store.leaves.array[places] == leaf]
            rows = np.flatnonzero(np.isin(self.slots, slots).any(axis=0))
            if len(rows):
                failed_leaves.append((rows, leaf))
        return failed_leaves
