"""The state of operators that buffer rows until their window fires."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output
from sqlengine.operators.late_rows import LateGate
from sqlengine.operators.windows.times import WindowClock
from sqlengine.state.columns import milliseconds
from sqlengine.state.keys import batch_keys
from sqlengine.state.table import KeyedTable

# The number of a row, and the instant (ms) at which its window fires.
_NUMBER, FIRES = "#number", "#fires"
_COUNT = BIGINT.with_nullable(False)


class WindowRows:
    """Rows of `schema`, whose column `end` is the end of their window; `keys` are their exchange
    keys.

    A row whose window had fired before it arrived is late, dropped and counted (`late_rows`).
    State: table with the given name, `keys` and `#number` -> row and `#fires` (ms).
    """

    def __init__(
        self, schema: Schema, keys: Sequence[str], end: str, clock: WindowClock, late: LateGate
    ) -> None:
        self.schema = schema
        self._exchange = tuple(keys)
        self._keys = tuple(dict.fromkeys(keys))
        self._rest = tuple(n for n in schema.names if n not in self._keys)
        self._end = end
        self._clock = clock
        self._late = late
        self._generation = -1

    def open(self, context: Context, name: str) -> None:
        self._late.open(context)
        identity = Schema((*self.schema.select(self._keys), Column(_NUMBER, _COUNT)))
        values = Schema((*self.schema.select(self._rest), Column(FIRES, _COUNT)))
        self.table: KeyedTable = context.table(name, identity, values, self._exchange)

    def add(self, batch: Batch, before: IntArray, output: Output) -> None:
        """Stores rows; `before` is the watermark before each of them (ms)."""
        fires = self._clock.fires(milliseconds(batch.column(self._end))[0])
        rows = np.flatnonzero(fires > before)
        self._late.drop(batch, np.flatnonzero(fires <= before), output)
        batch, fires = batch.take(rows), fires[rows]
        keys = batch_keys(batch, self._keys)
        slots = self.table.append([*keys, self._numbers(len(rows))], len(rows))
        self.table.write(slots, {n: batch.column(n) for n in self._rest})
        self.table.columns[FIRES][slots] = fires
        self.table.mark(slots)

    def due(self, upto: int) -> IntArray:
        """Returns the rows of windows that fire, in the order of these, then of arrival."""
        return self.table.in_order(self.table.due(FIRES, upto), FIRES)

    def earliest(self) -> int | None:
        """Returns the instant (ms) at which the next window fires; None where no row waits."""
        return self.table.earliest(FIRES)

    def fires(self, slots: IntArray) -> IntArray:
        return self.table.columns[FIRES][slots].astype(np.int64)

    def column(self, name: str, slots: IntArray) -> pa.Array:
        return self.table.array(name, slots)

    def _numbers(self, count: int) -> IntArray:
        if self._generation != self.table.generation:
            self._generation = self.table.generation
            # After a restore numbers go on behind the largest one stored, so that the order of
            # arrival holds.
            self._next = 1 + int(self.table.columns[_NUMBER][self.table.live()].max(initial=-1))
        numbers = np.arange(self._next, self._next + count)
        self._next += count
        return numbers
