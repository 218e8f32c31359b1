"""The combined watermark of operators with several inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, INT, Schema
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch, replaced
from sqlengine.operators.base import Context
from sqlengine.state.table import KeyedTable

_NUMBER = BIGINT.with_nullable(False)
_KEYS = Schema.of(port=INT)
_VALUES = Schema.of(watermark=_NUMBER, idle=_NUMBER)
_COLUMNS: Final = ("port", "watermark", "idle")
WATERMARKS: Final = "watermarks"  # the name of the table
ALL: Final = -1  # the key of the combined watermark


class PortTimes:
    """Combines the watermarks of all inputs, as Flink's CombinedWatermarkStatus: the least of those
    that are not idle, the greatest when all are. It never falls.

    State: table `watermarks`, input
    port -> its watermark (ms) and idleness, with the combination under -1; the rows belong to no
    bucket.
    """

    def __init__(self, context: Context, inputs: int) -> None:
        self._table: KeyedTable = context.table(WATERMARKS, _KEYS, _VALUES, None)
        self._slots = [self._slot(port) for port in range(inputs)]
        self._all = self._slot(ALL)

    def _slot(self, port: int) -> int:
        slots, new = self._table.slots_for([pa.array([port], pa.int32())], 1)
        if new[0]:
            self._table.columns["watermark"][slots[0]] = MIN_WATERMARK
            self._table.columns["idle"][slots[0]] = 0
            self._table.mark(slots)
        return int(slots[0])

    @property
    def reached(self) -> int:
        """The combined watermark (ms) so far."""
        return int(self._table.columns["watermark"][self._all])

    @property
    def untold(self) -> list[int]:
        """The inputs of which no watermark is known."""
        times = self._table.columns["watermark"]
        return [port for port, slot in enumerate(self._slots) if times[slot] == MIN_WATERMARK]

    @property
    def idle(self) -> bool:
        """True if all inputs are idle."""
        return bool(self._table.columns["idle"][self._all])

    def advance(self, port: int, batch: Batch) -> Batch:
        """Records the watermark of a batch of input `port`; returns the batch with the combined
        watermark.

        It is set after the batch, before each row, and before the batch. When all inputs are idle,
        it goes to the greatest of theirs, and the operator is idle, too.
        """
        since = self.reached
        self._write(self._slots[port], batch.watermark, batch.idle)
        reached, idle = self._combined()
        watermark = max(since, reached)
        self._write(self._all, watermark, idle)
        least = self._least_beside(port)
        rows = batch.row_watermarks
        # The combination is monotone: a row cannot have a watermark below the one before the batch,
        # nor above that of the slowest other input.
        before = None if rows is None else np.maximum(np.minimum(rows, least), since)
        steps = None if batch.steps is None else np.maximum(np.minimum(batch.steps, least), since)
        return replaced(
            batch,
            watermark=watermark,
            row_watermarks=before,
            since=since,
            steps=steps,
            idle=idle,
        )

    def _combined(self) -> tuple[int, bool]:
        """Returns the watermark of all inputs, and whether all of them are idle.

        An input that has ended is left out. Flink takes it for one that is never idle: while the
        others are, its watermark is that of all, and every later row is late.
        """
        times, idle = self._table.columns["watermark"], self._table.columns["idle"]
        known = [(int(times[s]), bool(idle[s])) for s in self._slots if times[s] < MAX_WATERMARK]
        if not known:
            return MAX_WATERMARK, False
        active = [watermark for watermark, is_idle in known if not is_idle]
        return min(active) if active else max(w for w, _ in known), not active

    def _least_beside(self, port: int) -> int:
        """Returns the least watermark of the other inputs that are not idle."""
        times, idle = self._table.columns["watermark"], self._table.columns["idle"]
        others = (s for p, s in enumerate(self._slots) if p != port and not idle[s])
        return min((int(times[s]) for s in others), default=MAX_WATERMARK)

    def _write(self, slot: int, watermark: int, idle: bool) -> None:
        columns = self._table.columns
        if columns["watermark"][slot] != watermark or columns["idle"][slot] != idle:
            columns["watermark"][slot], columns["idle"][slot] = watermark, idle
            self._table.mark(np.array([slot]))


def raise_to(table: KeyedTable, rows: pa.Table) -> None:
    """Raises watermarks to those of other rows of such a table, where these are later."""
    for port, watermark, idle in zip(*(rows[n].to_pylist() for n in _COLUMNS), strict=True):
        slots, is_new = table.slots_for([pa.array([port], pa.int32())], 1)
        columns = table.columns
        if is_new[0] or columns["watermark"][slots[0]] < watermark:
            columns["watermark"][slots], columns["idle"][slots] = watermark, idle
            table.mark(slots)


def combined(ports: Mapping[int, int]) -> pa.Table:
    """Returns a table of the watermarks (ms) of inputs that are not idle."""
    table = KeyedTable(WATERMARKS, _KEYS, _VALUES, None)
    known = [t for t in ports.values() if t < MAX_WATERMARK]
    for port, watermark in {**ports, ALL: min(known, default=MAX_WATERMARK)}.items():
        slots, _ = table.slots_for([pa.array([port], pa.int32())], 1)
        table.columns["watermark"][slots], table.columns["idle"][slots] = watermark, 0
    return table.dump()


def reached(watermark: int) -> pa.Table:
    """Returns a table of combined watermark `watermark`, from no input of which anything has
    arrived since."""
    table = KeyedTable(WATERMARKS, _KEYS, _VALUES, None)
    slots, _ = table.slots_for([pa.array([ALL], pa.int32())], 1)
    table.columns["watermark"][slots] = watermark
    return table.dump()
