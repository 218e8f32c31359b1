"""Firing in steps: what is due is fired up to a limit, and the rest in the epochs that follow.

A watermark may jump by years and make millions of windows or waiting rows due. An operator fires as
many as the limit allows, and emits as its watermark only what it has fired completely. Its graph
then reads no rows until the operator has fired the rest. What is left is in no list: it is the part
of the state that is due at the watermark of the input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol, runtime_checkable

import numpy as np

from parser.types import Schema
from sqlengine.batch import Batch, IntArray, joined_steps, replaced
from sqlengine.operators.base import Stream
from sqlengine.state.columns import distinct
from sqlengine.state.table import KeyedTable

# What firing a window costs by itself, where a row put out and an accumulator read cost one each;
# and what a row costs that is processed when it is due.
WINDOW_COST: Final = 256
ROW_COST: Final = 8


class FiringLimit:
    """The limit for all operators of a graph.

    `cost`: what one operator may spend for a batch; None for any: all that is due is fired, in
    slices. `waiting`: operators that have more to fire, by node; also those with a restored state,
    of which that is not known until a watermark has come."""

    def __init__(self) -> None:
        self.cost: int | None = None
        self.waiting: dict[str, FiringSteps] = {}


class FiringSteps:
    """The steps of one operator, whose windows (or rows that wait) fire at instants (ms) in columns
    of its tables.

    While windows are left, `watermark` (ms) and `idle` are those of the input, and `passed` are the
    watermarks before it that the windows left depend on: their rows are emitted between them, as if
    all had been fired at once. `watermark` is None where the state was restored and none is known.

    By processing time nobody needs to wait for an operator: its timer is due. One that `holds` no
    watermark back fires in steps what nobody behind it sees, or may see at any time.

    `resumed`: the next batch is not of the operator's input, but the tick by which the executor
    lets it go on, with the time that it has reached."""

    def __init__(self, *, proctime: bool, holds: bool = True) -> None:
        self.watermark: int | None = None
        self.passed: tuple[int, ...] = ()
        self.idle = False
        self.resumed = False
        self._proctime, self._holds = proctime, holds
        self._limit, self._node = FiringLimit(), ""
        self._left = self._emitted = 0
        self._stopped = False

    def share(self, limit: FiringLimit, node: str) -> None:
        """Sets the limit of the graph in which the operator is `node`. Called before `open`."""
        self._limit, self._node = limit, node

    def open(self, *timers: tuple[KeyedTable, str]) -> None:
        """Takes the operator's tables, with the columns of instants; restored windows may be
        due."""
        self._timers = timers
        self._limit.waiting.pop(self._node, None)
        self.watermark, self.passed = None, ()
        if any(len(table) for table, _ in timers):
            self._wait()

    def restore(self, watermark: int, passed: tuple[int, ...], idle: bool) -> None:
        """Sets what was left at a checkpoint."""
        self.watermark, self.passed, self.idle = watermark, passed, idle
        self._wait()

    def before(self, batch: Batch, schema: Schema) -> Iterator[Batch]:
        """Iterates over the batches for which an operator does a step each before it takes rows: it
        fires what the last step has left, where it decides by what was fired whether these are
        late. Ends with the batch itself."""
        while self.passed and batch.num_rows and self.watermark is not None:
            since, *steps = self.passed
            tick = replaced(batch.tick(schema), watermark=self.watermark, since=since)
            yield replaced(tick, steps=np.array(steps, np.int64), idle=self.idle)
        yield batch

    def begin(self, batch: Batch) -> Batch:
        """Begins the step for a batch. Returns it with the watermarks that windows which were left
        before it depend on."""
        self._limit.waiting.pop(self._node, None)
        self.resumed = False
        if self.passed:
            known = np.array([*self.passed[1:], self.watermark, batch.since], np.int64)
            steps = joined_steps([known, batch.steps])
            batch = replaced(batch, since=self.passed[0], steps=steps)
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

    def begins_again(self) -> bool:
        """True if not all that was due had room in the step: it begins anew, with the same batch,
        since rows follow that must not come before."""
        again, self._stopped = self._stopped, False
        if again:
            self._limit.waiting.pop(self._node, None)
            self._left = self._limit.cost or 0
        return again

    def spend(self, read: int, rows: int, windows: int = 1) -> int:
        """Takes the cost of `windows` of `rows` rows each, for which so many accumulators are
        `read`. Returns how many of the windows there is room for, at least one."""
        if self._limit.cost is not None and rows:
            windows = max(1, min(windows, (self._left - WINDOW_COST - read) // rows))
        self._left -= WINDOW_COST + read + rows * windows
        return windows

    @property
    def most(self) -> int | None:
        """The number of waiting rows that an operator needs to look at, in the order of their
        instants: one more than there is room for; None for all."""
        return None if self._limit.cost is None else max(1, self._left // ROW_COST) + 1

    def room(self, instants: IntArray, upto: int) -> int:
        """Takes the cost of rows that are due at these ascending instants (ms), all or the first
        `most`. Returns the instant up to which they may fire in this step: `upto`, or that of the
        last for which there is room, the first of all in any case."""
        most = self.most
        if most is None or len(instants) < most:
            self._left -= ROW_COST * len(instants)
            return upto
        last = int(instants[most - 2])
        if last >= upto:
            return upto
        self._left, self._stopped = 0, True
        self._wait()
        return last

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
        yield 0, replaced(last, watermark=end.watermark, idle=end.idle)

    def emitted(self, rows: Batch) -> Batch:
        """Returns fired rows between the watermarks around them: behind the last one is the
        watermark before it, since more windows may follow."""
        before = rows.row_watermarks
        if before is None or not rows.num_rows:  # on processing time
            return rows
        since, self._emitted = min(self._emitted, int(before[0])), int(before[-1])
        return replaced(rows, since=since, watermark=self._emitted, idle=False)

    def _end(self, batch: Batch, schema: Schema) -> Batch:
        tick = batch.tick(schema)
        if self._stopped and not self._holds:
            self.passed = (batch.watermark,)
        elif self._stopped and not self._proctime:
            first = self._earliest()
            if first is None or first > batch.watermark:
                self._limit.waiting.pop(self._node, None)
            else:
                tick = replaced(tick, watermark=self._leave(batch, first), idle=False)
        return replaced(tick, since=min(self._emitted, tick.watermark))

    def _earliest(self) -> int | None:
        left = (table.earliest(column) for table, column in self._timers)
        return min((instant for instant in left if instant is not None), default=None)

    def _leave(self, batch: Batch, first: int) -> int:
        """Notes what the windows that are left, from the instant `first` on, depend on; returns the
        watermark before them."""
        before = int(batch.watermarks_before(np.array([first]))[0])
        known = (np.array([batch.since]), batch.row_watermarks, batch.steps)
        steps = distinct(np.concatenate([k for k in known if k is not None]))
        later = steps[(steps > before) & (steps < batch.watermark)]
        self.passed = (before, *later.tolist())
        return before

    def _wait(self) -> None:
        if not self._proctime:
            self._limit.waiting[self._node] = self


@runtime_checkable
class FiresInSteps(Protocol):
    """An operator that leaves what it may not fire yet to later ticks of its input 0."""

    steps: FiringSteps
