"""Firing in steps: what is due is fired up to a limit, and the rest in the epochs that follow.

A watermark may jump by years and make millions of windows due. An operator fires as many as the
limit allows, and emits as its watermark only what it has fired completely. Its graph then reads no
rows until the operator has fired the rest. What is left is in no list: it is the part of the state
that is due at the watermark of the input."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Protocol, runtime_checkable

import numpy as np

from parser.types import Schema
from sqlengine.batch import Batch, joined_steps
from sqlengine.operators.base import Stream
from sqlengine.operators.windows.times import WindowClock
from sqlengine.state.columns import distinct
from sqlengine.state.table import KeyedTable

# What firing a window costs by itself, where a row put out and an accumulator read cost one each.
WINDOW_COST: Final = 256


class FiringLimit:
    """The limit for all operators of a graph.

    `cost`: what one operator may spend for a batch; None for any: all that is due is fired, in
    slices. `waiting`: operators that have more to fire, by node; also those with a restored state,
    of which that is not known until a watermark has come."""

    def __init__(self) -> None:
        self.cost: int | None = None
        self.waiting: dict[str, FiringSteps] = {}


class FiringSteps:
    """The steps of one operator, whose windows fire at the instants (ms) in `fires` of its table.

    While windows are left, `watermark` (ms) and `idle` are those of the input, and `passed` are the
    watermarks before it that the windows left depend on: their rows are emitted between them, as if
    all had been fired at once. `watermark` is None where the state was restored and none is known.

    By processing time nobody needs to wait for an operator: its timer is due."""

    def __init__(self, clock: WindowClock, fires: str) -> None:
        self.watermark: int | None = None
        self.passed: tuple[int, ...] = ()
        self.idle = False
        self._clock, self._fires = clock, fires
        self._limit, self._node = FiringLimit(), ""
        self._left = self._emitted = 0
        self._stopped = False

    def share(self, limit: FiringLimit, node: str) -> None:
        """Sets the limit of the graph in which the operator is `node`. Called before `open`."""
        self._limit, self._node = limit, node

    def open(self, table: KeyedTable) -> None:
        """Takes the operator's table; restored windows may be due."""
        self._table = table
        self._limit.waiting.pop(self._node, None)
        self.watermark, self.passed = None, ()
        if len(table):
            self._wait()

    def restore(self, watermark: int, passed: tuple[int, ...], idle: bool) -> None:
        """Sets what was left at a checkpoint."""
        self.watermark, self.passed, self.idle = watermark, passed, idle
        self._wait()

    def begin(self, batch: Batch) -> Batch:
        """Begins the step for a batch. Returns it with the watermarks that windows which were left
        before it depend on."""
        self._limit.waiting.pop(self._node, None)
        if self.passed:
            known = np.array([*self.passed[1:], self.watermark, batch.since], np.int64)
            steps = joined_steps([known, batch.steps])
            batch = replace(batch, since=self.passed[0], steps=steps)
        self.watermark, self.passed, self.idle = batch.watermark, (), batch.idle
        self._left, self._emitted = self._limit.cost or 0, batch.since
        self._stopped = False
        return batch

    def goes_on(self) -> bool:
        """True if the step may fire another window that is due. False leaves it to the next."""
        if self._limit.cost is None or self._left > 0:
            return True
        self._stopped = True
        self._wait()
        return False

    def spend(self, read: int, rows: int, windows: int = 1) -> int:
        """Takes the cost of `windows` of `rows` rows each, for which so many accumulators are
        `read`. Returns how many of the windows there is room for, at least one."""
        if self._limit.cost is not None and rows:
            windows = max(1, min(windows, (self._left - WINDOW_COST - read) // rows))
        self._left -= WINDOW_COST + read + rows * windows
        return windows

    def close(self, fired: Stream, batch: Batch, schema: Schema) -> Stream:
        """Passes on what the step fires for a batch. The last rows, or else a tick, have the
        watermark before the first window that is left, or that of the batch."""
        last: Batch | None = None
        for port, rows in fired:
            if port != 0:
                yield port, rows
                continue
            if last is not None:
                yield 0, self.emitted(last)
            last = rows
        if last is None:
            yield 0, self._end(batch, schema)
            return
        last, end = self.emitted(last), self._end(batch, schema)
        yield 0, replace(last, watermark=end.watermark, idle=end.idle)

    def emitted(self, rows: Batch) -> Batch:
        """Returns fired rows between the watermarks around them: behind the last one is the
        watermark before it, since more windows may follow."""
        before = rows.row_watermarks
        if before is None or not rows.num_rows:  # on processing time
            return rows
        since, self._emitted = min(self._emitted, int(before[0])), int(before[-1])
        return replace(rows, since=since, watermark=self._emitted, idle=False)

    def _end(self, batch: Batch, schema: Schema) -> Batch:
        tick = batch.tick(schema)
        if self._stopped and not self._clock.proctime:
            tick = replace(tick, watermark=self._leave(batch), idle=False)
        return replace(tick, since=min(self._emitted, tick.watermark))

    def _leave(self, batch: Batch) -> int:
        """Notes what the windows that are left depend on; returns the watermark before them."""
        first = self._table.earliest(self._fires)
        assert first is not None, "windows are left"
        before = int(batch.watermarks_before(np.array([first]))[0])
        known = (np.array([batch.since]), batch.row_watermarks, batch.steps)
        steps = distinct(np.concatenate([k for k in known if k is not None]))
        later = steps[(steps > before) & (steps < batch.watermark)]
        self.passed = (before, *later.tolist())
        return before

    def _wait(self) -> None:
        if not self._clock.proctime:
            self._limit.waiting[self._node] = self


@runtime_checkable
class FiresInSteps(Protocol):
    """An operator that leaves what it may not fire yet to later ticks of its input 0."""

    steps: FiringSteps
