"""The accumulators of an operator's aggregate calls, as columns of its state table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from parser.types import Column
from planner.logical import AggregateCall
from sqlengine.batch import Batch, IntArray
from sqlengine.expressions import truth
from sqlengine.operators.aggregates.distinct_values import DistinctValues, Pairs, plain_function
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.state.columns import BoolArray, SlotColumn
from sqlengine.state.table import KeyedTable
from udf.aggregates.accumulators import Accumulator, Aggregate, empty_accumulator
from udf.aggregates.basic import Sum
from udf.aggregates.buffered import Buffered
from udf.aggregates.registry import bind_aggregate
from udf.aggregates.statistics import Spread
from udf.vector import Errors, Vector, merge_errors


class Accumulators:
    """The accumulators of `calls` over the rows of one input, by slot of the operator's table.

    `columns` must be among the value columns of the table passed to `attach`. With `retract`, rows
    can be retracted. A row for which a user's aggregate fails leaves by the error port, and is
    skipped by the calls after it. `keeping` names the result columns of calls that need no
    retraction all the same (monotonic arguments). With `tabled`, the values seen by
    DISTINCT calls are in tables of their own (`open_tables`), as Flink's MapViews are.
    """

    def __init__(
        self,
        calls: Sequence[AggregateCall],
        *,
        retract: bool = False,
        keeping: frozenset[str] = frozenset(),
        tabled: bool = False,
    ) -> None:
        self.calls = calls
        plain = {
            i: name
            for i, c in enumerate(calls)
            if tabled and (name := plain_function(c)) is not None
        }
        self._bound = [
            _bind(replace(c, function=plain.get(i, c.function)), retract and c.name not in keeping)
            for i, c in enumerate(calls)
        ]
        self._keeping = keeping
        self._tabled = plain.keys()
        # By argument: the calls that count its values in one table, and that table.
        self._sharing: dict[str, list[int]] = {}
        for i in plain:
            self._sharing.setdefault(_argument(calls[i]), []).append(i)
        self._distinct: dict[str, DistinctValues] = {}

    @property
    def columns(self) -> list[Column]:
        """The value columns of the accumulators."""
        return [
            Column(f"{i}#{n}", kind)
            for i, bound in enumerate(self._bound)
            for n, kind in bound.accumulators
        ]

    def attach(self, table: KeyedTable, counters: Counter[str]) -> None:
        self._table = table
        self._counters = counters

    def open_tables(self, context: Context) -> None:
        """Opens the tables of `tabled` calls; called after `attach`."""
        for argument, calls in self._sharing.items():
            kind = self.calls[calls[0]].argument_type
            assert kind is not None
            # The calls are in the name: those of other calls are another table.
            name = " ".join(["distinct", *map(str, calls)])
            self._distinct[argument] = DistinctValues(context, name, self._table, kind, len(calls))

    def change(
        self, batch: Batch, slots: IntArray, retracts: BoolArray | None, output: Output
    ) -> None:
        """Accumulates the rows at `slots`, then retracts those of `retracts`."""
        good, selected = np.ones(batch.num_rows, np.bool_), self._selected(batch)
        pairs = self._pairs(batch, slots, selected)
        for i, (call, bound) in enumerate(zip(self.calls, self._bound, strict=True)):
            values = None if call.argument is None else batch.column(call.argument)
            chosen, accumulator = selected[call.filter_column] & good, self._accumulator(i)
            added = self._count_distinct(
                i, pairs, chosen if retracts is None else chosen & ~retracts, 1
            )
            failures = [bound.update(accumulator, slots, values, added)]
            if retracts is not None and call.name not in self._keeping:
                gone = self._count_distinct(i, pairs, chosen & retracts, -1)
                failures.append(bound.retract(accumulator, slots, values, gone))
            for errors in failures:
                if errors is not None:
                    # Calls that come later in the list skip these rows; earlier ones have taken
                    # them already.
                    good &= ~errors.mask
                    output.append((ERROR_PORT, self.failed(batch, call, errors)))
        for argument, found in pairs.items():
            self._distinct[argument].forget(found)

    def _selected(self, batch: Batch) -> dict[str | None, BoolArray]:
        """Returns the rows of each FILTER, by its column."""
        every = np.ones(batch.num_rows, np.bool_)
        filters = {c.filter_column for c in self.calls} - {None}
        return {None: every} | {
            name: truth(Vector(batch.column(name)), batch.num_rows) for name in filters if name
        }

    def _pairs(
        self, batch: Batch, slots: IntArray, selected: Mapping[str | None, BoolArray]
    ) -> dict[str, Pairs]:
        """Finds the values of DISTINCT calls, by argument."""
        found = {}
        for argument, table in self._distinct.items():
            filters = {self.calls[i].filter_column for i in self._sharing[argument]}
            rows = np.logical_or.reduce([selected[name] for name in filters])
            found[argument] = table.find(slots, batch.column(argument), rows)
        return found

    def _count_distinct(
        self, i: int, pairs: Mapping[str, Pairs], rows: BoolArray, sign: int
    ) -> BoolArray:
        """Returns the rows that a call has to process: for DISTINCT, the first of each value that
        appears or disappears."""
        if i not in self._tabled:
            return rows
        argument = _argument(self.calls[i])
        place = self._sharing[argument].index(i)
        return self._distinct[argument].change_counts(pairs[argument], place, rows, sign)

    def results(self, slots: IntArray) -> list[Vector]:
        """Returns the value of each call at `slots`."""
        results = (bound.result(self._accumulator(i), slots) for i, bound in enumerate(self._bound))
        return [r if isinstance(r, Vector) else Vector(r) for r in results]

    @property
    def buffered(self) -> bool:
        """True if a call buffers values until `hand_on`."""
        return any(isinstance(b, Buffered) for b in self._bound)

    def has_pending(self, slots: IntArray, stage: int) -> BoolArray:
        """Returns True where values are buffered in a stage (`Buffered`)."""
        pending = np.zeros(len(slots), np.bool_)
        for i, bound in enumerate(self._bound):
            if isinstance(bound, Buffered):
                pending |= bound.has_pending(self._accumulator(i), slots, stage)
        return pending

    def hand_on(self, slots: IntArray, stage: int) -> None:
        """Moves the buffered values at `slots` out of a stage."""
        for i, bound in enumerate(self._bound):
            if isinstance(bound, Buffered):
                bound.hand_on(self._accumulator(i), slots, stage)

    def parts(self, slots: IntArray) -> list[Vector]:
        """Returns the components of some calls, since Flink emits an update where only they have
        changed."""
        composed = ((i, b) for i, b in enumerate(self._bound) if isinstance(b, Spread | Sum))
        return [part for i, bound in composed for part in bound.parts(self._accumulator(i), slots)]

    def merge(self, slots: IntArray, others: IntArray) -> None:
        """Merges the accumulators at `others` into those at `slots` (each slot once).

        Where a user's aggregate fails to merge, its accumulator stays as it was.
        """
        for i, bound in enumerate(self._bound):
            bound.merge(self._accumulator(i), slots, self._accumulator(i), others)

    def swap(self, slots: IntArray, others: IntArray) -> None:
        """Exchanges the accumulators at `slots` and `others` (each slot once), except FIRST_VALUE
        and LAST_VALUE."""
        both, turned = np.concatenate([slots, others]), np.concatenate([others, slots])
        for i in (i for i, call in enumerate(self.calls) if not _depends_on_order(call)):
            for column in self._accumulator(i).values():
                column[both] = column[turned]

    def merge_with(
        self, slots: IntArray, parts: Mapping[str, SlotColumn], others: IntArray
    ) -> None:
        """Merges foreign accumulators, whose `columns` are `parts`, at `others` into those at
        `slots` (each once)."""
        for i, bound in enumerate(self._bound):
            bound.merge(self._accumulator(i), slots, _of_call(parts, i), others)

    def merged(self, slots: IntArray, groups: IntArray, *, latest_first: bool) -> list[Vector]:
        """Returns the value of each call over all accumulators of a group, merged in their order;
        the table does not change.

        `groups` numbers the groups from 0 and ascends. `latest_first`: the order is that of time,
        backwards.
        """
        # Each group backwards: of slices in descending order that is the order of time.
        back = np.lexsort((-np.arange(len(slots)), groups))
        turned = [latest_first and _depends_on_order(c) for c in self.calls]
        return [
            self._merged(i, slots[back] if turn else slots, groups) for i, turn in enumerate(turned)
        ]

    def _merged(self, i: int, slots: IntArray, groups: IntArray) -> Vector:
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        rank = np.arange(len(slots)) - starts[groups]
        bound, stored = self._bound[i], self._accumulator(i)
        if any(column.dtype.kind in "Of" for column in stored.values()):
            # Rounding and collected lists depend on the order of merges: one after the other, as
            # Flink does. Otherwise any order will do, and pairs of pairs are faster.
            made = empty_accumulator(bound.accumulators, len(starts))
            failed = self._one_by_one(bound, made, (slots, groups, rank))
            result = bound.result(made, np.arange(len(starts)))
        else:
            made = {name: column[slots] for name, column in stored.items()}
            failed = _pairwise(bound, made, groups, rank)
            result = bound.result(made, starts)
        value = result if isinstance(result, Vector) else Vector(result)
        return replace(value, errors=merge_errors([*failed, value.errors])) if failed else value

    def _one_by_one(
        self, bound: Aggregate, made: Accumulator, shape: tuple[IntArray, IntArray, IntArray]
    ) -> list[Errors]:
        """Merges into new accumulators the first of each group, then the second, and so on; stored
        ones stay as they are."""
        slots, groups, rank = shape
        stored = next(self._accumulator(i) for i, b in enumerate(self._bound) if b is bound)
        failed = []
        for n in range(int(rank.max(initial=-1)) + 1):
            at = np.flatnonzero(rank == n)
            errors = bound.merge(made, groups[at], stored, slots[at])
            if errors is not None:
                failed.append(_by_group(errors, groups[at], len(next(iter(made.values())))))
        return failed

    def failed(self, rows: Batch, call: AggregateCall, errors: Errors) -> Batch:
        """Returns dead letters of the rows with errors."""
        bad = np.flatnonzero(errors.mask)
        count = len(bad)
        self._counters["rows_in_error"] += count
        return dead_letters(
            rows.take(bad),
            place="",
            subject=str(call),
            reason=[errors.reason(int(row)) for row in bad],
        )

    def _accumulator(self, i: int) -> Accumulator:
        return _of_call(self._table.columns, i)


def _of_call(columns: Mapping[str, SlotColumn], i: int) -> Accumulator:
    prefix = f"{i}#"
    return {
        name.removeprefix(prefix): column
        for name, column in columns.items()
        if name.startswith(prefix)
    }


def _pairwise(
    bound: Aggregate, made: Accumulator, groups: IntArray, rank: IntArray
) -> list[Errors]:
    """Merges neighbours until one accumulator of each group is left, at its first place (a tree of
    merges)."""
    failed, step, count = [], 1, int(groups.max(initial=-1)) + 1
    size = np.bincount(groups, minlength=count)[groups]
    while (step < size).any():
        # With step 1: 0 takes 1, 2 takes 3, …; with step 2: 0 takes 2, 4 takes 6, …; log2(size)
        # rounds.
        left = np.flatnonzero((rank % (2 * step) == 0) & (rank + step < size))
        errors = bound.merge(made, left, made, left + step)
        if errors is not None:
            failed.append(_by_group(errors, groups[left], count))
        step *= 2
    return failed


def _depends_on_order(call: AggregateCall) -> bool:
    """True if the call asks for the first or last row, so that accumulators must be merged in the
    order of time."""
    return call.function.partition(" ")[0] in ("FIRST_VALUE", "LAST_VALUE")


def _by_group(errors: Errors, groups: IntArray, count: int) -> Errors:
    """Maps errors of pairs to their groups."""
    mask, codes = np.zeros(count, np.bool_), np.zeros(count, np.int32)
    at = np.flatnonzero(errors.mask)
    mask[groups[at]], codes[groups[at]] = True, errors.codes[at]
    return Errors(mask, codes, errors.reasons)


def _bind(call: AggregateCall, retract: bool) -> Aggregate:
    types = () if call.argument_type is None else (call.argument_type,)
    return bind_aggregate(call.function, types, retract=retract)


def _argument(call: AggregateCall) -> str:
    assert call.argument is not None
    return call.argument
