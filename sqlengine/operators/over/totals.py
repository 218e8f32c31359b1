"""OVER calls with unbounded frames: their state per key, and their values row by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column
from planner.logical import OverCall
from sqlengine.batch import IntArray
from sqlengine.operators.over.frames import NUMBERING, Ordered, bound_of
from sqlengine.state.table import KeyedTable
from udf.aggregates.accumulators import Accumulator
from udf.vector import Vector

# The number of emitted rows of a key.
_ROWS = "#rows"
_NUMBER = BIGINT.with_nullable(False)


class Totals:
    """Computes `calls` over all rows of a key so far.

    State: columns of the table of keys.
    """

    def __init__(self, calls: Sequence[OverCall]) -> None:
        self._numbers = [c for c in calls if c.function in NUMBERING]
        self._aggregates = [(c, bound_of(c)) for c in calls if c.function not in NUMBERING]

    @property
    def columns(self) -> list[Column]:
        """The value columns in the table of keys."""
        numbers = [Column(_ROWS, _NUMBER)] if self._numbers else []
        accumulators = (
            Column(f"{i}#{n}", t)
            for i, (_, b) in enumerate(self._aggregates)
            for n, t in b.accumulators
        )
        return [*numbers, *accumulators]

    def attach(self, table: KeyedTable) -> None:
        self._table = table

    def after(
        self, keys: IntArray, columns: dict[str, pa.Array], rows: Ordered
    ) -> dict[str, pa.Array]:
        """Returns the values by call, for rows sorted by `keys` (slots of the table), then in
        order; the caller marks the slots."""
        values_of = self._numbered(keys, rows) if self._numbers else {}
        if self._aggregates:
            values_of |= self._aggregated(keys, columns, rows)
        return values_of

    def _numbered(self, keys: IntArray, rows: Ordered) -> dict[str, pa.Array]:
        stored = self._table.columns
        rows_before = stored[_ROWS][keys].astype(np.int64)
        values = {"ROW_NUMBER": rows_before + np.arange(len(rows)) - rows.partition + 1}
        # Flink counts all rows of a time before it ranks them: RANK is the number of the last peer.
        values["RANK"] = values["DENSE_RANK"] = rows_before + rows.last_peer - rows.partition + 1
        last = np.append(np.flatnonzero(keys[1:] != keys[:-1]), len(keys) - 1)
        # ROW_NUMBER of the key's last row is the number of its rows so far.
        stored[_ROWS][keys[last]] = values["ROW_NUMBER"][last]
        return {c.name: pa.array(values[c.function]) for c in self._numbers}

    def _aggregated(
        self, keys: IntArray, columns: dict[str, pa.Array], rows: Ordered
    ) -> dict[str, pa.Array]:
        """Computes aggregates in steps: the first peers of all keys together, then the second ones,
        and so on."""
        position = np.arange(len(rows))
        # `step` is the number of a row's peers within its key: the rows of one step are of
        # different keys, but for peers, which share a value.
        firsts = np.cumsum(rows.first_peer == position)
        step = firsts - firsts[rows.partition]
        order = np.argsort(step, kind="stable")
        bounds = np.flatnonzero(np.append(True, step[order][1:] != step[order][:-1]))
        inverse = np.empty(len(order), np.int64)
        inverse[order] = position
        parts: list[list[pa.Array]] = [[] for _ in self._aggregates]
        for start, end in zip(bounds.tolist(), [*bounds[1:].tolist(), len(order)], strict=True):
            at = order[start:end]
            for i in range(len(self._aggregates)):
                parts[i].append(self._stepped(i, keys[at], columns, at))
        index = pa.array(inverse)
        return {
            c.name: pa.concat_arrays(p).take(index)
            for (c, _), p in zip(self._aggregates, parts, strict=True)
        }

    def _stepped(
        self, i: int, keys: IntArray, columns: dict[str, pa.Array], at: IntArray
    ) -> pa.Array:
        call, bound = self._aggregates[i]
        values = columns[call.arguments[0]].take(pa.array(at)) if call.arguments else None
        accumulator = self._accumulator(i)
        bound.update(accumulator, keys, values, np.ones(len(keys), np.bool_))
        result = bound.result(accumulator, keys)
        return (result.array(len(keys)) if isinstance(result, Vector) else result).cast(
            call.type.arrow
        )

    def _accumulator(self, i: int) -> Accumulator:
        prefix, columns = f"{i}#", self._table.columns
        return {n.removeprefix(prefix): c for n, c in columns.items() if n.startswith(prefix)}
