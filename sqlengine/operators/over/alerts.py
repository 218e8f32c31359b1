"""SUPPRESSED and REACHED: which rows of a key are alerts, row by row as they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, DataType, array
from planner.logical import ALERT_FUNCTIONS, OverCall
from sqlengine.batch import IntArray
from sqlengine.operators.member_counts import HELD_BACK, count_rows
from sqlengine.state.columns import milliseconds
from sqlengine.state.table import KeyedTable

# The time of the row that began the present period, how many have passed in it, and how many have
# been held back since the last one that passed.
_BEGAN, _PASSED, _HELD = "began", "passed", "held"
# The times of the last rows, as they came.
_TIMES: Final = "times"
_NUMBER = BIGINT.with_nullable(False)
_KEPT: Final[Mapping[str, Mapping[str, DataType]]] = {
    "SUPPRESSED": {_BEGAN: BIGINT, _PASSED: BIGINT, _HELD: BIGINT},
    "REACHED": {_TIMES: array(_NUMBER)},
}
_Value: TypeAlias = int | bool | None
# The time of a row (ms), and the number that it brings along.
_Row: TypeAlias = tuple[int | None, int]


class AlertCalls:
    """Computes `calls` over the rows of a key, in the order in which they come; counter
    `held_back`, the rows that SUPPRESSED holds back.

    SUPPRESSED: a row that is no less than the period away from the one that began the last period
    begins another one. In each so many rows pass, with the number of rows that were held back
    since the last one that passed; a row that is held back has NULL. A row may bring a number along
    that counts with it. REACHED: TRUE for a row with
    which so many are there whose times are less than the period away from its own; those count for
    no other. A row without a time passes, and counts for nothing.

    State: columns of the table of keys.
    """

    def __init__(self, calls: Sequence[OverCall]) -> None:
        self.calls = [c for c in calls if c.function in ALERT_FUNCTIONS]

    @property
    def columns(self) -> list[Column]:
        """The value columns in the table of keys."""
        return [
            Column(f"{c.name}#{n}", kind)
            for c in self.calls
            for n, kind in _KEPT[c.function].items()
        ]

    def attach(self, table: KeyedTable, counters: Counter[str]) -> None:
        self._table, self._counters = table, counters

    def after(self, keys: IntArray, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """Returns the values by call, for rows sorted by `keys` (slots of the table), then in
        order; the caller marks the slots."""
        return {
            c.name: self._values(c, keys, [columns[name] for name in c.arguments])
            for c in self.calls
        }

    def count(self, values: Mapping[str, pa.Array], numbers: IntArray | None) -> None:
        """Counts the rows that have these values; `numbers`: those of the members of a family."""
        for call in self.calls:
            if call.function == "SUPPRESSED":
                held = np.flatnonzero(values[call.name].is_null().to_numpy(zero_copy_only=False))
                of = None if numbers is None else numbers[held]
                count_rows(self._counters, HELD_BACK, len(held), of)

    def _values(self, call: OverCall, keys: IntArray, given: Sequence[pa.Array]) -> pa.Array:
        at, known = milliseconds(given[0])
        times = [t if k else None for t, k in zip(at.tolist(), known.tolist(), strict=True)]
        more = given[1].fill_null(0).to_pylist() if len(given) > 1 else [0] * len(times)
        walk = self._suppressed if call.function == "SUPPRESSED" else self._reached
        values: list[_Value] = []
        for slot, rows in groupby(zip(keys.tolist(), times, more, strict=True), itemgetter(0)):
            values += walk(call, slot, [row[1:] for row in rows])
        return pa.array(values, call.type.arrow)

    def _suppressed(self, call: OverCall, slot: int, rows: Iterable[_Row]) -> list[_Value]:
        period, most = call.constants
        began, passed, held = (self._number(f"{call.name}#{n}", slot) for n in _KEPT[call.function])
        passed, held = passed or 0, held or 0
        values: list[_Value] = []
        for time, more in rows:
            if time is None:
                values.append(more)
                continue
            if began is None or abs(time - began) >= period:
                began, passed = time, 0
            if passed < most:
                values.append(held + more)
                passed, held = passed + 1, 0
            else:
                held += 1 + more
                values.append(None)
        if began is not None:
            kept = dict(zip(_KEPT[call.function], (began, passed, held), strict=True))
            at = np.array([slot])
            self._table.write(at, {f"{call.name}#{n}": np.array([v]) for n, v in kept.items()})
        return values

    def _reached(self, call: OverCall, slot: int, rows: Iterable[_Row]) -> list[_Value]:
        period, most = call.constants
        name = f"{call.name}#{_TIMES}"
        stored = self._table.columns[name][slot]
        kept: list[int] = [] if stored is None else list(stored)
        values: list[_Value] = []
        for time, _ in rows:
            near = 0
            if time is not None:
                kept = [t for t in kept if t > time - period]
                near = 1 + sum(t < time + period for t in kept)
                # What is near enough for an alert is spent with it; of rows of a far future those
                # that came last are enough.
                spent = near >= most
                kept = [t for t in kept if t >= time + period] if spent else [*kept, time][-most:]
            values.append(time is None or near >= most)
        self._table.columns[name][slot] = kept
        self._table.columns[name + "?"][slot] = True
        return values

    def _number(self, name: str, slot: int) -> int | None:
        columns = self._table.columns
        return int(columns[name][slot]) if columns[name + "?"][slot] else None
