"""The accumulators of an operator's aggregate calls: columns of its table, by slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from parser.types import Column
from planner.logical import AggregateCall
from sqlengine.batch import Batch, IntArray
from sqlengine.expressions import truth
from sqlengine.operators.aggregates.distinct_values import DistinctValues, plain_function
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
    """`calls` over rows of one input. `retract`: rows are taken back, too. The columns are to be
    among the values of the table that `attach` gets. A row for which an aggregate of a user fails
    leaves by the error port, in the name of `owner`, and counts for no call that comes behind that.

    `keeping` names the result columns of calls that take nothing back all the same.

    `tabled`: the values that DISTINCT calls have seen stand in tables of their own, by what
    `open_tables` gets."""

    def __init__(
        self,
        calls: Sequence[AggregateCall],
        owner: str = "",
        *,
        retract: bool = False,
        keeping: frozenset[str] = frozenset(),
        tabled: bool = False,
    ) -> None:
        self.calls = calls
        self._owner = owner
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
        self._distinct: dict[int, DistinctValues] = {}

    @property
    def columns(self) -> list[Column]:
        """The value columns that the accumulators are."""
        return [
            Column(f"{i}#{n}", kind)
            for i, bound in enumerate(self._bound)
            for n, kind in bound.accumulators
        ]

    def attach(self, table: KeyedTable, counters: Counter[str]) -> None:
        self._table = table
        self._counters = counters

    def open_tables(self, context: Context) -> None:
        """Comes after `attach`, where there are `tabled` calls."""
        tabled = {i: self.calls[i] for i in self._tabled}
        self._distinct = {
            i: DistinctValues(context, f"distinct {i}", self._table, c) for i, c in tabled.items()
        }

    def change(self, batch: Batch, slots: IntArray, back: BoolArray | None, output: Output) -> None:
        """Adds the rows to the accumulators at `slots`, then takes those of `back` out of them."""
        good = np.ones(batch.num_rows, np.bool_)
        for i, (call, bound) in enumerate(zip(self.calls, self._bound, strict=True)):
            values = None if call.argument is None else batch.column(call.argument)
            chosen, accumulator = _selected(call, batch) & good, self._accumulator(i)
            added = self._once(i, batch, slots, chosen if back is None else chosen & ~back, 1)
            found = [bound.update(accumulator, slots, values, added)]
            if back is not None and call.name not in self._keeping:
                found.append(
                    bound.retract(
                        accumulator, slots, values, self._once(i, batch, slots, chosen & back, -1)
                    )
                )
            for errors in found:
                if errors is not None:
                    good &= ~errors.mask
                    output.append((ERROR_PORT, self.failed(batch, call, errors)))

    def _once(self, i: int, batch: Batch, slots: IntArray, rows: BoolArray, sign: int) -> BoolArray:
        """Of the chosen rows those that count: for a DISTINCT call one for each value that comes or
        goes."""
        if i not in self._distinct:
            return rows
        argument = self.calls[i].argument
        assert argument is not None
        return self._distinct[i].turn(slots, batch.column(argument), rows, sign)

    def results(self, slots: IntArray) -> list[Vector]:
        """The value of each call at `slots`."""
        found = (bound.result(self._accumulator(i), slots) for i, bound in enumerate(self._bound))
        return [r if isinstance(r, Vector) else Vector(r) for r in found]

    @property
    def buffered(self) -> bool:
        """Whether values wait until `hand_on`."""
        return any(isinstance(b, Buffered) for b in self._bound)

    def waits(self, slots: IntArray, stage: int) -> BoolArray:
        """Where values wait in a stage (`Buffered`)."""
        found = np.zeros(len(slots), np.bool_)
        for i, bound in enumerate(self._bound):
            if isinstance(bound, Buffered):
                found |= bound.waits(self._accumulator(i), slots, stage)
        return found

    def hand_on(self, slots: IntArray, stage: int) -> None:
        """Takes what waits at `slots` on from a stage."""
        for i, bound in enumerate(self._bound):
            if isinstance(bound, Buffered):
                bound.hand_on(self._accumulator(i), slots, stage)

    def parts(self, slots: IntArray) -> list[Vector]:
        """What some calls are made from: Flink tells of a result again where only that has
        changed."""
        made = ((i, b) for i, b in enumerate(self._bound) if isinstance(b, Spread | Sum))
        return [part for i, bound in made for part in bound.parts(self._accumulator(i), slots)]

    def merge(self, slots: IntArray, others: IntArray) -> None:
        """Adds the accumulators at `others` to those at `slots` (each named once). Where a user's
        aggregate fails to, it stays as it was."""
        for i, bound in enumerate(self._bound):
            bound.merge(self._accumulator(i), slots, self._accumulator(i), others)

    def swap(self, slots: IntArray, others: IntArray) -> None:
        """What is at `slots` goes to `others`, and the other way (each named once), but what is the
        first or last to come."""
        both, turned = np.concatenate([slots, others]), np.concatenate([others, slots])
        for i in (i for i, call in enumerate(self.calls) if not _ends(call)):
            for column in self._accumulator(i).values():
                column[both] = column[turned]

    def merge_with(
        self, slots: IntArray, parts: Mapping[str, SlotColumn], others: IntArray
    ) -> None:
        """Adds accumulators of another place, whose `columns` are `parts`, at `others` to those at
        `slots` (each once)."""
        for i, bound in enumerate(self._bound):
            bound.merge(self._accumulator(i), slots, _of_call(parts, i), others)

    def merged(self, slots: IntArray, groups: IntArray, *, latest_first: bool) -> list[Vector]:
        """The value of each call over all accumulators of a group together, in their order; what is
        at `slots` stays as it is. `groups` numbers them from 0 and ascends. `latest_first`: the
        order is that of time, backwards."""
        back = np.lexsort((-np.arange(len(slots)), groups))
        turned = [latest_first and _ends(c) for c in self.calls]
        return [
            self._merged(i, slots[back] if turn else slots, groups) for i, turn in enumerate(turned)
        ]

    def _merged(self, i: int, slots: IntArray, groups: IntArray) -> Vector:
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        rank = np.arange(len(slots)) - starts[groups]
        bound, held = self._bound[i], self._accumulator(i)
        if any(
            column.dtype.kind in "Of" for column in held.values()
        ):  # the order shows in what is rounded
            made = empty_accumulator(bound.accumulators, len(starts))
            failed = self._one_by_one(bound, made, (slots, groups, rank))
            result = bound.result(made, np.arange(len(starts)))
        else:
            made = {name: column[slots] for name, column in held.items()}
            failed = _pairwise(bound, made, groups, rank)
            result = bound.result(made, starts)
        found = result if isinstance(result, Vector) else Vector(result)
        return replace(found, errors=merge_errors([*failed, found.errors])) if failed else found

    def _one_by_one(
        self, bound: Aggregate, made: Accumulator, shape: tuple[IntArray, IntArray, IntArray]
    ) -> list[Errors]:
        """Adds to new accumulators the first of each group, then the second, and so on: nothing
        that is held is changed."""
        slots, groups, rank = shape
        held = next(self._accumulator(i) for i, b in enumerate(self._bound) if b is bound)
        failed = []
        for n in range(int(rank.max(initial=-1)) + 1):
            at = np.flatnonzero(rank == n)
            errors = bound.merge(made, groups[at], held, slots[at])
            if errors is not None:
                failed.append(_by_group(errors, groups[at], len(next(iter(made.values())))))
        return failed

    def failed(self, rows: Batch, call: AggregateCall, errors: Errors) -> Batch:
        """Dead letters of the rows that have errors."""
        bad = np.flatnonzero(errors.mask)
        count = len(bad)
        self._counters["rows_in_error"] += count
        return dead_letters(
            rows.take(bad),
            owner=self._owner,
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
    """Merges neighbours with neighbours until one of each group is left, at its first place."""
    failed, step, count = [], 1, int(groups.max(initial=-1)) + 1
    size = np.bincount(groups, minlength=count)[groups]
    while (step < size).any():
        left = np.flatnonzero((rank % (2 * step) == 0) & (rank + step < size))
        errors = bound.merge(made, left, made, left + step)
        if errors is not None:
            failed.append(_by_group(errors, groups[left], count))
        step *= 2
    return failed


def _ends(call: AggregateCall) -> bool:
    """Whether the call asks for the first or last row: then those of the earliest slice come
    first."""
    return call.function.partition(" ")[0] in ("FIRST_VALUE", "LAST_VALUE")


def _by_group(errors: Errors, groups: IntArray, count: int) -> Errors:
    """Errors of pairs as those of the groups that they are of."""
    mask, codes = np.zeros(count, np.bool_), np.zeros(count, np.int32)
    at = np.flatnonzero(errors.mask)
    mask[groups[at]], codes[groups[at]] = True, errors.codes[at]
    return Errors(mask, codes, errors.reasons)


def _bind(call: AggregateCall, retract: bool) -> Aggregate:
    types = () if call.argument_type is None else (call.argument_type,)
    return bind_aggregate(call.function, types, retract=retract)


def _selected(call: AggregateCall, batch: Batch) -> BoolArray:
    if call.filter_column is None:
        return np.ones(batch.num_rows, np.bool_)
    return truth(Vector(batch.column(call.filter_column)), batch.num_rows)
