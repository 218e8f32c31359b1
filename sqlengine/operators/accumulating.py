"""The accumulators of an operator's aggregate calls: columns of its table, by slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from parser.types import Column
from planner.logical import AggregateCall
from sqlengine.batch import Batch, IntArray
from sqlengine.expressions import truth
from sqlengine.operators.base import ERROR_PORT, Output
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.state.columns import BoolArray
from sqlengine.state.table import KeyedTable
from udf.aggregates import Accumulator, Aggregate, bind_aggregate
from udf.vector import Errors, Vector


class Accumulators:
    """`calls` over rows of one input. `retract`: rows are taken back, too. The columns are to be among the values of the
    table that `attach` gets. A row for which an aggregate of a user fails leaves by the error port, in the name of
    `owner`, and counts for no call that comes behind that."""

    def __init__(self, calls: Sequence[AggregateCall], owner: str = "", *, retract: bool = False) -> None:
        self.calls = calls
        self._owner = owner
        self._bound = [_bind(call, retract) for call in calls]

    @property
    def columns(self) -> list[Column]:
        """The value columns that the accumulators are."""
        return [Column(f"{i}#{n}", kind) for i, bound in enumerate(self._bound) for n, kind in bound.accumulators]

    def attach(self, table: KeyedTable, counters: Counter[str]) -> None:
        self._table = table
        self._counters = counters

    def change(self, batch: Batch, slots: IntArray, back: BoolArray | None, output: Output) -> None:
        """Adds the rows to the accumulators at `slots`, then takes those of `back` out of them."""
        good = np.ones(batch.num_rows, np.bool_)
        for i, (call, bound) in enumerate(zip(self.calls, self._bound, strict=True)):
            values = None if call.argument is None else batch.column(call.argument)
            chosen, accumulator = _selected(call, batch) & good, self._accumulator(i)
            found = [bound.update(accumulator, slots, values, chosen if back is None else chosen & ~back)]
            if back is not None:
                found.append(bound.retract(accumulator, slots, values, chosen & back))
            for errors in found:
                if errors is not None:
                    good &= ~errors.mask
                    output.append((ERROR_PORT, self.failed(batch, call, errors)))

    def results(self, slots: IntArray) -> list[Vector]:
        """The value of each call at `slots`."""
        found = (bound.result(self._accumulator(i), slots) for i, bound in enumerate(self._bound))
        return [r if isinstance(r, Vector) else Vector(r) for r in found]

    def failed(self, rows: Batch, call: AggregateCall, errors: Errors) -> Batch:
        """Dead letters of the rows that have errors."""
        bad = np.flatnonzero(errors.mask)
        count = len(bad)
        self._counters["rows_in_error"] += count
        return dead_letters(
            rows.take(bad),
            owner=[self._owner] * count,
            place=[""] * count,
            subject=[str(call)] * count,
            reason=[errors.reason(int(row)) for row in bad],
        )

    def _accumulator(self, i: int) -> Accumulator:
        prefix, columns = f"{i}#", self._table.columns
        return {name.removeprefix(prefix): column for name, column in columns.items() if name.startswith(prefix)}


def _bind(call: AggregateCall, retract: bool) -> Aggregate:
    types = () if call.argument_type is None else (call.argument_type,)
    return bind_aggregate(call.function, types, retract=retract)


def _selected(call: AggregateCall, batch: Batch) -> BoolArray:
    if call.filter_column is None:
        return np.ones(batch.num_rows, np.bool_)
    return truth(Vector(batch.column(call.filter_column)), batch.num_rows)
