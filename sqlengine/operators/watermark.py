"""Watermark assignment: gives each row the watermark before it, so that no result depends on where
a batch ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, STRING, Root, Schema
from planner.logical import AssignWatermark
from planner.scalar import Scalar
from planner.settings import MAX_FUTURE, MAX_FUTURE_OPTION, duration_text
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch, IntArray, log_of, replaced
from sqlengine.formats.results import column_to_json
from sqlengine.formats.times import iso_instant
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.operators.ports import WATERMARKS
from sqlengine.operators.watermark_pace import BEGINNING, WatermarkPace
from sqlengine.operators.zones import to_local
from sqlengine.state.columns import BoolArray, milliseconds, validity
from sqlengine.state.table import KeyedTable
from udf.vector import Errors, Vector

Evaluate: TypeAlias = Callable[[Scalar, Batch], Vector]

NULL_ROWTIME: Final = "row time is NULL"
FUTURE: Final = (
    "row time {column} = {time} is more than {bound} ahead of the processing time {now}: see"
    f" '{MAX_FUTURE_OPTION}' and '{MAX_FUTURE}'"
)

_KEYS = Schema.of(shard=STRING)
_NUMBER = BIGINT.with_nullable(False)
_VALUES = Schema.of(watermark=_NUMBER, active=_NUMBER)
_COMBINED = None  # the key of the combined watermark of all shards
_NONE: Final[IntArray] = np.empty(0, np.int64)


class ShardTimes:
    """Combines the watermarks of all shards: their minimum, which never falls, not even when a
    shard appears.

    A known shard without records holds the others back; with `idle_ms`, for that much processing
    time only (`table.exec.source.idle-timeout`). When all shards are idle, none can hold the others
    back: the watermark goes to the greatest of theirs, as in Flink's CombinedWatermarkStatus, and
    stays. A shard of which rows come again holds the others back again.
    State: table `watermarks`, shard -> watermark (ms) and time of the last activity (ms); belongs
    to no bucket.
    """

    def __init__(self, context: Context, idle_ms: int = 0) -> None:
        self._table: KeyedTable = context.table(WATERMARKS, _KEYS, _VALUES, None)
        self._idle_ms = idle_ms
        # The slots of a shard and of the combined watermark, as long as no rows are loaded.
        self._slots: dict[str, IntArray] = {}
        self._generation = -1

    def _slots_of(self, shard: str) -> IntArray:
        """Returns the slots of a shard and of the combined watermark; makes those that are new."""
        table = self._table
        if self._generation != table.generation:
            self._slots.clear()
            self._generation = table.generation
        if shard not in self._slots:
            slots, is_new = table.slots_for([pa.array([shard, _COMBINED], pa.string())], 2)
            table.columns["watermark"][slots[is_new]] = MIN_WATERMARK
            table.columns["active"][slots[is_new]] = 0
            self._slots[shard] = slots
        return self._slots[shard]

    def advance(
        self, shard: str, before: IntArray, after: int, now: int = 0
    ) -> tuple[IntArray, int]:
        """Advances one shard at the processing time `now`; returns the combined watermark before
        each row, and after the last.

        `before` is the shard's own watermark before each row, `after` the one after the last row.
        """
        table, slots = self._table, self._slots_of(shard)
        times = table.columns["watermark"]
        awake = self._active_shards(slots, now, stirs=len(before) > 0)
        own, combined = times[slots].tolist()
        least = int(times[awake[awake != slots[0]]].min(initial=MAX_WATERMARK))
        # Three bounds for each row: the shard's own watermark, the slowest other shard, and the
        # combined watermark so far, below which it never falls.
        rows = np.maximum(np.minimum(np.maximum(before, own), least), combined)
        known, own = (own, combined), max(own, after)
        if len(awake):
            combined = max(min(own, least) if slots[0] in awake else least, combined)
        else:
            combined = max(int(times[table.live()].max()), own, combined)
        if known != (own, combined):
            times[slots] = own, combined
            table.mark(slots)
        return rows, combined

    def _active_shards(self, slots: IntArray, now: int, *, stirs: bool) -> IntArray:
        """Returns the slots of the shards that hold the watermark back.

        If this was not called for twice the idle timeout (the process was down), the timeout starts
        anew.
        """
        live = self._table.live()
        shards: IntArray = live[live != slots[1]]
        if not self._idle_ms:
            return shards
        active = self._table.columns["active"].view(np.int64)
        if now - active[slots[1]] >= 2 * self._idle_ms:
            active[shards] = now
        active[slots if stirs else slots[1:]] = now
        self._table.mark(live)
        waiting_for: IntArray = shards[active[shards] + self._idle_ms > now]
        return waiting_for

    @property
    def idle(self) -> bool:
        """True if all shards are idle."""
        return bool(self._idle_ms) and self.next_idle() is None

    def next_idle(self) -> int | None:
        """Returns the processing time (ms) at which the next shard becomes idle; None where there
        is none."""
        if not self._idle_ms:
            return None
        slots, _ = self._table.slots_for([pa.array([_COMBINED], pa.string())], 1, insert=False)
        active, live = self._table.columns["active"], self._table.live()
        due = active[live[live != slots[0]]] + self._idle_ms
        return min((int(t) for t in due if t > active[slots[0]]), default=None)

    @property
    def watermark(self) -> int:
        """The combined watermark (ms) so far."""
        slots, _ = self._table.slots_for([pa.array([_COMBINED], pa.string())], 1, insert=False)
        return int(self._table.columns["watermark"][slots[0]]) if slots[0] >= 0 else MIN_WATERMARK

    def shards(self) -> dict[str, tuple[int, bool]]:
        """Returns the watermark (ms) of each shard, and whether it is idle."""
        table, live = self._table, self._table.live()
        times, active = table.columns["watermark"], table.columns["active"].view(np.int64)
        now = max((int(t) for t in active[live]), default=0)  # of the combined watermark
        return {
            shard: (int(times[s]), bool(self._idle_ms) and int(active[s]) + self._idle_ms <= now)
            for s, shard in zip(live.tolist(), table.array("shard", live).to_pylist(), strict=True)
            if shard is not None
        }

    def finish(self) -> int:
        """Raises all watermarks to the end of time, at the end of bounded input."""
        slots = self._table.live()
        self._table.columns["watermark"][slots] = MAX_WATERMARK
        self._table.mark(slots)
        return MAX_WATERMARK


# The watermark (ms) and the time of the last activity (ms) of each shard, and under None those of
# all together: the rows of `ShardTimes`.
Times: TypeAlias = Mapping[str | None, tuple[int, int]]


def encode_times(times: Times) -> pa.Table:
    """Returns a dump of the table of `ShardTimes` with these rows."""
    table = KeyedTable(WATERMARKS, _KEYS, _VALUES, None)
    write_times(table, times)
    return table.dump()


def write_times(table: KeyedTable, times: Times) -> None:
    """Writes rows into the table of `ShardTimes`."""
    slots, _ = table.slots_for([pa.array(list(times), pa.string())], len(times))
    for n, name in enumerate(_VALUES.names):
        table.columns[name][slots] = [row[n] for row in times.values()]
    table.mark(slots)


def decode_times(dump: pa.Table) -> Times:
    """Returns the rows of such a dump."""
    columns = [dump[name].to_pylist() for name in ("shard", *_VALUES.names)]
    return {shard: (watermark, active) for shard, watermark, active in zip(*columns, strict=True)}


class WatermarkOperator:
    """Assigns row times and watermarks, as Flink's WatermarkAssignerOperator.

    `batch.origin` is the shard of the rows; a tick from a shard registers it, a tick with the
    greatest watermark is the end of input. NULL does not advance a watermark. Rows without a row
    time, or for which the watermark expression fails, leave by the error port; they belong to the
    table, not to one job; so do rows further ahead of the processing time than `max_future_ms`,
    which do not advance a watermark either. With `at_end` only the end of input is signalled, and
    every row passes.

    State: `ShardTimes`, and `WatermarkPace` with an interval. Timers: the next idle shard, the next
    periodic watermark.
    """

    def __init__(self, node: AssignWatermark, evaluate: Evaluate) -> None:
        self._node = node
        self._evaluate = evaluate

    def open(self, context: Context) -> None:
        self._counters = context.counters
        self._times = ShardTimes(context, self._node.idle_ms)
        self._pace = (
            WatermarkPace(context, self._node.interval_ms) if self._node.interval_ms else None
        )

    def process(self, port: int, batch: Batch) -> Output:
        if not batch.num_rows:
            return [(0, self._tick(batch))]
        if self._node.at_end:
            return [(0, replaced(batch, schema=self._schema(batch), memo=batch.memo))]
        vector = self._evaluate(self._node.watermark.expression, batch)
        values, valid = milliseconds(vector.array(batch.num_rows))
        if vector.errors is not None:
            valid = valid & ~vector.errors.mask
        if not self._node.pushed:
            valid = valid & (values > BEGINNING)
        future = self._future(batch, values) if self._node.max_future_ms else None
        if future is not None:
            valid = valid & ~future
        reached = np.maximum.accumulate(np.where(valid, values, MIN_WATERMARK))
        before = np.concatenate([[MIN_WATERMARK], reached[:-1]])
        rows, after = self._times.advance(
            log_of(batch.origin), before, int(reached[-1]), batch.proctime
        )
        since = int(rows[0])
        if self._pace is not None:
            since, rows, after = self._pace.advance(rows, after, batch.proctime)
        constant = bool((rows == after).all())
        result = replaced(
            batch,
            schema=self._schema(batch),
            watermark=after,
            row_watermarks=None if constant else rows,
            since=since,
            memo=batch.memo,
        )
        times = batch.column(self._node.watermark.column)
        if not times.null_count and vector.errors is None and future is None:
            return [(0, result)]
        return self._without(result, ~validity(times), vector.errors, future)

    @property
    def watermark(self) -> int:
        """The watermark (ms) of the table so far, as the operators behind it know it."""
        return self._times.watermark if self._pace is None else self._pace.emitted

    @property
    def idle(self) -> bool:
        """True if all shards are idle."""
        return self._times.idle

    def shards(self) -> dict[str, tuple[int, bool]]:
        """Returns the watermark (ms) of each shard, and whether it is idle."""
        return self._times.shards()

    def timer(self) -> int | None:
        timers = (self._times.next_idle(), None if self._pace is None else self._pace.timer())
        return min((t for t in timers if t is not None), default=None)

    def close(self) -> None: ...

    def _tick(self, batch: Batch) -> Batch:
        since = self._times.watermark
        if batch.watermark == MAX_WATERMARK:
            watermark = self._times.finish()
        else:
            shard = log_of(batch.origin)
            _, watermark = self._times.advance(shard, _NONE, MIN_WATERMARK, batch.proctime)
        if self._pace is not None:
            since, _, watermark = self._pace.advance(_NONE, watermark, batch.proctime)
        return replaced(
            batch,
            schema=self._schema(batch),
            watermark=watermark,
            since=since,
            idle=self._times.idle,
        )

    def _schema(self, batch: Batch) -> Schema:
        """Returns the columns of the batch, with the row time as a time attribute."""
        return self._node.schema.select(batch.schema.names)

    def _future(self, batch: Batch, watermarks: IntArray) -> BoolArray | None:
        """Returns True for rows whose time, or watermark, is too far ahead of the processing time;
        None where there is none."""
        times, valid = milliseconds(batch.column(self._node.watermark.column))
        future: BoolArray = valid & (np.maximum(times, watermarks) > self._latest(batch.proctime))
        return future if future.any() else None

    def _latest(self, now: int) -> int:
        """Returns the latest row time (ms) that is allowed at the processing time `now`."""
        zoned = self._node.schema.type(self._node.watermark.column).root is Root.TIMESTAMP_LTZ
        local = now if zoned else int(to_local(np.array([now]), self._node.zone)[0])
        return local + self._node.max_future_ms

    def _without(
        self, batch: Batch, missing: BoolArray, errors: Errors | None, future: BoolArray | None
    ) -> Output:
        """Drops rows without a row time, or with one too far in the future; the watermark after the
        last row stays."""
        bad = missing if errors is None else missing | errors.mask
        bad = bad if future is None else bad | future
        if not bad.any():
            return [(0, batch)]
        rows = np.flatnonzero(bad)
        self._counters["rows_in_error"] += len(rows)
        reasons = [self._reason(r, batch, missing, errors) for r in rows.tolist()]
        mark = self._node.watermark
        subject = f"WATERMARK FOR {mark.column} AS {mark.expression}"
        letters = dead_letters(
            batch.take(rows),
            place=batch.origin,
            subject=subject,
            reason=reasons,
        )
        kept = replaced(batch.take(np.flatnonzero(~bad)), watermark=batch.watermark)
        return [(ERROR_PORT, letters), (0, kept)]

    def _reason(self, row: int, batch: Batch, missing: BoolArray, errors: Errors | None) -> str:
        """Returns why a row is dropped."""
        if missing[row]:
            return NULL_ROWTIME
        if errors is not None and errors.mask[row]:
            return errors.reason(row)
        column = self._node.watermark.column
        return FUTURE.format(
            column=column,
            time=column_to_json(batch.column(column).slice(row, 1), self._node.schema.type(column))[
                0
            ],
            bound=duration_text(self._node.max_future_ms),
            now=iso_instant(batch.proctime),
        )
